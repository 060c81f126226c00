"""The last lines of a stream. One huge line cannot fill them: of a long line the two ends are shown."""

from collections.abc import Iterator
from itertools import pairwise

from bgjob.output.begun import begun, begun_sequence, hold_back
from bgjob.output.excerpt import Excerpt, Window
from bgjob.output.log_reader import LogReader, Piece
from bgjob.output.pieces import down_to, joined, merge, up_to
from bgjob.output.text import Dropped, LeftOut, Part, render, stray_bytes, unfinished_bytes

# Of the data: begin, end.
Span = tuple[int, int]
# Of a line, with its newline.
LINE_BYTES = 2000
# How far back to look for lines, whatever their length.
READ_BACK_BYTES = 1 << 20


def tail(
    log: LogReader,
    stream: int,
    lines: int,
    budget_bytes: int,
    view: Window | None = None,
    is_running: bool = False,
    cleaned: bool = False,
) -> Excerpt:
    """The last lines, as many as fit into the budget; of a long line its two ends."""
    view = view or Window(0, log.end)
    pieces, is_whole = _last_pieces(log, stream, lines, max(budget_bytes, READ_BACK_BYTES), view)
    data = joined(pieces)
    line_spans, is_cut = _tail_spans(data, lines, budget_bytes, is_whole)
    spans = _side_by_side(line_spans)
    shown = [_between(pieces, *span) for span in spans]
    first = shown[0][0].start if shown else view.end
    gaps = log.gaps(stream, first, view.end)
    notes: list[tuple[int, Part]] = [(gap.end, Dropped(gap.count)) for gap in gaps]
    if is_cut and (older := log.kept(stream, view.start, first)):
        notes.append((first, LeftOut(older, f"{view.start}-{first}")))
    notes += _between_the_ends(spans, shown)
    left_out = sum(part.count for _, part in notes if isinstance(part, LeftOut))
    if cleaned:
        begins = zip(spans, shown, strict=True)
        notes += [(part[0].start, begun_sequence(data, left)) for (left, _), part in begins]
    begins_view = is_whole and bool(spans) and spans[0][0] == 0
    before = begun(log, stream, view.start, cleaned) if begins_view else b""
    parts = merge(before, [piece for part in shown for piece in part], notes)
    if view.may_grow(log, is_running):
        hold_back(parts)
    return Excerpt(render(parts), left_out, sum(gap.count for gap in gaps))


def _between_the_ends(spans: list[Span], shown: list[list[Piece]]) -> Iterator[tuple[int, LeftOut]]:
    """A note for each long line, of which the two ends are shown."""
    for ((_, left), before), ((right, _), after) in pairwise(zip(spans, shown, strict=True)):
        if left < right:
            yield after[0].start, LeftOut(right - left, f"{before[-1].end}-{after[0].start}")


def _last_pieces(
    log: LogReader, stream: int, lines: int, most: int, view: Window
) -> tuple[list[Piece], bool]:
    """Oldest first, what has the last lines, or the last `most` bytes; and whether nothing lies before it."""
    pieces: list[Piece] = []
    size = newlines = 0
    for piece in log.backward(stream, view.start, view.end):
        pieces.append(piece)
        size += len(piece.data)
        newlines += piece.data.count(b"\n")
        if newlines > lines or size > most:
            return pieces[::-1], False
    return pieces[::-1], True


def _tail_spans(data: bytes, lines: int, budget_bytes: int, is_whole: bool) -> tuple[list[Span], bool]:
    """What of the data to show, and whether lines were left out before it for want of room.

    is_whole: the first line begins where the data begins.
    """
    spans: list[Span] = []
    end, longest = len(data), max(8, min(LINE_BYTES, budget_bytes))
    for _ in range(lines):
        if not end:
            break
        begin = data.rfind(b"\n", 0, end - 1) + 1
        line = _line_spans(data, begin, end, longest, is_whole or begin > 0)
        budget_bytes -= sum(right - left for left, right in line)
        if budget_bytes < 0:
            return spans, True
        spans = line + spans
        end = begin
    return spans, (end == 0 and not is_whole) or bool(spans and spans[0][0] > end)


def _side_by_side(spans: list[Span]) -> list[Span]:
    """The same with one span for neighbours: most lines follow each other."""
    together: list[Span] = []
    for begin, end in spans:
        if together and together[-1][1] == begin:
            begin = together.pop()[0]
        together.append((begin, end))
    return together


def _line_spans(data: bytes, begin: int, end: int, longest: int, has_head: bool) -> list[Span]:
    """A line, or the two ends of a long one."""
    if end - begin <= longest:
        return [(begin, end)]
    head = data[begin : begin + longest // 2]
    right = end - longest // 2
    right += stray_bytes(data[right:end])
    left = begin + len(head) - unfinished_bytes(head)
    return [(begin, left), (right, end)] if has_head and left > begin else [(right, end)]


def _between(pieces: list[Piece], begin: int, end: int) -> list[Piece]:
    """The pieces of a part of their joined bytes."""
    return down_to(iter(reversed(up_to(pieces, end))), end - begin)
