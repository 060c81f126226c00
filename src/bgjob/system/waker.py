"""Wakes a thread that sleeps in poll: another thread, or a signal, writes a byte."""

import os

MOST_BYTES = 1 << 16


class Waker:
    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self.write_end, False)

    def fileno(self) -> int:
        """Readable when the thread is to wake."""
        return self._read_end

    def wake(self) -> None:
        try:
            os.write(self.write_end, b"\0")
        except BlockingIOError:
            pass  # it is full: the thread will wake

    def take(self) -> bytes:
        """What was written since the last call: zeros, and the numbers of signals (signal.set_wakeup_fd)."""
        try:
            return os.read(self._read_end, MOST_BYTES)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        os.close(self._read_end)
        os.close(self.write_end)
