"""The events of a store, in one order: a line of JSON each, appended by whoever sees one happen.

    events/<n>      segments, numbered; the highest is the one that grows

A writer holds a shared lock on the segment while it appends, whoever begins the next one an exclusive lock: so a
segment that has a successor never grows again. Nobody waits long for a lock: a stopped process must not stop a job.
A cursor is "<segment>.<byte>", for ever. The shim imports this module: it stays within the standard library.
"""

from __future__ import annotations

import fcntl
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
TRIES, TRY_AGAIN_S = 20, 0.005
READ_BYTES = 1 << 20


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


def append(directory: str, kind: str, job_id: str, **details: object) -> None:
    """Raises nothing: no event is worth a job's trouble, and what matters of it is in the job's own records."""
    event = {"at": round(time.time(), 3), "kind": kind, "job_id": job_id, **details}
    try:
        _append(directory, json.dumps(event).encode() + b"\n")
    except OSError:
        pass


def _append(directory: str, line: bytes) -> None:
    while True:
        number = newest(directory)
        fd = os.open(
            f"{directory}/{number}",
            os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
        )
        try:
            _lock(fd, fcntl.LOCK_SH)
            if os.path.exists(f"{directory}/{number + 1}"):
                continue  # it was closed while we came
            os.write(fd, _on_a_line_of_its_own(fd, line))
            if os.fstat(fd).st_size >= SEGMENT_BYTES:
                _begin_next(directory, number, fd)
            return
        finally:
            os.close(fd)


def _lock(fd: int, kind: int) -> bool:
    for _ in range(TRIES):
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(TRY_AGAIN_S)
    return False


def _on_a_line_of_its_own(fd: int, line: bytes) -> bytes:
    """After what a full disk cut short."""
    end = os.fstat(fd).st_size
    return line if end == 0 or os.pread(fd, 1, end - 1) == b"\n" else b"\n" + line


def _begin_next(directory: str, number: int, fd: int) -> None:
    """Only while nobody else appends; whoever comes next tries again."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        os.close(os.open(f"{directory}/{number + 1}", flags, 0o600))
        for old in segments(directory)[:-SEGMENTS_KEPT]:
            os.unlink(f"{directory}/{old}")
    except (BlockingIOError, FileExistsError, FileNotFoundError):
        pass


def segments(directory: str) -> list[int]:
    return sorted(int(name) for name in os.listdir(directory) if name.isascii() and name.isdecimal())


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
    place = max(since, beginning(directory), key=lambda each: (each.segment, each.byte))
    while True:
        is_closed = os.path.exists(f"{directory}/{place.segment + 1}")  # first: then it cannot grow under us
        for line, behind in _lines(directory, place):
            place = behind
            if event := _parsed(line):
                yield event, place
        if not is_closed:
            return
        place = Cursor(place.segment + 1, 0)


def _parsed(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None  # cut short by a full disk
    return event if isinstance(event, dict) else None


def _lines(directory: str, since: Cursor) -> Iterator[tuple[bytes, Cursor]]:
    try:
        fd = os.open(f"{directory}/{since.segment}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
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
