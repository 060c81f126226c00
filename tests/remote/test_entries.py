"""The entry of a target is changed while its relay is connected: it is checked and used as it is now."""

import asyncio
import contextlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Jobs
from bgjob.api.rerun import restart_job
from bgjob.api.targets import TargetStatus, target_statuses
from bgjob.core.errors import TargetUnreachable
from bgjob.core.job import Exited, Job, Running
from bgjob.core.targets import Target, as_record
from bgjob.home import target_dir
from bgjob.remote.relay import Relay
from bgjob.store.store import Store
from tests.support.far_machine import NAME, FarMachine
from tests.support.gate import Gate

BROKEN = [
    ({"python": "/nonexistent/python3"}, "its python, set to /nonexistent/python3, is not there"),
    ({"home": "/dev/null/home"}, "Not a directory"),
]
broken = pytest.mark.parametrize(("keys", "why"), BROKEN, ids=["python", "home"])


@contextlib.contextmanager
def with_entry(far: FarMachine, **keys: str) -> Iterator[Jobs]:
    """The verbs as another process has them once the entry has these keys, too."""
    file = Path(far.environ["XDG_CONFIG_HOME"], "bgjob/targets.toml")
    lines = file.read_text().splitlines()[:3]
    more = [f'{key} = "{value}"' for key, value in keys.items()]
    file.write_text("\n".join([*lines, *more]) + "\n")
    with contextlib.closing(far.open()) as jobs:
        yield jobs


def checked(jobs: Jobs) -> TargetStatus:
    (status,) = target_statuses(jobs.context, check=True)
    return status


def ended(jobs: Jobs, job: Job) -> None:
    (waited,) = jobs.wait_for([job.id], timeout_s=40)
    assert waited.met, waited
    assert isinstance(waited.status.job.state, Exited)


@broken
def test_a_broken_entry_is_found_and_starts_nothing(
    far: FarMachine, keys: Mapping[str, str], why: str
) -> None:
    with with_entry(far) as jobs:
        assert checked(jobs).reachable
        ended(jobs, jobs.execute("true", target=NAME))
    with with_entry(far, **keys) as jobs:
        status = checked(jobs)
        assert (status.reachable, why in (status.why or "")) == (False, True), status.why
        with pytest.raises(TargetUnreachable, match=why):
            jobs.execute("true", target=NAME)
    with with_entry(far) as jobs:
        assert checked(jobs).reachable
        ended(jobs, jobs.execute("true", target=NAME))


def test_the_next_job_uses_the_changed_entry(far: FarMachine) -> None:
    with with_entry(far) as jobs:
        ended(jobs, jobs.execute("true", target=NAME))
    with with_entry(far, home=str(far.user_home / "other")) as jobs:
        job = jobs.execute("true", target=NAME)
        ended(jobs, job)
    assert (far.user_home / "other/jobs" / job.id).is_dir()


@broken
def test_a_job_that_runs_keeps_the_connection_that_reaches_it(
    far: FarMachine, gate: Gate, keys: Mapping[str, str], why: str
) -> None:
    with with_entry(far) as jobs:
        job = jobs.execute(f"echo before; {gate.pause}; echo after", target=NAME)
        gate.wait_until_reached()
    with with_entry(far, **keys) as jobs:
        assert why in (checked(jobs).why or "")
        with pytest.raises(TargetUnreachable, match=why):
            restart_job(jobs.context, job.id, by={"client": "test"})
        known = jobs.status(job.id).job
        assert isinstance(known.state, Running)
        assert known.remote
        assert known.remote.unreachable is None
        gate.open()
        ended(jobs, job)
        assert jobs.output(job.id).stdout == "before\nafter\n"


# -- Slurm ------------------------------------------------------------------------------------------


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """Its commands are on this machine, know no nodes and no jobs, and refuse nothing."""
    programs, home = tmp_path / "bin", tmp_path / "shared"
    for each in (programs, home):
        each.mkdir(mode=0o700)
    for name in ("sbatch", "squeue", "sinfo"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    return Target(name="hpc", kind="slurm", home=str(home))


@broken
def test_a_broken_entry_of_slurm_is_found(
    store: Store, slurm: Target, keys: Mapping[str, str], why: str
) -> None:
    async def check(relay: Relay, target: Target) -> Mapping[str, Any]:
        target_dir.make(store.home, target.name, as_record(target))
        return await relay._answer(json.dumps({"op": "info", "check": True}).encode())

    async def body() -> None:
        target_dir.make(store.home, slurm.name, as_record(slurm))
        relay = Relay(store, slurm.name, -1)
        assert (await check(relay, slurm))["ok"]
        refusal = await check(relay, Target(**{**vars(slurm), **keys}))
        assert why in refusal["failure"]["text"]
        assert (await check(relay, slurm))["ok"]

    asyncio.run(body())


def test_many_write_it_at_the_same_moment(store: Store) -> None:
    """One of them was refused: the draft of its entry had become another's entry."""
    records = [{"name": "there", "description": "x" * number} for number in range(800)]
    with ThreadPoolExecutor(8) as starters:
        list(starters.map(lambda record: target_dir.make(store.home, "there", record), records))
    place = Path(target_dir.directory(store.home, "there"))
    assert json.loads((place / "target.json").read_text()) in records
    assert {path.name for path in place.iterdir()} == {"target.json", "jobs", "cursors"}
