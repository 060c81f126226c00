"""Clients that wait until the job ends, prints, or has worked off what was typed into it."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.home.log_writer import LogWriter
    from bgjob.shim.control_server import Connection
    from bgjob.shim.loop import Loop, Timer
    from bgjob.shim.pump import Pump
    from bgjob.shim.settling import Settling

    Tell = Callable[["Waiter"], None]


class Waiter:
    def __init__(
        self,
        connection: Connection,
        beyond: float | None,
        quiet_s: float,
        settling: Settling | None,
        size: list[int] | None = None,
    ) -> None:
        """`size`: rows and columns that the client knows of; it is told as soon as the terminal has others."""
        self.connection, self.beyond, self.quiet_s, self.settling = connection, beyond, quiet_s, settling
        self.size = size
        self.timer: Timer | None = None
        self.deadline: Timer | None = None


class Waiters:
    """At the end of the job all are answered."""

    def __init__(self, loop: Loop, log: LogWriter, pump: Pump, tell: Tell) -> None:
        self._loop, self._log, self._pump, self._tell = loop, log, pump, tell
        self._waiting: list[Waiter] = []

    def add(self, waiter: Waiter, timeout_s: float | None) -> None:
        self._waiting.append(waiter)
        if timeout_s is not None:
            waiter.deadline = self._loop.call_later(timeout_s, lambda: self._answer(waiter))
        self._consider(waiter)

    def forget(self, connection: Connection) -> None:
        self._waiting = [waiter for waiter in self._waiting if waiter.connection is not connection]

    def on_output(self) -> None:
        for waiter in self._waiting[:]:
            self._consider(waiter)

    def on_resize(self) -> None:
        for waiter in [waiter for waiter in self._waiting if waiter.size is not None]:
            self._answer(waiter)

    def on_end(self) -> None:
        for waiter in self._waiting[:]:
            self._answer(waiter)

    def _consider(self, waiter: Waiter) -> None:
        if waiter not in self._waiting:
            return
        look_in_s = waiter.settling.look_in_s() if waiter.settling else self._quiet_in_s(waiter)
        if look_in_s is None:
            return
        if look_in_s <= 0:
            self._answer(waiter)
        else:
            self._look_in(waiter, look_in_s)

    def _quiet_in_s(self, waiter: Waiter) -> float | None:
        """When it may be answered; None: nothing new was printed yet."""
        if waiter.beyond is None or self._log.end <= waiter.beyond:
            return None
        return self._pump.last_output_at + waiter.quiet_s - time.monotonic()

    def _look_in(self, waiter: Waiter, delay_s: float) -> None:
        if waiter.timer is None:
            waiter.timer = self._loop.call_later(delay_s, lambda: self._look_again(waiter))
        else:
            waiter.timer.at = min(waiter.timer.at, time.monotonic() + delay_s)

    def _look_again(self, waiter: Waiter) -> None:
        waiter.timer = None
        self._consider(waiter)

    def _answer(self, waiter: Waiter) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)
            for timer in filter(None, (waiter.timer, waiter.deadline)):
                timer.cancel()
            self._tell(waiter)
