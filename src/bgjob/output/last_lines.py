"""Where the last lines of a log begin: of both streams together, each line whole."""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice

from bgjob.output.log_reader import LogReader


def begin_of_last_lines(log: LogReader, lines: int, streams: Sequence[int], start: int) -> dict[int, int]:
    """Of each stream, where its part of the last lines begins: an offset from `start` on, or the end of the log."""
    newest = merge(*(_line_begins(log, stream, start) for stream in streams), reverse=True)
    begins = dict.fromkeys(streams, log.end)
    for offset, stream in islice(newest, lines):
        begins[stream] = offset
    return begins


def _line_begins(log: LogReader, stream: int, start: int) -> Iterator[tuple[int, int]]:
    """(offset, stream) of the first byte of each line, newest first; the last one may be unfinished."""
    following: int | None = None  # where the stream goes on behind the piece
    for piece in log.backward(stream, start, log.end):
        newline = piece.data.rfind(b"\n")
        while newline >= 0:
            begin = piece.start + newline + 1 if newline + 1 < len(piece.data) else following
            if begin is not None:
                yield begin, stream
            newline = piece.data.rfind(b"\n", 0, newline)
        following = piece.start
    if following is not None:
        yield following, stream
