"""The queue: a job that finds no room, or has to wait for others, starts exactly once when it may."""

import json
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from bgjob.api import Conditions, Jobs, open_jobs
from bgjob.core.errors import InvalidArgument, JobLimitReached, JobNotFound
from bgjob.core.job import Exited, Killed, Lost, NeverStarted, Queued, Running, State
from bgjob.home import queue_dir
from bgjob.link import sweep
from bgjob.system import cgroup
from tests.support.dispatchers import DISPATCHER, KEEPER, named, strike, the, wait_until_queue_is_done
from tests.support.gate import Gate
from tests.support.jam import Jam
from tests.support.process_table import every_pid, parent_of, seen
from tests.support.requires import linux_only
from tests.support.server import StartServer, ToolError
from tests.support.shims import kill_both
from tests.support.stores import forget_measure
from tests.support.waiting import wait_until

OpenDoor = Callable[..., Jobs]
BGJOB = str(Path(sys.executable).with_name("bgjob"))


@pytest.fixture
def open_door(home: Path) -> Iterator[OpenDoor]:
    """A door on this home with settings of its own: open_door(MCP_BG_MAX_JOBS="1")."""
    with ExitStack() as opened:

        def door(**settings: str) -> Jobs:
            jobs = open_jobs({**os.environ, "BGJOB_HOME": str(home), **settings})
            opened.enter_context(closing(jobs))
            return jobs

        yield door


@pytest.fixture
def one(open_door: OpenDoor) -> Jobs:
    """One slot."""
    return open_door(MCP_BG_MAX_JOBS="1")


