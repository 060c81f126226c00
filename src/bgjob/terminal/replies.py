"""Bytes that a terminal sends by itself, not typed by a person: answers to questions, and reports of its focus.

Questions never reach the terminal of an attached person: our emulator answers them, as a plain VT220 with colours.
So a job learns nothing about that terminal, and no answer is typed at a shell after the person has left.
"""

from collections.abc import Callable

from bgjob.core.late_pattern import late_pattern

_REPLIES = late_pattern(
    rb"(?:\x1b\[[?>=]?[0-9;]*(?:[cnRtxIO]|\$y)"
    rb"|\x1b\[\?[0-9;]*u"
    rb"|\x1b\](?:1[0-9]|4);[^\x07\x1b]*(?:\x07|\x1b\\)"
    rb"|\x1bP[01]?[$+>|!][^\x1b]*\x1b\\)+"
)


DEVICE, DEVICE_VERSION, NAME = b"\x1b[?62;22c", b"\x1b[>1;10;0c", b"\x1bP>|bgjob\x1b\\"
_FIXED = {
    **dict.fromkeys((b"\x1b[c", b"\x1b[0c", b"\x1bZ"), DEVICE),
    **dict.fromkeys((b"\x1b[>c", b"\x1b[>0c"), DEVICE_VERSION),
    **dict.fromkeys((b"\x1b[>q", b"\x1b[>0q"), NAME),
    b"\x1b[5n": b"\x1b[0n",
}
_MODE = late_pattern(rb"\x1b\[(\??)([0-9]{1,5})\$p")
CURSOR = {b"\x1b[6n": b"\x1b[%d;%dR", b"\x1b[?6n": b"\x1b[?%d;%dR"}
SIZE = b"\x1b[18t"

Place = tuple[int, int]
"""Row and column, from 1."""


def answer_to(question: bytes, cursor: Callable[[], Place], size: Callable[[], Place]) -> bytes:
    """Return the answer, empty for a question that many terminals leave open, such as that for a colour."""
    if question in CURSOR:
        return CURSOR[question] % cursor()
    if question == SIZE:
        return b"\x1b[8;%d;%dt" % size()
    if mode := _MODE.fullmatch(question):
        return b"\x1b[%b%b;0$y" % (mode[1], mode[2])  # an unknown mode
    if question.startswith(b"\x1bP"):
        return b"\x1bP0%br\x1b\\" % question[2:3]  # no such setting or capability
    return _FIXED.get(question, b"")


def are_replies(data: bytes) -> bool:
    return _REPLIES.fullmatch(data) is not None
