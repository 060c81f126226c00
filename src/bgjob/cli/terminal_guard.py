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
# The title of the window, on the terminal's own stack; below what is shown, and nothing of it is left there.
PUSH_TITLE, POP_TITLE = b"\x1b[22;0t", b"\x1b[23;0t"
BELOW = b"\r\n\x1b[J"


class Restored:
    """The terminal on stdin and stdout as it is now."""

    def __init__(self, *, draws: bool) -> None:
        """draws: a job will draw on it; else only its line settings change."""
        self._settings, self._draws = termios.tcgetattr(0), draws

    def restore(self) -> None:
        """Also from the background, where the kernel stops a process that changes the terminal."""
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        if self._draws:
            with contextlib.suppress(OSError):
                os.write(1, RESET + POP_TITLE + BELOW)
        with contextlib.suppress(OSError, termios.error):  # the terminal is gone
            termios.tcsetattr(0, termios.TCSAFLUSH, self._settings)


def guarded(act: Callable[[int], None], *, draws: bool) -> int:
    """0 when `act` is done, which runs in a child; else what is to be the exit code, and the person was told.

    `act` is given a descriptor that ends with the parent.
    """
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


def _run(act: Callable[[int], None], parent: int, restored: Restored) -> NoReturn:
    """What goes wrong is told when the terminal can show it."""
    problem = None
    try:
        act(parent)
    except BgjobError as error:
        problem = in_our_words(error)
    finally:
        restored.restore()
        if problem:
            streams.complain(problem)
        bug = sys.exc_info()
        if bug[0] is not None:
            sys.excepthook(*bug)
        os._exit(1 if problem or bug[0] else 0)


def _send(child: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)
