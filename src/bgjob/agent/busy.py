"""Agents that have something to tell, and the end of the allocation that would end them in mid-word.

`busy` in a job's directory is locked by the agents that follow the job, until its end has arrived at the near end.
The batch script of an ended job waits for that, but not for long: what is not told then is read from the disk.
"""

import fcntl
import os

from bgjob.home.locks import try_lock

BUSY = "busy"
LINGER_S, LOOK_AGAIN_S = 10.0, 0.01


def hold(directory: str) -> int:
    """By an agent that follows the job of this directory: a descriptor, which it closes when all was told."""
    lock = _opened(directory)
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def linger(directory: str) -> None:
    """Until every agent that follows this job has told what it has to tell."""
    try:
        lock = _opened(directory)
    except OSError:
        return  # the job was removed, or never made
    try:
        try_lock(lock, tries=int(LINGER_S / LOOK_AGAIN_S), again_s=LOOK_AGAIN_S)
    finally:
        os.close(lock)


def _opened(directory: str) -> int:
    return os.open(f"{directory}/{BUSY}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
