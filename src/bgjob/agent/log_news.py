"""What is new of a job's log, as pieces of its files, in an order in which a copy of it can be read at any time.

First comes what is kept of the streams where segments were deleted: it counts in a copy only when it is told
that the segment is gone, or when the copy has the segment after it. Then come segments, older ones first. The
runs of a segment come before the bytes that they label; a run that labels no byte yet is held back, because
its writer may still write another in its place. See home.log_format.
"""

import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bgjob.home.layout import READ_ONLY, is_directory
from bgjob.home.log_format import HEADER, KEPT_SUFFIXES, RUN, RUNS_SUFFIX

FILE = re.compile(r"(0[0-9]{19})(\.runs|\.stdout|\.stderr)?", re.ASCII)
KEPT = tuple(KEPT_SUFFIXES.values())
File = tuple[int, str, str]
"""Its offset, its name, and what is behind the offset in the name."""


class Piece(NamedTuple):
    name: str
    at: int
    """Where it is to be written. Before the end of the copy: that is cut there first, as the file was here."""
    data: bytes


class LogPieces(NamedTuple):
    pieces: list[Piece]
    gone: list[str]
    """Files that were told of, and are deleted: to be deleted after the pieces are written."""
    is_all: bool
    """False: there is more now than was asked for."""

    @property
    def size(self) -> int:
        return sum(len(piece.data) for piece in self.pieces)


class LogNews:
    def __init__(self, directory: str, told: dict[str, int]) -> None:
        """`told`: how many bytes of each file are known already."""
        self._directory, self._told = directory, dict(told)

    def take(self, most_bytes: int) -> LogPieces:
        """About so many bytes, if there are so many; at least one."""
        files = self._files()
        # Again, for what is kept: of a segment that is not listed, the copy is complete by now.
        kept = {name: found for name, found in self._files().items() if found[2] in KEPT}
        segments = {name: found for name, found in files.items() if not found[2]}
        pieces: list[Piece] = []
        gone = self._forget(name for name in self._told if name.endswith(KEPT) and name not in kept)
        if not self._take_all(kept, most_bytes, pieces):
            return LogPieces(pieces, gone, False)
        gone += self._forget(name for name in self._told if not name.endswith(KEPT) and name not in files)
        return LogPieces(pieces, gone, self._take_all(segments, most_bytes, pieces))

    def _take_all(self, files: Mapping[str, File], most_bytes: int, pieces: list[Piece]) -> bool:
        """False: it would be more than that; or a file was deleted just now, and what follows it is to be read
        from a newer list."""
        for start, name, suffix in sorted(files.values()):
            left = most_bytes - sum(len(piece.data) for piece in pieces)
            try:
                new, is_all = self._kept(name, left) if suffix else self._segment(name, start, left)
            except FileNotFoundError:
                return False
            pieces += new
            if not is_all:
                return False
        return True

    def _forget(self, names: Iterable[str]) -> list[str]:
        gone = list(names)
        for name in gone:
            del self._told[name]
        return gone

    def _files(self) -> dict[str, File]:
        """By their names."""
        try:
            names = os.listdir(self._directory) if is_directory(self._directory) else []
        except FileNotFoundError:
            return {}
        found = (FILE.fullmatch(name) for name in names)
        return {name[0]: (int(name[1]), name[0], name[2] or "") for name in found if name}

    def _segment(self, name: str, start: int, most: int) -> tuple[list[Piece], bool]:
        """What is new of it, after its runs; and whether that is all."""
        size, data = self._read(name, most)
        cut = self._cut(name, size)
        told = self._told.get(name, 0)
        runs = self._runs(name + RUNS_SUFFIX, start + told + len(data)) if data else Piece("", 0, b"")
        while data and len(runs.data) + len(data) > most and len(data) > 1:
            data = data[: len(data) // 2]
            runs = self._runs(name + RUNS_SUFFIX, start + told + len(data))
        if not data:
            return cut, size <= told
        return [*cut, *self._noted(runs), *self._noted(Piece(name, told, data))], told + len(data) >= size

    def _kept(self, name: str, most: int) -> tuple[list[Piece], bool]:
        size, data = self._read(name, most)
        cut = self._cut(name, size)
        told = self._told.get(name, 0)
        return [*cut, *self._noted(Piece(name, told, data))], told + len(data) >= size

    def _runs(self, name: str, end: int) -> Piece:
        """Those that label bytes before that offset: they do not change any more."""
        told = self._told.get(name, 0)
        _, index = self._read(name, None)
        offsets = (offset for offset, _ in RUN.iter_unpack(index[HEADER.size : _whole(index)]))
        count = sum(offset < end for offset in offsets)
        return Piece(name, told, index[told : HEADER.size + count * RUN.size])

    def _read(self, name: str, most: int | None) -> tuple[int, bytes]:
        """(its size, what of it is new); of None, all of it."""
        fd = os.open(f"{self._directory}/{name}", READ_ONLY)
        try:
            size = os.fstat(fd).st_size
            if most is None:
                return size, os.pread(fd, size, 0)
            told = self._told.get(name, 0)
            return size, os.pread(fd, max(0, min(size - told, max(most, 0))), told) if size > told else b""
        finally:
            os.close(fd)

    def _cut(self, name: str, size: int) -> list[Piece]:
        """Its writer has cut off what a full disk or a kill left of its last write."""
        if size >= self._told.get(name, 0):
            return []
        self._told[name] = size
        return [Piece(name, size, b"")]

    def _noted(self, piece: Piece) -> list[Piece]:
        if piece.data:
            self._told[piece.name] = piece.at + len(piece.data)
        return [piece] if piece.data else []


def _whole(index: bytes) -> int:
    return max(HEADER.size, len(index) - len(index) % RUN.size)
