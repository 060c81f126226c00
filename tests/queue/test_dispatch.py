"""Who starts what waits in the queue: exactly once, whoever is killed meanwhile."""

import json
import os
import re
import resource
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import Jobs, kill, open_jobs
from bgjob.api.context import open_context
from bgjob.api.wait import Wait, conditions_of
from bgjob.core.job import Exited, Killed, Lost, NeverStarted, Queued, Running
from bgjob.home import queue_dir
from bgjob.link import sweep
from bgjob.system import cgroup
from tests.support.dispatchers import DISPATCHER, KEEPER, named, strike, the, wait_until_queue_is_done
from tests.support.gate import Gate
from tests.support.jam import Jam
from tests.support.process_table import cpu_s, every_pid, parent_of, seen
from tests.support.queueing import BGJOB, Diary, ends, occupy, state
from tests.support.requires import linux_only
from tests.support.server import StartServer
from tests.support.shims import kill_both
from tests.support.waiting import PATIENCE_S, wait_until


def papers(home: Path) -> list[Path]:
    return list(home.glob("jobs/*/papers"))


# -- what it takes along ----------------------------------------------------------------------------------


def test_environment_directory_and_umask_are_those_of_the_submitter(
    home: Path, one: Jobs, gate: Gate, tmp_path: Path
) -> None:
    """Whoever starts it: here the drainer was started by a process with another umask and environment."""
    (there := tmp_path / "there").mkdir()
    occupy(one, gate)
    filler = one.execute("true", queue=True).id  # the drainer is of this process
    environment = {
        **os.environ,
        "BGJOB_HOME": str(home),
        "SECRET": "of the submitter",
        "MCP_BG_MAX_JOBS": "1",
    }
    submitted = subprocess.run(
        ["sh", "-c", f'umask 027; exec "{BGJOB}" run --queue -- \'pwd; umask; echo "$SECRET"\''],
        env=environment,
        cwd=there,
        capture_output=True,
        text=True,
        check=True,
    )
    job_id = submitted.stdout.strip()
    assert "SECRET" not in os.environ
    gate.open()
    ends(one, filler, job_id)
    assert one.output(job_id).stdout == f"{there}\n0027\nof the submitter\n"


def test_what_it_takes_along_rests_on_disk_only_while_it_waits(one: Jobs, gate: Gate, home: Path) -> None:
    """For the owner alone; gone after the start, the cancellation and the failure."""
    occupied = occupy(one, gate, name="occupied")
    started = one.execute("true", queue=True, env={"TOKEN": "s3cret"}).id
    cancelled = one.execute("true", queue=True, env={"TOKEN": "s3cret"}).id
    failing = one.execute("true", after=[one.execute("false", queue=True).id], env={"TOKEN": "s3cret"}).id
    assert len(papers(home)) == 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in papers(home)} == {0o600}
    assert b"s3cret" in (home / "jobs" / started / "papers").read_bytes()
    one.kill(cancelled)
    assert not (home / "jobs" / cancelled / "papers").exists()
    gate.open()
    ends(one, occupied, started, failing)
    wait_until_queue_is_done(home)
    assert papers(home) == []
    assert not subprocess.run(["grep", "-rl", "s3cret", home], capture_output=True, check=False).stdout


def test_one_that_cannot_be_exec_d_says_so_and_makes_room(one: Jobs, gate: Gate, tmp_path: Path) -> None:
    (gone := tmp_path / "gone").mkdir()
    occupy(one, gate)
    failing = one.execute("true", queue=True, cwd=str(gone)).id
    next_one = one.execute("exit 6", queue=True).id
    gone.rmdir()
    gate.open()
    failed, end = ends(one, failing, next_one)
    assert isinstance(failed, NeverStarted)
    assert "FileNotFoundError" in failed.reason
    assert getattr(end, "code", None) == 6


def test_papers_that_cannot_be_read_end_the_job_and_stop_nobody(one: Jobs, gate: Gate, home: Path) -> None:
    occupy(one, gate)
    torn, unreadable, fine = (one.execute("exit 6", queue=True).id for _ in range(3))
    (home / "jobs" / torn / "papers").write_bytes(b"")
    strike(home, DISPATCHER, KEEPER)  # it may know the spec by heart, and so would the next
    spec = home / "jobs" / unreadable / "spec.json"
    record = json.loads(spec.read_text())
    spec.write_text(json.dumps({**record, "queue": {"after": 7}}))
    gate.open()
    states = ends(one, torn, fine)
    assert isinstance(states[0], NeverStarted)
    assert "cannot be read" in states[0].reason
    assert getattr(states[1], "code", None) == 6
    wait_until_queue_is_done(home)
    assert isinstance(open_jobs({"BGJOB_HOME": str(home)}).status(unreadable).job.state, NeverStarted)


