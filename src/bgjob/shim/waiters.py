"""Clients that wait until the job ends, or prints."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.home.log_writer import LogWriter
    from bgjob.shim.control_server import Connection
    from bgjob.shim.loop import Loop
    from bgjob.shim.pump import Pump

LOOK_AGAIN_S = 0.003


class Waiter:
    def __init__(
        self, connection: Connection, beyond: float | None, quiet_s: float | None, settle_s: float | None
    ) -> None:
        self.connection, self.beyond, self.quiet_s, self.settle_s = connection, beyond, quiet_s, settle_s
        self.timed = False

    def quiet_at(self, log_end: int, last_output_at: float) -> float | None:
        """When it may be answered; None: nothing new was printed yet."""
        if self.beyond is None or log_end <= self.beyond:
            return None
        return last_output_at + (self.quiet_s or 0.0)


class Waiters:
    """At the end of the job all are answered."""

    def __init__(
        self,
        loop: Loop,
        log: LogWriter,
        pump: Pump,
        tell: Callable[[Connection], None],
        waits_for_input: Callable[[], str],
    ) -> None:
        self._loop, self._log, self._pump = loop, log, pump
        self._tell, self._waits_for_input = tell, waits_for_input
        self._waiting: list[Waiter] = []

    def add(self, waiter: Waiter, timeout_s: float | None) -> None:
        self._waiting.append(waiter)
        if timeout_s is not None:
            self._loop.call_later(timeout_s, lambda: self._answer(waiter))
        self._consider(waiter)

    def forget(self, connection: Connection) -> None:
        self._waiting = [waiter for waiter in self._waiting if waiter.connection is not connection]

    def on_output(self) -> None:
        for waiter in self._waiting[:]:
            self._consider(waiter)

    def on_end(self) -> None:
        for waiter in self._waiting[:]:
            self._answer(waiter)

    def _consider(self, waiter: Waiter) -> None:
        quiet_at = waiter.quiet_at(self._log.end, self._pump.last_output_at)
        if waiter not in self._waiting or quiet_at is None:
            return
        now = time.monotonic()
        if quiet_at <= now and self._is_settled(waiter, now):
            self._answer(waiter)
        elif not waiter.timed:
            waiter.timed = True
            self._loop.call_later(max(quiet_at - now, LOOK_AGAIN_S), lambda: self._look_again(waiter))

    def _is_settled(self, waiter: Waiter, now: float) -> bool:
        """A job that has printed and waits for input has answered; else it may print more."""
        if waiter.settle_s is None or now - self._pump.last_output_at >= waiter.settle_s:
            return True
        return self._waits_for_input() == "yes"

    def _answer(self, waiter: Waiter) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)
            self._tell(waiter.connection)

    def _look_again(self, waiter: Waiter) -> None:
        waiter.timed = False
        self._consider(waiter)
