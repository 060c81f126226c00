"""Modes that change what a terminal sends, and nothing that it shows: mouse, paste, focus, keypad, cursor shape.

The screen does without them; a person who is attached types under them.
"""

import re

from bgjob.core.late_pattern import late_pattern

_PRIVATE = frozenset(b"9 12 66 1000 1001 1002 1003 1004 1005 1006 1007 1015 1016 2004 2031".split())
_EVENT = late_pattern(
    rb"\x1b(?:\[\?(?P<modes>[0-9;]{1,64})(?P<to>[hl])|(?P<keypad>[=>])|\[(?P<shape>[0-6]?) q"
    rb"|\[>(?P<keys>4(?:;[0-3])?)m|(?P<reset>c|\[!p))"
)
# Sets back whatever a job may have set. The cursor is in the first row then.
RESET = (
    b"\x1b[?1049l\x1b[!p\x1b[r\x1b[?6l\x1b[?69l\x1b[?7h\x1b[4l\x1b[20l\x1b[?1l\x1b[?5l\x1b>\x1b[?25h\x1b[?12l\x1b[?66l"
    b"\x1b[?9;1000;1001;1002;1003;1004;1005;1006;1007;1015;1016l\x1b[?2004l\x1b[?2026l\x1b[?2031l\x1b[>4m\x1b[<99u"
    b"\x1b[0 q\x1b(B\x1b)B\x0f\x1b]8;;\x1b\\\x1b[0m"
)


def input_modes(data: bytes) -> bytes:
    """Those that these bytes leave set. Windows are joined by input_modes(input_modes(older) + newer)."""
    kept: dict[bytes, bytes] = {}
    for event in _EVENT.finditer(data):
        kind = event.lastgroup
        if kind == "reset":
            kept = {}
        elif event["modes"]:
            kept |= _single(event)
        elif kind is not None:
            kept[kind.encode()] = event[0]
    return b"".join(kept.values())


def _single(event: re.Match[bytes]) -> dict[bytes, bytes]:
    numbers = [number for number in event["modes"].split(b";") if number in _PRIVATE]
    return {number: b"\x1b[?" + number + event["to"] for number in numbers}
