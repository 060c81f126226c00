r"""What a job printed on its terminal, as lines that can be read: for a person who looks at the log.

    colours                      stay
    cursor to another row        begins a new line
    cursor to the first column   \r; forward: blanks
    the end of a line            \n: a terminal writes \r\n
    other sequences              left out: titles, modes, queries
    the alternate screen         left out: a line says that a full-screen program ran there

It makes output readable, not safe. What it does not know it leaves as it is: TtyText makes that visible.
"""

import re

from bgjob.core.late_pattern import late_pattern

FULL_SCREEN = b"[full-screen program]\n"
MOST_HELD_BYTES = 4096
MOST_BLANKS = 200
_SEQUENCE = late_pattern(
    rb"\x1b(?:\[(?P<parameters>[0-?]*+)(?P<between>[ -/]*+)(?P<final>[@-~])"
    rb"|[\]PX^_k][^\x07\x1b\n]*+(?:\x07|\x1b\\)"
    rb"|[ -/]{1,2}[0-~]"
    rb"|(?P<alone>(?![\[\]PX^_k])[0-~]))"
)
_BEGUN = late_pattern(rb"(?:\x1b(?:\[[0-?]*+[ -/]*+|[\]PX^_k][^\x07\x1b\n]*+\x1b?|[ -/]{0,2})|\r)\Z")
_ALTERNATE = frozenset({b"47", b"1047", b"1049"})
_ANOTHER_ROW = frozenset(b"ABEFHdf")


class PtyText:
    """One terminal's output, in pieces as they come."""

    def __init__(self) -> None:
        self._held = b""
        self._is_within_a_line = self._is_alternate = False

    def feed(self, data: bytes) -> bytes:
        data = self._held + data
        begun = _BEGUN.search(data, max(0, len(data) - MOST_HELD_BYTES))
        end = begun.start() if begun else len(data)
        self._held = data[end:]
        return self._readable(data[:end].replace(b"\r\n", b"\n"))

    def finish(self) -> bytes:
        """What was held back, as it is."""
        held, self._held = self._held, b""
        return b"" if self._is_alternate else held

    def _readable(self, data: bytes) -> bytes:
        parts, at = list[bytes](), 0
        for found in _SEQUENCE.finditer(data):
            self._put(parts, data[at : found.start()])
            if _is_colour(found):
                parts += [] if self._is_alternate else [found[0]]  # no text: the line is as it was
            else:
                self._put(parts, self._instead_of(found))
                self._is_alternate = _is_alternate_after(found, self._is_alternate)
            at = found.end()
        self._put(parts, data[at:])
        return b"".join(parts)

    def _put(self, parts: list[bytes], data: bytes) -> None:
        if data and not self._is_alternate:
            parts.append(data)
            _, newline, rest = data.rpartition(b"\n")
            self._is_within_a_line = bool(rest.strip(b"\r")) or (self._is_within_a_line and not newline)

    def _instead_of(self, found: re.Match[bytes]) -> bytes:
        fresh_line = b"\n" if self._is_within_a_line else b""
        if _is_alternate_after(found, False):
            return fresh_line + FULL_SCREEN
        if not _is_plain(found):
            return b""
        return fresh_line if found["final"][0] in _ANOTHER_ROW else _within_the_line(found)


def _is_alternate_after(found: re.Match[bytes], before: bool) -> bool:
    """Whether the alternate screen is on after a sequence; a reset leaves it too."""
    parameters, final = found["parameters"] or b"", found["final"]
    if final in (b"h", b"l") and parameters[:1] == b"?" and _ALTERNATE & set(parameters[1:].split(b";")):
        return bool(final == b"h")
    return before and found["alone"] != b"c"


def _is_plain(found: re.Match[bytes]) -> bool:
    """A control sequence, and not one of a private kind."""
    return (
        bool(found["final"])
        and not found["between"]
        and found["parameters"][:1] not in (b"?", b"<", b"=", b">")
    )


def _is_colour(found: re.Match[bytes]) -> bool:
    return found["final"] == b"m" and _is_plain(found)


def _within_the_line(found: re.Match[bytes]) -> bytes:
    final, parameters = found["final"], found["parameters"]
    count = int(parameters[:4]) if parameters[:4].isdigit() else 0
    if final == b"G" and count <= 1:
        return b"\r"
    return b" " * min(count or 1, MOST_BLANKS) if final == b"C" else b""
