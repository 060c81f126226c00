"""Appends to the event log of the home: the job has started, runs again, waits for input, has ended."""

from __future__ import annotations

import time

from bgjob.home import event_log
from bgjob.home.layout import HOME
from bgjob.home.log_format import PROMPT_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.home.jobdir import Record
    from bgjob.home.log_writer import LogWriter
    from bgjob.shim.child import Exit
    from bgjob.shim.loop import Loop, Timer

EVENTS = f"{HOME}/{event_log.EVENTS}"
STARTED = b'{"at": %a, "kind": "started", "job_id": "%b", "pid": %d}'
OF_AN_END = ("cause", "exit_code", "signal", "limit", "reason", "duration_s", "output_bytes")
QUIET_S, LONGEST_LOOK_S = 1.0, 60.0


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
    text = log.last_bytes(PROMPT_BYTES).rpartition(b"\n")[2].decode("utf-8", "replace")
    event_log.append(EVENTS, "input", spec["id"], name=spec.get("name"), prompt=text)


class PromptDetector:
    """Notices when a job that has fallen silent waits for input, and tells it once.

    The kernel sends no event for that: we have to look, the more rarely the longer nothing happens.
    """

    def __init__(self, loop: Loop, is_asked: Callable[[], bool], tell: Callable[[], None]) -> None:
        self._loop, self._is_asked, self._tell = loop, is_asked, tell
        self._active_at = time.monotonic()
        self._delay_s = QUIET_S
        self._is_over = False
        self._timer: Timer | None = loop.call_later(QUIET_S, self._look)

    def on_activity(self) -> None:
        """The job has printed, or a client has written to its stdin: an earlier prompt is over."""
        self._active_at = time.monotonic()
        self._delay_s = QUIET_S
        if self._timer is None:
            self._timer = self._loop.call_later(QUIET_S, self._look)
        elif self._timer.at > self._active_at + QUIET_S:
            self._timer.at = self._active_at + QUIET_S

    def close(self) -> None:
        """The job has ended."""
        self._is_over = True

    def _look(self) -> None:
        self._timer = None
        if self._is_over:
            return
        silent_s = time.monotonic() - self._active_at
        if silent_s < QUIET_S:
            delay_s = QUIET_S - silent_s
        elif self._is_asked():
            return self._tell()
        else:
            delay_s = self._delay_s = min(2 * self._delay_s, LONGEST_LOOK_S)
        self._timer = self._loop.call_later(delay_s, self._look)
