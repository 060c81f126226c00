"""Keeping a lookout while no server does: which jobs want it, and the process that keeps it.

    watches/<job id>    a job that has watches, or for whose events a command is run: the environment of that command
    watcher.lock        held by the process that looks after them, see watcher

A job is entered before the lock is looked at, and the watcher looks for jobs once more after it has let go of the
lock: so none is overlooked. The shim may import this module: it stays within the standard library.
"""

from __future__ import annotations

import json
import os

from bgjob.home.home_dir import make_inside
from bgjob.home.layout import is_directory
from bgjob.home.locks import open_locked
from bgjob.system.own_argv import WATCHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

WATCHES, LOCK = "watches", "watcher.lock"
ID_CHARACTERS = 36
# What a watcher is started with, of whoever starts it: to find Python and its packages, and nothing that is secret.
KEPT = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
KEPT_PREFIX = "PYTHON"
DETACHED = '"$@" &'  # not below whoever starts it in the process tree
SHELL = "/bin/sh"


def add(home: str, job_id: str, environment: Mapping[str, str] | None = None) -> None:
    """With the environment of the command for its events, which rests here until the last of them is handed over."""
    make_inside(home, [WATCHES])
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(entry_path(home, job_id), flags, 0o600)
    try:
        if environment:
            os.write(fd, json.dumps(environment).encode())
    finally:
        os.close(fd)


def remove(home: str, job_id: str) -> None:
    try:
        os.unlink(entry_path(home, job_id))
    except FileNotFoundError:
        pass


def entry_path(home: str, job_id: str) -> str:
    return f"{home}/{WATCHES}/{job_id}"


def registered(home: str) -> list[str]:
    """Ids of the jobs to look after. What else lies there, or in the place of the directory, keeps no watcher alive."""
    directory = f"{home}/{WATCHES}"
    try:
        if not is_directory(directory):
            return []
        with os.scandir(directory) as entries:
            return [each.name for each in entries if _is_entry(each)]
    except (FileNotFoundError, PermissionError):
        return []


def _is_entry(entry: os.DirEntry[str]) -> bool:
    return len(entry.name) == ID_CHARACTERS and entry.is_file(follow_symlinks=False)


def take_lock(home: str, tries: int = 1) -> int | None:
    """None: somebody keeps the lookout already."""
    return open_locked(f"{home}/{LOCK}", tries=tries)


def has_watcher(home: str) -> bool:
    """Or cannot be: something else is in the place of the lock."""
    try:
        fd = take_lock(home)
    except OSError:
        return True
    if fd is None:
        return True
    os.close(fd)
    return False


def ensure_watcher(home: str, environ: Mapping[str, str] | None = None) -> None:
    """Starts one if there are jobs to look after and nobody does. Raises nothing: the next to come by tries again."""
    try:
        if registered(home) and not has_watcher(home):
            _start(home, _kept(os.environ if environ is None else environ))
    except OSError:
        pass


def _kept(environ: Mapping[str, str]) -> dict[str, str]:
    """It outlives whoever starts it, and works for others too: it has nobody's secrets."""
    return {name: value for name, value in environ.items() if name in KEPT or name.startswith(KEPT_PREFIX)}


def _start(home: str, environ: Mapping[str, str]) -> None:
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    arguments = [SHELL, "-c", DETACHED, SHELL, *WATCHER, home]
    try:
        shell = os.posix_spawn(SHELL, arguments, environ, file_actions=null, setsid=True)
    except NotImplementedError:  # the watcher leaves our session by itself, a moment later
        shell = os.posix_spawn(SHELL, arguments, environ, file_actions=null)
    os.waitpid(shell, 0)
