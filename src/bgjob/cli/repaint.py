"""A text that is painted again and again on the same terminal, which afterwards is as it was before."""

import os
import select
import signal
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, Self

from bgjob.cli import streams
from bgjob.core.errors import InvalidArgument

EVERY_S = 0.4
# The screen of a full-screen program, without a cursor; and back.
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
TOP, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
ENDING_KEYS = b"qQ\x04"  # ctrl-d
SUSPENDING_KEY = 0x1A  # ctrl-z


def repaint(lines: Callable[[int], Iterator[str]], environ: Mapping[str, str]) -> None:
    """Until a person presses q or ctrl-c; `lines` is told how wide the terminal is."""
    if not sys.stdout.isatty() or environ.get("TERM", "dumb") == "dumb":
        raise InvalidArgument(
            " needs a terminal that can be repainted.",
            "Without it the list is printed once.",
            argument="watch",
        )
    with _Screen() as screen:
        while True:
            size = os.get_terminal_size(1)
            _paint(list(lines(size.columns or 80)), size.lines or 24)
            keys = _keys()
            if not keys.isdisjoint(ENDING_KEYS):
                return
            if SUSPENDING_KEY in keys:
                screen.suspend()


def _paint(lines: list[str], height: int) -> None:
    if len(lines) > height:
        lines = [*lines[: height - 1], f"({len(lines) - height + 1} more lines)"]
    # cleared before its text: behind the last column that would take the last letter away
    painted = "\r\n".join(CLEAR_LINE + line for line in lines)
    streams.write(TOP + painted + (f"\r\n{CLEAR_BELOW}" if len(lines) < height else ""))


def _keys() -> set[int]:
    """Waits for a key, as long as a picture stays."""
    ready, _, _ = select.select([0] if sys.stdin.isatty() else [], [], [], EVERY_S)
    return set(os.read(0, 1024) or ENDING_KEYS) if ready else set()


class _Screen:
    """The terminal is ours while we are in the foreground: no echo, and what was on it comes back afterwards."""

    def __enter__(self) -> Self:
        self._handlers = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGHUP)}
        self._take()
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            self._give_back()
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def suspend(self) -> None:
        """As ctrl-z does: the shell gets its terminal, and we ours again when the person comes back."""
        self._give_back()
        os.kill(0, signal.SIGTSTP)  # all processes of the command line, as the terminal would
        self._take()

    def _take(self) -> None:
        self._modes = termios.tcgetattr(0) if sys.stdin.isatty() else None
        if self._modes:
            termios.tcsetattr(0, termios.TCSADRAIN, _by_key(self._modes))
        streams.write(ENTER)

    def _give_back(self) -> None:
        if self._modes:
            termios.tcsetattr(0, termios.TCSADRAIN, self._modes)
        streams.write(LEAVE)


def _by_key(modes: list[Any]) -> list[Any]:
    """Each key is read when it is pressed, and not shown. ctrl-z is one: a signal would leave our screen behind."""
    changed, characters = list(modes), list(modes[6])
    changed[3] &= ~(termios.ECHO | termios.ICANON)
    characters[termios.VSUSP] = bytes([os.fpathconf(0, "PC_VDISABLE")])
    return [*changed[:6], characters]


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
