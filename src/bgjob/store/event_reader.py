"""Reads the log of events. Anything else in the log, or in its place, hides no event.

A line is recognised as an event by its beginning, which has all that most readers need. The rest is parsed
only if a reader asks for it. What an event may hold is in record_schema.
"""

import json
import math
import os
import re
import stat
from collections.abc import Iterator
from typing import NamedTuple

from bgjob.core.job import JOB_ID, Event
from bgjob.core.late_pattern import late_pattern
from bgjob.home import event_log
from bgjob.home.event_log import LINE_MAX_BYTES, SEGMENT_MAX_BYTES, Cursor
from bgjob.home.layout import READ_ONLY, is_directory
from bgjob.store.record_schema import Malformed, event_of

LINE = late_pattern(
    r'^\{"at": [0-9.]{1,20}, "kind": "([a-z][a-z0-9_]{0,39})", '
    rf'"job_id": "({JOB_ID.pattern})".{{0,{LINE_MAX_BYTES}}}\}}$',
    re.MULTILINE,
)


class Line(NamedTuple):
    """One event: the parts that its beginning has, and the unparsed rest."""

    kind: str
    job_id: str
    text: str
    behind: Cursor

    @property
    def at(self) -> float:
        """Seconds since the epoch; of a line that is no event of ours, the future."""
        try:
            return float(self.text[len('{"at": ') :].partition(",")[0])
        except ValueError:
            return math.inf

    @property
    def event(self) -> Event | None:
        """None: the line is no event of ours."""
        try:
            return event_of(json.loads(self.text.encode("latin-1")))
        except (ValueError, RecursionError, Malformed):
            return None


def read(directory: str, since: Cursor) -> Iterator[tuple[Event, Cursor]]:
    """Every event after that place, and the place behind the event. Deleted segments are skipped."""
    for line in lines(directory, since):
        if event := line.event:
            yield event, line.behind


def lines(directory: str, since: Cursor) -> Iterator[Line]:
    for text, place in _texts(directory, since):
        for found in LINE.finditer(text):
            yield _line(found, place)


def newest_first(directory: str) -> Iterator[Line]:
    for number in reversed(event_log.segments(directory)):
        place = Cursor(number, 0)
        for found in reversed(list(LINE.finditer(_text(directory, place)))):
            yield _line(found, place)


def heads(
    directory: str, since: Cursor, until: Cursor | None = None
) -> Iterator[tuple[list[tuple[str, str]], Cursor]]:
    """(kind, job id) of all events between two places, a segment at a time, and the place behind them."""
    for text, place in _texts(directory, since):
        end = Cursor(place.segment, place.byte + len(text))
        if until and until < end:
            return (yield LINE.findall(text, 0, until.byte - place.byte), until)
        yield LINE.findall(text), end


def has_event_of(directory: str, job_id: str) -> bool:
    return any(found == job_id for some, _ in heads(directory, Cursor(0, 0)) for _, found in some)


def kept_place(cursor: str) -> Cursor:
    """A cursor from a record. The beginning, if it is none: rather too much is told than too little."""
    try:
        return Cursor.parse(cursor)
    except ValueError:
        return Cursor(0, 0)


def place_between_events(directory: str, since: Cursor) -> Cursor:
    """That place if it lies between two events, else the nearest before it; at least the beginning.

    After a power cut a cursor may be ahead of the log: then its segment is read again.
    """
    first, last = event_log.beginning(directory), event_log.end(directory)
    if since < first or since.segment > last.segment:
        return first
    return Cursor(since.segment, _begin_of_line(f"{directory}/{since.segment}", since.byte))


def _texts(directory: str, since: Cursor) -> Iterator[tuple[str, Cursor]]:
    """All whole lines after that place, a segment at a time, and where the segment begins."""
    place = place_between_events(directory, since)
    while True:
        following = [number for number in event_log.segments(directory) if number > place.segment]
        # After the list of segments: all that was written before a newer segment began is here.
        yield _text(directory, place), place
        if not following:
            return
        place = Cursor(following[0], 0)


def _line(found: re.Match[str], begin: Cursor) -> Line:
    return Line(found[1], found[2], found[0], Cursor(begin.segment, begin.byte + found.end() + 1))


def _text(directory: str, place: Cursor) -> str:
    """One character per byte; of a file that is too large for a segment, the beginning."""
    data = _bytes(f"{directory}/{place.segment}", place.byte, SEGMENT_MAX_BYTES)
    return data[: data.rfind(b"\n") + 1].decode("latin-1")


def _begin_of_line(path: str, byte: int) -> int:
    start = max(0, byte - LINE_MAX_BYTES)
    before = _bytes(path, start, byte)
    return start + before.rfind(b"\n") + 1 if start + len(before) == byte else 0


def _bytes(path: str, start: int, end: int) -> bytes:
    """Empty if there is no plain file, or if it ends before `start`."""
    if not is_directory(os.path.dirname(path)):
        return b""
    try:
        fd = os.open(path, READ_ONLY)
    except FileNotFoundError:
        return b""
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or start >= min(end, found.st_size):
            return b""
        return os.pread(fd, min(end, found.st_size) - start, start)
    finally:
        os.close(fd)
