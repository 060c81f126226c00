"""Chooses from a log what an answer shows of it: all, head and tail, or the last lines."""

from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from bgjob.core.errors import InvalidArgument
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output.log_reader import LogReader, Piece, TimedPiece
from bgjob.output.text import (
    Dropped,
    LeftOut,
    Part,
    head_cut,
    last_lines,
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
    """A cursor is "N" (everything after N) or "N-M" (a part that was left out)."""
    if cursor is None:
        return Window(0, log_end)
    start, dash, end = cursor.partition("-")
    if not (start.isascii() and start.isdigit() and (not dash or (end.isascii() and end.isdigit()))):
        raise InvalidArgument(
            f"since={cursor[:40]!r} is not a cursor. Pass one exactly as an answer gave it."
        )
    return Window(min(int(start[:20]), log_end), min(int(end[:20]), log_end) if dash else log_end)


def whole(log: LogReader, stream: int, view: Window, budget_bytes: int, more_to_come: bool) -> Excerpt:
    """All that a stream printed if it fits into the budget, else head and tail with a note between."""
    gaps = log.gaps(stream, view.start, view.end)
    dropped = sum(gap.count for gap in gaps)
    kept = log.kept(stream, view.start, view.end)
    begun = _begun_character(log, stream, view.start)
    if kept <= budget_bytes:
        pieces = list(log.forward(stream, view.start, view.end))
        left_out: list[tuple[int, Part]] = []
    else:
        head = _up_to(log.forward(stream, view.start, view.end), budget_bytes // 2)
        tail = _down_to(log.backward(stream, view.start, view.end), budget_bytes // 2)
        head, tail = _cut_head(head), _cut_tail(tail)
        middle = LeftOut(kept - _size(head) - _size(tail), f"{_end(head, view.start)}-{tail[0].start}")
        pieces, left_out = head + tail, [(tail[0].start, middle)]
    notes = left_out + [(gap.end, Dropped(gap.count)) for gap in gaps]
    more_to_come = more_to_come and view.end == log.end
    parts = _merge(begun if pieces or not more_to_come else b"", pieces, notes)
    if more_to_come:
        _hold_back(parts)
    return Excerpt(render(parts), kept - _size(pieces), dropped)


def tail(log: LogReader, stream: int, lines: int, budget_bytes: int, floor: int = 0) -> Excerpt:
    """The last lines; if they do not fit into the budget, as much of their end as fits."""
    pieces: list[Piece] = []
    size = newlines = 0
    for piece in log.backward(stream, floor, log.end):
        pieces.append(piece)
        size += len(piece.data)
        newlines += piece.data.count(b"\n")
        if newlines > lines or size > budget_bytes:
            break
    data = last_lines(_joined(reversed(pieces)), lines)
    surplus = len(data) - budget_bytes
    if surplus > 0:
        data = data[surplus:]
        data = data[tail_cut(data) :]
    shown = _down_to(iter(pieces), len(data)) if data else []
    first = shown[0].start if shown else log.end
    gaps = log.gaps(stream, first, log.end)
    notes: list[tuple[int, Part]] = [(gap.end, Dropped(gap.count)) for gap in gaps]
    left_out = log.kept(stream, 0, first) if surplus > 0 else 0
    if left_out:
        notes.append((first, LeftOut(left_out, f"0-{first}")))
    text = render(_merge(b"", shown, notes))
    return Excerpt(text, left_out, sum(gap.count for gap in gaps))


def _begun_character(log: LogReader, stream: int, offset: int) -> bytes:
    """The first bytes of a character, which the answer up to this offset held back: the rest had not come."""
    before = _joined(_down_to(log.backward(stream, 0, offset), 3))
    length = unfinished_bytes(before)
    return before[len(before) - length :]


def _hold_back(parts: list[Part]) -> None:
    """Leave the bytes of an unfinished character to the next answer."""
    if parts and isinstance(parts[-1], bytes):
        parts[-1] = parts[-1][: len(parts[-1]) - unfinished_bytes(parts[-1])]


def _merge(begun: bytes, pieces: list[Piece], notes: list[tuple[int, Part]]) -> list[Part]:
    """All parts in the order of the log. Neighbouring bytes are joined, so that no character is torn."""
    placed: list[tuple[int, int, Part]] = [(at, 0, note) for at, note in notes]
    placed += [(piece.start, 1, piece.data) for piece in pieces]
    parts: list[Part] = [begun] if begun else []
    for _, _, part in sorted(placed, key=lambda place: place[:2]):
        last = parts[-1] if parts else None
        if isinstance(part, bytes) and isinstance(last, bytes):
            parts[-1] = last + part
        else:
            parts.append(part)
    return parts


def _up_to(pieces: Iterable[Piece], most: int) -> list[Piece]:
    taken: list[Piece] = []
    for piece in pieces:
        if len(piece.data) >= most:
            return [*taken, Piece(piece.start, piece.data[:most])]
        taken.append(piece)
        most -= len(piece.data)
    return taken


def _down_to(pieces: Iterator[Piece], most: int) -> list[Piece]:
    taken: list[Piece] = []
    for piece in pieces:
        if len(piece.data) >= most:
            taken.append(Piece(piece.end - most, piece.data[len(piece.data) - most :]))
            break
        taken.append(piece)
        most -= len(piece.data)
    return taken[::-1]


def _cut_head(pieces: list[Piece]) -> list[Piece]:
    return _up_to(pieces, head_cut(_joined(pieces)))


def _cut_tail(pieces: list[Piece]) -> list[Piece]:
    data = _joined(pieces)
    return _down_to(reversed(pieces), len(data) - tail_cut(data))


def _joined(pieces: Iterable[Piece]) -> bytes:
    return b"".join(piece.data for piece in pieces)


def _size(pieces: list[Piece]) -> int:
    return sum(len(piece.data) for piece in pieces)


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
            for line in self._decoders[piece.stream].decode(piece.data).splitlines(keepends=True):
                self._add_line(line, piece)

    def add_note(self, left_out: LeftOut) -> None:
        self._finish_line()
        self._parts.append(note(left_out))

    def _add_line(self, line: str, piece: TimedPiece) -> None:
        if self._unfinished != piece.stream:
            self._finish_line()
            self._parts.append(_label(piece))
        self._parts.append(line)
        self._unfinished = 0 if line.endswith("\n") else piece.stream

    def _finish_line(self) -> None:
        if self._unfinished:
            self._parts.append("\n")
            self._unfinished = 0


def _label(piece: TimedPiece) -> str:
    when = datetime.fromtimestamp(piece.time_us / 1e6, UTC).strftime("%H:%M:%S.%f")[:-3]
    return f"{when} {'err' if piece.stream == STDERR else 'out'}| "


def interleaved(log: LogReader, view: Window, budget_bytes: int) -> Excerpt:
    """Both streams in one order with their times; over the budget, head and tail with a note between."""
    room, here = budget_bytes, log.stretches(view.start, view.end)
    while True:  # labels take room too: show less until text and labels fit
        excerpt = _interleaved(log, view, here, room)
        size = len(excerpt.text.encode())
        if size <= budget_bytes + NOTE_BYTES or room <= 2:
            return excerpt
        room = max(2, min(room - 1, room * budget_bytes // size))


def _interleaved(log: LogReader, view: Window, here: list[tuple[int, int]], room: int) -> Excerpt:
    line = Timeline()
    kept = sum(right - left for left, right in here)
    dropped = view.end - view.start - kept
    if kept <= room:
        line.add(log.interleaved(view.start, view.end))
        return Excerpt(line.text, 0, dropped)
    head_end, tail_start = _offset_of(here, room // 2), _offset_of(here, kept - room // 2)
    between = kept - 2 * (room // 2)
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
