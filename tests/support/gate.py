"""A place in a job's command where it waits for the test."""

import os
from pathlib import Path


class Gate:
    """Two FIFOs: the job says it got here, then blocks until the test lets it go on."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._reached, self._opened = directory / "reached", directory / "opened"
        os.mkfifo(self._reached)
        os.mkfifo(self._opened)
        self.reach = f"echo > {self._reached}"
        self.pause = f"{self.reach}; read _ < {self._opened}"  # a piece of shell

    def wait_until_reached(self) -> None:
        self._reached.read_bytes()

    def open(self) -> None:
        self._opened.write_text("\n")
