"""One worker at a time: the tests of the lane run side by side, and share what is installed and written down."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def turn(directory: Path) -> Iterator[None]:
    """Waits until no other worker has its turn at this directory."""
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
