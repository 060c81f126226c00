"""A start on another machine has one commit point, its relay: whoever is killed, the job is known to run, or not to."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Jobs
from bgjob.api.remove import remove_job
from bgjob.api.spec import spec_of
from bgjob.core.errors import JobNotFound, TargetUnreachable
from bgjob.core.job import Exited, Job, Killed, NeverStarted, Running
from bgjob.home import jobdir, target_dir
from tests.support.far_machine import NAME, FarMachine
from tests.support.queueing import Diary
from tests.support.waiting import wait_until

STARTER = """
import os, sys
from bgjob.api import open_jobs
open_jobs(os.environ).execute(sys.argv[1], target="far", env={"TOKEN": "secret"})
"""


@pytest.fixture
def jobs(far: FarMachine) -> Iterator[Jobs]:
    with contextlib.closing(far.open()) as jobs:
        yield jobs


@contextlib.contextmanager
def starter(far: FarMachine, command: str = "true") -> Iterator["subprocess.Popen[bytes]"]:
    argv = [sys.executable, "-c", STARTER, command]
    with subprocess.Popen(argv, env=far.environ, stderr=subprocess.PIPE) as process:
        yield process
        process.kill()


def kill_starter_in_a_start(far: FarMachine, command: str = "true") -> None:
    """It waits for its target, which is being connected."""
    with starter(far, command):
        far.line.wait_until_reached()


def only_job(jobs: Jobs) -> Job:
    (job,) = jobs.list().jobs
    return job


def ended(jobs: Jobs) -> Job:
    job = only_job(jobs)
    wait_until(
        lambda: isinstance(jobs.status(job.id).job.state, Exited | NeverStarted | Killed), "it has ended"
    )
    return jobs.status(job.id).job


def check_nothing_is_left(far: FarMachine, jobs: Jobs) -> None:
    """No secret is on disk, and the job can be waited for, killed and removed as any other."""
    job = only_job(jobs)
    directory = Path(jobs.store.directory(job.id))
    wait_until(lambda: not target_dir.registered(str(far.near_home), NAME), "nobody looks after it")
    assert not (directory / jobdir.REQUEST).exists()
    assert not [path for path in directory.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]
    (waited,) = jobs.wait_for([job.id], timeout_s=10)
    assert waited.met
    assert jobs.kill(job.id).status == "already_terminated"
    remove_job(jobs.context, job.id)
    with pytest.raises(JobNotFound):
        jobs.status(job.id)


def test_a_starter_killed_while_its_target_is_down_leaves_no_ghost(far: FarMachine, jobs: Jobs) -> None:
    far.refuse_connections()
    with far.held_connections():
        kill_starter_in_a_start(far)
    far.line.open()
    state = ended(jobs).state
    assert isinstance(state, NeverStarted)
    assert "Connection refused" in state.reason
    check_nothing_is_left(far, jobs)


def test_a_starter_killed_while_its_target_is_slow_leaves_a_job_that_runs_once(
    far: FarMachine, jobs: Jobs, diary: Diary
) -> None:
    with far.held_connections():
        kill_starter_in_a_start(far, diary.entry("ran"))
    far.line.open()
    assert isinstance(ended(jobs).state, Exited)
    assert diary.words() == ["ran"]
    check_nothing_is_left(far, jobs)


def test_relay_and_starter_killed_before_anything_was_sent_leave_no_ghost(
    far: FarMachine, jobs: Jobs
) -> None:
    """The next relay does what the first one was about to do."""
    far.refuse_connections()
    with far.held_connections(), starter(far) as process:
        far.line.wait_until_reached()
        process.kill()
        for pid in far.relays():
            os.kill(pid, signal.SIGKILL)
    far.line.open()
    backdate(far)  # a job whose starter may live is left to it for a while
    assert isinstance(ended(jobs).state, NeverStarted)
    check_nothing_is_left(far, jobs)


def backdate(far: FarMachine) -> None:
    """It was added long ago, so that nobody waits for its starter."""
    place = target_dir.directory(str(far.near_home), NAME)
    for job_id in target_dir.registered(str(far.near_home), NAME):
        with contextlib.suppress(FileNotFoundError):
            os.utime(f"{place}/{target_dir.JOBS}/{job_id}", (0, 0))


def test_a_job_that_waits_for_its_connection_is_killed_at_once_and_never_sent(
    far: FarMachine, jobs: Jobs, diary: Diary
) -> None:
    with far.held_connections():
        kill_starter_in_a_start(far, diary.entry("ran"))
        assert jobs.kill(only_job(jobs).id).status == "killed"
    assert isinstance(ended(jobs).state, Killed)
    far.line.open()
    check_nothing_is_left(far, jobs)
    assert ended_after(far, jobs, diary.entry("after"))
    assert diary.words() == ["after"]


def ended_after(far: FarMachine, jobs: Jobs, command: str) -> bool:
    (waited,) = jobs.wait_for([jobs.execute(command, target=NAME).id], timeout_s=40)
    return waited.met


@pytest.mark.parametrize("by", ["relay", "cleaning"])
def test_a_ghost_that_an_older_version_left_is_swept(far: FarMachine, jobs: Jobs, by: str) -> None:
    """Its relay had refused the job and looked after it no more; its starter was dead."""
    far.refuse_connections()
    with pytest.raises(TargetUnreachable):
        jobs.execute("true", target=NAME)
    make_ghost(far, jobs)
    if by == "relay":
        end_relays(far)
        with pytest.raises(TargetUnreachable):  # its next relay is started
            jobs.execute("true", target=NAME)
    else:
        (far.near_home / "cleaned").unlink()
        jobs.execute("true")
    ghost = jobs.status(GHOST)
    assert isinstance(ghost.job.state, NeverStarted)
    assert not (far.near_home / "jobs" / GHOST / jobdir.REQUEST).exists()


GHOST = "0b6e6a0e-5d0c-4c4e-9a53-3f2f0f6a9c11"


def make_ghost(far: FarMachine, jobs: Jobs) -> None:
    spec = spec_of(jobs.context, "true", target=NAME, id=GHOST)
    request = {"start": {"command": "true", "asked": {"env": {"TOKEN": "secret"}}}}
    records: dict[str, dict[str, Any]] = {
        jobdir.REMOTE: {"phase": "submitting"},
        jobdir.REQUEST: request,
    }
    os.close(jobs.store.create(spec, records=records).lock)
    assert isinstance(jobs.status(GHOST).job.state, Running)


def end_relays(far: FarMachine) -> None:
    for pid in far.relays():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not target_dir.has_relay(str(far.near_home), NAME), "there is no relay")
