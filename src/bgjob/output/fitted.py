"""An excerpt as an answer has it: cleaned, and no larger than its budget whatever the job printed."""

import json
from collections.abc import Callable, Sequence

from bgjob.core.frozen import replace
from bgjob.output import cleaner
from bgjob.output.excerpt import NOTE_BYTES, Excerpt

# Progress bars: so much output may be a few lines when it is cleaned.
NOISY_BYTES = 256 << 10
# Quotes and newlines are escaped in JSON. Text with more escapes than text has is shown in part.
ESCAPED = 1.5
LEAST_BYTES = 64


def fitted(
    read: Callable[[int], Excerpt], budget_bytes: int, raw: bool, most_bytes: int | None = None
) -> Excerpt:
    """read: the excerpt within so many bytes of the log; raw: it is not cleaned.

    most_bytes: of its text in JSON; else half as much again as the budget, and notes.
    """
    most = most_bytes or int(budget_bytes * ESCAPED) + 2 * NOTE_BYTES
    found = read(budget_bytes)
    if raw:
        return _shortened(read, found, budget_bytes, most)
    cleaned = _cleaned(found)
    is_noisy = len(cleaned.text) < len(found.text) // 2
    if is_noisy and found.left_out_bytes and budget_bytes < NOISY_BYTES:
        wider = _cleaned(read(NOISY_BYTES))
        if weight(wider.text) <= budget_bytes:
            return wider
    return _shortened(lambda room: _cleaned(read(room)), cleaned, budget_bytes, most)


def fitted_together(reads: Sequence[Callable[[int], Excerpt]], budget_bytes: int, raw: bool) -> list[Excerpt]:
    """Two excerpts within one budget: what one does not use, the other has."""
    found = [fitted(read, budget_bytes, raw, budget_bytes) for read in reads]
    weights = [weight(each.text) for each in found]
    rooms = [max(budget_bytes // 2, budget_bytes - other) for other in reversed(weights)]
    return [
        each if size <= room else fitted(read, room, raw, room)
        for read, each, size, room in zip(reads, found, weights, rooms, strict=True)
    ]


def _shortened(read: Callable[[int], Excerpt], found: Excerpt, room: int, most: int) -> Excerpt:
    """Bytes that are no text and characters that JSON escapes take more room than they had: show less."""
    while (size := weight(found.text)) > most and room > LEAST_BYTES:
        room = max(LEAST_BYTES, min(room * 9 // 10, room * most // size))
        found = read(room)
    return found


def _cleaned(found: Excerpt) -> Excerpt:
    return replace(found, text=cleaner.clean(found.text))


def weight(text: str) -> int:
    """Its bytes in JSON."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass"))
