"""A record whose writer waits half-way, until the test lets it go on."""

import contextlib
import os
import select
from pathlib import Path

from tests.support.waiting import wait_until


class Jam:
    """In place of the record's draft: a full FIFO, so whoever opens it to write it gets no further."""

    def __init__(self, draft: Path) -> None:
        os.mkfifo(draft, 0o600)
        self._draft = draft
        self._reader = os.open(draft, os.O_RDONLY | os.O_NONBLOCK)
        filler = os.open(draft, os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while os.write(filler, bytes(select.PIPE_BUF)):
                pass
        os.close(filler)

    def clear(self) -> None:
        """Once its writer is there, who then finds its draft gone."""
        wait_until(self._has_writer, "somebody writes the record")
        self._draft.unlink()
        os.set_blocking(self._reader, True)
        while os.read(self._reader, select.PIPE_BUF):
            pass

    def close(self) -> None:
        os.close(self._reader)

    def _has_writer(self) -> bool:
        reader = select.poll()
        reader.register(self._reader)
        return not any(events & select.POLLHUP for _, events in reader.poll(0))
