"""Events: what happens to a job is told in the log of this home, and a watch is kept here."""

from typing import Any

from bgjob.api import JobEvent, Typed
from bgjob.core.job import EventKind
from tests.clusters.target import Target
from tests.support.gate import Gate
from tests.support.waiting import PATIENCE_S, wait_until


def until(target: Target, job_id: str, kind: EventKind, **more: Any) -> list[JobEvent]:
    """All events of the job, once one of them is of this kind."""
    target.jobs.events("0.0", job_ids=[job_id], kinds=[kind], timeout_s=PATIENCE_S)
    return target.jobs.events("0.0", job_ids=[job_id], max_tokens=100_000, **more).events


def test_the_start_the_question_and_the_end_are_told_once(target: Target) -> None:
    job_id = target.start("printf 'name? '; read a; echo $a; exit 7", name="asks")
    asked = until(target, job_id, "input")[-1]
    assert (asked.details["prompt"], asked.name) == ("name?", "asks")
    target.jobs.interact(job_id, Typed("ann"), wait_s=PATIENCE_S)
    told = until(target, job_id, "ended")
    assert [event.kind for event in told if event.kind != "typed"] == ["started", "input", "ended"]
    assert (told[-1].details["cause"], told[-1].details["exit_code"]) == ("exited", 7)


def test_how_a_job_was_ended_is_told(target: Target) -> None:
    killed, timed_out = target.start("cat"), target.start("cat", timeout_s=0.5)
    target.jobs.kill(killed)
    assert until(target, killed, "ended")[-1].details["cause"] == "killed"
    assert until(target, timed_out, "ended")[-1].details["cause"] == "timed_out"


def test_a_watch_tells_of_each_line_that_matches(target: Target, gate: Gate) -> None:
    job_id = target.start(
        f"echo quiet; {gate.pause}; echo 'ERROR: one'; echo 'ERROR: two' >&2", watch=["^ERROR"]
    )
    gate.wait_until_reached()
    gate.open()
    target.ended(job_id)

    def lines() -> set[str]:
        page = target.jobs.events("0.0", job_ids=[job_id], kinds=["matched"], timeout_s=PATIENCE_S)
        return {event.details["line"] for event in page.events}

    wait_until(lambda: lines() == {"ERROR: one", "ERROR: two"}, "both lines are told", lambda: str(lines()))


def test_events_are_waited_for(target: Target, gate: Gate) -> None:
    job_id = target.start(f"{gate.pause}; exit 5")
    gate.wait_until_reached()
    cursor = target.jobs.events(None).cursor
    gate.open()
    (ended,) = target.jobs.events(cursor, job_ids=[job_id], kinds=["ended"], timeout_s=PATIENCE_S).events
    assert (ended.job_id, ended.details["exit_code"]) == (job_id, 5)
