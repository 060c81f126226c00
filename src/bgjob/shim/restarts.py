"""Jobs that are run again when they end: whether, when, and what is known of the runs before.

runs.json      the runs that were followed by another one     rewritten whole by the shim at each of them
"""

from __future__ import annotations

import time

from bgjob.home import jobdir
from bgjob.shim.cause import Cause
from bgjob.shim.child import Exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.home.jobdir import Record

LONGEST_PAUSE_S = 60.0
STEADY_S = 60.0  # a run that lasted so long ends a crash loop
RUNS_KEPT = 100
MOST_DOUBLINGS = 30


class Restarts:
    def __init__(self, spec: Record) -> None:
        options = spec.get("restart") or {}
        self._policy, self._most, self._backoff_s = (
            options.get("policy"),
            options.get("max", 0),
            options.get("backoff_s", 1.0),
        )
        known = (jobdir.read_record(jobdir.RUNS) or {}) if self._policy else {}
        self._runs: list[Record] = known.get("runs", [])
        self.count: int = known.get("count", 0)
        self._in_a_row: int = known.get("in_a_row", 0)
        self._began, self._from = known.get("began", time.monotonic()), known.get("from", 0)
        """When the present run began, by the monotonic clock, and where in the log."""

    @property
    def are_wanted(self) -> bool:
        """By the spec: whether there may be another run at all."""
        return self._policy is not None

    def begin(self, log_end: int) -> None:
        """The next run has begun."""
        self._began, self._from = time.monotonic(), log_end
        if self.count:
            self._write(None)

    def last(self, pid: int) -> tuple[Exit, Cause]:
        """How the last run ended, and why."""
        known = self._runs[-1] if self._runs else {}
        dead = Exit(pid, known.get("exit_code"), known.get("signal"))
        limit = known.get("limit")
        return dead, Cause.over_limit(limit) if limit else dead.cause

    def wanted_after(self, dead: Exit, cause: Cause) -> bool:
        """A run that we ended for a limit has failed, whatever its exit code is."""
        if self._is_noted(dead):
            return True  # decided by the shim that has noted it
        has_failed = dead.exit_code != 0 or cause.limit is not None
        is_wanted = self._policy == "always" or (self._policy == "on-failure" and has_failed)
        return is_wanted and self.count < self._most

    def note(self, dead: Exit, limit: str | None, log_end: int) -> float:
        """Write the run down; how many seconds to wait before the next."""
        lasted_s = time.monotonic() - self._began
        if not self._is_noted(dead):
            self._in_a_row = 0 if lasted_s >= STEADY_S else self._in_a_row + 1
            self.count += 1
            self._runs = [*self._runs, self._run(dead, limit, lasted_s, log_end)][-RUNS_KEPT:]
        pause_s = self._pause_s()
        self._write(time.time() + pause_s)
        return pause_s

    def _pause_s(self) -> float:
        doublings = min(max(0, self._in_a_row - 1), MOST_DOUBLINGS)
        return min(float(self._backoff_s) * (1 << doublings), max(LONGEST_PAUSE_S, float(self._backoff_s)))

    def _is_noted(self, dead: Exit) -> bool:
        """A shim has written this run down, and was killed before it had reaped it."""
        return bool(self._runs) and self._runs[-1]["pid"] == dead.pid and self._runs[-1]["from"] == self._from

    def _run(self, dead: Exit, limit: str | None, lasted_s: float, log_end: int) -> Record:
        return {
            "pid": dead.pid,
            "exit_code": dead.exit_code,
            "signal": dead.signal,
            "limit": limit,
            "ended_at": time.time(),
            "duration_s": lasted_s,
            "from": self._from,
            "to": log_end,
        }

    def _write(self, pauses_until: float | None) -> None:
        record = {
            "format": jobdir.FORMAT_VERSION,
            "count": self.count,
            "in_a_row": self._in_a_row,
            "pauses_until": pauses_until,
            "began": self._began,
            "from": self._from,
            "runs": self._runs,
        }
        try:
            jobdir.write_record(jobdir.RUNS, record)
        except OSError:
            pass  # a full disk is no reason not to go on
