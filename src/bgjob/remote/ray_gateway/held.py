"""Leases that are held on a node, and for which job. On the nodes, in their actors.

A file in the directory `leases` of the node's home, named for the job: so an actor that was killed goes on from there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from bgjob.home.jobdir import LAUNCH, LAUNCH_TAKEN, SPEC
from bgjob.home.layout import JOBS

LEASES = "leases"
CLAIM_S = 600.0
"""So long a lease is held for a job that does not come, because who asked for it is away."""


class HeldLeases:
    def __init__(self, home: str, claim_s: float = CLAIM_S) -> None:
        self._home, self._directory, self._claim_s = home, f"{home}/{LEASES}", claim_s

    def note(self, job_id: str) -> None:
        make_private_directory(self._directory)
        os.close(os.open(f"{self._directory}/{job_id}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def forget(self, job_id: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._directory}/{job_id}")

    def noted(self) -> list[str]:
        try:
            return os.listdir(self._directory)
        except FileNotFoundError:
            return []

    def useless(self) -> list[str]:
        """Held for a job that is over, or that was never started."""
        return [job_id for job_id in self.noted() if self.is_over(job_id) or self._is_unclaimed(job_id)]

    def is_over(self, job_id: str) -> bool:
        """Its shim has left; it does not wait to be started."""
        job = job_directory(self._home, job_id)
        waits = any(os.path.lexists(f"{job}/{name}") for name in (LAUNCH, LAUNCH_TAKEN))
        return os.path.isdir(job) and not waits and not is_locked(f"{job}/{SPEC}")

    def _is_unclaimed(self, job_id: str) -> bool:
        if os.path.isdir(job_directory(self._home, job_id)):
            return False
        with contextlib.suppress(FileNotFoundError):
            return time.time() > os.stat(f"{self._directory}/{job_id}").st_mtime + self._claim_s
        return False


def job_directory(home: str, job_id: str) -> str:
    return f"{home}/{JOBS}/{job_id}"


def is_locked(path: str) -> bool:
    """As in home.jobdir, which is not on the nodes."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def make_private_directory(path: str) -> None:
    """And those above it: the mode that makedirs is given is for the last one only."""
    if not os.path.isdir(path):
        make_private_directory(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
