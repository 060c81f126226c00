"""Which job of the queue starts next, and which one never."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, ItemsView
from pathlib import Path

import pytest

from bgjob.api import Jobs
from bgjob.core.errors import InvalidArgument, JobNotFound
from bgjob.core.job import Exited, Killed, NeverStarted, Queued
from bgjob.home import queue_dir
from bgjob.home.event_log import Cursor
from bgjob.store import event_reader
from tests.support.dispatchers import DISPATCHER, the
from tests.support.gate import Gate
from tests.support.queueing import BGJOB, Diary, OpenJobs, ends, occupy, state
from tests.support.requires import linux_only
from tests.support.server import StartServer, ToolError
from tests.support.stores import forget_measure
from tests.support.waiting import wait_until

# -- a slot -----------------------------------------------------------------------------------------------


def test_with_a_free_slot_it_starts_at_once(one: Jobs, gate: Gate, home: Path) -> None:
    job_id = one.execute(gate.pause, queue=True).id
    gate.wait_until_reached()
    assert not isinstance(state(one, job_id), Queued)
    assert queue_dir.entries(str(home)) == []
    gate.open()


def test_a_job_in_the_queue_says_so_in_every_answer(start_server: StartServer, gate: Gate) -> None:
    server = start_server(MCP_BG_MAX_JOBS="1")
    first = server.execute(gate.pause)
    gate.wait_until_reached()
    with pytest.raises(ToolError, match=r"Job limit reached: Maximum concurrent jobs limit \(1\) reached"):
        server.execute("true")
    answer = server.call("execute_command", command="echo hello; exit 4", queue=True)
    waited = server.call("wait_for_job", job_ids=[answer["job_id"]], timeout_s=0)["jobs"][0]
    listed = {job["job_id"]: job for job in server.call("list_jobs")["jobs"]}
    for told in (answer, server.status(answer["job_id"]), waited, listed[answer["job_id"]]):
        assert (told["status"], told["position"]) == ("queued", 1)
        assert told["reason"] == "it waits for a free slot"
        assert "phase" not in told
    assert listed[first]["status"] == "running"
    threading.Thread(target=gate.open).start()
    waited = server.call("wait_for_job", job_ids=[answer["job_id"]], timeout_s=30)["jobs"][0]
    assert (waited["condition"], waited["exit_code"], waited["stdout"]) == ("exit", 4, "hello\n")
    assert waited["status"] == "failed"
    assert "position" not in waited


def test_a_job_that_never_starts_or_is_cancelled_has_its_name_in_the_event(
    one: Jobs, new_gate: Callable[[str], Gate]
) -> None:
    """As the line of news shows it: there is nothing else to know the job by."""
    gate = new_gate("first")
    first = one.execute(f"{gate.pause}; exit 3").id
    gate.wait_until_reached()
    never = one.execute("true", after=[first], name="never").id
    cancelled = one.execute("true", queue=True, name="cancelled").id
    one.kill(cancelled)
    gate.open()
    assert isinstance(ends(one, never)[0], NeverStarted)
    wait_until(lambda: names_of_ended(one) >= {never: "never", cancelled: "cancelled"}.items())


def names_of_ended(jobs: Jobs) -> ItemsView[str, str | None]:
    """By the events, which are written after the outcome."""
    events = [line.event for line in event_reader.lines(jobs.events_directory, Cursor(0, 0)) if line.event]
    return {event["job_id"]: event.get("name") for event in events if event["kind"] == "ended"}.items()


@linux_only
def test_no_answer_says_that_a_job_waits_for_a_slot_if_it_can_no_longer_start(
    one: Jobs, gate: Gate, home: Path
) -> None:
    """Also before the dispatcher has come to end it: here it is stopped."""
    first = one.execute(f"{gate.pause}; exit 3").id
    gate.wait_until_reached()
    job_id = one.execute("true", after=[first]).id
    dispatcher = the(home, DISPATCHER)
    os.kill(dispatcher, signal.SIGSTOP)
    gate.open()
    ends(one, first)
    place = one.status(job_id).place
    os.kill(dispatcher, signal.SIGCONT)
    assert place
    why = f"it was to run after the success of job {first}, which failed with exit code 3"
    assert place.reason == f"it will not start: {why}"
    assert isinstance(ends(one, job_id)[0], NeverStarted)


def test_what_waits_takes_no_input_and_has_no_output(start_server: StartServer, gate: Gate) -> None:
    server = start_server(MCP_BG_MAX_JOBS="1")
    server.execute(gate.pause)
    gate.wait_until_reached()
    job_id = server.execute("cat", queue=True)
    with pytest.raises(
        ToolError, match="is not running and cannot accept input: it is queued and has not started"
    ):
        server.call("interact_with_job", job_id=job_id, input="x")
    with pytest.raises(
        ToolError, match="it is queued and has not started yet: there is no process to signal"
    ):
        server.call("kill_job", job_id=job_id, signal="HUP", only_signal=True)
    assert server.output(job_id)["stdout"] == ""
    server.call("kill_job", job_id=job_id)
    gate.open()


def test_the_smaller_limit_of_one_server_stops_only_its_own_jobs(
    open_with: OpenJobs, new_gate: Callable[[str], Gate]
) -> None:
    """Its job is first in line and finds its one slot taken: those of a server with more slots pass it."""
    small, large = open_with(MCP_BG_MAX_JOBS="1"), open_with(MCP_BG_MAX_JOBS="3")
    first, second = new_gate("first"), new_gate("second")
    occupy(small, first)
    waiting = small.execute("exit 5", queue=True, options={"priority": 9}).id
    passing = large.execute(second.pause, queue=True).id
    second.wait_until_reached()
    assert isinstance(state(small, waiting), Queued)
    first.open()
    second.open()
    assert [getattr(end, "code", None) for end in ends(small, waiting, passing)] == [5, 0]


# -- its turn ---------------------------------------------------------------------------------------------


def test_a_priority_can_be_changed_while_it_waits(one: Jobs, gate: Gate, diary: Diary, home: Path) -> None:
    """By the command line, and by asking for the same name again."""
    occupy(one, gate)
    ids = [one.execute(diary.entry(word), queue=True, name=f"job {word}").id for word in ("a", "b", "c")]
    environment = {**os.environ, "BGJOB_HOME": str(home)}
    subprocess.run([BGJOB, "priority", "job c", "5"], env=environment, check=True)
    again = one.run("true", name="job b", if_running="reuse", options={"priority": 2})
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
def test_what_is_not_a_term_is_named(open_with: OpenJobs, options: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        open_with(MCP_BG_GROUPS="build=1").execute("true", queue=True, options=options)


def test_a_delay_is_waited_for_although_there_is_room(one: Jobs, diary: Diary) -> None:
    began = time.monotonic()
    later = one.execute(diary.entry("later"), options={"delay_s": 4}).id
    look = one.status(later)
    assert look.place
    assert re.fullmatch("it waits: it is to start in [1-4] s", look.place.reason)
    now = one.execute(diary.entry("now"), queue=True).id  # one that is delayed keeps nobody waiting
    assert isinstance(ends(one, now)[0], Exited)
    assert isinstance(state(one, later), Queued)
    ends(one, later)
    assert time.monotonic() - began > 4
    assert diary.words() == ["now", "later"]


# -- after others -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "how"), [("exit 3", "failed with exit code 3"), ("kill -9 $$", "was killed by SIGKILL")]
)
def test_after_a_failure_it_is_not_run_and_says_why(one: Jobs, diary: Diary, command: str, how: str) -> None:
    first = one.execute(command).id
    second = one.execute(diary.entry("second"), after=[first]).id
    third = one.execute(diary.entry("third"), after=[second]).id
    why = ends(one, second, third)
    assert isinstance(why[0], NeverStarted)
    assert why[0].reason == f"it was to run after the success of job {first}, which {how}"
    assert isinstance(why[1], NeverStarted)
    assert f"job {second}, which did not start" in why[1].reason
    assert diary.words() == []


def test_the_cause_is_told_over_mcp(start_server: StartServer) -> None:
    server = start_server()
    first = server.execute("exit 3")
    second = server.execute("true", after=[first])
    server.call("wait_for_job", job_ids=[second], timeout_s=30)
    status = server.status(second)
    assert (status["status"], status["cause"]) == ("failed", "never_started")
    assert status["reason"].endswith("which failed with exit code 3")


def test_after_any_end(one: Jobs, diary: Diary) -> None:
    first = one.execute("exit 3").id
    job_id = one.execute(diary.entry("ran"), after=[first], options={"after_policy": "any"}).id
    assert isinstance(ends(one, job_id)[0], Exited)
    assert diary.words() == ["ran"]


def test_a_chain_runs_in_its_order_whatever_the_priorities(one: Jobs, gate: Gate, diary: Diary) -> None:
    before = occupy(one, gate)
    ids: list[str] = []
    for number in range(5):
        after = [ids[-1] if ids else before]
        ids.append(one.execute(diary.entry(str(number)), after=after, options={"priority": number}).id)
    gate.open()
    ends(one, *ids)
    assert diary.words() == ["0", "1", "2", "3", "4"]


def test_a_cycle_cannot_be_said(one: Jobs, gate: Gate) -> None:
    """`after` names jobs that exist, a job's id is made at its submission, and nobody can add to it later."""
    occupied = occupy(one, gate)
    for unknown in ("b", occupied[:3], "00000000-0000-4000-8000-000000000000"):
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
    open_with: OpenJobs, gate: Gate, home: Path, diary: Diary, bounds: dict[str, str]
) -> None:
    """And so is what waits. The success that is asked for must not be forgotten before it is asked for."""
    two = open_with(MCP_BG_MAX_JOBS="2", **bounds)
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


# -- cancelled --------------------------------------------------------------------------------------------


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
