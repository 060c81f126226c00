"""Lines of a job's log around any place of it, and those that match: what a window on a log shows."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial

from bgjob.api.context import Context
from bgjob.api.follow import follow_jobs
from bgjob.api.output import STREAMS
from bgjob.api.search import out_of_time_after
from bgjob.api.snapshot import Snapshot
from bgjob.core.errors import InvalidArgument
from bgjob.core.frozen import Frozen
from bgjob.core.patterns import Pattern
from bgjob.home.log_format import KEPT_SUFFIXES
from bgjob.output import log_search
from bgjob.output.line_pages import DroppedBytes, Line, around_place, lines_after, lines_before
from bgjob.output.log_reader import LogReader
from bgjob.output.text import plain_line

MOST_MARKS = 100
PATIENCE_S = 10.0
BLOCK_BYTES = 1 << 18
WORDS = {stream: suffix.removeprefix(".") for stream, suffix in KEPT_SUFFIXES.items()}
"""Of the streams."""


class Place(Frozen):
    """A place of a log, and on which side of it lines are wanted."""

    offset: int
    is_before: bool
    """Those that begin before it, the nearest first to be chosen; else those that begin there or behind it."""


class LogLines(Frozen):
    end: int
    """Of the log."""
    lines: list[Line]
    """In the order in which they begin."""
    dropped: list[DroppedBytes]
    more: bool
    """There are lines beyond these, on the side that was asked for."""


def job_lines(context: Context, job_id: str, place: Place, count: int) -> LogLines:
    """At most `count` lines, each whole, once and in its order, whatever place is asked for."""

    def read(log: LogReader) -> LogLines:
        page = (lines_before if place.is_before else lines_after)(log, place.offset, count)
        return LogLines(log.end, page.lines, page.dropped, page.more)

    return Snapshot(context, job_id).read(read)


class LogMatches(Frozen):
    end: int
    """Of the log, as it was searched."""
    matches: list[log_search.Match]
    """The nearest, nearest first."""
    more: bool
    """More lines match on this side of the place."""
    complete: bool
    """False: there was no time to search everything."""
    count: int | None
    """Of all lines that match, in the whole log; None: not asked for."""
    before: int | None
    """... of those that begin before the place."""
    parts: list[int]
    """... of those that begin in each part of the log."""


def log_matches(
    context: Context, job_id: str, pattern: Pattern, place: Place, limit: int, *, parts: int = 0
) -> LogMatches:
    """`parts`: in how many parts of equal size all matches of the log are counted; 0: they are not."""
    snapshot = Snapshot(context, job_id)
    search = partial(
        log_search.search,
        pattern=pattern,
        limit=limit,
        newest_first=place.is_before,
        place=place.offset,
        out_of_time=out_of_time_after(PATIENCE_S),
    )
    first, last = snapshot.read(lambda log: around_place(log, place.offset))
    with snapshot.readable():
        if parts:
            return _all(snapshot.log, search, place, parts)
        log = snapshot.log
        window = (0, last) if place.is_before else (first, log.end)
        found = search(log, count=False, since=window[0], until=window[1])
        return LogMatches(log.end, found.matches, found.more, found.complete, None, None, [])


def _all(log: LogReader, search: Callable[..., log_search.Result], place: Place, parts: int) -> LogMatches:
    edges = [number * log.end // parts for number in range(1, parts)]
    borders = sorted({*edges, place.offset})
    found = search(log, borders=borders)
    before, sums = 0, [0] * parts
    for begin, count in zip([0, *borders], found.between, strict=True):
        before += count if begin < place.offset else 0
        sums[bisect_right(edges, begin)] += count
    total = sum(sums)
    more = (before if place.is_before else total - before) > len(found.matches)
    return LogMatches(log.end, found.matches, more, found.complete, total, before, sums)


def output_bytes(context: Context, job_id: str, stream: str | None) -> Iterator[bytes]:
    """All that the log has now, in blocks; None: of both streams, in one order."""
    end = Snapshot(context, job_id).read(lambda log: log.end)
    block = bytearray()
    for _, chunk in follow_jobs(context, {job_id: dict.fromkeys(STREAMS[stream], 0)}, wait=False):
        if chunk is None or chunk.end - len(chunk.data) >= end:
            break
        block += chunk.data[: len(chunk.data) - max(0, chunk.end - end)]
        if len(block) >= BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)


def match_marks(pattern: Pattern, line: bytes) -> list[str]:
    """The line as an answer shows it, in parts: text, match, text, match, …; empty: nothing in it matches."""
    data, parts, at, done = plain_line(line).encode(), list[str](), 0, 0
    while at <= len(data) and len(parts) < 2 * MOST_MARKS and (span := pattern.find(data, at, len(data))):
        if span[0] < span[1]:
            parts += [
                data[done : span[0]].decode(errors="replace"),
                data[span[0] : span[1]].decode(errors="replace"),
            ]
            done = span[1]
        at = max(span[1], at + 1)
    return [*parts, data[done:].decode(errors="replace")] if parts else []


def place_of(before: int | None, after: int | None) -> Place:
    """InvalidArgument: both were given, or none."""
    if (before is None) == (after is None):
        raise InvalidArgument("Give either before or after: an offset of the log.")
    return Place(before, is_before=True) if before is not None else Place(after or 0, is_before=False)
