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
    record = read_record(path) or {}
    rows = record.get(what)
    return dict(rows) if isinstance(rows, dict) else {}


@contextlib.contextmanager
def changing(path: str, lock_path: str, what: str) -> Iterator[dict[str, Any]]:
    """The rows of the file, which are written when the block ends well."""
    lock = open_locked(lock_path, tries=LOCK_TRIES)
    if lock is None:
        raise StoreUnusable(f"Another process holds {lock_path}. Try again.")
    try:
        rows = rows_in(path, what)
        if not rows and read_record(path) is None and os.path.lexists(path):
            raise StoreUnusable(f"{path} cannot be read. Move it away; its {what} are then gone.")
        yield rows
        write_record(path, {"format": 1, what: rows}, durable=True)
    finally:
        os.close(lock)
