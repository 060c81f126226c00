"""A record of named rows that several processes change: one at a time, and whole.

{"format": 1, "<what>": {name: row, ...}}      mode 0600; a lock beside it is held by the process that changes it
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from bgjob.core.errors import StoreUnusable
from bgjob.home.jobdir import read_record, write_record
from bgjob.home.locks import open_locked

# Five seconds: a change takes milliseconds.
LOCK_TRIES = 2500


def rows_in(path: str, what: str) -> dict[str, Any]:
    """None of a file that is not there, or cannot be read."""
    return _rows(path, what) or {}


def rows_or_error(path: str, what: str) -> dict[str, Any]:
    """None of a file that is not there; StoreUnusable if it cannot be read."""
    if not os.path.lexists(path):
        return {}
    rows = _rows(path, what)
    if rows is None:
        raise StoreUnusable(f"{path} cannot be read. Move it away; its {what} are then gone.")
    return rows


def _rows(path: str, what: str) -> dict[str, Any] | None:
    rows = (read_record(path) or {}).get(what)
    return rows if isinstance(rows, dict) else None


def identity(path: str) -> tuple[int, ...] | None:
    """Whether it was changed: every change gives the file another inode."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_ino, info.st_mtime_ns, info.st_size


@contextlib.contextmanager
def changing(path: str, lock_path: str, what: str) -> Iterator[dict[str, Any]]:
    """The rows of the file, which are written when the block ends well."""
    lock = open_locked(lock_path, tries=LOCK_TRIES)
    if lock is None:
        raise StoreUnusable(f"Another process holds {lock_path}. Try again.")
    try:
        rows = rows_or_error(path, what)
        yield rows
        write_record(path, {"format": 1, what: rows}, durable=True)
    finally:
        os.close(lock)
