"""Runs what changes the terminal in a child process, so that the terminal is restored whatever happens.

If the child is killed, the parent restores the terminal; if the parent is killed, the child is told by the end
of a pipe, and does. The shell waits for the parent: it gets a terminal as it was.
"""

import contextlib
import os
import signal
import sys
import termios
from collections.abc import Callable
from typing import NoReturn

from bgjob.cli import streams
from bgjob.cli.words import in_our_words
from bgjob.core.errors import BgjobError
from bgjob.terminal.input_modes import RESET

FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
# The title of the window, on the terminal's own stack.
PUSH_TITLE, POP_TITLE = b"\x1b[22;0t", b"\x1b[23;0t"
# Further down than any terminal has rows.
LAST_ROW = 9999


class Restored:
    """The terminal on stdin and stdout as it is now."""

    def __init__(self, *, draws: bool) -> None:
        """draws: a job will draw on it; else only its line settings change."""
        self._settings, self._draws = termios.tcgetattr(0), draws

    def restore(self, last_row: int | None = None) -> None:
        """Also from the background, where the kernel stops a process that changes the terminal.

        last_row: the last one that shows something, if that is known: what follows stands below it.
        """
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        if self._draws:
            below = b"\x1b[%d;1H\r\n\x1b[J" % (LAST_ROW if last_row is None else last_row)
            with contextlib.suppress(OSError):
                os.write(1, RESET + POP_TITLE + (below if last_row != 0 else b"\x1b[H\x1b[J"))
        with contextlib.suppress(OSError, termios.error):  # the terminal is gone
            termios.tcsetattr(0, termios.TCSAFLUSH, self._settings)


Act = Callable[[int], int | None]
"""Is given a descriptor that ends with the parent; returns the last row that shows something, if it knows."""


def guarded(act: Act, *, draws: bool) -> int:
    """0 when `act` is done, which runs in a child; else what is to be the exit code, and the person was told."""
    sys.stdout.flush()
    restored = Restored(draws=draws)
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(theirs)
        _run(act, ours, restored)
    os.close(ours)
    before = {number: signal.signal(number, lambda sent, _: _send(child, sent)) for number in FORWARDED}
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(theirs)
    for number, handler in before.items():
        signal.signal(number, handler)
    if code < 0:
        restored.restore()
        streams.complain(
            f"the terminal was left by {signal.Signals(-code).name}; the job is not touched by that."
        )
    return code if code >= 0 else 128 - code


def _run(act: Act, parent: int, restored: Restored) -> NoReturn:
    """What goes wrong is told when the terminal can show it."""
    problem = last_row = None
    try:
        last_row = act(parent)
    except BgjobError as error:
        problem = in_our_words(error)
    finally:
        restored.restore(last_row)
        if problem:
            streams.complain(problem)
        bug = sys.exc_info()
        if bug[0] is not None:
            sys.excepthook(*bug)
        os._exit(1 if problem or bug[0] else 0)


def _send(child: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)
