"""Signals of `bgjob top`: they wake its loop, which acts on them when it can give the terminal back."""

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import NoReturn, Self

from bgjob.system.waker import Waker

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
HANDLED = (*ENDING, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)


class EndedBySignal(Exception):
    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class Signals:
    """A context manager. What was ignored before stays ignored."""

    def __init__(self, waker: Waker) -> None:
        self._waker = waker

    def __enter__(self) -> Self:
        self._before = {number: signal.getsignal(number) for number in HANDLED}
        self._wakeup_before = signal.set_wakeup_fd(self._waker.write_end, warn_on_full_buffer=False)
        self._handle()
        return self

    def __exit__(self, *_exception: object) -> None:
        signal.set_wakeup_fd(self._wakeup_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self) -> None:
        for number, handler in self._before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, _wake_only)

    @contextlib.contextmanager
    def as_before(self) -> Iterator[None]:
        """For another who has the terminal meanwhile."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()


def stop(pid: int) -> None:
    """As ctrl-z does; 0: our process group. Returns when the shell continues us."""
    before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(pid, signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, before)


def end_by(number: int) -> NoReturn:
    """So that the caller sees what ended us."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    raise SystemExit(128 + number)


def _wake_only(_number: int, _frame: object) -> None:
    """Python writes the number to the wakeup descriptor."""
