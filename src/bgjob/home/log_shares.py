"""What is kept of one stream when segments of a log are deleted: its newest bytes, its share.

They are copied into files of that stream before the segment is deleted. A kill -9 in between leaves both, and
then the segment counts. A file is appended to until it is full, and deleted when all of it is beyond the
share.
"""

import os

from bgjob.home.jobdir import write_all
from bgjob.home.log_format import HEADER, KEPT_SUFFIXES, PIECE, STDOUT, pieces_of, segment_name

# (offset, stamp, bytes of its stream before it, length) of each run, oldest first.
Runs = list[tuple[int, int, int, int]]
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class KeptStream:
    def __init__(self, directory: str, stream: int) -> None:
        self._directory, self._stream = directory, stream
        self._suffix = KEPT_SUFFIXES[stream]
        # (start, size), oldest first.
        self._files: list[tuple[int, int]] = []
        # Bytes of the stream up to the end of the newest file.
        self._printed = 0

    @property
    def weight(self) -> int:
        return sum(size for _, size in self._files)

    def copy(self, start: int, runs: Runs, file_bytes: int) -> None:
        """Copy these runs of the segment that begins at `start`."""
        fd = os.open(f"{self._directory}/{segment_name(start)}", os.O_RDONLY | os.O_CLOEXEC)
        waiting = runs[::-1]
        try:
            while waiting:
                self._fill_a_file(fd, start, waiting, file_bytes)
        except OSError:
            self.resume(start)  # removes half a copy
            raise
        finally:
            os.close(fd)

    def _fill_a_file(self, fd: int, start: int, waiting: Runs, file_bytes: int) -> None:
        """Append runs in one write: to the newest file if it has room and no byte is missing in between, else
        to a new file. The last of `waiting` is the next run."""
        offset, _, before, _ = waiting[-1]
        parts = []
        if not self._files or before != self._printed or self._files[-1][1] + PIECE.size >= file_bytes:
            parts.append(self._header(offset, before))
            self._files.append((offset, 0))
            self._printed = before
        name, size = self._files[-1]
        room = file_bytes - size - sum(map(len, parts)) - PIECE.size
        while waiting and room > 0:
            offset, stamp, before, length = waiting.pop()
            count = min(length, room)
            parts += [PIECE.pack(offset, stamp, count), os.pread(fd, count, offset - start)]
            self._printed += count
            room -= count + PIECE.size
            if count < length:
                waiting.append((offset + count, stamp, before + count, length - count))
        self._files[-1] = (name, size + self._append(name, b"".join(parts)))

    def _header(self, offset: int, before: int) -> bytes:
        other = offset - before
        return HEADER.pack(before, other) if self._stream == STDOUT else HEADER.pack(other, before)

    def _append(self, start: int, data: bytes) -> int:
        fd = os.open(self._path(start), APPEND, 0o600)
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
        return len(data)

    def trim(self, share_bytes: int) -> None:
        """Delete the files that are wholly beyond the share."""
        while self._files and self.weight - self._files[0][1] >= share_bytes:
            self.delete_oldest()

    def delete_oldest(self) -> bool:
        if not self._files:
            return False
        start, _ = self._files.pop(0)
        os.unlink(self._path(start))
        return True

    def resume(self, end: int) -> None:
        """Go on with the files that are there. What lies behind `end`, in a segment that is still whole, is
        half a copy."""
        self._files = []
        for name in sorted(os.listdir(self._directory)):
            start = name.removesuffix(self._suffix)
            if name != start and start.isascii() and start.isdecimal():
                self._take_up(int(start), end)

    def _take_up(self, start: int, end: int) -> None:
        path = self._path(start)
        with open(path, "rb", buffering=0) as file:
            data = file.readall()
        pieces = [piece for piece in pieces_of(data) if piece[0] + piece[3] <= end]
        if not pieces:
            return os.unlink(path)
        size = pieces[-1][2] + pieces[-1][3]
        if size < len(data):
            os.truncate(path, size)
        self._files.append((start, size))
        self._printed = HEADER.unpack_from(data)[self._stream - 1] + sum(piece[3] for piece in pieces)

    def _path(self, start: int) -> str:
        return f"{self._directory}/{segment_name(start)}{self._suffix}"
