"""The last lines of a stream. One huge line cannot fill them: of a long line the two ends are shown."""

from itertools import pairwise

from bgjob.output.excerpt import Excerpt
from bgjob.output.log_reader import LogReader, Piece
from bgjob.output.pieces import down_to, joined, merge, up_to
from bgjob.output.text import Dropped, LeftOut, Part, render, stray_bytes, unfinished_bytes

# Of a line, with its newline.
LINE_BYTES = 2000
# How far back to look for lines, whatever their length.
READ_BACK_BYTES = 1 << 20


def tail(log: LogReader, stream: int, lines: int, budget_bytes: int, floor: int = 0) -> Excerpt:
    """The last lines, as many as fit into the budget; of a long line its two ends."""
    pieces, reaches_floor = _last_pieces(log, stream, lines, max(budget_bytes, READ_BACK_BYTES), floor)
    data = joined(pieces)
    spans, is_cut = _tail_spans(data, lines, budget_bytes, reaches_floor)
    shown = [_between(pieces, *span) for span in spans]
    first = shown[0][0].start if shown else log.end
    gaps = log.gaps(stream, first, log.end)
    notes: list[tuple[int, Part]] = [(gap.end, Dropped(gap.count)) for gap in gaps]
    for ((_, left), before), ((right, _), after) in pairwise(zip(spans, shown, strict=True)):
        if left < right:
            notes.append((after[0].start, LeftOut(right - left, f"{before[-1].end}-{after[0].start}")))
    if is_cut and (older := log.kept(stream, floor, first)):
        notes.append((first, LeftOut(older, f"{floor}-{first}")))
    left_out = sum(part.count for _, part in notes if isinstance(part, LeftOut))
    text = render(merge(b"", [piece for part in shown for piece in part], notes))
    return Excerpt(text, left_out, sum(gap.count for gap in gaps))


def _last_pieces(log: LogReader, stream: int, lines: int, most: int, floor: int) -> tuple[list[Piece], bool]:
    """Oldest first, what has the last lines, or the last `most` bytes; and whether nothing lies before it."""
    pieces: list[Piece] = []
    size = newlines = 0
    for piece in log.backward(stream, floor, log.end):
        pieces.append(piece)
        size += len(piece.data)
        newlines += piece.data.count(b"\n")
        if newlines > lines or size > most:
            return pieces[::-1], False
    return pieces[::-1], True


def _tail_spans(
    data: bytes, lines: int, budget_bytes: int, is_whole: bool
) -> tuple[list[tuple[int, int]], bool]:
    """What of the data to show, and whether lines were left out before it for want of room.

    is_whole: the first line begins where the data begins.
    """
    spans: list[tuple[int, int]] = []
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


def _line_spans(data: bytes, begin: int, end: int, longest: int, has_head: bool) -> list[tuple[int, int]]:
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
