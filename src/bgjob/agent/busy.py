"""Agents that have something to tell, and the end of the allocation that would end them in mid-word.

`busy` in a home is locked by agents while they answer. A batch script whose job is over waits until it is free, and
until what was written has gone its way, but not for long: what is not told then is read from the disk.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from bgjob.home.locks import try_lock

BUSY = "busy"
LINGER_S, LOOK_AGAIN_S = 2.0, 0.01
# What an agent has written is on its way through srun.
UNDER_WAY_S = 0.25


@contextlib.contextmanager
def busy(home: str) -> Iterator[None]:
    """While an agent answers."""
    lock = _opened(home)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield
    finally:
        os.utime(lock)
        os.close(lock)


def linger(home: str) -> None:
    """Until every agent of this home has told what it has to tell."""
    lock = _opened(home)
    try:
        try_lock(lock, tries=int(LINGER_S / LOOK_AGAIN_S), again_s=LOOK_AGAIN_S)
        told_s_ago = time.time() - os.fstat(lock).st_mtime
        if 0 <= told_s_ago < UNDER_WAY_S:
            time.sleep(UNDER_WAY_S - told_s_ago)
    finally:
        os.close(lock)


def _opened(home: str) -> int:
    return os.open(f"{home}/{BUSY}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
