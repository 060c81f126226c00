"""Keeping a lookout while no server does: which jobs want it, and the process that keeps it.

    watches/<job id>    a job that has watches, or for whose events a command is run
    watcher.lock        held by the process that looks after them, see watcher

A job is entered before the lock is looked at, and the watcher looks for jobs once more after it has let go of the
lock: so none is overlooked. The shim may import this module: it stays within the standard library.
"""

from __future__ import annotations

import os

from bgjob.boot import WATCHER
from bgjob.home_dir import make_inside
from bgjob.locks import open_locked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

WATCHES, LOCK = "watches", "watcher.lock"
DETACHED = '"$@" &'  # not below whoever starts it in the process tree
SHELL = "/bin/sh"


def enter(home: str, job_id: str) -> None:
    make_inside(home, [WATCHES])
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(f"{home}/{WATCHES}/{job_id}", flags, 0o600))


def strike_out(home: str, job_id: str) -> None:
    try:
        os.unlink(f"{home}/{WATCHES}/{job_id}")
    except FileNotFoundError:
        pass


def entered(home: str) -> list[str]:
    """Ids of the jobs to look after."""
    try:
        return os.listdir(f"{home}/{WATCHES}")
    except FileNotFoundError:
        return []


def take_lock(home: str, tries: int = 1) -> int | None:
    """None: somebody keeps the lookout already."""
    return open_locked(f"{home}/{LOCK}", tries=tries)


def is_kept(home: str) -> bool:
    fd = take_lock(home)
    if fd is None:
        return True
    os.close(fd)
    return False


def ensure_watcher(home: str, environ: Mapping[str, str] | None = None) -> None:
    """Starts one if there are jobs to look after and nobody does. Raises nothing: the next to come by tries again."""
    try:
        if entered(home) and not is_kept(home):
            _start(home, os.environ if environ is None else environ)
    except OSError:
        pass


def _start(home: str, environ: Mapping[str, str]) -> None:
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    arguments = [SHELL, "-c", DETACHED, SHELL, *WATCHER, home]
    try:
        shell = os.posix_spawn(SHELL, arguments, environ, file_actions=null, setsid=True)
    except NotImplementedError:  # the watcher leaves our session by itself, a moment later
        shell = os.posix_spawn(SHELL, arguments, environ, file_actions=null)
    os.waitpid(shell, 0)
