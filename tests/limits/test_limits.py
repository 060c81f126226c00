"""Each limit by itself, and what is told of it."""

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Jobs
from bgjob.core.job import Exited, TimedOut
from bgjob.system import cgroup, processes
from tests.support.control_groups import in_control_group, mechanisms
from tests.support.gate import Gate
from tests.support.limiting import BURN, HOG, MANY, Ended, events_of, over
from tests.support.process_table import wait_until_gone
from tests.support.requires import linux_only
from tests.support.server import Server
from tests.support.waiting import wait_until

# -- each limit -------------------------------------------------------------------------------------------


@mechanisms(cgroup.MEMORY)
def test_memory_is_that_of_all_processes_together(jobs: Jobs, ended: Ended, cgroup_use: str) -> None:
    share = f'"{sys.executable}" -c "import time; held = bytearray(40 << 20); time.sleep(50)"'
    tree = f"{share} & {share} & {share} & {share} & wait"
    look = ended(jobs.execute(tree, options={"memory": "110MB", "cgroup": cgroup_use}).id)
    assert over(look).limit == "memory"


@in_control_group(cgroup.MEMORY)
def test_a_job_that_fails_after_the_kernel_killed_a_part_of_it_ran_out_of_memory(
    jobs: Jobs, ended: Ended
) -> None:
    """It says 137, or something of its own; the group knows better."""
    part = HOG.replace("exec ", "")
    state = over(ended(jobs.execute(f"{part}; exit 3", options={"memory": "60MB"}).id))
    assert state.limit == "memory"


@mechanisms(cgroup.PROCESSES)
def test_a_fork_bomb_is_ended_and_nothing_of_it_is_left(
    jobs: Jobs, ended: Ended, bomb: str, cgroup_use: str
) -> None:
    job_id = jobs.execute(bomb, options={"processes": 50, "cgroup": cgroup_use}).id
    look = ended(job_id)
    assert over(look).limit == "processes"
    assert jobs.kill(job_id).status == "already_terminated"  # which answers when no process is left
    assert processes.marked(job_id) == []


@in_control_group(cgroup.PROCESSES)
def test_a_job_that_fails_because_it_may_not_fork_is_over_its_limit(jobs: Jobs, ended: Ended) -> None:
    """It ends by itself, and at once: nobody has to have looked meanwhile."""
    state = over(ended(jobs.execute("sleep 1; echo not reached", shell="sh", options={"processes": 1}).id))
    assert (state.limit, state.code) == ("processes", 2)


@linux_only
@pytest.mark.parametrize(
    ("options", "command"),
    [
        pytest.param({"memory": "60MB"}, HOG, marks=in_control_group(cgroup.MEMORY)),
        pytest.param({"processes": 20}, MANY, marks=in_control_group(cgroup.PROCESSES)),
        ({"file_size": "1MB"}, "exec head -c 3M /dev/zero > large"),
        # before we could have seen it
        ({"cpu_s": 100}, f"ulimit -St 1; {BURN}"),
    ],
    ids=["memory", "processes", "file_size", "cpu_s"],
)
def test_a_job_whose_first_process_the_kernel_ended_leaves_nothing_running(
    jobs: Jobs, ended: Ended, tmp_path: Path, options: dict[str, Any], command: str
) -> None:
    """The limit is the job's, and so is its end: nobody has to kill what it had started before."""
    others = "setsid sleep 1000 & (trap '' INT; sleep 1000) &"
    job_id = jobs.execute(f"{others} {command}", cwd=str(tmp_path), options=options).id
    state = over(ended(job_id))
    assert state.limit == next(iter(options)).removesuffix("_s")
    wait_until(lambda: not processes.marked(job_id) and not jobs.has_shim(job_id), "nothing is left")
    assert jobs.kill(job_id).status == "already_terminated"
    assert [event["limit"] for event in events_of(jobs, job_id, "limit_hit")] == [state.limit]