class Diary:
    """Jobs write themselves into it as they start."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def entry(self, word: str) -> str:
        return f"echo {word} >> {self._path}"

    def words(self) -> list[str]:
        return self._path.read_text().split() if self._path.exists() else []


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "diary")


@pytest.fixture
def new_gate(tmp_path: Path) -> Callable[[str], Gate]:
    return lambda name: Gate(tmp_path / name)


def occupy(jobs: Jobs, gate: Gate, **options: object) -> str:
    """A job that runs until the gate opens."""
    job_id = jobs.execute(gate.pause, **options).id  # type: ignore[arg-type]
    gate.wait_until_reached()
    return job_id


def state(jobs: Jobs, job_id: str) -> State:
    return jobs.look(job_id).job.state


def ends(jobs: Jobs, *job_ids: str) -> list[State]:
    waited = jobs.wait(list(job_ids), Conditions(), mode="all", timeout_s=30)
    return [each.look.job.state for each in waited]


def papers(home: Path) -> list[Path]:
    return list(home.glob("jobs/*/papers"))


# -- a slot ---------------------------------------------------------------------------------------------


def test_beyond_the_limit_a_job_waits_instead_of_failing(one: Jobs, gate: Gate, diary: Diary) -> None:
    occupy(one, gate)
    with pytest.raises(JobLimitReached):
        one.execute("true")
    job_id = one.execute(f"{diary.entry('ran')}; exit 3", queue=True).id
    look = one.look(job_id)
    assert isinstance(look.job.state, Queued)
    assert look.place
    assert (look.place.position, look.place.reason) == (1, "it waits for a free slot")
    assert diary.words() == []
    gate.open()
    (end,) = ends(one, job_id)
    assert isinstance(end, Exited)
    assert (end.code, diary.words()) == (3, ["ran"])


def test_with_a_free_slot_it_starts_at_once(one: Jobs, gate: Gate, home: Path) -> None:
    job_id = one.execute(gate.pause, queue=True).id
    gate.wait_until_reached()
    assert not isinstance(state(one, job_id), Queued)
    assert queue_dir.entries(str(home)) == []
    gate.open()


def test_a_client_that_polls_until_it_is_no_longer_running_keeps_waiting(
    start_server: StartServer, gate: Gate
) -> None:
    """The four words stay: a queued job is `running`, and its phase says what it does."""
    server = start_server(MCP_BG_MAX_JOBS="1")
    first = server.execute(gate.pause)
    gate.wait_until_reached()
    with pytest.raises(ToolError, match=r"Job limit reached: Maximum concurrent jobs limit \(1\) reached"):
        server.execute("true")
    answer = server.call("execute_command", command="echo hello; exit 4", queue=True)
    assert (answer["phase"], answer["position"]) == ("queued", 1)
    status = server.status(answer["job_id"])
    assert (status["status"], status["phase"], status["position"]) == ("running", "queued", 1)
    assert "slot" in status["reason"]
    listed = {job["job_id"]: job for job in server.call("list_jobs")["jobs"]}
    assert (listed[answer["job_id"]]["status"], listed[answer["job_id"]]["phase"]) == ("running", "queued")
    assert (listed[answer["job_id"]]["position"], listed[answer["job_id"]]["reason"]) == (1, status["reason"])
    assert "phase" not in listed[first]
    threading.Thread(target=gate.open).start()
    waited = server.call("wait_for_job", job_ids=[answer["job_id"]], timeout_s=30)["jobs"][0]
    assert (waited["condition"], waited["exit_code"], waited["stdout"]) == ("exit", 4, "hello\n")
    assert "phase" not in server.status(answer["job_id"])


def test_what_waits_takes_no_input_and_has_no_output(start_server: StartServer, gate: Gate) -> None:
    server = start_server(MCP_BG_MAX_JOBS="1")
    server.execute(gate.pause)
    gate.wait_until_reached()
    job_id = server.execute("cat", queue=True)
    with pytest.raises(ToolError, match="is not running and cannot accept input"):
        server.call("interact_with_job", job_id=job_id, input="x")
    assert server.output(job_id)["stdout"] == ""
    server.call("kill_job", job_id=job_id)
    gate.open()


def test_the_smaller_limit_of_one_server_stops_only_its_own_jobs(
    open_door: OpenDoor, new_gate: Callable[[str], Gate]
) -> None:
    """Its job is first in line and finds its one slot taken: those of a server with more slots pass it."""
    small, large = open_door(MCP_BG_MAX_JOBS="1"), open_door(MCP_BG_MAX_JOBS="3")
    first, second = new_gate("first"), new_gate("second")
    occupy(small, first)
    waiting = small.execute("exit 5", queue=True, terms={"priority": 9}).id
    passing = large.execute(second.pause, queue=True).id
    second.wait_until_reached()
    assert isinstance(state(small, waiting), Queued)
    first.open()
    second.open()
    assert [getattr(end, "code", None) for end in ends(small, waiting, passing)] == [5, 0]


# -- its turn -------------------------------------------------------------------------------------------


def test_higher_priority_first_and_among_equals_the_older(one: Jobs, gate: Gate, diary: Diary) -> None:
    occupy(one, gate)
    ids = [
        one.execute(diary.entry(word), queue=True, terms={"priority": priority}).id
        for word, priority in (("c", 0), ("a", 7), ("d", 0), ("e", -3), ("b", 7))
    ]
    assert [one.look(job_id).place.position for job_id in ids] == [3, 1, 4, 5, 2]  # type: ignore[union-attr]
    gate.open()
    ends(one, *ids)
    assert diary.words() == ["a", "b", "c", "d", "e"]


def test_a_priority_can_be_changed_while_it_waits(one: Jobs, gate: Gate, diary: Diary, home: Path) -> None:
    """By the command line, and by asking for the same name again."""
    occupy(one, gate)
    ids = [one.execute(diary.entry(word), queue=True, name=f"job {word}").id for word in ("a", "b", "c")]
    environment = {**os.environ, "BGJOB_HOME": str(home)}
    subprocess.run([BGJOB, "priority", "job c", "5"], env=environment, check=True)
    again = one.run("true", name="job b", if_running="reuse", terms={"priority": 2})
    assert (again.reused, again.job.id) == (True, ids[1])
    assert again.place
    assert (again.place.position, again.place.priority) == (2, 2)
    gate.open()
    ends(one, *ids)
    assert diary.words() == ["c", "b", "a"]
    with pytest.raises(InvalidArgument, match="is not in the queue: it has started, or ended"):
        one.prioritize(ids[0], 1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"priority": 1001}, "a whole number from -1000 to 1000"),
        ({"priority": "high"}, "a whole number from -1000 to 1000"),
        ({"delay_s": -1}, "seconds from 0"),
        ({"after_policy": "failure"}, "success or any"),
        ({"group": "a/b"}, "a name of letters"),
        ({"group": "gpu"}, r"not in MCP_BG_GROUPS. Accepted: build"),
    ],
)
def test_what_is_not_a_term_is_named(open_door: OpenDoor, options: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        open_door(MCP_BG_GROUPS="build=1").execute("true", queue=True, terms=options)


def test_a_delay_is_waited_for_although_there_is_room(one: Jobs, diary: Diary) -> None:
    began = time.monotonic()
    later = one.execute(diary.entry("later"), terms={"delay_s": 4}).id
    look = one.look(later)
    assert look.place
    assert re.fullmatch("it waits: it is to start in [1-4] s", look.place.reason)
    now = one.execute(diary.entry("now"), queue=True).id  # one that is delayed keeps nobody waiting
    assert isinstance(ends(one, now)[0], Exited)
    assert isinstance(state(one, later), Queued)
    ends(one, later)
    assert 4 < time.monotonic() - began < 25
    assert diary.words() == ["now", "later"]


# -- after others ---------------------------------------------------------------------------------------


def test_after_the_success_of_others(one: Jobs, gate: Gate, diary: Diary) -> None:
    """By id and by name; a job that is already over counts too."""
    done = one.execute("true", name="done").id
    ends(one, done)
    occupied = occupy(one, gate, queue=True)
    job_id = one.execute(diary.entry("ran"), after=["done", occupied]).id
    assert one.look(job_id).place.reason == f"it waits: job {occupied}, after which it is to run, still runs"  # type: ignore[union-attr]
    gate.open()
    assert isinstance(ends(one, job_id)[0], Exited)
    assert diary.words() == ["ran"]


@pytest.mark.parametrize(
    ("command", "how"), [("exit 3", "ended with exit code 3"), ("kill -9 $$", "ended: signaled")]
)
def test_after_a_failure_it_is_not_run_and_says_why(one: Jobs, diary: Diary, command: str, how: str) -> None:
    first = one.execute(command).id
    second = one.execute(diary.entry("second"), after=[first]).id
    third = one.execute(diary.entry("third"), after=[second]).id
    why = ends(one, second, third)
    assert isinstance(why[0], NeverStarted)
    assert why[0].reason == f"it was to run after the success of job {first}, which {how}"
    assert isinstance(why[1], NeverStarted)
    assert f"job {second}, which ended: never_started" in why[1].reason
    assert diary.words() == []


def test_the_cause_is_told_over_mcp(start_server: StartServer) -> None:
    server = start_server()
    first = server.execute("exit 3")
    second = server.execute("true", after=[first])
    server.call("wait_for_job", job_ids=[second], timeout_s=30)
    status = server.status(second)
    assert (status["status"], status["cause"]) == ("failed", "never_started")
    assert status["reason"].endswith("which ended with exit code 3")


def test_after_any_end(one: Jobs, diary: Diary) -> None:
    first = one.execute("exit 3").id
    job_id = one.execute(diary.entry("ran"), after=[first], terms={"after_policy": "any"}).id
    assert isinstance(ends(one, job_id)[0], Exited)
    assert diary.words() == ["ran"]


def test_a_chain_runs_in_its_order_whatever_the_priorities(one: Jobs, gate: Gate, diary: Diary) -> None:
    before = occupy(one, gate)
    ids: list[str] = []
    for number in range(5):
        after = [ids[-1] if ids else before]
        ids.append(one.execute(diary.entry(str(number)), after=after, terms={"priority": number}).id)
    gate.open()
    ends(one, *ids)
    assert diary.words() == ["0", "1", "2", "3", "4"]


def test_a_cycle_cannot_be_said(one: Jobs, gate: Gate) -> None:
    """`after` names jobs that exist, a job's id is made at its submission, and nobody can add to it later."""
    occupied = occupy(one, gate)
    for unknown in ("b", occupied[:8], "00000000-0000-4000-8000-000000000000"):
        with pytest.raises(JobNotFound):
            one.execute("true", name="a", after=[unknown])
    gate.open()


