"""What begins before a part of a stream and ends in it: a character, or an escape sequence.

The part before does not show it: half a character is held back while the rest may come, and the cleaner
removes a sequence that does not end. So it is put before the next part.
"""

from bgjob.core.late_pattern import late_pattern
from bgjob.output.log_reader import LogReader
from bgjob.output.pieces import down_to, joined
from bgjob.output.text import Part, unfinished_bytes

CHARACTER_BYTES = 3
# A link or a title may be long.
SEQUENCE_BYTES = 2048
# As the cleaner reads them. Text that a sequence carries ends with its line, whether the sequence does or not.
_SEQUENCE = late_pattern(
    rb"(?:\x1b[ -/]{0,2}|(?:\x1b\[|\xc2\x9b)[0-?]*+[ -/]*+|\x1b[\]PX^_][^\x00-\x08\x0a-\x1f\x7f]*+\x1b?)\Z"
)

_MARKS = (b"\x1b", b"\xc2\x9b")
"""One of them begins every sequence."""


def begun(log: LogReader, stream: int, offset: int, cleaned: bool) -> bytes:
    """The first bytes of what the stream had not finished at an offset; of a sequence, if it will be cleaned."""
    look_back = SEQUENCE_BYTES if cleaned else CHARACTER_BYTES
    pieces = down_to(log.backward(stream, 0, offset), look_back)
    before = joined(pieces)
    sequence = begun_sequence(before, len(before)) if cleaned else b""
    found = sequence or before[len(before) - unfinished_bytes(before) :]
    start = down_to(reversed(pieces), len(found))[0].start if found else offset
    return found if not log.gaps(stream, start, offset) else b""


def begun_sequence(data: bytes, position: int) -> bytes:
    """What of an escape sequence lies before a position of the data, if it does not end there."""
    begin = max(0, position - SEQUENCE_BYTES)
    if all(data.find(mark, begin, position) < 0 for mark in _MARKS):
        return b""  # as nearly always, and found out in no time
    found = _SEQUENCE.search(data, begin, position)
    return found[0] if found else b""


def hold_back(parts: list[Part]) -> None:
    """Leave the bytes of an unfinished character to the next answer."""
    if parts and isinstance(parts[-1], bytes):
        parts[-1] = parts[-1][: len(parts[-1]) - unfinished_bytes(parts[-1])]
