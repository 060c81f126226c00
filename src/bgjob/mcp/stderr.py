"""The server's log: lines on stderr, which nobody may be reading."""

import io
import os
import select
import sys


class LossyText(io.TextIOBase):
    """A text stream on a descriptor that never blocks: what does not fit at the moment is left out.

    A client may start the server with a pipe for its stderr and never read from it.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def fileno(self) -> int:
        return self._fd

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """In pieces that a pipe takes whole once it takes anything."""
        data = text.encode(errors="backslashreplace")
        for begin in range(0, len(data), select.PIPE_BUF):
            if not self._write(data[begin : begin + select.PIPE_BUF]):
                break
        return len(text)

    def _write(self, piece: bytes) -> bool:
        try:
            return bool(self._poll.poll(0)) and os.write(self._fd, piece) == len(piece)
        except OSError:
            return False


def use_lossy_stderr() -> None:
    """For everything that this process prints."""
    sys.stderr = sys.stdout = LossyText(2)


def warn(message: str) -> None:
    print(f"bgjob: WARNING: {message}", file=sys.stderr, flush=True)


def report(what: str) -> None:
    """A problem of the server itself, with the exception that is being handled."""
    import traceback

    print(f"bgjob: ERROR: {what}\n{traceback.format_exc()}", end="", file=sys.stderr, flush=True)
