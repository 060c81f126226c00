"""From bytes to text, at the last step: the output that an answer shows, and its notes about the rest."""

from bgjob.core.frozen import Frozen
from bgjob.output.cleaner import clean


class LeftOut(Frozen):
    """Bytes that the log has and this answer does not."""

    count: int
    cursor: str


class Dropped(Frozen):
    """Bytes that the log no longer has."""

    count: int


Part = bytes | LeftOut | Dropped


def render(parts: list[Part]) -> str:
    """One text, with each note on a line of its own at its place."""
    text = ""
    for part in parts:
        if isinstance(part, bytes):
            text += part.decode("utf-8", "replace")
        else:
            text += ("" if text.endswith("\n") or not text else "\n") + note(part)
    return text


def note(part: LeftOut | Dropped) -> str:
    if isinstance(part, LeftOut):
        return f'[bgjob: {part.count} bytes left out here; get_job_output with since="{part.cursor}" reads them]\n'
    return f"[bgjob: {part.count} bytes dropped here, beyond what is kept of a job's output]\n"


def unfinished_bytes(data: bytes) -> int:
    """How many bytes at the end are the beginning of a character whose rest has not come: 0 to 3."""
    for length in range(1, min(3, len(data)) + 1):
        byte = data[-length]
        if byte & 0xC0 == 0xC0:
            wanted = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return length if length < wanted and byte < 0xF8 else 0
        if byte & 0xC0 != 0x80:
            return 0
    return 0


def stray_bytes(data: bytes) -> int:
    """How many bytes at the start are the rest of a character that begins before it: 0 to 3."""
    count = 0
    while count < min(3, len(data)) and data[count] & 0xC0 == 0x80:
        count += 1
    return count if count < len(data) and data[count] & 0xC0 != 0x80 else 0


def head_cut(data: bytes) -> int:
    """How much of a head to show: whole lines if its second half has any, else whole characters."""
    line = data.rfind(b"\n", len(data) // 2) + 1
    return line or len(data) - unfinished_bytes(data)


def tail_cut(data: bytes) -> int:
    """Where a tail begins to be shown, by the same rule."""
    line = data.find(b"\n", 0, len(data) // 2) + 1
    return line or stray_bytes(data)


def unfinished_line(data: bytes) -> str | None:
    """The text after the last newline, as a person at a terminal would read it; None if there is none."""
    return plain_line(data[data.rfind(b"\n") + 1 :]).strip() or None


def plain_line(line: bytes) -> str:
    return clean(line.decode("utf-8", "replace")).strip("\n")
