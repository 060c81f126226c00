"""Locks that are tried, and not waited for in the kernel: a stopped process must not block others.

A lock is free when the last process that has its descriptor is gone.
"""

from __future__ import annotations

import fcntl
import os
import time

HELD_FOR_A_LOOK_S = 0.002


def try_lock(fd: int, tries: int = 1, again_s: float = HELD_FOR_A_LOOK_S, *, is_shared: bool = False) -> bool:
    """Several tries if a process that only checks the lock may hold it for a moment."""
    kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    for left in reversed(range(tries)):
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if left:
                time.sleep(again_s)
    return False


def open_locked(path: str, flags: int = os.O_CREAT, tries: int = 1) -> int | None:
    """A descriptor that holds the lock; None if another process holds it."""
    fd = os.open(path, flags | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        if try_lock(fd, tries):
            return fd
    except OSError:
        os.close(fd)
        raise
    os.close(fd)
    return None
