"""What a terminal sends by itself: answers to a program's questions, and reports of its focus. No person typed it."""

from bgjob.core.late_pattern import late_pattern

_REPLIES = late_pattern(
    rb"(?:\x1b\[[?>=]?[0-9;]*(?:[cnRtxIO]|\$y)"
    rb"|\x1b\[\?[0-9;]*u"
    rb"|\x1b\](?:1[0-9]|4);[^\x07\x1b]*(?:\x07|\x1b\\)"
    rb"|\x1bP[01]?[$+>|!][^\x1b]*\x1b\\)+"
)


def are_replies(data: bytes) -> bool:
    return _REPLIES.fullmatch(data) is not None
