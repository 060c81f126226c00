"""Limits: a job that uses more than it may is ended, and its outcome names the limit, whatever sees to it."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Jobs, Look
from bgjob.core.errors import InvalidArgument
from bgjob.core.job import Exited, Killed, OverLimit, TimedOut, cause_word, status_word
from bgjob.home import event_log
from bgjob.link import sweep
from bgjob.store import event_reader
from bgjob.system import cgroup, processes
from tests.support.control_groups import groups_left, in_control_group, mechanisms
from tests.support.counted import counting, runs
from tests.support.gate import Gate
from tests.support.jam import Jam
from tests.support.process_table import wait_until_gone
from tests.support.requires import linux_only
from tests.support.server import Server
from tests.support.shims import kill_both, shim_pid
from tests.support.waiting import wait_until

Ended = Callable[[str], Look]

HOG = f'''exec "{sys.executable}" -c "
held = [bytearray(8 << 20) for _ in range(64)]
import time; time.sleep(1000)"'''
BURN = "while :; do :; done"
MANY = "for i in $(seq 30); do sleep 1000 & done; wait"
BOMB = "if [ $1 -gt 0 ]; then sh $0 $(($1-1)) & sh $0 $(($1-1)) & fi; sleep 50 & wait"
GENERATIONS = 9  # 1500 processes if nobody ends it: enough to be a bomb, and no harm


@pytest.fixture
def bomb(tmp_path: Path) -> str:
    script = tmp_path / "bomb.sh"
    script.write_text(BOMB)
    return f"sh {script} {GENERATIONS}"


def over(look: Look) -> OverLimit:
    state = look.job.state
    assert isinstance(state, OverLimit), state
    assert status_word(state) == "killed"
    return state


def events_of(jobs: Jobs, job_id: str, kind: str) -> list[dict[str, Any]]:
    directory = jobs.events_directory
    events = [event for event, _ in event_reader.read(directory, event_log.beginning(directory))]
    return [event for event in events if event["job_id"] == job_id and event["kind"] == kind]


# -- each limit ---------------------------------------------------------------------------------------


@mechanisms(cgroup.MEMORY)
def test_a_job_that_takes_too_much_memory_is_out_of_memory(jobs: Jobs, ended: Ended, cgroup_use: str) -> None:
    """The tree's peak is told: about the limit by a group; by watching, what it had when it was seen."""
    job_id = jobs.execute(HOG, terms={"memory": "100MB", "cgroup": cgroup_use}).id
    look = ended(job_id)
    state = over(look)
    assert state.limit == "memory"
    assert cause_word(state) == "out_of_memory"
    assert (state.peak_memory_bytes or 0) > 90 << 20
    assert look.limited_by == {"memory": "cgroup" if cgroup_use == "on" else "watched"}
    assert [event["limit"] for event in events_of(jobs, job_id, "limit_hit")] == ["memory"]


@mechanisms(cgroup.MEMORY)
def test_memory_is_that_of_all_processes_together(jobs: Jobs, ended: Ended, cgroup_use: str) -> None:
    share = f'"{sys.executable}" -c "import time; held = bytearray(40 << 20); time.sleep(50)"'
    tree = f"{share} & {share} & {share} & {share} & wait"
    look = ended(jobs.execute(tree, terms={"memory": "110MB", "cgroup": cgroup_use}).id)
    assert over(look).limit == "memory"


@in_control_group(cgroup.MEMORY)
def test_a_job_that_fails_after_the_kernel_killed_a_part_of_it_ran_out_of_memory(
    jobs: Jobs, ended: Ended
) -> None:
    """It says 137, or something of its own; the group knows better."""
    part = HOG.replace("exec ", "")
    state = over(ended(jobs.execute(f"{part}; exit 3", terms={"memory": "60MB"}).id))
    assert state.limit == "memory"


@mechanisms(cgroup.PROCESSES)
def test_a_fork_bomb_is_ended_and_nothing_of_it_is_left(
    jobs: Jobs, ended: Ended, bomb: str, cgroup_use: str
) -> None:
    job_id = jobs.execute(bomb, terms={"processes": 50, "cgroup": cgroup_use}).id
    look = ended(job_id)
    assert over(look).limit == "processes"
    assert jobs.kill(job_id).status == "already_terminated"  # which answers when no process is left
    assert processes.marked(job_id) == []


