"""What the engine of Slurm makes of what Slurm says, where that comes late."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import open_jobs
from bgjob.api.remove import remove_job
from bgjob.core.engine import EngineState
from bgjob.core.errors import TargetUnreachable
from bgjob.core.job import Lost
from bgjob.core.targets import Target, as_record
from bgjob.home import jobdir, target_dir
from bgjob.remote.relay import Relay
from bgjob.remote.replica import Replica
from bgjob.remote.slurm import Taken
from bgjob.remote.slurm_engine import SlurmEngine
from bgjob.store.store import Store
from tests.remote.conftest import submitted
from tests.remote.hostile import EXITED


class Queue:
    """In place of Slurm's commands: its queue was asked before the job was found on its node."""

    def __init__(self, job_id: str, *, answers: bool = True) -> None:
        self._states = {job_id: EngineState("queued", "17", reason="Resources")}
        self._answers, self.taken = answers, dict[str, Taken]()
        self.root = "/nowhere"
        self.forgotten: list[str] = []

    async def states(self) -> dict[str, EngineState]:
        if not self._answers:
            raise TargetUnreachable("hpc", "Slurm has not answered within 3 s")
        return self._states

    async def sessions(self) -> dict[str, EngineState]:
        return {}

    async def all_taken(self, _job_ids: object) -> dict[str, Any]:
        return self.taken

    def channel_argv(self, *_: str) -> list[str]:
        return ["false"]

    def due_in_s(self) -> float:
        return 0.0

    async def forget(self, job_id: str) -> None:
        self.forgotten.append(job_id)


class LoginGone(Queue):
    """Nothing of the cluster can be asked."""

    async def states(self) -> dict[str, EngineState]:
        raise TargetUnreachable("gpu-box", "ssh: connect to host login port 22: Connection refused")

    async def all_taken(self, _job_ids: object) -> dict[str, Any]:
        return await self.states()


def test_a_job_that_runs_is_not_queued_again_by_an_older_look_at_the_queue(store: Store) -> None:
    job_id = submitted(store)
    replica = Replica(store, job_id)
    replica.accepted(phase="running", host="n1", node="n1", engine_id="17")

    look(replica, Queue(job_id))
    assert replica.phase == "running"


def test_a_job_that_has_started_runs_though_slurm_is_too_busy_to_say_so(store: Store) -> None:
    """Its batch script has written that down. After a few failures Slurm is asked once a minute."""
    job_id = submitted(store, created_at=time.time() - 60)
    replica, queue = Replica(store, job_id), Queue(job_id, answers=False)
    replica.accepted(phase="queued", engine_id="17")
    queue.taken[job_id] = Taken("17", "n1")
    look(replica, queue)
    assert (replica.phase, replica.get("node")) == ("running", "n1")


def test_an_end_that_the_full_disk_did_not_take_is_taken_when_it_is_told_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica, queue = Replica(store, submitted(store)), Queue("")
    replica.accepted(phase="running", host="n1", node="n1", engine_id="17")
    write, failures = jobdir.write_record, [OSError("no space left on device")]

    def fail_once(path: str, *rest: Any) -> None:
        if path.endswith(jobdir.OUTCOME) and failures:
            raise failures.pop()
        write(path, *rest)

    monkeypatch.setattr(jobdir, "write_record", fail_once)

    async def body() -> None:
        engine = engine_with(replica, queue)
        with pytest.raises(OSError, match="no space"):
            await engine._on_end(replica, {"over": True})
        await engine._on_end(replica, {"over": True})

    replica.holds_outcome, replica.told_outcome = True, EXITED
    asyncio.run(body())
    assert replica.has_outcome
    assert queue.forgotten == [replica.id]


@pytest.mark.parametrize("phase", ["queued", "submitting"])
def test_a_job_on_no_node_is_unreachable_with_its_login_host_and_can_be_given_up(
    store: Store, phase: str
) -> None:
    job_id = submitted(store)
    target_dir.make(store.home, "gpu-box", as_record(Target(name="gpu-box", kind="slurm", login="me@login")))
    target_dir.add(store.home, "gpu-box", job_id)
    jobs = open_jobs({**os.environ, "BGJOB_HOME": store.home})

    async def body() -> None:
        relay = Relay(store, "gpu-box", -1)
        replica = await relay._adopt(job_id)
        assert replica
        if phase == "queued":
            replica.accepted(phase="queued", engine_id="17")
        relay._engine._slurm, relay._engine._replicas = LoginGone(job_id), {job_id: replica}  # type: ignore[attr-defined]
        await relay._engine._look()  # type: ignore[attr-defined]
        status = jobs.status(job_id)
        assert status.job.remote
        assert "Connection refused" in (status.job.remote.unreachable or "")
        assert f"bgjob kill --give-up {job_id[:8]}" in (status.hint or "")
        await relay._give_up(job_id)

    asyncio.run(body())
    directory = Path(store.directory(job_id))
    assert isinstance(jobs.status(job_id).job.state, Lost)
    assert not (directory / jobdir.REQUEST).exists()
    remove_job(jobs.context, job_id)
    assert not directory.exists()
    jobs.close()


def engine_with(replica: Replica, queue: Any) -> SlurmEngine:
    engine = SlurmEngine(lambda: Target(name="hpc", kind="slurm"), lambda *_: None, lambda _: None)
    engine._slurm, engine._replicas = queue, {replica.id: replica}
    return engine


def look(replica: Replica, queue: Any) -> None:
    async def body() -> None:
        engine = engine_with(replica, queue)
        await engine._look()
        await engine.close()

    asyncio.run(body())
