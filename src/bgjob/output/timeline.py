"""Both streams in one order, each line with its time and stream."""

import time
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator

from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output.begun import begun
from bgjob.output.excerpt import NOTE_BYTES, Excerpt, Window, shares
from bgjob.output.log_reader import LogReader, TimedPiece
from bgjob.output.pieces import cut_head, cut_tail, down_to, size_of, up_to
from bgjob.output.text import Dropped, LeftOut, note

Decoder = getincrementaldecoder("utf-8")
STREAMS = (STDOUT, STDERR)


class Row:
    """A line, or as much of it as came before the other stream printed; or a note."""

    def __init__(self, offset: int, text: str, stream: int = 0, dropped_bytes: int = 0) -> None:
        """Stream 0: a note."""
        self.offset, self.text = offset, text
        self.stream, self.dropped_bytes = stream, dropped_bytes

    @property
    def is_unfinished(self) -> bool:
        return not self.text.endswith("\n")


class Timeline:
    """Collects pieces in the order of the log.

    A character or sequence that the edge of a part cuts is shown in the part where it ends.
    """

    def __init__(self, log: LogReader, start: int, cleaned: bool) -> None:
        self.rows: list[Row] = []
        self._log, self._cleaned = log, cleaned
        self._labels: dict[int, str] = {}
        self._begin_at(start)

    def _begin_at(self, offset: int) -> None:
        self._at = offset
        self._decoders = {stream: Decoder("replace") for stream in STREAMS}
        self._begun = {
            stream: self._decoders[stream].decode(begun(self._log, stream, offset, self._cleaned))
            for stream in STREAMS
        }

    @property
    def text(self) -> str:
        return "".join(row.text for row in self.rows)

    def add(self, pieces: Iterable[TimedPiece], end: int) -> None:
        """What is here of the log up to an offset, with a note wherever bytes were dropped."""
        for piece in pieces:
            self._skip_to(piece.start)
            self._labels[piece.stream] = _label(piece)
            for line in piece.data.splitlines(keepends=True):
                self._add_bytes(line, piece.stream)
        self._skip_to(end)

    def leave_out(self, count: int, end: int) -> None:
        """So many bytes of those up to an offset; the others were dropped."""
        dropped = end - self._at - count
        self._add_row(Row(self._at, note(LeftOut(count, f"{self._at}-{end}"))))
        if dropped:
            self._add_row(Row(self._at, note(Dropped(dropped)), dropped_bytes=dropped))
        self._begin_at(end)

    def finish(self) -> None:
        """Nothing more will come: half a character is all there is of it."""
        for stream, decoder in self._decoders.items():
            self._add_text(decoder.decode(b"", final=True), stream)

    def _skip_to(self, offset: int) -> None:
        if count := offset - self._at:
            self.finish()
            self._begun.clear()
            self._add_row(Row(self._at, note(Dropped(count)), dropped_bytes=count))
            self._at = offset

    def _add_bytes(self, line: bytes, stream: int) -> None:
        text = self._decoders[stream].decode(line)
        if text:
            self._add_text(self._begun.pop(stream, "") + text, stream)
        self._at += len(line)

    def _add_text(self, text: str, stream: int) -> None:
        last = self.rows[-1] if self.rows else None
        if last and last.stream == stream and last.is_unfinished:
            last.text += text
        elif text:
            self._add_row(Row(self._at, self._labels.get(stream, "") + text, stream))

    def _add_row(self, row: Row) -> None:
        if self.rows and self.rows[-1].is_unfinished:
            self.rows[-1].text += "\n"
        self.rows.append(row)


def _label(piece: TimedPiece) -> str:
    seconds, rest_us = divmod(piece.time_us, 10**6)
    when = f"{time.strftime('%H:%M:%S', time.gmtime(seconds))}.{rest_us // 1000:03}"
    return f"{when} {'err' if piece.stream == STDERR else 'out'}| "


def interleaved(
    log: LogReader, view: Window, budget_bytes: int, is_running: bool, cleaned: bool = False
) -> Excerpt:
    """Both streams in one order with their times; over the budget, head and tail with a note between."""
    room, kept = budget_bytes, _kept(log, view.start, view.end)
    while True:  # labels take room too: show less until text and labels fit
        timeline = Timeline(log, view.start, cleaned)
        left_out = _add_excerpt(timeline, log, view, kept, shares(room, is_running))
        if not view.may_grow(log, is_running):
            timeline.finish()
        size = len(timeline.text.encode())
        if size <= budget_bytes + NOTE_BYTES or room <= 2:
            return Excerpt(timeline.text, left_out, view.end - view.start - kept)
        room = max(2, min(room - 1, room * budget_bytes // size))


def _add_excerpt(timeline: Timeline, log: LogReader, view: Window, kept: int, most: tuple[int, int]) -> int:
    """How many bytes were left out."""
    if kept <= sum(most):
        timeline.add(log.interleaved(view.start, view.end), view.end)
        return 0
    head = cut_head(up_to(log.interleaved(view.start, view.end), most[0]))
    tail = cut_tail(down_to(log.interleaved(view.start, view.end, newest_first=True), most[1]))
    left_out = kept - size_of(head) - size_of(tail)
    timeline.add(head, head[-1].end if head else view.start)
    timeline.leave_out(left_out, tail[0].start)
    timeline.add(tail, view.end)
    return left_out


def _kept(log: LogReader, start: int, end: int) -> int:
    return sum(log.kept(stream, start, end) for stream in STREAMS)


def interleaved_tail(
    log: LogReader, lines: int, budget_bytes: int, view: Window, is_running: bool, cleaned: bool = False
) -> Excerpt:
    """The last lines of both streams together, as many as fit into the budget."""
    pieces = down_to(log.interleaved(view.start, view.end, newest_first=True), budget_bytes)
    if size_of(pieces) == budget_bytes:
        pieces = cut_tail(pieces)
    timeline = Timeline(log, pieces[0].start if pieces else view.end, cleaned)
    timeline.add(pieces, view.end)
    if not view.may_grow(log, is_running):
        timeline.finish()
    rows = list(_fitting(timeline.rows, lines, budget_bytes))[::-1]
    first = rows[0].offset if rows else view.end
    text, dropped = "".join(row.text for row in rows), sum(row.dropped_bytes for row in rows)
    older = _kept(log, view.start, first) if sum(row.stream > 0 for row in rows) < lines else 0
    left_out = note(LeftOut(older, f"{view.start}-{first}")) if older else ""
    return Excerpt(left_out + text, older, dropped)


def _fitting(rows: list[Row], lines: int, budget_bytes: int) -> Iterator[Row]:
    """The last rows, newest first: so many lines, or as many as the budget has room for; at least one."""
    for row in reversed(rows):
        budget_bytes -= len(row.text.encode())
        if budget_bytes < 0 and row is not rows[-1]:
            return
        yield row
        lines -= row.stream > 0
        if not lines:
            return