@in_control_group(cgroup.PROCESSES)
def test_a_job_that_fails_because_it_may_not_fork_is_over_its_limit(jobs: Jobs, ended: Ended) -> None:
    """It ends by itself, and at once: nobody has to have looked meanwhile."""
    state = over(ended(jobs.execute("sleep 1; echo not reached", terms={"processes": 1}).id))
    assert (state.limit, state.code) == ("processes", 2)


@linux_only
@pytest.mark.parametrize(
    ("terms", "command"),
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
    jobs: Jobs, ended: Ended, tmp_path: Path, terms: dict[str, Any], command: str
) -> None:
    """The limit is the job's, and so is its end: nobody has to kill what it had started before."""
    others = "setsid sleep 1000 & (trap '' INT; sleep 1000) &"
    job_id = jobs.execute(f"{others} {command}", cwd=str(tmp_path), terms=terms).id
    state = over(ended(job_id))
    assert state.limit == next(iter(terms)).removesuffix("_s")
    wait_until(lambda: not processes.marked(job_id) and not jobs.has_shim(job_id), "nothing is left")
    assert jobs.kill(job_id).status == "already_terminated"
    assert [event["limit"] for event in events_of(jobs, job_id, "limit_hit")] == [state.limit]


@mechanisms(cgroup.CPU)
def test_cpu_time_is_that_of_all_processes_together(jobs: Jobs, ended: Ended, cgroup_use: str) -> None:
    """Two that burn at once, and use it up in half the time; they are asked politely."""
    job_id = jobs.execute(f"({BURN}) & ({BURN}) & wait", terms={"cpu_s": 1, "cgroup": cgroup_use}).id
    look = ended(job_id)
    state = over(look)
    assert (state.limit, state.signal) == ("cpu", signal.SIGTERM)
    assert look.limited_by == {"cpu_s": "cgroup+rlimit" if cgroup_use == "on" else "watched+rlimit"}
    assert [event["limit"] for event in events_of(jobs, job_id, "limit_near")] == ["cpu"]


@mechanisms(cgroup.CPU)
def test_cpu_time_of_processes_that_have_ended_counts(jobs: Jobs, ended: Ended, cgroup_use: str) -> None:
    short = "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'"
    look = ended(jobs.execute(f"while :; do {short}; done", terms={"cpu_s": 1, "cgroup": cgroup_use}).id)
    assert over(look).limit == "cpu"


def test_a_file_that_grows_too_large_ends_its_writer(jobs: Jobs, ended: Ended, tmp_path: Path) -> None:
    command = f"exec head -c 3M /dev/zero > {tmp_path}/large"
    look = ended(jobs.execute(command, terms={"file_size": "1MB"}).id)
    assert over(look).limit == "file_size"
    assert (tmp_path / "large").stat().st_size == 1 << 20
    assert look.limited_by == {"file_size": "rlimit"}


def test_open_files_are_refused_and_the_job_goes_on(jobs: Jobs, ended: Ended) -> None:
    opens = f'"{sys.executable}" -c "held = [open(chr(47)+\'dev/null\') for _ in range(100)]" 2>&1'
    job_id = jobs.execute(f"{opens}; echo went on", terms={"open_files": 20}).id
    assert ended(job_id).job.state.__class__ is Exited
    assert "Too many open files" in jobs.output(job_id).stdout
    assert jobs.output(job_id).stdout.endswith("went on\n")


def test_a_silent_job_is_ended_and_a_talkative_one_is_not(jobs: Jobs, ended: Ended) -> None:
    silent = jobs.execute("echo once; sleep 50", terms={"silence_s": 0.3}).id
    talks = jobs.execute("for i in $(seq 25); do echo $i; sleep 0.1; done", terms={"silence_s": 2}).id
    assert over(ended(silent)).limit == "silence"
    assert isinstance(ended(talks).job.state, Exited)


@pytest.mark.parametrize("pty", [False, True], ids=["pipes", "terminal"])
def test_output_beyond_the_limit_stops_the_job_and_its_first_bytes_are_kept(
    jobs: Jobs, ended: Ended, pty: bool
) -> None:
    job_id = jobs.execute("seq 1 100000000", pty=pty, terms={"output": "64KB", "on_output": "stop"}).id
    look = ended(job_id)
    assert over(look).limit == "output"
    assert look.output_bytes > 64 << 10
    kept = b"".join(chunk.data for chunk in jobs.follow(job_id, wait=False))
    ending = b"\r\n" if pty else b"\n"
    whole = b"".join(b"%d%b" % (number, ending) for number in range(1, 20000))
    assert kept == whole[: 64 << 10]


