"""Chooses from a log what an answer shows of it: all, or head and tail."""

from codecs import getincrementaldecoder
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from bgjob.core.errors import InvalidArgument
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output.log_reader import LogReader, Piece, TimedPiece
from bgjob.output.pieces import down_to, joined, merge, size_of, up_to
from bgjob.output.text import (
    Dropped,
    LeftOut,
    Part,
    head_cut,
    note,
    render,
    tail_cut,
    unfinished_bytes,
)

NOTE_BYTES = 100
Decoder = getincrementaldecoder("utf-8")


@dataclass(frozen=True)
class Excerpt:
    """What one stream printed in a window of the log, as text, and how much is missing from the text."""

    text: str
    left_out_bytes: int = 0
    dropped_bytes: int = 0


@dataclass(frozen=True)
class Window:
    """A part of the log, between two offsets."""

    start: int
    end: int


def window(cursor: str | None, log_end: int) -> Window:
    """A cursor is "N" (everything after N) or "N-M" (a part that was left out).

    One beyond the end is of another job, which had the same name before: rather too much is read than too little.
    """
    if cursor is None:
        return Window(0, log_end)
    start, dash, end = cursor.partition("-")
    if not (start.isascii() and start.isdigit() and (not dash or (end.isascii() and end.isdigit()))):
        raise InvalidArgument(
            f"since={cursor[:40]!r} is not a cursor. Pass one exactly as an answer gave it."
        )
    first, last = int(start[:20]), min(int(end[:20]), log_end) if dash else log_end
    return Window(first if first <= log_end else 0, last)


def whole(log: LogReader, stream: int, view: Window, budget_bytes: int, is_running: bool) -> Excerpt:
    """All that a stream printed if it fits into the budget, else head and tail with a note between."""
    gaps = log.gaps(stream, view.start, view.end)
    dropped = sum(gap.count for gap in gaps)
    kept = log.kept(stream, view.start, view.end)
    begun = _begun_character(log, stream, view.start)
    if kept <= budget_bytes:
        pieces = list(log.forward(stream, view.start, view.end))
        left_out: list[tuple[int, Part]] = []
    else:
        head_bytes, tail_bytes = _shares(budget_bytes, is_running)
        head = up_to(log.forward(stream, view.start, view.end), head_bytes)
        tail = down_to(log.backward(stream, view.start, view.end), tail_bytes)
        head, tail = _cut_head(head), _cut_tail(tail)
        middle = LeftOut(kept - size_of(head) - size_of(tail), f"{_end(head, view.start)}-{tail[0].start}")
        pieces, left_out = head + tail, [(tail[0].start, middle)]
    notes = left_out + [(gap.end, Dropped(gap.count)) for gap in gaps]
    more_to_come = is_running and view.end == log.end
    parts = merge(begun if pieces or not more_to_come else b"", pieces, notes)
    if more_to_come:
        _hold_back(parts)
    return Excerpt(render(parts), kept - size_of(pieces), dropped)


def _shares(budget_bytes: int, is_running: bool) -> tuple[int, int]:
    """Of head and tail. How a job ended is at the end of its output: then the tail is worth more."""
    head = budget_bytes // (2 if is_running else 4)
    return head, budget_bytes // 2 if is_running else budget_bytes - head


def _begun_character(log: LogReader, stream: int, offset: int) -> bytes:
    """The first bytes of a character, which the answer up to this offset held back: the rest had not come."""
    before = joined(down_to(log.backward(stream, 0, offset), 3))
    length = unfinished_bytes(before)
    return before[len(before) - length :]


def _hold_back(parts: list[Part]) -> None:
    """Leave the bytes of an unfinished character to the next answer."""
    if parts and isinstance(parts[-1], bytes):
        parts[-1] = parts[-1][: len(parts[-1]) - unfinished_bytes(parts[-1])]


def _cut_head(pieces: list[Piece]) -> list[Piece]:
    return up_to(pieces, head_cut(joined(pieces)))


def _cut_tail(pieces: list[Piece]) -> list[Piece]:
    data = joined(pieces)
    return down_to(reversed(pieces), len(data) - tail_cut(data))


def _end(pieces: list[Piece], otherwise: int) -> int:
    return pieces[-1].end if pieces else otherwise


# -- both streams in one order, each line with its time and stream -------------------------------------------


class Timeline:
    """Collects pieces in the order of the log; `text` is what a reader sees of them."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._decoders = {stream: Decoder("replace") for stream in (STDOUT, STDERR)}
        # The stream whose line has not ended, or 0.
        self._unfinished = 0

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def add(self, pieces: Iterable[TimedPiece]) -> None:
        for piece in pieces:
            label = _label(piece)
            for line in self._decoders[piece.stream].decode(piece.data).splitlines(keepends=True):
                self._add_line(line, piece.stream, label)

    def add_note(self, left_out: LeftOut) -> None:
        self._finish_line()
        self._parts.append(note(left_out))

    def _add_line(self, line: str, stream: int, label: str) -> None:
        if self._unfinished != stream:
            self._finish_line()
            self._parts.append(label)
        self._parts.append(line)
        self._unfinished = 0 if line.endswith("\n") else stream

    def _finish_line(self) -> None:
        if self._unfinished:
            self._parts.append("\n")
            self._unfinished = 0


def _label(piece: TimedPiece) -> str:
    when = datetime.fromtimestamp(piece.time_us / 1e6, UTC).strftime("%H:%M:%S.%f")[:-3]
    return f"{when} {'err' if piece.stream == STDERR else 'out'}| "


def interleaved(log: LogReader, view: Window, budget_bytes: int, is_running: bool) -> Excerpt:
    """Both streams in one order with their times; over the budget, head and tail with a note between."""
    room, here = budget_bytes, log.stretches(view.start, view.end)
    while True:  # labels take room too: show less until text and labels fit
        excerpt = _interleaved(log, view, here, *_shares(room, is_running))
        size = len(excerpt.text.encode())
        if size <= budget_bytes + NOTE_BYTES or room <= 2:
            return excerpt
        room = max(2, min(room - 1, room * budget_bytes // size))


def _interleaved(
    log: LogReader, view: Window, here: list[tuple[int, int]], head_bytes: int, tail_bytes: int
) -> Excerpt:
    line = Timeline()
    kept = sum(right - left for left, right in here)
    dropped = view.end - view.start - kept
    between = kept - head_bytes - tail_bytes
    if between <= 0:
        line.add(log.interleaved(view.start, view.end))
        return Excerpt(line.text, 0, dropped)
    head_end, tail_start = _offset_of(here, head_bytes), _offset_of(here, kept - tail_bytes)
    line.add(log.interleaved(view.start, head_end))
    line.add_note(LeftOut(between, f"{head_end}-{tail_start}"))
    line.add(log.interleaved(tail_start, view.end))
    return Excerpt(line.text, between, dropped)


def _offset_of(here: list[tuple[int, int]], number: int) -> int:
    """The offset of a byte by its number among the bytes that were not dropped."""
    for left, right in here:
        if number < right - left:
            return left + number
        number -= right - left
    return here[-1][1]


def interleaved_tail(log: LogReader, lines: int, budget_bytes: int, floor: int = 0) -> Excerpt:
    """The last lines of both streams together, as far as the budget goes back."""
    line = Timeline()
    line.add(log.interleaved(max(floor, log.end - budget_bytes), log.end))
    shown: list[str] = []
    for text in reversed(line.text.splitlines(keepends=True)[-lines:]):
        budget_bytes -= len(text.encode())
        if shown and budget_bytes < 0:
            break
        shown.append(text)
    return Excerpt("".join(reversed(shown)))
