"""The one place where a shim waits: for descriptors and for moments."""

from __future__ import annotations

import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Handler = Callable[[int], None]
    Action = Callable[[], None]

READABLE = select.POLLIN
WRITABLE = select.POLLOUT
LONGEST_WAIT_MS = 2**31 - 1  # poll takes no more; a turn too early does no harm


class Timer:
    """Fires once; `cancel` before that and it never does."""

    def __init__(self, at: float, action: Action) -> None:
        self.at = at
        self.action = action

    def cancel(self) -> None:
        self.action = _nothing


class Loop:
    def __init__(self) -> None:
        self._poll = select.poll()
        self._handlers: dict[int, Handler] = {}
        self._timers: list[Timer] = []

    def watch(self, fd: int, events: int, handler: Handler) -> None:
        """Call handler(what happened) whenever something does. A hang-up is told whatever `events` says."""
        self._handlers[fd] = handler
        self._poll.register(fd, events)

    def watch_for(self, fd: int, events: int) -> None:
        self._poll.modify(fd, events)

    def forget(self, fd: int) -> None:
        if self._handlers.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def call_later(self, delay_s: float, action: Action) -> Timer:
        timer = Timer(time.monotonic() + delay_s, action)
        self._timers.append(timer)
        return timer

    def turn(self) -> None:
        """Wait for the next thing to happen, and handle what has."""
        for fd, event in self._poll.poll(self._patience_ms()):
            if handler := self._handlers.get(fd):  # an earlier handler of this turn may have ended it
                handler(event)
        self._fire()

    def _patience_ms(self) -> float | None:
        """Until the first timer is due. poll counts whole milliseconds, and rounds up."""
        self._timers = [timer for timer in self._timers if timer.action is not _nothing]
        if not self._timers:
            return None
        first = min(timer.at for timer in self._timers)
        return min(max(0.0, (first - time.monotonic()) * 1000), LONGEST_WAIT_MS)

    def _fire(self) -> None:
        if not self._timers:
            return
        now = time.monotonic()
        due = [timer for timer in self._timers if timer.at <= now]
        self._timers = [timer for timer in self._timers if timer.at > now]
        for timer in due:
            timer.action()


def signal_pipe(*signals: signal.Signals) -> int:
    """A descriptor on which each arriving signal is one byte."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, _ignore)  # a handler, not SIG_IGN: the child gets the default back at exec
    return read_end


def _ignore(_signal: int, _frame: object) -> None:
    pass


def _nothing() -> None:
    pass
