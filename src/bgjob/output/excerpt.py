"""Chooses from a log what an answer shows of it: all, or head and tail."""

from bgjob.core.errors import InvalidArgument
from bgjob.core.frozen import Frozen
from bgjob.output.begun import begun, begun_sequence, hold_back
from bgjob.output.log_reader import LogReader, Piece
from bgjob.output.pieces import cut_head, cut_tail, down_to, merge, size_of, up_to
from bgjob.output.text import Dropped, LeftOut, Part, render

NOTE_BYTES = 100


class Excerpt(Frozen):
    """What one stream printed in a window of the log, as text, and how much is missing from the text."""

    text: str
    left_out_bytes: int = 0
    dropped_bytes: int = 0


class Window(Frozen):
    """A part of the log, between two offsets."""

    start: int
    end: int

    def may_grow(self, log: LogReader, is_running: bool) -> bool:
        """More may come behind it: then half a character at its end is held back."""
        return is_running and self.end == log.end


def window(cursor: str | None, log_end: int) -> Window:
    """A cursor is "N" (everything after N) or "N-M" (a part that was left out).

    One beyond the end is of another job, which had the same name before: rather too much is read than too little.
    """
    if cursor is None:
        return Window(0, log_end)
    start, dash, end = cursor.partition("-")
    if not (start.isascii() and start.isdigit() and (not dash or (end.isascii() and end.isdigit()))):
        raise InvalidArgument(
            f"={cursor[:40]!r} is not a cursor.", "Pass one exactly as an answer gave it.", argument="since"
        )
    first, last = int(start[:20]), min(int(end[:20]), log_end) if dash else log_end
    return Window(first if first <= log_end else 0, last)


def whole(
    log: LogReader, stream: int, view: Window, budget_bytes: int, is_running: bool, cleaned: bool = False
) -> Excerpt:
    """All that a stream printed if it fits into the budget, else head and tail with a note between.

    cleaned: the text will be cleaned, so a sequence that begins before a part of it is put before that part.
    """
    gaps = log.gaps(stream, view.start, view.end)
    dropped = sum(gap.count for gap in gaps)
    kept = log.kept(stream, view.start, view.end)
    before = begun(log, stream, view.start, cleaned)
    if kept <= budget_bytes:
        pieces = list(log.forward(stream, view.start, view.end))
        left_out: list[tuple[int, Part]] = []
    else:
        head_bytes, tail_bytes = shares(budget_bytes, is_running)
        head = cut_head(up_to(log.forward(stream, view.start, view.end), head_bytes))
        tail = cut_tail(down_to(log.backward(stream, view.start, view.end), tail_bytes))
        at = tail[0].start
        middle = LeftOut(kept - size_of(head) - size_of(tail), f"{_end(head, view.start)}-{at}")
        pieces, left_out = head + tail, [(at, middle)]
        if cleaned:
            before_tail = begun(log, stream, at, cleaned)
            left_out.append((at, begun_sequence(before_tail, len(before_tail))))
    notes = left_out + [(gap.end, Dropped(gap.count)) for gap in gaps]
    more_to_come = view.may_grow(log, is_running)
    parts = merge(before if pieces or not more_to_come else b"", pieces, notes)
    if more_to_come:
        hold_back(parts)
    return Excerpt(render(parts), kept - size_of(pieces), dropped)


def shares(budget_bytes: int, is_running: bool) -> tuple[int, int]:
    """Of head and tail. How a job ended is at the end of its output: then the tail is worth more."""
    head = budget_bytes // (2 if is_running else 4)
    return head, budget_bytes // 2 if is_running else budget_bytes - head


def _end(pieces: list[Piece], otherwise: int) -> int:
    return pieces[-1].end if pieces else otherwise
