"""Limits of a job that is run again: which are for each run, and which for all together."""

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Jobs
from bgjob.core.job import Exited, Killed
from bgjob.system import cgroup, processes
from tests.support.control_groups import in_control_group
from tests.support.counted import counting, runs
from tests.support.jam import Jam
from tests.support.limiting import BURN, HOG, Ended, events_of, over
from tests.support.requires import linux_only
from tests.support.shims import shim_pid
from tests.support.waiting import wait_until

AGAIN = {"restart": "on-failure", "max_restarts": 3, "backoff_s": 0.05}


def good_at_last(directory: Path, bad: str) -> str:
    """Its third run succeeds."""
    return counting(directory, f"[ $n = 3 ] && exit 0; {bad}")


@pytest.mark.parametrize(
    ("bad", "limit", "options"),
    [
        pytest.param(HOG, "memory", {"memory": "60MB"}, id="memory"),
        pytest.param(HOG, "memory", {"memory": "60MB", "cgroup": "off"}, id="memory watched"),
        pytest.param(BURN, "cpu", {"cpu_s": 1}, id="cpu"),
        pytest.param("exec sleep 1000", "silence", {"silence_s": 1}, id="silence"),
        pytest.param(
            "trap 'exit 0' TERM; while :; do sleep 0.1; done", "silence", {"silence_s": 1}, id="politely"
        ),
    ],
)
def test_a_run_over_its_limit_has_failed_and_is_run_again(
    jobs: Jobs, ended: Ended, tmp_path: Path, bad: str, limit: str, options: dict[str, Any]
) -> None:
    job_id = jobs.execute(good_at_last(tmp_path, bad), options={**AGAIN, **options}).id
    look = ended(job_id)
    assert isinstance(look.job.state, Exited), look.job.state
    assert look.history is not None
    assert [run.limit for run in look.history.runs] == [limit, limit]
    assert [event["limit"] for event in events_of(jobs, job_id, "limit_hit")] == [limit, limit]
    assert [event["limit"] for event in events_of(jobs, job_id, "restarting")] == [limit, limit]


@in_control_group(cgroup.MEMORY)
def test_what_a_run_used_is_not_held_against_the_next_when_a_guard_takes_over_between_them(
    jobs: Jobs, ended: Ended, tmp_path: Path
) -> None:
    """Its group has counted, and the shim that made it is gone."""
    bad = f"[ $n = 1 ] || exit 5; {HOG}"
    job_id = jobs.execute(good_at_last(tmp_path, bad), options={**AGAIN, "memory": "60MB", "backoff_s": 1}).id
    wait_until(lambda: bool((history := jobs.status(job_id).history) and history.pauses))
    os.kill(shim_pid(jobs, job_id), signal.SIGKILL)
    look = ended(job_id)
    assert look.history is not None
    assert [(run.limit, run.code) for run in look.history.runs] == [("memory", None), (None, 5)]


def test_each_run_may_fork_as_much_as_the_first(jobs: Jobs, ended: Ended, tmp_path: Path, bomb: str) -> None:
    job_id = jobs.execute(good_at_last(tmp_path, bomb), options={**AGAIN, "processes": 50}).id
    look = ended(job_id)
    assert isinstance(look.job.state, Exited), look.job.state
    assert runs(tmp_path) == 3
    assert processes.marked(job_id) == []


def test_after_its_last_restart_the_job_is_over_its_limit(jobs: Jobs, ended: Ended, tmp_path: Path) -> None:
    options = {**AGAIN, "max_restarts": 1, "silence_s": 1.5}
    assert (
        over(ended(jobs.execute(good_at_last(tmp_path, "exec sleep 1000"), options=options).id)).limit
        == "silence"
    )
    assert runs(tmp_path) == 2


def test_the_limit_of_its_output_is_for_all_runs_together(jobs: Jobs, ended: Ended, tmp_path: Path) -> None:
    options = {**AGAIN, "output": "2KB", "on_output": "stop"}
    job_id = jobs.execute(good_at_last(tmp_path, "yes | head -c 1500; exit 1"), options=options).id
    assert over(ended(job_id)).limit == "output"
    assert runs(tmp_path) == 2


@linux_only
def test_what_a_run_printed_last_counts_also_when_its_end_was_seen_first(
    jobs: Jobs, ended: Ended, home: Path, tmp_path: Path
) -> None:
    options = {**AGAIN, "output": "2KB", "on_output": "stop", "backoff_s": 3}
    job_id = jobs.execute(good_at_last(tmp_path, "yes | head -c 1500; exit 1"), options=options).id
    wait_until(lambda: bool((history := jobs.status(job_id).history) and history.pauses))
    # the shim waits there before it looks around
    with contextlib.closing(Jam(home / "jobs" / job_id / "run.json.new")) as jam:
        wait_until(lambda: runs(tmp_path) == 2 and not processes.marked(job_id))
        jam.clear()
    assert over(ended(job_id)).limit == "output"
    assert runs(tmp_path) == 2


def test_a_job_killed_while_its_limit_ends_a_run_is_not_run_again(
    jobs: Jobs, ended: Ended, tmp_path: Path
) -> None:
    stubborn = good_at_last(tmp_path, "trap '' TERM; while :; do sleep 0.1; done")
    job_id = jobs.execute(stubborn, options={**AGAIN, "silence_s": 2}).id
    assert jobs.events("0.0", job_ids=[job_id], kinds=["limit_hit"], timeout_s=30).events
    assert jobs.kill(job_id, grace_s=0).status == "killed"
    assert isinstance(ended(job_id).job.state, Killed)
    assert runs(tmp_path) == 1