def test_by_default_output_beyond_the_limit_drops_the_oldest(jobs: Jobs, ended: Ended) -> None:
    job_id = jobs.execute("seq 1 100000", terms={"output": "64KB"}).id
    assert isinstance(ended(job_id).job.state, Exited)
    assert jobs.tail(job_id, 1).stdout == "100000\n"


def test_the_wall_clock_is_the_timeout_and_keeps_its_cause(jobs: Jobs, ended: Ended) -> None:
    state = ended(jobs.execute("sleep 50", timeout_s=0.2, terms={"memory": "1GB"}).id).job.state
    assert isinstance(state, TimedOut)


def test_what_a_job_leaves_behind_has_its_limits_too(jobs: Jobs, ended: Ended, gate: Gate) -> None:
    """It exits with 0, and that stays; its daemon is ended all the same."""
    daemon = f"(read _ < {gate._opened}; {BURN}) >/dev/null 2>&1 &"
    job_id = jobs.execute(f"{daemon} exit 0", terms={"cpu_s": 1}).id
    (left,) = jobs.processes(ended(job_id).job.id)
    gate.open()
    wait_until_gone(left)
    assert isinstance(jobs.look(job_id).job.state, Exited)


def test_a_job_within_its_limits_is_left_alone(jobs: Jobs, ended: Ended) -> None:
    generous = {"memory": "1GB", "cpu_s": 60, "processes": 100, "open_files": 100, "file_size": "1GB"}
    look = ended(jobs.execute("echo fine; exit 7", terms=generous).id)
    assert isinstance(look.job.state, Exited)
    assert look.job.state.code == 7


# -- what is told -------------------------------------------------------------------------------------


def test_status_tells_the_limits_what_keeps_them_and_which_one_ended_it(server: Server) -> None:
    limits = {"memory": "60MB", "open_files": 50}
    job_id = server.execute(HOG, options=limits)
    server.call("wait_for_job", job_ids=[job_id], timeout_s=30)
    status = server.status(job_id)
    assert status["limits"] == {"memory": 60 << 20, "open_files": 50}
    assert status["limited_by"]["open_files"] == "rlimit"
    assert status["limited_by"]["memory"] in ("cgroup", "watched")
    assert (status["status"], status["cause"], status["limit"]) == ("killed", "out_of_memory", "memory")
    assert status["peak_memory_bytes"] > 50 << 20


def test_a_job_without_limits_says_nothing_of_them(server: Server) -> None:
    status = server.status(server.execute("sleep 50"))
    assert "limits" not in status
    assert "limited_by" not in status


def test_a_bad_limit_is_refused_and_the_error_says_what_is_accepted(jobs: Jobs) -> None:
    with pytest.raises(InvalidArgument, match=r"memory='lots' is not valid\. Accepted: a size such as"):
        jobs.execute("true", terms={"memory": "lots"})
    with pytest.raises(InvalidArgument, match=r"cgroup='perhaps' is not valid\. Accepted: on or off"):
        jobs.execute("true", terms={"cgroup": "perhaps"})
    with pytest.raises(InvalidArgument, match="Unknown option 'memroy'"):
        jobs.execute("true", terms={"memroy": "1GB"})


def test_the_setting_is_the_default_and_an_argument_wins(start_server: Any) -> None:
    server = start_server(MCP_BG_LIMITS="open_files=50,processes=100")
    limits = server.status(server.execute("sleep 50", options={"open_files": 60}))["limits"]
    assert limits == {"open_files": 60, "processes": 100}


