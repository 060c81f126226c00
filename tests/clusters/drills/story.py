"""The job that drills are played on: it prints, waits at a gate, prints, reads a line and ends."""

from bgjob.api import Typed
from bgjob.core.job import Exited
from tests.clusters.target import Target
from tests.support.gate import Gate
from tests.support.waiting import PATIENCE_S

SCRIPT = "echo before; {pause}; echo after; read line; echo got $line; exit 7"


def running(target: Target, gate: Gate) -> str:
    """It has printed and is at the gate."""
    job_id = target.start(SCRIPT.format(pause=gate.pause))
    gate.wait_until_reached()
    target.wait_until_printed(job_id, "before")
    return job_id


def check_goes_on(target: Target, job_id: str, gate: Gate) -> None:
    gate.open()
    check_ends_well(target, job_id)


def check_ends_well(target: Target, job_id: str) -> None:
    """Nothing of it was lost: not its stdin, no byte, not its exit code."""
    target.wait_until_printed(job_id, "after")
    said = target.jobs.interact(job_id, Typed("hello"), wait_s=PATIENCE_S)
    assert said.output.stdout == "got hello\n"
    state = target.state(job_id)
    assert isinstance(state, Exited)
    assert state.code == 7
    assert target.printed(job_id) == b"before\nafter\ngot hello\n"


def code_of(target: Target, job_id: str) -> int | None:
    """Once it has ended."""
    return getattr(target.state(job_id), "code", None)
