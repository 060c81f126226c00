"""Appends to the event log of the home: the job has started, runs again, sits at a prompt, has ended; a person
has typed into it."""

from __future__ import annotations

import time

from bgjob.home import event_log
from bgjob.home.layout import HOME
from bgjob.home.log_format import PROMPT_BYTES
from bgjob.system.prompt import is_unfinished

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.home.jobdir import Record
    from bgjob.home.log_writer import LogWriter
    from bgjob.shim.child import Exit

EVENTS = f"{HOME}/{event_log.EVENTS}"
STARTED = b'{"at": %a, "kind": "started", "job_id": "%b", "pid": %d}'
OF_AN_END = ("cause", "exit_code", "signal", "limit", "reason", "duration_s", "output_bytes")


def tell_started(spec: Record, pid: int) -> None:
    """By hand, as child.run_record, and for the same reason."""
    event_log.append_line(EVENTS, STARTED % (round(time.time(), 3), spec["id"].encode(), pid))


def tell_restarting(spec: Record, number: int, dead: Exit, limit: str | None, in_s: float) -> None:
    event_log.append(
        EVENTS,
        "restarting",
        spec["id"],
        name=spec.get("name"),
        restart=number,
        exit_code=dead.exit_code,
        signal=dead.signal,
        limit=limit,
        in_s=round(in_s, 1),
    )


def tell_ended(spec: Record, outcome: Record) -> None:
    details = {word: outcome[word] for word in OF_AN_END if outcome.get(word) is not None}
    if "duration_s" in details:
        details["duration_s"] = round(details["duration_s"], 3)
    event_log.append(EVENTS, "ended", spec["id"], name=spec.get("name"), **details)


def tell_input(spec: Record, log: LogWriter) -> None:
    lines = [end.rpartition(b"\n")[2] for end in log.stream_ends(PROMPT_BYTES)]
    text = next(filter(is_unfinished, lines), b"").decode("utf-8", "replace")
    event_log.append(EVENTS, "input", spec["id"], name=spec.get("name"), prompt=text)


def tell_typed(spec: Record, by: str, count: int) -> None:
    """Who and how much, never what: it may be a password."""
    event_log.append(EVENTS, "typed", spec["id"], name=spec.get("name"), by=by, bytes=count)
