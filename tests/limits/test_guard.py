"""The limits of a job whose shim is killed: its guard keeps them, and no control group is left."""

import signal
from pathlib import Path

import pytest

from bgjob.api import Jobs
from bgjob.link import sweep
from bgjob.system import cgroup, processes
from tests.support.control_groups import groups_left, in_control_group, mechanisms
from tests.support.gate import Gate
from tests.support.limiting import BURN, HOG, Ended, over
from tests.support.process_table import wait_until_gone
from tests.support.shims import kill_both, shim_pid

ENDLESS: dict[str, tuple[str, dict[str, object]]] = {
    "memory": (HOG, {"memory": "150MB"}),
    "cpu": (BURN, {"cpu_s": 1}),
    "silence": ("sleep 50", {"silence_s": 2}),
    "output": ("yes", {"output": "64KB", "on_output": "stop"}),
    "file_size": ("head -c 3M /dev/zero > large; exit $?", {"file_size": "1MB"}),
}


@pytest.mark.parametrize("cgroup_use", ["on", "off"])
@pytest.mark.parametrize("limit", ENDLESS)
def test_a_guard_goes_on_keeping_the_limits(
    jobs: Jobs, ended: Ended, gate: Gate, tmp_path: Path, limit: str, cgroup_use: str
) -> None:
    """The job goes over its limit only after its shim was killed."""
    command, options = ENDLESS[limit]
    job_id = jobs.execute(
        f"{gate.pause}; {command}", cwd=str(tmp_path), options={**options, "cgroup": cgroup_use}
    ).id
    gate.wait_until_reached()
    shim = shim_pid(jobs, job_id)
    processes.send(shim, signal.SIGKILL)
    wait_until_gone(shim)
    gate.open()
    assert over(ended(job_id)).limit == limit
    jobs.kill(job_id)  # returns when nothing is left of it
    assert not groups_left(job_id)


@mechanisms(cgroup.PROCESSES)
def test_a_guard_ends_a_fork_bomb(jobs: Jobs, ended: Ended, gate: Gate, bomb: str, cgroup_use: str) -> None:
    job_id = jobs.execute(f"{gate.pause}; {bomb}", options={"processes": 50, "cgroup": cgroup_use}).id
    gate.wait_until_reached()
    shim = shim_pid(jobs, job_id)
    processes.send(shim, signal.SIGKILL)
    wait_until_gone(shim)
    gate.open()
    assert over(ended(job_id)).limit == "processes"


def test_the_limit_is_not_forgotten_when_the_shim_is_killed_while_it_ends_the_job(
    jobs: Jobs, ended: Ended, gate: Gate
) -> None:
    """It ignores the polite signal, so that there is a grace to be killed in."""
    stubborn = f"trap '{gate.reach}' TERM; sleep 0.1; while :; do sleep 50; done"
    job_id = jobs.execute(stubborn, options={"silence_s": 2}).id
    gate.wait_until_reached()  # it was asked to end
    processes.send(shim_pid(jobs, job_id), signal.SIGKILL)
    state = over(ended(job_id))
    assert (state.limit, state.signal) == ("silence", signal.SIGKILL)


@in_control_group(cgroup.MEMORY)
def test_no_group_is_left_when_the_job_has_ended(jobs: Jobs) -> None:
    for command in ("exit 7", "sleep 50") * 10:
        job_id = jobs.execute(command, options={"memory": "100MB", "processes": 20, "cpu_s": 5}).id
        jobs.kill(job_id, grace_s=0)  # returns when nothing is left of it
        assert not groups_left(job_id)


@in_control_group(cgroup.MEMORY)
def test_the_group_of_a_lost_job_goes_with_its_processes(jobs: Jobs, gate: Gate) -> None:
    job_id = jobs.execute(f"{gate.reach}; sleep 50", options={"memory": "100MB"}).id
    gate.wait_until_reached()
    kill_both(jobs, job_id)
    assert groups_left(job_id)
    assert jobs.kill(job_id).status == "killed"
    assert not groups_left(job_id)


@in_control_group(cgroup.MEMORY)
def test_the_group_of_a_lost_job_goes_with_its_directory(jobs: Jobs, gate: Gate) -> None:
    """Its processes have ended by themselves, and nobody has asked for it since."""
    job_id = jobs.execute(f"{gate.reach}; sleep 50", options={"memory": "100MB"}).id
    gate.wait_until_reached()
    kill_both(jobs, job_id)
    sweep.kill(job_id)
    assert groups_left(job_id)
    ((place, _),) = jobs.store.ids()
    jobs.store.remove(place, job_id)
    assert not groups_left(job_id)
