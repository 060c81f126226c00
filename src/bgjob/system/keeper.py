"""A keeper: a process that runs a worker in a child, and starts another when it is killed or fails."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_PAUSE_S = 0.1
STEADY_S = 30.0  # a worker that lived so long does not fail at once


def keep(work: Callable[[], None], may_start: Callable[[], bool], longest_pause_s: float) -> None:
    """Until a worker has done its work, or none may start. After early ends the next starts ever later."""
    pause_s = 0.0
    while may_start():
        began = time.monotonic()
        if _has_done(work):
            return
        if time.monotonic() - began > STEADY_S:
            pause_s = 0.0
        time.sleep(pause_s)
        pause_s = min(max(2 * pause_s, FIRST_PAUSE_S), longest_pause_s)


def _has_done(work: Callable[[], None]) -> bool:
    """False: the worker was killed, has failed, or could not be forked."""
    try:
        worker = os.fork()
    except OSError:
        return False
    if worker == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(worker, 0)[1] == 0
