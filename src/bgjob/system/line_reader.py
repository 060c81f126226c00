"""Lines from a descriptor of any kind: pipe, socket, file or terminal, with O_NONBLOCK or without."""

import os
import select
from collections.abc import Iterator

AT_ONCE = 1 << 16
LONGEST = 64 << 20
"""Of one line. A longer one is read to its end and given up: None."""


def lines(fd: int) -> Iterator[bytes | None]:
    """Each without its end; also the last one, that may have none."""
    pieces: list[bytes] = []
    length = 0
    for chunk in _chunks(fd):
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            yield b"".join([*pieces, piece]) if length + len(piece) <= LONGEST else None
            pieces, length = [], 0
        length += len(rest)
        if length <= LONGEST:
            pieces.append(rest)
        else:
            pieces.clear()
    if length:
        yield b"".join(pieces) if length <= LONGEST else None


def _chunks(fd: int) -> Iterator[bytes]:
    """Until the other end is closed; a terminal that is gone is closed too."""
    try:
        while chunk := _read(fd):
            yield chunk
    except OSError:
        return


def _read(fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, AT_ONCE)
        except BlockingIOError:  # whoever shares the descriptor has set O_NONBLOCK
            wait_until(fd, select.POLLIN)


def wait_until(fd: int, event: int) -> None:
    poll = select.poll()
    poll.register(fd, event)
    poll.poll()