# -- when the shim is killed --------------------------------------------------------------------------

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
    command, terms = ENDLESS[limit]
    job_id = jobs.execute(
        f"{gate.pause}; {command}", cwd=str(tmp_path), terms={**terms, "cgroup": cgroup_use}
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
    job_id = jobs.execute(f"{gate.pause}; {bomb}", terms={"processes": 50, "cgroup": cgroup_use}).id
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
    job_id = jobs.execute(stubborn, terms={"silence_s": 2}).id
    gate.wait_until_reached()  # it was asked to end
    processes.send(shim_pid(jobs, job_id), signal.SIGKILL)
    state = over(ended(job_id))
    assert (state.limit, state.signal) == ("silence", signal.SIGKILL)


@in_control_group(cgroup.MEMORY)
def test_no_group_is_left_when_the_job_has_ended(jobs: Jobs) -> None:
    for command in ("exit 7", "sleep 50") * 10:
        job_id = jobs.execute(command, terms={"memory": "100MB", "processes": 20, "cpu_s": 5}).id
        jobs.kill(job_id, grace_s=0)  # returns when nothing is left of it
        assert not groups_left(job_id)


@in_control_group(cgroup.MEMORY)
def test_the_group_of_a_lost_job_goes_with_its_processes(jobs: Jobs, gate: Gate) -> None:
    job_id = jobs.execute(f"{gate.reach}; sleep 50", terms={"memory": "100MB"}).id
    gate.wait_until_reached()
    kill_both(jobs, job_id)
    assert groups_left(job_id)
    assert jobs.kill(job_id).status == "killed"
    assert not groups_left(job_id)


@in_control_group(cgroup.MEMORY)
def test_the_group_of_a_lost_job_goes_with_its_directory(jobs: Jobs, gate: Gate) -> None:
    """Its processes have ended by themselves, and nobody has asked for it since."""
    job_id = jobs.execute(f"{gate.reach}; sleep 50", terms={"memory": "100MB"}).id
    gate.wait_until_reached()
    kill_both(jobs, job_id)
    sweep.kill(job_id)
    assert groups_left(job_id)
    ((place, _),) = jobs.store.ids()
    jobs.store.remove(place, job_id)
    assert not groups_left(job_id)


# -- and a restart policy -----------------------------------------------------------------------------

AGAIN = {"restart": "on-failure", "max_restarts": 3, "backoff_s": 0.05}


def good_at_last(directory: Path, bad: str) -> str:
    """Its third run succeeds."""
    return counting(directory, f"[ $n = 3 ] && exit 0; {bad}")


@pytest.mark.parametrize(
    ("bad", "limit", "terms"),
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
    jobs: Jobs, ended: Ended, tmp_path: Path, bad: str, limit: str, terms: dict[str, Any]
) -> None:
    job_id = jobs.execute(good_at_last(tmp_path, bad), terms={**AGAIN, **terms}).id
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
    job_id = jobs.execute(good_at_last(tmp_path, bad), terms={**AGAIN, "memory": "60MB", "backoff_s": 1}).id
    wait_until(lambda: bool((history := jobs.look(job_id).history) and history.pauses))
    os.kill(shim_pid(jobs, job_id), signal.SIGKILL)
    look = ended(job_id)
    assert look.history is not None
    assert [(run.limit, run.code) for run in look.history.runs] == [("memory", None), (None, 5)]


def test_each_run_may_fork_as_much_as_the_first(jobs: Jobs, ended: Ended, tmp_path: Path, bomb: str) -> None:
    job_id = jobs.execute(good_at_last(tmp_path, bomb), terms={**AGAIN, "processes": 50}).id
    look = ended(job_id)
    assert isinstance(look.job.state, Exited), look.job.state
    assert runs(tmp_path) == 3
    assert processes.marked(job_id) == []


def test_after_its_last_restart_the_job_is_over_its_limit(jobs: Jobs, ended: Ended, tmp_path: Path) -> None:
    terms = {**AGAIN, "max_restarts": 1, "silence_s": 1.5}
    assert (
        over(ended(jobs.execute(good_at_last(tmp_path, "exec sleep 1000"), terms=terms).id)).limit
        == "silence"
    )
    assert runs(tmp_path) == 2


def test_the_limit_of_its_output_is_for_all_runs_together(jobs: Jobs, ended: Ended, tmp_path: Path) -> None:
    terms = {**AGAIN, "output": "2KB", "on_output": "stop"}
    job_id = jobs.execute(good_at_last(tmp_path, "yes | head -c 1500; exit 1"), terms=terms).id
    assert over(ended(job_id)).limit == "output"
    assert runs(tmp_path) == 2


@linux_only
def test_what_a_run_printed_last_counts_also_when_its_end_was_seen_first(
    jobs: Jobs, ended: Ended, home: Path, tmp_path: Path
) -> None:
    terms = {**AGAIN, "output": "2KB", "on_output": "stop", "backoff_s": 3}
    job_id = jobs.execute(good_at_last(tmp_path, "yes | head -c 1500; exit 1"), terms=terms).id
    wait_until(lambda: bool((history := jobs.look(job_id).history) and history.pauses))
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
    job_id = jobs.execute(stubborn, terms={**AGAIN, "silence_s": 2}).id
    assert jobs.events("0.0", job_ids=[job_id], kinds=["limit_hit"], timeout_s=30).events
    assert jobs.kill(job_id, grace_s=0).status == "killed"
    assert isinstance(ended(job_id).job.state, Killed)
    assert runs(tmp_path) == 1
