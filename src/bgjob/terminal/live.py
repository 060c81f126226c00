r"""What a job prints on its terminal, on its way to the terminal of a person who is attached.

All that draws, or changes how keys are sent, passes: a full-screen program works as it would there. What does
not pass, because it acts beyond the screen or speaks for the person:

    questions             only to the one terminal that is to answer (DA, DSR, colours, sizes, modes, capabilities)
    OSC                   but titles, links and questions for colours: no clipboard, no notices, no files
    DCS, APC, PM, SOS     but questions: no keys are redefined
    CSI t, i, y, 3J, 2h   windows, printers, checksums of what is shown, the scrollback, the keyboard's lock
    C1 as U+0080..U+009F  the 8-bit forms of all of these
    ENQ                   a terminal would type its answerback

A sequence that terminals read in different ways, such as one with a control character inside, does not pass
either. No ESC passes but at the beginning of a whole sequence, so that what is dropped joins nothing. A
sequence whose end has not come is held back until it comes; of a long string the rest is dropped as it comes.
"""

import re

from bgjob.core.late_pattern import late_pattern

LONGEST_STRING = 4096

_SUSPECT = late_pattern(
    rb"\x05|\xc2[\x80-\x9f]|\xc2(?![\x80-\xbf])|(?<![\x80-\xbf\xc2-\xf4])[\x80-\x9f]"
    rb"|\x1b(?:\[(?P<csi>[0-?]*+[ -/]*+[@-~])"
    rb"|\](?P<osc>[^\x07\x18\x1a\x1b]*+)(?:\x07|\x1b\\)"
    rb"|P(?P<dcs>[^\x18\x1a\x1b]*+)\x1b\\"
    rb"|(?P<string>[\]PX^_k])[^\x07\x18\x1a\x1b]*+(?:\x07|\x1b\\)?"
    rb"|(?P<escape>[ -/]*+[0-OQ-WYZ`-jl-~])"
    rb"|[\x00-\x1a\x1c-\x1f\x7f]*+\[?)"
)
_UNFINISHED = late_pattern(
    rb"\x1b(?:\[[0-?]*+[ -/]*+|[\]PX^_k][^\x07\x18\x1a\x1b]*+\x1b?|[ -/]*+|[\x00-\x1a\x1c-\x1f\x7f]*+)\Z"
)
_BEGUN_CHARACTER = late_pattern(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")
_STRING_END = late_pattern(rb"[\x07\x18\x1a]|\x1b\\?")
_QUESTION_CSI = late_pattern(rb"[0-?]*[nc]|[0-?]*\$p|>[0-9;]*q|\?u|[0-9;]*x|1[13-689](?:;[0-9;]*)?t")
_HARMFUL_CSI = late_pattern(
    rb"[0-?]*[ -/]*[itxy]|[0-?]*[\"#$%&'()*+,./-][@-~]|\??3J|(?!(?:4|20)[hl])[0-9;]*[hl]|\?(?:3|40)[hl]"
)
_PLAIN_OSC = late_pattern(rb"[0128];.*", re.DOTALL)
_QUESTION_OSC = late_pattern(rb"1[0-9];\?|4;[0-9]{1,3};\?")
_QUESTION_DCS = late_pattern(rb"\$q[ -~]{0,8}|\+q[0-9A-Fa-f;]*")
# DECID asks who the terminal is; the others choose a coding, or 8-bit controls.
_QUESTION_ESCAPE, _HARMFUL_ESCAPE = b"Z", late_pattern(rb"%.| [FG]|[\\]")


class LiveOutput:
    def __init__(self) -> None:
        self._held = b""
        self._in_string = False
        self.withheld_bytes = 0
        """Of what was fed last: the beginning of a sequence or a character whose end has not come."""

    def feed(self, data: bytes, *, answers: bool) -> bytes:
        """`answers`: this terminal answers the questions of the job."""
        fed_bytes, was_in_string = len(data), self._in_string
        data = self._after_string(self._held + data)
        goes_on = was_in_string and self._in_string
        end = self._whole_until(data)
        self._held = b"" if self._in_string else data[end:]
        self.withheld_bytes = self.withheld_bytes + fed_bytes if goes_on else len(data) - end
        return _SUSPECT.sub(lambda found: found[0] if _passes(found, answers) else b"", data[:end])

    def _after_string(self, data: bytes) -> bytes:
        if not self._in_string:
            return data
        end = _STRING_END.search(data)
        self._in_string = end is None
        return data[end.end() :] if end else b""

    def _whole_until(self, data: bytes) -> int:
        """Where a sequence or a character begins whose end has not come."""
        starts = [data.rfind(b"\x1b")]
        if data.endswith(b"\x1b"):  # it may be the first half of what ends a string
            starts.append(data.rfind(b"\x1b", 0, -1))
        begun = min((at for at in starts if at >= 0 and _UNFINISHED.match(data, at)), default=len(data))
        self._in_string = self._in_string or len(data) - begun > LONGEST_STRING
        character = _BEGUN_CHARACTER.search(data, max(0, begun - 3), begun)
        return character.start() if character else begun


def questions_in(data: bytes) -> bytes:
    """Only the questions, for a terminal that is to answer what was not passed to it."""
    found = _SUSPECT.finditer(data)
    return b"".join(each[0] for each in found if _passes(each, True) and not _passes(each, False))


def _passes(found: re.Match[bytes], answers: bool) -> bool:
    csi, osc, dcs, escape = found.group("csi", "osc", "dcs", "escape")
    if csi is not None:
        return answers if _QUESTION_CSI.fullmatch(csi) else not _HARMFUL_CSI.fullmatch(csi)
    if osc is not None:
        is_question = answers and _QUESTION_OSC.fullmatch(osc) is not None
        return is_question or (_PLAIN_OSC.fullmatch(osc) is not None and _is_text(osc))
    if dcs is not None:
        return answers and _QUESTION_DCS.fullmatch(dcs) is not None
    if escape is not None:
        return answers if escape == _QUESTION_ESCAPE else not _HARMFUL_ESCAPE.fullmatch(escape)
    return False


def _is_text(data: bytes) -> bool:
    """Without C0, DEL and C1: some terminals end a string at them."""
    try:
        return not any(letter < " " or "\x7f" <= letter <= "\x9f" for letter in data.decode())
    except UnicodeDecodeError:
        return False
