"""Our jobs on a private Slurm, by the near end of Slurm alone: without relay and agent."""

import asyncio
import contextlib
import json
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from bgjob.core.engine import EngineState, Resources
from bgjob.core.frozen import replace
from bgjob.core.slurm import JOB_COMMENT, SESSION_COMMENT, SQUEUE_COLUMNS, columns, states_of
from bgjob.home import jobdir
from bgjob.remote.channel import Channel, Order
from bgjob.remote.command import Commands
from bgjob.remote.shared_root import home_of
from bgjob.remote.slurm import Slurm
from bgjob.remote.slurm_scripts import SQUEUE
from bgjob.remote.transport import local_shell
from bgjob.system import processes
from tests.clusters.slurm_cluster import SlurmCluster
from tests.support.waiting import wait_until

Answer = TypeVar("Answer")
SMALL = Resources(cpus=1, memory_bytes=100 << 20)
NODE_FAILS_S = 90.0


class SlurmJobs:
    def __init__(self, cluster: SlurmCluster, root: Path) -> None:
        self.cluster, self.root = cluster, root
        root.mkdir(mode=0o700)
        self.do(self._send_code())
        self.slurm = self.near_end()

    def near_end(self) -> Slurm:
        """Another, that knows nothing of what the first has done."""
        commands = Commands(environ=self.cluster.environ)
        return Slurm("hpc", str(self.root), commands)

    async def _send_code(self) -> None:
        await (await self.open_on_login("login")).close()

    async def open_on_login(self, node: str, **environ: str) -> Channel:
        """An agent that has the home of a node, on the login node."""
        return await Channel.open(local_shell(), self._order(node, **environ))

    async def open_in(self, state: EngineState) -> Channel:
        """An agent in the allocation of a job or session."""
        assert state.node
        order = replace(self._order(state.node), is_quoted=False)
        argv = self.slurm.channel_argv(state.engine_id)
        return await Channel.open(["env", f"SLURM_CONF={self.cluster.conf}", *argv], order)

    def _order(self, node: str, **environ: str) -> Order:
        home = home_of(str(self.root), node)
        return Order(target="hpc", environ={"BGJOB_HOME": home, **environ}, code_root=str(self.root))

    def do(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run(call)

    def submit(self, command: str, resources: Resources = SMALL, job_id: str = "", **asked: object) -> str:
        job_id = job_id or str(uuid4())
        self.do(self.slurm.submit(job_id, {"command": command, "asked": asked}, resources))
        return job_id

    # -- what Slurm says -----------------------------------------------------------------------------

    def state(self, job_id: str) -> EngineState:
        """Asked now, however lately it was asked before."""
        return self._states()[f"{JOB_COMMENT}{job_id}"]

    def knows(self, job_id: str) -> bool:
        return f"{JOB_COMMENT}{job_id}" in self._states()

    def _states(self) -> dict[str, EngineState]:
        return states_of(self.cluster.run(*SQUEUE, "-O", columns(SQUEUE_COLUMNS)).splitlines())

    def wait_for_end(self, job_id: str, within_s: float = 60.0) -> EngineState:
        return self._end(f"{JOB_COMMENT}{job_id}", within_s)

    def session(self, name: str) -> EngineState:
        """Of a held allocation, once jobs can be started in it."""
        found: dict[str, EngineState] = {}

        def is_held() -> bool:
            state = found["it"] = self._states()[f"{SESSION_COMMENT}{name}"]
            holds = Path(home_of(str(self.root), str(state.node))) / "holds"
            return state.phase == "active" and (holds / f"{state.engine_id}.socket").exists()

        wait_until(is_held, "the allocation is held", lambda: str(found), every_s=0.1)
        return found["it"]

    def session_end(self, name: str) -> EngineState:
        return self._end(f"{SESSION_COMMENT}{name}", within_s=60.0)

    def _end(self, comment: str, within_s: float) -> EngineState:
        seen: dict[str, EngineState] = {}

        def is_gone() -> bool:
            seen.update(self._states())
            return comment in seen and seen[comment].phase == "gone"

        wait_until(is_gone, "Slurm says that it has ended", lambda: str(seen.get(comment)), within_s, 0.1)
        return seen[comment]

    # -- what is on the node -------------------------------------------------------------------------

    def home(self, job_id: str) -> Path:
        taken = self.do(self.slurm.taken(job_id))
        assert taken.node, taken
        return Path(home_of(str(self.root), taken.node))

    def directory(self, job_id: str) -> Path:
        return self.home(job_id) / "jobs" / job_id

    def record(self, job_id: str, name: str) -> dict[str, Any]:
        """Of the job's directory on its node, once it is there."""
        found: list[Path] = []

        def is_there() -> bool:
            found[:] = self.root.glob(f"nodes/*/jobs/{job_id}/{name}")
            return bool(found)

        wait_until(is_there, f"there is {name}", lambda: self.log(job_id), within_s=60)
        record: dict[str, Any] = json.loads(found[0].read_text())
        return record

    def outcome(self, job_id: str) -> dict[str, Any]:
        return self.record(job_id, jobdir.OUTCOME)

    def run_record(self, job_id: str) -> dict[str, Any]:
        return self.record(job_id, jobdir.RUN)

    def output(self, job_id: str) -> bytes:
        [log] = self.root.glob(f"nodes/*/jobs/{job_id}/log/{0:020}")
        return log.read_bytes()

    def log(self, job_id: str) -> str:
        """What was printed beside the job."""
        with contextlib.suppress(FileNotFoundError):
            return (self.root / "requests" / f"{job_id}.log").read_text()
        return ""


def alive_with(word: str) -> list[int]:
    """Processes with this word on their command line; of our own only those that were started since."""
    return [
        pid
        for pid in processes.every_pid()
        if pid != os.getpid()
        and word.encode() in (processes.read_if_there(f"/proc/{pid}/cmdline") or b"").split(b"\0")
    ]
