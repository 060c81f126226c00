"""Lines for a client that reads slowly, on a machine that gives no more threads."""

import os
import threading

import pytest

from bgjob.system.outbox import Outbox
from tests.support.waiting import PATIENCE_S

LINE = b"x" * (1 << 20) + b"\n"


class Client:
    """Reads all that comes, in a thread that was there before."""

    def __init__(self, fd: int) -> None:
        self.read = b""
        self._thread = threading.Thread(target=self._read_all, args=(fd,), daemon=True)
        self._thread.start()

    def _read_all(self, fd: int) -> None:
        with open(fd, "rb") as file:
            self.read = file.read()

    def has_all(self) -> bytes:
        self._thread.join(PATIENCE_S)
        return self.read


def no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_without_a_thread_to_write_it_a_long_line_is_written_by_who_sends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs, ours = os.pipe()
    client, changes = Client(theirs), list[bool]()
    outbox = Outbox(ours, lambda: changes.append(outbox.is_empty))
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    outbox.send(LINE)
    assert outbox.is_empty
    assert changes == [True]
    monkeypatch.undo()
    outbox.send(LINE)
    outbox.wait_until_written()
    os.close(ours)
    assert client.has_all() == 2 * LINE
