"""The servers of a home that run now, and where a browser finds each.

    servers/ID   {"format": 1, "address": "http://127.0.0.1:7878", "started_at": ...}

Its server holds a lock on it, which ends with the process: what a killed server leaves behind is not locked.
"""

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from typing import Any

from bgjob.home.jobdir import FORMAT_VERSION, create_locked, is_locked, read_record
from bgjob.home.layout import SERVERS, names_in

DRAFT = ".new"


@contextlib.contextmanager
def announced(home: str, address: str) -> Iterator[None]:
    """Other processes of the home find the server meanwhile. OSError: it cannot be written down."""
    directory = os.path.join(home, SERVERS)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    for path in _paths(directory):
        if not is_locked(path):
            os.unlink(path)
    path = os.path.join(directory, secrets.token_hex(8))
    # under another name until it is locked: no other server takes it for left over
    lock = create_locked(
        f"{path}{DRAFT}", {"format": FORMAT_VERSION, "address": address, "started_at": time.time()}
    )
    try:
        os.rename(f"{path}{DRAFT}", path)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
        os.close(lock)


def newest_address(home: str) -> str | None:
    """Of the server that was started last; None: none runs."""
    running = (read_record(path) for path in _paths(os.path.join(home, SERVERS)) if is_locked(path))
    known = [record for record in running if record and _is_readable(record)]
    return str(max(known, key=lambda record: record["started_at"])["address"]) if known else None


def _paths(directory: str) -> list[str]:
    try:
        names = names_in(directory)
    except OSError:
        return []
    return [os.path.join(directory, name) for name in names if not name.endswith(DRAFT)]


def _is_readable(record: dict[str, Any]) -> bool:
    return isinstance(record.get("address"), str) and isinstance(record.get("started_at"), float)