@pytest.mark.parametrize(
    "bounds",
    [
        {"MCP_BG_KEEP_JOBS": "1", "MCP_BG_CLEANUP_INTERVAL": "0.001"},
        {"MCP_BG_MAX_STORE_SIZE": "1MB"},
    ],
    ids=["retention", "the cap"],
)
def test_a_job_that_others_wait_for_is_kept(
    open_door: OpenDoor, gate: Gate, home: Path, diary: Diary, bounds: dict[str, str]
) -> None:
    """And so is what waits. The success that is asked for must not be forgotten before it is asked for."""
    two = open_door(MCP_BG_MAX_JOBS="2", **bounds)
    large = "head -c 400000 /dev/zero"
    first = two.execute(large).id
    ends(two, first)
    running = occupy(two, gate)
    waiting = two.execute(diary.entry("ran"), after=[first, running]).id
    others = []
    for _ in range(4):
        forget_measure(home)
        others.append(two.execute(large, queue=True).id)
        ends(two, others[-1])
    assert not {job.id for job in two.list().jobs}.issuperset(others)
    assert isinstance(state(two, first), Exited)
    gate.open()
    assert isinstance(ends(two, waiting)[0], Exited)
    assert diary.words() == ["ran"]


def test_after_one_that_is_gone_it_is_not_run(one: Jobs, gate: Gate) -> None:
    first = one.execute("true").id
    ends(one, first)
    occupy(one, gate, queue=True)  # so that it waits, however long we take
    job_id = one.execute("true", after=[first]).id
    place = next(place for place, each in one.store.ids() if each == first)
    one.store.remove(place, first)
    (end,) = ends(one, job_id)
    assert isinstance(end, NeverStarted)
    assert "is gone: it was cleaned up" in end.reason


