"""The jobs that need a watcher, and starting the watcher.

    watches/<job id>    a job with watches, notices or a command for its events: the environment of that command
    watcher.lock        held by the watcher

A job is added before the lock is checked, and the watcher looks for jobs once more after it has freed the
lock: so no job is missed. The shim imports this module.
"""

from __future__ import annotations

import json
import os

from bgjob.home.home_dir import make_inside
from bgjob.home.jobdir import is_locked
from bgjob.home.layout import ID_CHARACTERS, is_directory
from bgjob.home.locks import open_locked
from bgjob.system.detached import start_detached
from bgjob.system.own_argv import WATCHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

WATCHES, LOCK = "watches", "watcher.lock"


def add(home: str, job_id: str, environment: Mapping[str, str] | None = None) -> None:
    """With the environment of the command for its events, kept until the last event was handed to it."""
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
    """Ids of the jobs that need a watcher. Anything else in the directory keeps no watcher alive."""
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
    """None: there is a watcher already."""
    return open_locked(f"{home}/{LOCK}", tries=tries)


def has_watcher(home: str) -> bool:
    """True also if there can be none: something else is in the place of the lock."""
    try:
        fd = take_lock(home)
    except OSError:
        return True
    if fd is None:
        return True
    os.close(fd)
    return False


def needs_watcher(home: str) -> bool:
    """Jobs need a watcher, and there is none. Makes no lock file."""
    return bool(registered(home)) and not is_locked(f"{home}/{LOCK}")


def ensure_watcher(home: str, environ: Mapping[str, str] | None = None) -> None:
    """Start a watcher if jobs need one and there is none. Raises nothing: the next caller tries again."""
    try:
        if registered(home) and not has_watcher(home):
            start_detached([*WATCHER, home], os.environ if environ is None else environ)
    except OSError:
        pass