# -- who starts it ----------------------------------------------------------------------------------------


def test_the_queue_drains_with_no_server_alive(
    start_server: StartServer, gate: Gate, diary: Diary, home: Path, jobs: Jobs
) -> None:
    servers = [start_server(MCP_BG_MAX_JOBS="1") for _ in range(2)]
    servers[0].execute(gate.pause)
    gate.wait_until_reached()
    ids = [
        server.execute(diary.entry(f"{turn}{which}"), queue=True)
        for turn in range(3)
        for which, server in enumerate(servers)
    ]
    for server in servers:
        server.kill()
    gate.open()
    wait_until_queue_is_done(home)
    assert {getattr(end, "code", None) for end in ends(jobs, *ids)} == {0}
    assert diary.words() == ["00", "01", "10", "11", "20", "21"]


@linux_only
@pytest.mark.parametrize(
    "killed", [(DISPATCHER,), (KEEPER,), (DISPATCHER, KEEPER)], ids=["drainer", "keeper", "both"]
)
def test_who_drains_may_be_killed_at_any_time(
    one: Jobs, gate: Gate, diary: Diary, home: Path, killed: tuple[str, ...]
) -> None:
    """The keeper starts another drainer; if both are gone, the next ending job's shim does."""
    occupy(one, gate)
    ids = [one.execute(diary.entry(word), queue=True).id for word in ("a", "b", "c")]
    strike(home, *killed)  # type: ignore[arg-type]
    gate.open()
    wait_until(lambda: len(diary.words()) == 3, "all have run", lambda: str(diary.words()))
    wait_until_queue_is_done(home)
    assert diary.words() == ["a", "b", "c"]
    ends(one, *ids)


@linux_only
def test_where_nothing_ends_a_look_is_enough(one: Jobs, home: Path, diary: Diary) -> None:
    job_id = one.execute(diary.entry("ran"), options={"delay_s": 3.0}).id
    strike(home, DISPATCHER, KEEPER)
    assert isinstance(state(one, job_id), Queued)
    assert isinstance(ends(one, job_id)[0], Exited)
    assert diary.words() == ["ran"]


@linux_only
def test_there_is_one_drainer_while_something_waits_and_none_after(one: Jobs, gate: Gate, home: Path) -> None:
    occupy(one, gate)
    ids = [one.execute("true", queue=True).id for _ in range(20)]
    assert the(home, DISPATCHER) != the(home, KEEPER)  # one of each
    gate.open()
    ends(one, *ids)
    wait_until_queue_is_done(home)


@linux_only
def test_a_slot_whose_shim_and_guard_were_killed_is_used_again(one: Jobs, gate: Gate, diary: Diary) -> None:
    """Nobody says that it is free."""
    occupied = occupy(one, gate)
    job_id = one.execute(diary.entry("ran"), queue=True).id
    kill_both(one, occupied)
    assert isinstance(ends(one, job_id)[0], Exited)
    assert isinstance(state(one, occupied), Lost)
    sweep.kill(occupied)


