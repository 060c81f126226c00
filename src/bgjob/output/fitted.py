"""An excerpt as an answer has it: cleaned, and no larger than its budget whatever the job printed."""

import json
from collections.abc import Callable
from dataclasses import replace

from bgjob.output import cleaner
from bgjob.output.excerpt import NOTE_BYTES, Excerpt

# Progress bars: so much output may be a few lines when it is cleaned.
NOISY_BYTES = 256 << 10
# Quotes and newlines are escaped in JSON. Text with more escapes than text has is shown in part.
ESCAPED = 1.5
LEAST_BYTES = 64


def fitted(read: Callable[[int], Excerpt], budget_bytes: int, raw: bool) -> Excerpt:
    """read: the excerpt within so many bytes of the log; raw: it is not cleaned."""
    found = read(budget_bytes)
    if raw:
        return _shortened(read, found, budget_bytes)
    cleaned = _cleaned(found)
    is_noisy = len(cleaned.text) < len(found.text) // 2
    if is_noisy and found.left_out_bytes and budget_bytes < NOISY_BYTES:
        wider = _cleaned(read(NOISY_BYTES))
        if _weight(wider.text) <= budget_bytes:
            return wider
    return _shortened(lambda room: _cleaned(read(room)), cleaned, budget_bytes)


def _shortened(read: Callable[[int], Excerpt], found: Excerpt, budget_bytes: int) -> Excerpt:
    """Bytes that are no text and characters that JSON escapes take more room than they had: show less."""
    room, most = budget_bytes, int(budget_bytes * ESCAPED) + 2 * NOTE_BYTES
    while (weight := _weight(found.text)) > most and room > LEAST_BYTES:
        room = max(LEAST_BYTES, min(room * 3 // 4, room * most // weight))
        found = read(room)
    return found


def _cleaned(found: Excerpt) -> Excerpt:
    return replace(found, text=cleaner.clean(found.text))


def _weight(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass"))
