"""The events of a store, in one order: a line of JSON each, appended by the process that sees it happen.

    events/<n>      segments, numbered; the highest is the one that grows

Every line begins with `at`, `kind` and `job_id`, in this order: readers recognise an event by that, see
event_reader.

There are no locks: a process that was stopped while it held a lock would block jobs. A writer that finds a
newer segment after it has written its event writes the event there too, because a reader may have left the
old segment already. So an event is in the log at least once, and the events of one writer are in order. A
cursor is "<segment>.<byte>", for ever. The shim imports this module.
"""

from __future__ import annotations

import json
import os
import stat
import time

from bgjob.home.layout import is_directory

EVENTS = "events"
# At this size the next segment begins. If none can be begun, this one grows to the second size; the rest is
# not read.
SEGMENT_BYTES = 1 << 20
SEGMENT_MAX_BYTES = 4 << 20
SEGMENTS_KEPT = 16
# A file with a larger number is not a segment.
SEGMENT_DIGITS = 9
LINE_MAX_BYTES = 1 << 16
# If something else lies in the place of a segment.
TRIES = 10
NEW = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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


def append(directory: str, kind: str, job_id: str, /, **details: object) -> None:
    """Raises nothing: a job must not fail over an event, and its own records have what matters."""
    head = {"at": round(time.time(), 3), "kind": kind, "job_id": job_id}
    line = json.dumps({**head, **details}).encode()
    append_line(directory, line if len(line) <= LINE_MAX_BYTES else json.dumps(head).encode())


def append_line(directory: str, event: bytes) -> None:
    """The same for JSON: an idle shim saves the memory that the first use of json takes."""
    try:
        # On a line of its own, also after a line that a full disk cut short.
        _append(directory, b"\n%b\n" % event)
    except OSError:
        pass


def _append(directory: str, line: bytes) -> None:
    if not is_directory(directory):
        return
    failures = 0
    while failures < TRIES:
        number = newest(directory)
        path = f"{directory}/{number}"
        if _is_written(path, line, SEGMENT_BYTES):
            if not is_closed(directory, number):
                return
        elif _begin_next(directory, number):
            failures += 1
        else:
            _is_written(path, line, SEGMENT_MAX_BYTES)
            return


def _is_written(path: str, line: bytes, most_bytes: int) -> bool:
    """False: the segment is full or not ours, or something else is in its place."""
    try:
        fd = os.open(path, NEW | os.O_APPEND, 0o600)
    except OSError:
        return False
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size >= most_bytes:
            return False
        os.write(fd, line)
    finally:
        os.close(fd)
    return True


def _begin_next(directory: str, number: int) -> bool:
    """The next segment, made by us or by another process, in the next free place. False: there is no room."""
    for following in range(number + 1, min(number + 1 + TRIES, 10**SEGMENT_DIGITS)):
        try:
            os.close(os.open(f"{directory}/{following}", NEW | os.O_EXCL, 0o600))
        except FileExistsError:
            if not is_closed(directory, number):
                continue  # something else has that name
        except OSError:
            return False
        _drop_oldest(directory)
        return True
    return False


def _drop_oldest(directory: str) -> None:
    for old in segments(directory)[:-SEGMENTS_KEPT]:
        try:
            os.unlink(f"{directory}/{old}")
        except FileNotFoundError:
            pass  # another process did


def is_closed(directory: str, number: int) -> bool:
    """True: a process that writes into this segment from now on writes the same event into a newer one."""
    return newest(directory) > number


def segments(directory: str) -> list[int]:
    """Plain files only: anything else with such a name is not a segment."""
    if not is_directory(directory):
        return []
    try:
        with os.scandir(directory) as entries:
            return sorted(int(entry.name) for entry in entries if _is_segment(entry))
    except FileNotFoundError:  # deleted under us, with the home or without
        return []


def _is_segment(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    is_number = name.isascii() and name.isdecimal() and len(name) <= SEGMENT_DIGITS and name[0] != "0"
    return is_number and entry.is_file(follow_symlinks=False)


def newest(directory: str) -> int:
    return max(segments(directory), default=1)


def beginning(directory: str) -> Cursor:
    return Cursor(min(segments(directory), default=1), 0)


def end(directory: str) -> Cursor:
    """The place behind the newest event."""
    number = newest(directory)
    try:
        return Cursor(number, os.lstat(f"{directory}/{number}").st_size)
    except FileNotFoundError:
        return Cursor(number, 0)