# -- groups ---------------------------------------------------------------------------------------------


def test_a_group_has_slots_of_its_own(open_door: OpenDoor, new_gate: Callable[[str], Gate]) -> None:
    """A full group keeps only its own waiting; a job of a group needs one of all slots too."""
    jobs = open_door(MCP_BG_MAX_JOBS="2", MCP_BG_GROUPS="gpu=1,jobs=2")
    gpu, plain = new_gate("gpu"), new_gate("plain")
    occupy(jobs, gpu, queue=True, terms={"group": "gpu"})
    with pytest.raises(JobLimitReached, match="gpu"):
        jobs.execute("true", terms={"group": "gpu"})
    second = jobs.execute("exit 2", queue=True, terms={"group": "gpu"}).id
    assert jobs.look(second).place.reason == "it waits for a free slot of group gpu, or of all"  # type: ignore[union-attr]
    other = jobs.execute(plain.pause, queue=True, terms={"group": "jobs"}).id  # a name like any other
    plain.wait_until_reached()
    assert isinstance(state(jobs, second), Queued)
    third = jobs.execute("exit 3", queue=True, terms={"group": "jobs"}).id
    assert isinstance(state(jobs, third), Queued)  # two slots in all
    gpu.open()
    plain.open()
    assert [getattr(end, "code", None) for end in ends(jobs, second, other, third)] == [2, 0, 3]


# -- cancelled ------------------------------------------------------------------------------------------


def test_a_queued_job_can_be_cancelled(start_server: StartServer, gate: Gate, diary: Diary) -> None:
    server = start_server(MCP_BG_MAX_JOBS="1")
    server.execute(gate.pause)
    gate.wait_until_reached()
    first, second = (server.execute(diary.entry(word), queue=True) for word in ("first", "second"))
    assert server.call("kill_job", job_id=first)["status"] == "killed"
    status = server.status(first)
    assert (status["status"], status["cause"]) == ("killed", "killed")
    assert server.status(second)["position"] == 1
    assert server.call("kill_job", job_id=first)["status"] == "already_terminated"
    gate.open()
    server.call("wait_for_job", job_ids=[second], timeout_s=30)
    assert diary.words() == ["second"]