def test_a_job_that_is_started_while_it_is_killed_was_killed(
    one: Jobs, new_gate: Callable[[str], Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kill has looked for it in the queue and for its shim: too late for the one, too early for the other."""
    ask = kill._ask_to_kill
    monkeypatch.setattr(kill, "cancel", lambda *_: None)
    for number in range(5):
        occupy(one, gate := new_gate(str(number)))
        job_id = one.execute("sleep 1000", queue=True).id

        def ask_too_early(*_: object, gate: Gate = gate, job_id: str = job_id) -> None:
            monkeypatch.setattr(kill, "_ask_to_kill", ask)
            gate.open()
            wait_until(lambda: one.store.has_shim(job_id), "it is started")

        monkeypatch.setattr(kill, "_ask_to_kill", ask_too_early)
        assert one.kill(job_id, grace_s=0).status == "killed"
        assert isinstance(state(one, job_id), Killed)


@linux_only
def test_a_stopped_drainer_stops_no_submitter(one: Jobs, gate: Gate, home: Path, diary: Diary) -> None:
    occupy(one, gate)
    ids = [one.execute(diary.entry("0"), queue=True).id]
    drainer = the(home, DISPATCHER)
    os.kill(drainer, signal.SIGSTOP)
    gate.open()
    began = time.monotonic()
    ids += [one.execute(diary.entry(str(number)), queue=True).id for number in range(1, 20)]
    assert one.status(ids[3]).place
    one.kill(ids[-1])
    assert time.monotonic() - began < PATIENCE_S
    assert diary.words() == []
    os.kill(drainer, signal.SIGCONT)
    ends(one, *ids)
    assert diary.words() == [str(number) for number in range(19)]


@linux_only
def test_a_drainer_without_descriptors_tries_again(
    one: Jobs, new_gate: Callable[[str], Gate], home: Path, diary: Diary
) -> None:
    """And not at full speed, nor by dying."""
    first, gate = new_gate("first"), new_gate("second")
    occupy(one, first)
    one.execute(gate.pause, queue=True)
    job_id = one.execute(diary.entry("ran"), queue=True).id
    first.open()
    gate.wait_until_reached()  # whoever drains has all the descriptors that it needs
    drainer = the(home, DISPATCHER)
    usual = resource.prlimit(drainer, resource.RLIMIT_NOFILE)
    resource.prlimit(drainer, resource.RLIMIT_NOFILE, (3, usual[1]))
    try:
        before_s = cpu_s(drainer)
        gate.open()
        one.execute(diary.entry("other"), queue=True)
        wait_until(lambda: seen(drainer).state == "S", "it has heard of that")  # type: ignore[union-attr]
        assert (diary.words(), named(home, DISPATCHER)) == ([], [drainer])
        assert cpu_s(drainer) - before_s < 0.5
    finally:
        resource.prlimit(drainer, resource.RLIMIT_NOFILE, usual)
    assert isinstance(ends(one, job_id)[0], Exited)
    wait_until(lambda: diary.words() == ["ran", "other"], "both have run", lambda: str(diary.words()))


@linux_only
def test_what_cannot_be_started_for_want_of_processes_waits_on_and_runs_once(
    one: Jobs, gate: Gate, home: Path, diary: Diary, request: pytest.FixtureRequest
) -> None:
    """EAGAIN, when all is ready but the command's own process: neither it fails, nor who waits for it."""
    occupy(one, gate)
    ids = [one.execute(diary.entry(word), queue=True).id for word in "abc"]
    ids.append(one.execute(diary.entry("d"), after=[ids[0]]).id)
    group = narrow_group(the(home, DISPATCHER), 3, request)  # itself, a guard and a shim
    gate.open()
    wait_until(lambda: group.refusals(cgroup.PROCESSES) >= 3, "it is tried, and again")
    assert all(isinstance(state(one, job_id), Running) for job_id in ids)
    assert diary.words() == []
    group.limit(cgroup.PROCESSES, 1000)
    assert all(isinstance(end, Exited) for end in ends(one, *ids))
    assert sorted(diary.words()) == ["a", "b", "c", "d"]
    wait_until_queue_is_done(home)
    wait_until(lambda: not any(one.has_shim(job_id) for job_id in ids))
    assert {path.name for job_id in ids for path in (home / "jobs" / job_id).iterdir()} == {
        "spec.json",
        "run.json",
        "outcome.json",
    }


def narrow_group(pid: int, most: int, request: pytest.FixtureRequest) -> cgroup.Group:
    """For this process, and all that it starts."""
    group = cgroup.make_groups(f"test-{pid}", {cgroup.PROCESSES: most}).get(cgroup.PROCESSES)
    if group is None:
        pytest.skip("no control group for processes can be made here")
    request.addfinalizer(lambda: cgroup.remove(group.directory))
    Path(group.processes_file).write_text(str(pid))
    return group


@linux_only
def test_a_submitter_killed_before_its_job_was_visible_keeps_no_drainer(
    one: Jobs, gate: Gate, home: Path
) -> None:
    """An entry in the queue, and no job to it, nor anybody who makes one."""
    queue_dir.enter(str(home), queue_dir.entry_for("11111111-1111-4111-8111-111111111111", 0, 1))
    job_id = one.execute("true", queue=True).id
    ends(one, job_id)
    wait_until_queue_is_done(home)


@linux_only
@pytest.mark.parametrize("killed", ["shim", "both"])
def test_killed_between_the_queue_and_its_exec_it_never_starts_twice(
    one: Jobs, gate: Gate, home: Path, diary: Diary, killed: str, request: pytest.FixtureRequest
) -> None:
    """Its papers are gone and it is not exec'd: a guard goes on with it; without one it is lost."""
    occupy(one, gate)
    job_id = one.execute(f"{diary.entry('ran')}; exit 3", queue=True, options={"open_files": 100}).id
    behind = one.execute("true", queue=True).id
    jam = Jam(home / "jobs" / job_id / "limits.json.new")  # whoever writes it, before the exec, waits there
    request.addfinalizer(jam.close)
    gate.open()
    pids: list[int] = []

    def is_on_the_way() -> bool:
        pids[:] = [pid for pid in every_pid() if works_as_shim(pid, home / "jobs" / job_id)]
        return len(pids) == 1 and not (home / "jobs" / job_id / "papers").exists()

    wait_until(is_on_the_way, "a shim has taken it")
    pids += [parent_of(pids[0])] if killed == "both" else []
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)
    if killed == "shim":
        wait_until(is_on_the_way, "its guard has taken over")
        jam.clear()
        (end,) = ends(one, job_id)
        assert (getattr(end, "code", None), diary.words()) == (3, ["ran"])
    ends(one, behind)
    wait_until_queue_is_done(home)
    if killed == "both":
        assert state(one, job_id) == Lost(
            "its shim and its guard were killed as they started it: whether it ran is not known"
        )
        assert diary.words() == []
    assert not list((home / "jobs" / job_id).glob("papers*"))


def works_as_shim(pid: int, directory: Path) -> bool:
    now = seen(pid)
    try:
        return bool(now) and now.name == "bgjob-shim" and Path(f"/proc/{pid}/cwd").samefile(directory)  # type: ignore[union-attr]
    except OSError:
        return False


# -- another boot -----------------------------------------------------------------------------------------


def test_a_job_that_was_queued_before_a_reboot_is_lost_and_never_started(
    one: Jobs, gate: Gate, home: Path, diary: Diary
) -> None:
    occupy(one, gate)
    job_id = one.execute(diary.entry("ran"), queue=True).id
    strike(home, DISPATCHER, KEEPER)
    spec = home / "jobs" / job_id / "spec.json"
    spec.write_text(json.dumps({**json.loads(spec.read_text()), "boot_id": "another"}))
    later = one.execute("true", queue=True).id
    gate.open()
    ends(one, later)
    wait_until_queue_is_done(home)
    end = open_jobs({"BGJOB_HOME": str(home)}).status(job_id).job.state
    assert end == Lost("the machine was restarted; whether it had started is not known")
    assert diary.words() == []
    assert papers(home) == []


def test_the_first_look_after_a_reboot_removes_what_rested_on_disk(one: Jobs, gate: Gate, home: Path) -> None:
    occupy(one, gate)
    job_id = one.execute("true", queue=True, options={"delay_s": 1000}).id
    strike(home, DISPATCHER, KEEPER)
    spec = home / "jobs" / job_id / "spec.json"
    spec.write_text(json.dumps({**json.loads(spec.read_text()), "boot_id": "another"}))
    (home / "boot.json").write_text('{"boot_id": "another"}')
    assert isinstance(open_jobs({"BGJOB_HOME": str(home)}).status(job_id).job.state, Lost)
    assert papers(home) == []
    assert queue_dir.entries(str(home)) == []
    gate.open()


# -- the command line -------------------------------------------------------------------------------------


def test_the_command_line_queues_shows_and_cancels(home: Path, one: Jobs, gate: Gate) -> None:
    occupied = occupy(one, gate, name="first")

    def bgjob(*arguments: str) -> str:
        environment = {**os.environ, "BGJOB_HOME": str(home), "MCP_BG_MAX_JOBS": "1"}
        done = subprocess.run(
            [BGJOB, *arguments], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    waiting = bgjob("run", "--queue", "--name", "w", "--priority", "3", "--", "exit 4")
    chained = bgjob("run", "--after", "w", "--after-any", "--", "echo chained")
    cancelled = bgjob("run", "--after", "first", "--delay", "1000", "--", "true")
    shown = bgjob("ps")
    assert len(re.findall(r"(?m)^\w{8}  queued ", shown)) == 3
    assert bgjob("kill", cancelled) == "killed (0 processes)"
    gate.open()
    assert bgjob("logs", "-f", chained) == "chained"
    assert getattr(ends(one, waiting, occupied)[0], "code", None) == 4


def test_a_condition_is_met_by_a_job_that_has_started(one: Jobs, gate: Gate, home: Path) -> None:
    """Also if the job was looked at while it was queued, and its output was read when it ran."""
    occupy(one, gate)
    job_id = one.execute("echo ready; read line", queue=True).id
    context = open_context({**os.environ, "BGJOB_HOME": str(home)}, many=False)
    with Wait(context, [job_id], conditions_of(pattern="ready"), "any", {}) as wait:
        assert isinstance(wait.jobs[0].job.state, Queued)
        gate.open()
        (printed,) = one.wait_for([job_id], pattern="ready", timeout_s=PATIENCE_S)
        assert printed.met
        wait.run(PATIENCE_S, None, None)
        (waited,) = wait.result(None)
    assert waited.met
    assert not isinstance(waited.status.job.state, Queued)
