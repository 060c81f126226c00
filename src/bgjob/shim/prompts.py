"""Notices when the job sits at a prompt. The rule is in system/prompt.py."""

from __future__ import annotations

import os
import time

from bgjob.home.log_format import PROMPT_BYTES
from bgjob.system import processes, prompt
from bgjob.system.stdin_wait import none_waits_for_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.home.log_writer import LogWriter
    from bgjob.shim.loop import Loop, Timer
    from bgjob.shim.stdin import Stdin
    from bgjob.system.stdin_wait import Wait

QUIET_S, LONGEST_LOOK_S = 1.0, 60.0


class PromptDetector:
    """Notices when a job that has fallen silent sits at a prompt, and tells it once.

    The kernel sends no event for that: we have to look, the more rarely the longer nothing happens.
    """

    def __init__(self, loop: Loop, stdin: Stdin, log: LogWriter, tell: Callable[[], None]) -> None:
        self._loop, self._stdin, self._log, self._tell = loop, stdin, log, tell
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

    def sits_at_prompt(self, wait: Wait) -> bool:
        """`wait`: how the job waits for input now."""
        if wait.answer != "yes":
            return False
        tree = processes.descendants(os.getpid())
        return prompt.sits_at_prompt(wait, tree, self._ends(wait), self._stdin.terminal)

    def _ends(self, wait: Wait) -> list[bytes]:
        """Of its output. On a pipe, a question before the last input asks nothing while the job works that off."""
        is_answered = self._stdin.terminal is None and self._log.end <= self._stdin.typed_beyond
        return [] if is_answered and prompt.goes_on_by_itself(wait) else self._log.stream_ends(PROMPT_BYTES)

    def is_quiet(self, wait: Wait) -> bool:
        """Whether the job has been silent for as long as the rule wants."""
        return time.monotonic() - self._active_at >= prompt.quiet_s(wait)

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

    def _is_asked(self) -> bool:
        stdin = self._stdin
        if not stdin.is_open or stdin.job_pid() <= 0 or none_waits_for_input(stdin.job_pid()):
            return False
        return self.sits_at_prompt(stdin.wait())
