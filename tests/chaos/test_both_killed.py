"""Two kills: when shim and guard die at the same instant, the exit code is not known, and is not made up."""

import os
import signal
from pathlib import Path

import pytest

from bgjob.api import Jobs
from bgjob.core.job import Lost
from bgjob.home import slots
from bgjob.system import processes
from tests.support.gate import Gate
from tests.support.process_table import every_pid, is_stopped, seen
from tests.support.requires import linux_only
from tests.support.shims import run_of
from tests.support.waiting import wait_until

pytestmark = linux_only
BUSY = "trap '' HUP PIPE TERM; setsid sleep 1000 & sleep 1000 & {reach}; wait; exit 0"


def wait_until_asleep(job_id: str, count: int) -> None:
    """By name first, then by environment: then an exec is over."""

    def are_asleep() -> bool:
        named = [pid for pid in every_pid() if (now := seen(pid)) and now.name == "sleep"]
        return len({*named} & {*processes.marked(job_id)}) == count

    wait_until(are_asleep, "all its processes are what they will be")


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_a_job_without_shim_and_guard_is_lost_and_what_is_left_of_it_is_swept(
    jobs: Jobs, gate: Gate, terminal: bool
) -> None:
    job_id = jobs.execute(BUSY.format(reach=gate.reach), pty=terminal).id
    gate.wait_until_reached()
    wait_until_asleep(job_id, 2)
    kill_at_once(*guard_and_shim(jobs, job_id))
    wait_until(lambda: not jobs.has_shim(job_id), "the lock is free")
    look = jobs.status(job_id)
    assert look.job.state == Lost("its shim and its guard were killed while it ran")
    assert look.descendants == look.left_running >= 2
    assert look.hint == f"{look.left_running} processes of it still run: kill_job ends them."
    assert [job.id for job in jobs.list("running").jobs] == [job_id]
    answer = jobs.kill(job_id)
    assert (answer.status, answer.processes) == ("killed", look.descendants)
    assert processes.marked(job_id) == []
    assert jobs.status(job_id).descendants == 0
    assert jobs.list("running").jobs == []


def test_its_slot_is_free_at_once(jobs: Jobs, gate: Gate) -> None:
    job_id = jobs.execute(BUSY.format(reach=gate.reach)).id
    gate.wait_until_reached()
    kill_at_once(*guard_and_shim(jobs, job_id))
    wait_until(lambda: not jobs.has_shim(job_id), "the lock is free")
    slot = slots.claim(f"{jobs.home}/slots", "", 1)
    assert slot is not None
    os.close(slot)


def guard_and_shim(jobs: Jobs, job_id: str) -> tuple[int, int]:
    run = run_of(jobs, job_id)
    shim = seen(run.shim_pid)
    guard = seen(shim.parent) if shim else None
    assert guard is not None
    assert guard.name == "bgjob-guard"
    return guard.pid, run.shim_pid


def kill_at_once(*pids: int) -> None:
    """Stopped first, so that none of them can act on the death of another; a guard before its shim, or it would
    continue that."""
    for pid in pids:
        processes.send(pid, signal.SIGSTOP)
    wait_until(lambda: all(map(is_stopped, pids)), "both are stopped")
    for pid in pids:
        processes.send(pid, signal.SIGKILL)


def test_killed_as_it_was_started_nobody_says_whether_it_ran(jobs: Jobs, gate: Gate) -> None:
    """As if both had been killed after the exec and before its record."""
    job_id = jobs.execute(f"echo here; {gate.reach}; exec sleep 1000").id
    gate.wait_until_reached()
    wait_until_asleep(job_id, 1)
    kill_at_once(*guard_and_shim(jobs, job_id))
    Path(jobs.home, "jobs", job_id, "run.json").unlink()
    wait_until(lambda: not jobs.has_shim(job_id), "the lock is free")
    look = jobs.status(job_id)
    assert isinstance(look.job.state, Lost)
    assert look.job.state.reason.endswith("whether it ran is not known")
    assert jobs.kill(job_id).processes == look.descendants > 0
