"""The events of a store, in one order: a line of JSON each, appended by whoever sees one happen.

    events/<n>      segments, numbered; the highest is the one that grows

No locks: a process that was stopped while it held one would stop jobs. A writer that finds, once its event is
written, that a newer segment was begun meanwhile writes it there too, because a reader may have passed the old
one by. So an event is told at least once, and those of one writer in their order. A cursor is "<segment>.<byte>",
for ever. The shim imports this module: it stays within the standard library.
"""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Event = dict[str, Any]

EVENTS = "events"
SEGMENT_BYTES = 1 << 20
SEGMENTS_KEPT = 16
READ_BYTES, LINE_MAX_BYTES = 1 << 20, 1 << 16
READ_ONLY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Cursor:
    """A place between two events."""

    __slots__ = ("byte", "segment")

    def __init__(self, segment: int, byte: int) -> None:
        self.segment, self.byte = segment, byte

    def __str__(self) -> str:
        return f"{self.segment}.{self.byte}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        segment, dot, byte = text.partition(".")
        if not (dot and len(text) < 40 and text.isascii() and segment.isdecimal() and byte.isdecimal()):
            raise ValueError(text[:40])
        return cls(int(segment), int(byte))

    def __lt__(self, other: Cursor) -> bool:
        return (self.segment, self.byte) < (other.segment, other.byte)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cursor) and (self.segment, self.byte) == (other.segment, other.byte)

    def __hash__(self) -> int:
        return hash((self.segment, self.byte))


def append(directory: str, kind: str, job_id: str, **details: object) -> None:
    """Raises nothing: no event is worth a job's trouble, and what matters of it is in the job's own records."""
    event = {"at": round(time.time(), 3), "kind": kind, "job_id": job_id, **details}
    append_line(directory, json.dumps(event).encode())


def append_line(directory: str, event: bytes) -> None:
    """The same, of one that is JSON already: an idle shim does without the memory that the first use of json takes."""
    try:
        _append(directory, b"\n%b\n" % event)  # on a line of its own, also after what a full disk cut short
    except OSError:
        pass


def _append(directory: str, line: bytes) -> None:
    while True:
        number = newest(directory)
        fd = os.open(
            f"{directory}/{number}",
            os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
            0o600,
        )
        try:
            os.write(fd, line)
            size = os.fstat(fd).st_size
        finally:
            os.close(fd)
        if not is_closed(directory, number):
            if size >= SEGMENT_BYTES:
                _begin_next(directory, number)
            return


def _begin_next(directory: str, number: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        os.close(os.open(f"{directory}/{number + 1}", flags, 0o600))
        for old in segments(directory)[:-SEGMENTS_KEPT]:
            os.unlink(f"{directory}/{old}")
    except (FileExistsError, FileNotFoundError):
        pass  # somebody else did


def is_closed(directory: str, number: int) -> bool:
    """Whoever writes into it from now on writes the same into a newer one."""
    return newest(directory) > number


def segments(directory: str) -> list[int]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:  # deleted under us, with the home or without
        return []
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def newest(directory: str) -> int:
    return max(segments(directory), default=1)


def beginning(directory: str) -> Cursor:
    return Cursor(min(segments(directory), default=1), 0)


def end(directory: str) -> Cursor:
    """Behind everything that has happened."""
    number = newest(directory)
    try:
        return Cursor(number, os.stat(f"{directory}/{number}").st_size)
    except FileNotFoundError:
        return Cursor(number, 0)


def read(directory: str, since: Cursor) -> Iterator[tuple[Event, Cursor]]:
    """Every event after that place, and the place behind it. What retention has taken is passed over."""
    place = whole(directory, since)
    while True:
        has_next = is_closed(directory, place.segment)  # first: then all that matters of it is there
        for line, behind in _lines(directory, place):
            place = behind
            if event := _parsed(line):
                yield event, place
        if not has_next:
            return
        place = whole(directory, Cursor(place.segment + 1, 0))


def whole(directory: str, since: Cursor) -> Cursor:
    """That place, if it is between two events that are here; else the nearest before it, or the first that is kept.

    After a power cut a cursor may be ahead of the log: then its segment is read again.
    """
    first, last = beginning(directory), end(directory)
    if since < first or since.segment > last.segment:
        return first
    return Cursor(since.segment, _begin_of_line(f"{directory}/{since.segment}", since.byte))


def _begin_of_line(path: str, byte: int) -> int:
    start = max(0, byte - LINE_MAX_BYTES)
    try:
        fd = os.open(path, READ_ONLY)
    except FileNotFoundError:
        return 0
    try:
        before = os.pread(fd, byte - start, start)
    finally:
        os.close(fd)
    return start + before.rfind(b"\n") + 1 if start + len(before) == byte else 0


def _parsed(line: bytes) -> Event | None:
    try:
        event = json.loads(line.strip(b"\0"))  # zeros: of a power cut
    except ValueError:
        return None  # cut short by a full disk
    return event if isinstance(event, dict) and "kind" in event and "job_id" in event else None


def _lines(directory: str, since: Cursor) -> Iterator[tuple[bytes, Cursor]]:
    try:
        fd = os.open(f"{directory}/{since.segment}", READ_ONLY)
    except FileNotFoundError:
        return
    try:
        at, rest = since.byte, b""
        while data := os.pread(fd, READ_BYTES, at + len(rest)):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                at += len(line) + 1
                yield line, Cursor(since.segment, at)
    finally:
        os.close(fd)
