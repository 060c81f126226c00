"""A keeper starts its worker again until the work is done, or may not be done any more."""

import os
import signal
from pathlib import Path

from bgjob.system.keeper import keep


class Lives:
    """Workers that leave a mark each, and then meet an end of their own."""

    def __init__(self, marks: Path, *ends: str) -> None:
        self._marks, self._ends = marks, ends

    def count(self) -> int:
        return len(self._marks.read_bytes()) if self._marks.exists() else 0

    def work(self) -> None:
        end = self._ends[self.count()]
        with self._marks.open("ab") as marks:
            marks.write(b"+")
        if end == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif end == "fails":
            raise RuntimeError


def test_a_worker_that_fails_or_is_killed_is_replaced(tmp_path: Path) -> None:
    lives = Lives(tmp_path / "marks", "is killed", "fails", "is done", "is one too many")
    keep(lives.work, lambda: True, longest_pause_s=0.01)
    assert lives.count() == 3


def test_none_is_started_when_none_may(tmp_path: Path) -> None:
    lives = Lives(tmp_path / "marks", "fails", "fails", "is one too many")
    keep(lives.work, lambda: lives.count() < 2, longest_pause_s=0.01)
    assert lives.count() == 2
