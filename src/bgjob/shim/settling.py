"""Whether a job has worked off what was typed into it, so that the typist can be answered.

    the job                                                       settled when it has been quiet for
    is blocked in read of its pipe again, and runs alone          no time: nothing is left that could print
    is blocked in read again                                      the `quiet_s` of the request
    the same, has printed nothing, and others of it run           WATCHING_QUIET_S: a pipeline may be at work
    watches its input, and its last line asks anew: a REPL        PROMPT_QUIET_S
    the same for a time, as vim does before it ends               WATCHING_QUIET_S
    watches its input otherwise: a server that listens for keys   WATCHING_QUIET_S
    the same, and its last line was unfinished when it was typed  REPL_QUIET_S
    the same, and it goes on by itself                            never: a REPL is at work
    waits at a terminal that a process of it has made             WATCHING_QUIET_S or more: its output comes later
    has not taken the input, and has not computed either          settle_s, printing or not
    cannot be looked into                                         settle_s
    is busy                                                       never: it ends, it waits again, or time is up

The echo of a terminal says nothing: the job may not even have woken up.
"""

from __future__ import annotations

import os
import time

from bgjob.home.log_format import PROMPT_BYTES
from bgjob.system import processes, prompt
from bgjob.system.stdin_wait import Wait, none_waits_for_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.home.log_writer import LogWriter
    from bgjob.shim.pump import Pump
    from bgjob.shim.stdin import Stdin

PROMPT_QUIET_S, WATCHING_QUIET_S, REPL_QUIET_S = 0.03, 0.25, 1.0
NEVER_S = float("inf")
FIRST_LOOK_S, LONGEST_LOOK_S = 0.001, 0.1


class Settling:
    """The view of one client, which has typed before and now waits."""

    def __init__(
        self,
        stdin: Stdin,
        pump: Pump,
        log: LogWriter,
        beyond: float,
        quiet_s: float,
        settle_s: float,
        was_asking: bool,
    ) -> None:
        """`beyond`: where the log ended when the client typed; `was_asking`: in an unfinished line."""
        self._was_asking = was_asking
        self._stdin, self._pump, self._log = stdin, pump, log
        self._beyond, self._quiet_s, self._settle_s = beyond, quiet_s, settle_s
        self._look_s, self._seen = FIRST_LOOK_S, log.end
        self._computed_at = self._looked_at = 0.0
        self.wait: Wait | None = None
        """How the job waited when it had settled."""

    def look_in_s(self) -> float:
        """After which time to look again; 0: the job has settled."""
        now = time.monotonic()
        quiet_for_s = now - max(self._pump.last_output_at, self._stdin.typed_at)
        may_be_over = self._has_answered and self._stdin.terminal is None
        rest_s = FIRST_LOOK_S - (now - self._looked_at if may_be_over else quiet_for_s)
        if rest_s > 0:
            return rest_s
        self._looked_at, wait = now, self._wait()
        if wait.answer == "unknown":
            return self._look_within_s(self._settle_s - quiet_for_s)
        if not self._stdin.was_taken():
            idle_for_s = now - max(self._stdin.typed_at, self._last_computed_at(now))
            return self._look_within_s(self._settle_s - idle_for_s)
        if wait.answer == "no":
            return self._next_look_s()
        left_s = self._needed_quiet_s(wait) - quiet_for_s
        return min(left_s, LONGEST_LOOK_S) if left_s > 0 else self._last_look_s(wait)

    @property
    def _has_answered(self) -> bool:
        return self._log.end > self._beyond

    def _wait(self) -> Wait:
        """The cheap look comes first."""
        return Wait("no") if none_waits_for_input(self._stdin.job_pid()) else self._stdin.wait()

    def _last_computed_at(self, now: float) -> float:
        """A program that has not taken its input and computes, such as one that starts, may take it yet."""
        if any(map(processes.is_computing, processes.descendants(os.getpid()))):
            self._computed_at = now
        return self._computed_at

    def _needed_quiet_s(self, wait: Wait) -> float:
        if wait.how == "watching":
            needed_s = self._needed_of_watcher_s(wait)
        elif prompt.runs_alone(wait.pid or 0, processes.descendants(os.getpid())):
            needed_s = 0.0 if self._stdin.terminal is None else self._quiet_s
        else:
            needed_s = self._quiet_s if self._has_answered else WATCHING_QUIET_S
        return max(needed_s, WATCHING_QUIET_S) if wait.is_nested else needed_s

    def _needed_of_watcher_s(self, wait: Wait) -> float:
        if self._may_ask_anew and prompt.asks(wait, self._log.stream_ends(PROMPT_BYTES)):
            return WATCHING_QUIET_S if wait.is_timed else PROMPT_QUIET_S
        if not self._was_asking:
            return WATCHING_QUIET_S
        return NEVER_S if prompt.goes_on_by_itself(wait) else REPL_QUIET_S

    @property
    def _may_ask_anew(self) -> bool:
        """On a pipe nothing is echoed: a question at the end of the log may be the one that was answered."""
        return self._has_answered or self._stdin.terminal is not None

    def _last_look_s(self, wait: Wait) -> float:
        """What the job printed before it waited may still be in its pipe."""
        before = self._log.end
        if self._pump.settled_log_end() > before:
            return self._quiet_s
        self.wait = wait
        return 0.0

    def _look_within_s(self, left_s: float) -> float:
        return min(left_s, self._next_look_s()) if left_s > 0 else 0.0

    def _next_look_s(self) -> float:
        """Doubles, and begins anew with each output."""
        if self._log.end != self._seen:
            self._look_s, self._seen = FIRST_LOOK_S, self._log.end
        look_s, self._look_s = self._look_s, min(2 * self._look_s, LONGEST_LOOK_S)
        return look_s
