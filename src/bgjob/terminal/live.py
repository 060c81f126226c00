r"""What a job prints on its terminal, on its way to the terminal of a person who is attached.

Only listed sequences pass: those that draw, and modes that change how keys are sent and that are reset on leaving
(see input_modes.RESET). A full-screen program works as usual. Everything else is dropped:

    questions             DA, DSR, colours, sizes, modes, capabilities: our emulator answers them (see replies)
    OSC                   all but links: no title, clipboard, notice, colour or file; titles pass to the page
    DCS, APC, PM, SOS     all: no pictures, no redefined keys
    CSI t, i, y, 3J, 2h   windows, printers, checksums of what is shown, the scrollback, the keyboard's lock
    C1 as U+0080..U+009F  the 8-bit forms of all of these
    ENQ                   a terminal would type its answerback

A reset (RIS, DECSTR) passes as the sequences that draw the same and leave alone what is not the job's. A
sequence that terminals read in different ways, such as one with a control character inside, does not pass
either. An ESC passes only at the beginning of a whole sequence, so that dropped parts never join into a new one. A
sequence whose end has not come is held back until it comes; of a long string the rest is dropped as it comes.
"""

import re

from bgjob.core.late_pattern import late_pattern
from bgjob.terminal.input_modes import RESET

LONGEST_STRING = 4096

_SUSPECT = late_pattern(
    rb"\x05|\xc2[\x80-\x9f]|\xc2(?![\x80-\xbf])"
    # a byte that belongs to no character: neither its second byte nor its third nor its fourth
    rb"|(?<![\xc2-\xf4])(?<![\xe0-\xf4][\x80-\xbf])(?<![\xf0-\xf4][\x80-\xbf]{2})[\x80-\x9f]"
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
_QUESTION_ESCAPE = b"Z"
_QUESTION_OSC = late_pattern(rb"1[0-9];\?|4;[0-9]{1,3};\?")
_QUESTION_DCS = late_pattern(rb"\$q[ -~]{0,8}|\+q[0-9A-Fa-f;]*")
_DRAWING_CSI = late_pattern(
    rb"[0-9;:]*[@A-IL-MPXZ^`abdefgmrs]|[0-9]*[ST]|\??[0-2]?[JK]|u|(?:4|20)[hl]|[0-6]? q|>4(?:;[0-3])?m|[<>=][0-9;]*u"
)
_MODES_CSI = late_pattern(rb"\?([0-9;]+)([hl])")
# Modes that draw or change how keys are sent. Each of them is reset on leaving.
_MODES = frozenset(
    b"1 5 6 7 9 12 25 47 66 69 1000 1002 1003 1004 1005 1006 1007 1015 1016 1047 1048 1049 2004 2026".split()
)
_DRAWING_ESCAPE = late_pattern(rb"[789=>DEHMNO6no|}~]|[()*+./-][%\"&]?[0-~]|#[3-8]")
_LINK, _TITLE = late_pattern(rb"8;.*", re.DOTALL), late_pattern(rb"[012];.*", re.DOTALL)
_SOFT_RESET = b"\x1b7\x1b[r\x1b[?6l\x1b[?7h\x1b[4l\x1b[?1l\x1b>\x1b[?25h\x1b8\x1b(B\x1b)B\x0f\x1b[0m"
# Modes that never pass need no reset.
_RESET = RESET.replace(b"\x1b[!p", b"").replace(b"\x1b[?2031l", b"").replace(b"1001;", b"") + b"\x1b[H\x1b[2J"
_RESETS = {b"c": _RESET, b"!p": _SOFT_RESET}
MOST_QUESTIONS = 64


class LiveOutput:
    def __init__(self, *, titles: bool = False) -> None:
        """`titles`: let titles pass. The page shows them as text; on a terminal they would rename a window."""
        self._held, self._titles = b"", titles
        self._questions: list[bytes] = []
        self._in_string = False
        self.withheld_bytes = 0
        """Of what was fed last: the beginning of a sequence or a character whose end has not come."""

    def feed(self, data: bytes) -> bytes:
        fed_bytes, was_in_string = len(data), self._in_string
        data = self._after_string(self._held + data)
        goes_on = was_in_string and self._in_string
        end = self._whole_until(data)
        self._held = b"" if self._in_string else data[end:]
        self.withheld_bytes = self.withheld_bytes + fed_bytes if goes_on else len(data) - end
        return _SUSPECT.sub(self._passed, data[:end])

    def questions(self) -> list[bytes]:
        """Return the newest few questions that were dropped since the last call, for the caller to answer or not."""
        asked, self._questions = self._questions, []
        return asked

    def _passed(self, found: re.Match[bytes]) -> bytes:
        csi, osc, dcs, escape = found.group("csi", "osc", "dcs", "escape")
        if _is_question(csi, osc, dcs, escape):
            self._questions = [*self._questions, found[0]][-MOST_QUESTIONS:]
            return b""
        if (reset := _RESETS.get(csi or escape)) is not None:
            return reset
        if csi is not None:
            return found[0] if _DRAWING_CSI.fullmatch(csi) else _known_modes(csi)
        if osc is not None:
            is_plain = _LINK.fullmatch(osc) or (self._titles and _TITLE.fullmatch(osc))
            return found[0] if is_plain and _is_text(osc) else b""
        return found[0] if escape is not None and _DRAWING_ESCAPE.fullmatch(escape) else b""

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


def questions_in(data: bytes) -> list[bytes]:
    live = LiveOutput()
    live.feed(data)
    return live.questions()


def _is_question(csi: bytes | None, osc: bytes | None, dcs: bytes | None, escape: bytes | None) -> bool:
    return (
        (csi is not None and _QUESTION_CSI.fullmatch(csi) is not None)
        or (osc is not None and _QUESTION_OSC.fullmatch(osc) is not None)
        or (dcs is not None and _QUESTION_DCS.fullmatch(dcs) is not None)
        or escape == _QUESTION_ESCAPE
    )


def _known_modes(csi: bytes) -> bytes:
    found = _MODES_CSI.fullmatch(csi)
    numbers = [number for number in found[1].split(b";") if number in _MODES] if found else []
    return b"\x1b[?" + b";".join(numbers) + found[2] if found and numbers else b""


def _is_text(data: bytes) -> bool:
    """Without C0, DEL and C1: some terminals end a string at them."""
    try:
        return not any(letter < " " or "\x7f" <= letter <= "\x9f" for letter in data.decode())
    except UnicodeDecodeError:
        return False
