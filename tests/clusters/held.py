"""Whether any process of a job is alive, on whichever machine it has which number."""

import contextlib
import os
from pathlib import Path


class Held(contextlib.AbstractContextManager["Held"]):
    """A FIFO that the processes of a job have open: the kernel tells its reader when the last of them is gone."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.take = f"exec 9> {path}"  # a piece of shell: from here on, whoever it starts holds it too

    def __exit__(self, *_: object) -> None:
        os.close(self._reader)

    def is_held(self) -> bool:
        """False also before a process has taken it."""
        try:
            return os.read(self._reader, 1) != b""
        except BlockingIOError:
            return True
