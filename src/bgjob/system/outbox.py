"""Lines for a client that may read slowly, or not at all."""

import os
import select
import threading
from collections import deque
from collections.abc import Callable

from bgjob.system.line_reader import wait_until

ROOM_BYTES = 8 << 20
"""How much may wait for the client. Above it, no more requests are read."""
AT_ONCE = 1 << 16


class Outbox:
    """Any thread may send, and none waits for the client: what does not fit now is written by a thread."""

    def __init__(self, fd: int, on_change: Callable[[], None]) -> None:
        """`on_change`: is called when all has been written, and when the client reads no more."""
        self._fd, self._on_change = fd, on_change
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._changed = threading.Condition()
        self._unwritten: deque[tuple[bytes, Callable[[], None] | None]] = deque()
        self._unwritten_bytes = 0
        self.written_bytes = 0
        self.is_broken = False

    def send(self, line: bytes, on_written: Callable[[], None] | None = None) -> None:
        """Send a line. `on_written` is called, in any thread, once the pipe has all of it."""
        with self._changed:
            has_writer = bool(self._unwritten)
            rest = line if has_writer else self._write_what_fits(line)
            if self.is_broken:
                return
            if rest:
                self._unwritten.append((rest, on_written))
                self._unwritten_bytes += len(rest)
        if not rest:
            _call(on_written)
        elif not has_writer:
            self._start_writer()

    def wait_for_room(self) -> None:
        if self._unwritten_bytes > ROOM_BYTES:
            with self._changed:
                self._changed.wait_for(lambda: self._unwritten_bytes <= ROOM_BYTES or self.is_broken)

    def wait_until_written(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._unwritten or self.is_broken)

    @property
    def is_empty(self) -> bool:
        return not self._unwritten

    def _write_what_fits(self, line: bytes) -> bytes:
        """In pieces that a pipe takes whole once it takes anything. Returns what is left."""
        if len(line) > AT_ONCE:
            return line  # more than a pipe holds: a thread that may wait writes it in fewer pieces
        begin = 0
        while begin < len(line) and self._poll.poll(0):
            try:
                written = os.write(self._fd, line[begin : begin + select.PIPE_BUF])
            except BlockingIOError:
                break
            except OSError:
                self._break()
                return b""
            self.written_bytes += written
            begin += written
        return line[begin:]

    def _start_writer(self) -> None:
        try:
            threading.Thread(target=self._write_all, name="stdout", daemon=True).start()
        except RuntimeError:  # the machine gives no more threads: this one waits for the client
            self._write_all()

    def _write_all(self) -> None:
        """By one thread at a time: whoever sends while something is unwritten leaves it to that thread."""
        is_done = False
        while not is_done:
            line, on_written = self._unwritten[0]
            self._write(line)
            if not self.is_broken:
                _call(on_written)
            with self._changed:
                self._unwritten.popleft()
                self._unwritten_bytes -= len(line)
                is_done = not self._unwritten
                self._changed.notify_all()
        self._on_change()

    def _write(self, line: bytes) -> None:
        """Waits for the client."""
        left = memoryview(line)
        while left and not self.is_broken:
            try:
                written = os.write(self._fd, left[:AT_ONCE])
                self.written_bytes += written
                left = left[written:]
            except BlockingIOError:
                wait_until(self._fd, select.POLLOUT)
            except OSError:
                self._break()

    def _break(self) -> None:
        self.is_broken = True
        self._on_change()


def _call(on_written: Callable[[], None] | None) -> None:
    if on_written:
        on_written()