@mechanisms(cgroup.CPU)
def test_cpu_time_is_that_of_all_processes_together(jobs: Jobs, ended: Ended, cgroup_use: str) -> None:
    """Two that burn at once, and use it up in half the time; they are asked politely."""
    job_id = jobs.execute(f"({BURN}) & ({BURN}) & wait", options={"cpu_s": 1, "cgroup": cgroup_use}).id
    look = ended(job_id)
    state = over(look)
    assert (state.limit, state.signal) == ("cpu", signal.SIGTERM)
    assert look.limited_by == {"cpu_s": "cgroup+rlimit" if cgroup_use == "on" else "watched+rlimit"}
    assert [event["limit"] for event in events_of(jobs, job_id, "limit_near")] == ["cpu"]


@mechanisms(cgroup.CPU)
def test_cpu_time_of_processes_that_have_ended_counts(jobs: Jobs, ended: Ended, cgroup_use: str) -> None:
    short = "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'"
    look = ended(jobs.execute(f"while :; do {short}; done", options={"cpu_s": 1, "cgroup": cgroup_use}).id)
    assert over(look).limit == "cpu"


def test_a_file_that_grows_too_large_ends_its_writer(jobs: Jobs, ended: Ended, tmp_path: Path) -> None:
    command = f"exec head -c 3M /dev/zero > {tmp_path}/large"
    look = ended(jobs.execute(command, options={"file_size": "1MB"}).id)
    assert over(look).limit == "file_size"
    assert (tmp_path / "large").stat().st_size == 1 << 20
    assert look.limited_by == {"file_size": "rlimit"}


def test_open_files_are_refused_and_the_job_goes_on(jobs: Jobs, ended: Ended) -> None:
    opens = f'"{sys.executable}" -c "held = [open(chr(47)+\'dev/null\') for _ in range(100)]" 2>&1'
    job_id = jobs.execute(f"{opens}; echo went on", options={"open_files": 20}).id
    assert ended(job_id).job.state.__class__ is Exited
    assert "Too many open files" in jobs.output(job_id).stdout
    assert jobs.output(job_id).stdout.endswith("went on\n")


def test_by_default_output_beyond_the_limit_drops_the_oldest(jobs: Jobs, ended: Ended) -> None:
    job_id = jobs.execute("seq 1 100000", options={"output": "64KB"}).id
    assert isinstance(ended(job_id).job.state, Exited)
    assert jobs.tail(job_id, 1).stdout == "100000\n"


def test_the_wall_clock_is_the_timeout_and_keeps_its_cause(jobs: Jobs, ended: Ended) -> None:
    state = ended(jobs.execute("sleep 50", timeout_s=0.2, options={"memory": "1GB"}).id).job.state
    assert isinstance(state, TimedOut)


def test_what_a_job_leaves_behind_has_its_limits_too(jobs: Jobs, ended: Ended, gate: Gate) -> None:
    """It exits with 0, and that stays; its daemon is ended all the same."""
    daemon = f"(read _ < {gate._opened}; {BURN}) >/dev/null 2>&1 &"
    job_id = jobs.execute(f"{daemon} exit 0", options={"cpu_s": 1}).id
    (left,) = jobs.processes(ended(job_id).job.id)
    gate.open()
    wait_until_gone(left)
    assert isinstance(jobs.status(job_id).job.state, Exited)


def test_a_job_within_its_limits_is_left_alone(jobs: Jobs, ended: Ended) -> None:
    generous = {"memory": "1GB", "cpu_s": 60, "processes": 100, "open_files": 100, "file_size": "1GB"}
    look = ended(jobs.execute("echo fine; exit 7", options=generous).id)
    assert isinstance(look.job.state, Exited)
    assert look.job.state.code == 7


# -- what is told -----------------------------------------------------------------------------------------


def test_a_job_without_limits_says_nothing_of_them(server: Server) -> None:
    status = server.status(server.execute("sleep 50"))
    assert "limits" not in status
    assert "limited_by" not in status


def test_the_setting_is_the_default_and_an_argument_wins(start_server: Any) -> None:
    server = start_server(MCP_BG_LIMITS="open_files=50,processes=100")
    limits = server.status(server.execute("sleep 50", options={"open_files": 60}))["limits"]
    assert limits == {"open_files": 60, "processes": 100}