def test_a_wait_for_a_cancelled_job_is_over(one: Jobs, gate: Gate) -> None:
    occupy(one, gate)
    job_id, after = one.execute("true", queue=True).id, gate
    behind = one.execute("true", after=[job_id]).id
    threading.Timer(0.1, lambda: one.kill(job_id)).start()
    assert isinstance(ends(one, job_id)[0], Killed)
    assert isinstance(ends(one, behind)[0], NeverStarted)
    after.open()


def test_another_of_the_same_name_takes_its_place(one: Jobs, gate: Gate, diary: Diary) -> None:
    occupy(one, gate)
    first = one.run(diary.entry("first"), name="build", queue=True).job.id
    second = one.run(diary.entry("second"), name="build", queue=True, if_running="restart").job.id
    gate.open()
    ends(one, second)
    assert isinstance(state(one, first), Killed)
    assert diary.words() == ["second"]


# -- what it takes along --------------------------------------------------------------------------------


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
    assert isinstance(open_jobs({"BGJOB_HOME": str(home)}).look(unreadable).job.state, NeverStarted)


# -- who starts it --------------------------------------------------------------------------------------


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
    job_id = one.execute(diary.entry("ran"), terms={"delay_s": 3.0}).id
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


@linux_only
def test_a_stopped_drainer_stops_no_submitter(one: Jobs, gate: Gate, home: Path, diary: Diary) -> None:
    occupy(one, gate)
    ids = [one.execute(diary.entry("0"), queue=True).id]
    drainer = the(home, DISPATCHER)
    os.kill(drainer, signal.SIGSTOP)
    gate.open()
    began = time.monotonic()
    ids += [one.execute(diary.entry(str(number)), queue=True).id for number in range(1, 20)]
    assert one.look(ids[3]).place
    one.kill(ids[-1])
    assert time.monotonic() - began < 10
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
        before = cpu_ticks(drainer)
        gate.open()
        one.execute(diary.entry("other"), queue=True)
        wait_until(lambda: seen(drainer).state == "S", "it has heard of that")  # type: ignore[union-attr]
        assert (diary.words(), named(home, DISPATCHER)) == ([], [drainer])
        assert cpu_ticks(drainer) - before < 50
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
    group = cgroup.made(f"test-{pid}", {cgroup.PROCESSES: most}).get(cgroup.PROCESSES)
    if group is None:
        pytest.skip("no control group for processes can be made here")
    request.addfinalizer(lambda: cgroup.remove(group.directory))
    Path(group.processes_file).write_text(str(pid))
    return group


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return int(fields[11]) + int(fields[12])


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
    job_id = one.execute(f"{diary.entry('ran')}; exit 3", queue=True, terms={"open_files": 100}).id
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


# -- another boot ---------------------------------------------------------------------------------------


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
    end = open_jobs({"BGJOB_HOME": str(home)}).look(job_id).job.state
    assert end == Lost("the machine was restarted; whether it had started is not known")
    assert diary.words() == []
    assert papers(home) == []


def test_the_first_look_after_a_reboot_removes_what_rested_on_disk(one: Jobs, gate: Gate, home: Path) -> None:
    occupy(one, gate)
    job_id = one.execute("true", queue=True, terms={"delay_s": 1000}).id
    strike(home, DISPATCHER, KEEPER)
    spec = home / "jobs" / job_id / "spec.json"
    spec.write_text(json.dumps({**json.loads(spec.read_text()), "boot_id": "another"}))
    (home / "boot.json").write_text('{"boot_id": "another"}')
    assert isinstance(open_jobs({"BGJOB_HOME": str(home)}).look(job_id).job.state, Lost)
    assert papers(home) == []
    assert queue_dir.entries(str(home)) == []
    gate.open()


# -- the command line -----------------------------------------------------------------------------------


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
    assert len(re.findall(r" queued ", shown)) == 3
    assert bgjob("kill", cancelled) == "killed (0 processes)"
    gate.open()
    assert bgjob("logs", "-f", chained) == "chained"
    assert getattr(ends(one, waiting, occupied)[0], "code", None) == 4
