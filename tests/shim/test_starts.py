"""A start is answered when shim and guard own the job; whether it could be exec'd is told by its first status."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from bgjob.api import Conditions, Jobs
from bgjob.core.job import NeverStarted, Running
from bgjob.link import spawn

TOO_BIG_FOR_EXEC = {"HUGE": "x" * (256 << 10)}


def test_the_first_status_of_a_job_that_cannot_be_execed_says_so(jobs: Jobs) -> None:
    for _ in range(5):
        answered = jobs.run("true", env=TOO_BIG_FOR_EXEC).job
        assert isinstance(jobs.status(answered.id).job.state, NeverStarted)


def test_a_list_and_the_events_know_of_a_start_too(jobs: Jobs) -> None:
    jobs.run("true", env=TOO_BIG_FOR_EXEC)
    assert [type(job.state) for job in jobs.list().jobs] == [NeverStarted]
    job_id = jobs.run("sleep 1000").job.id
    assert ("started", job_id) in [(event.kind, event.job_id) for event in jobs.events().events]


def test_a_caller_that_waits_is_told_at_once_that_a_job_cannot_be_execed(jobs: Jobs) -> None:
    ran = jobs.run("true", env=TOO_BIG_FOR_EXEC, wait_s=30)
    assert isinstance(ran.job.state, NeverStarted)


def test_the_first_status_of_a_job_that_runs_knows_its_processes(jobs: Jobs) -> None:
    for _ in range(5):
        job = jobs.status(jobs.run("sleep 1000").job.id).job
        assert isinstance(job.state, Running)
        assert job.state.run is not None


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_answered_starts_keep_no_descriptors(jobs: Jobs) -> None:
    job_ids = [jobs.run("true").job.id for _ in range(3)]
    jobs.wait(job_ids, Conditions(), mode="all", timeout_s=60)
    jobs.list()
    before = open_descriptors()
    job_ids = [jobs.run("true").job.id for _ in range(8)]
    jobs.wait(job_ids, Conditions(), mode="all", timeout_s=60)
    jobs.list()
    assert open_descriptors() <= before


@pytest.mark.parametrize("report", [b'{"pid": 1}\n', b'+{"pid": 1}\n', b'++{"pid": 1}\n'])
def test_a_shim_of_another_version_may_tell_once_twice_or_not_at_all_that_the_job_is_its_own(
    report: bytes,
) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(report)
        start = spawn.Start(ours.detach())
        assert start.is_owned() == report.startswith(b"+")
        assert start.finish() == {"pid": 1}
