"""The home of another machine: what has ended is read from it, and nothing is guessed about the rest."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.api import Jobs, open_jobs
from bgjob.core.job import Exited, Job, Running
from bgjob.home import jobdir
from bgjob.store.elsewhere import StoreElsewhere
from bgjob.system import processes
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.waiting import wait_until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    end_all_jobs(tmp_path / "home")


@pytest.fixture
def jobs(home: Path) -> Iterator[Jobs]:
    with contextlib.closing(open_jobs({"BGJOB_HOME": str(home), "PATH": "/usr/bin:/bin"})) as jobs:
        yield jobs


@pytest.fixture
def elsewhere(home: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> StoreElsewhere:
    """In another boot, as on another machine."""
    monkeypatch.setattr(processes, "boot_id", lambda: "another")
    return StoreElsewhere(str(home))


def seen(store: StoreElsewhere, job: Job) -> object:
    return store.load(job.id).state


def test_a_job_that_has_ended_is_known(jobs: Jobs, elsewhere: StoreElsewhere, home: Path) -> None:
    job = jobs.execute("echo out; exit 3")
    wait_until(lambda: jobdir.is_sealed(f"{home}/jobs/{job.id}/{jobdir.OUTCOME}"))
    state = seen(elsewhere, job)
    assert isinstance(state, Exited)
    assert state.code == 3


def test_of_a_job_that_runs_it_is_not_said_that_it_is_lost(
    jobs: Jobs, elsewhere: StoreElsewhere, gate: Gate
) -> None:
    job = jobs.execute(gate.pause)
    gate.wait_until_reached()
    assert isinstance(seen(elsewhere, job), Running)
    gate.open()


def test_an_end_counts_once_its_log_is_on_disk(jobs: Jobs, elsewhere: StoreElsewhere, home: Path) -> None:
    job = jobs.execute("echo out")
    path = home / "jobs" / job.id / jobdir.OUTCOME
    wait_until(lambda: jobdir.is_sealed(str(path)) and not jobs.has_shim(job.id))
    path.write_bytes(path.read_bytes().rstrip(jobdir.SEAL) + b" ")
    assert isinstance(seen(elsewhere, job), Running)
    path.write_bytes(path.read_bytes()[:-1] + jobdir.SEAL)
    assert isinstance(seen(elsewhere, job), Exited)


def test_a_machine_that_has_run_nothing_has_no_home_and_gets_none(tmp_path: Path) -> None:
    home = tmp_path / "nothing"
    assert StoreElsewhere(str(home)).is_elsewhere
    assert not home.exists()
