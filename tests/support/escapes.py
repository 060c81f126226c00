r"""What a job may print, be named or be called with to attack whoever looks: a terminal, its user, or a model.

`ESCAPES` has one entry per kind, by name: bytes without a NUL or a newline, so that each can be an argument of a
program too. What is hidden in it says `PWNED` where it can carry text. `as_text` is what a face that speaks text
would be given. Both the tests of the command line and those of the tools go through all of them.
"""

import re
from collections.abc import Mapping

# What a terminal may be given of all this: colours. Nothing else that steers it, and nothing that is not seen.
SGR = re.compile(r"\x1b\[[0-9;:]*m")
STEERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
UNSEEN = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)

PWNED = "PWNED"
_BASE64 = b"UFdORUQ="  # of PWNED

ESC, BEL, ST = b"\x1b", b"\x07", b"\x1b\\"
CSI, OSC, DCS, SOS, PM, APC = b"\x1b[", b"\x1b]", b"\x1bP", b"\x1bX", b"\x1b^", b"\x1b_"
C1_CSI, C1_OSC, C1_DCS, C1_APC, C1_ST = b"\x9b", b"\x9d", b"\x90", b"\x9f", b"\x9c"


def _utf8(*code_points: int) -> bytes:
    return "".join(map(chr, code_points)).encode()


_CLIPBOARD: Mapping[str, bytes] = {
    "clipboard set, ended by BEL": OSC + b"52;c;" + _BASE64 + BEL,
    "clipboard set, ended by ST": OSC + b"52;c;" + _BASE64 + ST,
    "clipboard set, ended by C1 ST": OSC + b"52;c;" + _BASE64 + C1_ST,
    "clipboard set, in raw C1": C1_OSC + b"52;c;" + _BASE64 + C1_ST,
    "clipboard set, in UTF-8 C1": _utf8(0x9D) + b"52;c;" + _BASE64 + _utf8(0x9C),
    "clipboard set, without an end": OSC + b"52;c;" + _BASE64,
    "clipboard read": OSC + b"52;p;?" + BEL,
}
_TITLES_AND_LINKS: Mapping[str, bytes] = {
    "icon and title": OSC + b"0;PWNED" + BEL,
    "title": OSC + b"2;PWNED" + ST,
    "title, in raw C1": C1_OSC + b"2;PWNED" + BEL,
    "title, of screen": ESC + b"kPWNED" + ST,
    "title report": CSI + b"21t",
    "title stack": CSI + b"22;0t" + CSI + b"23;0t",
    "hyperlink": OSC + b"8;;http://127.0.0.1/PWNED" + ST + b"bank" + OSC + b"8;;" + ST,
    "working directory": OSC + b"7;file://localhost/PWNED" + ST,
    "notification": OSC + b"9;PWNED" + BEL,
    "notification of urxvt": OSC + b"777;notify;PWNED;PWNED" + BEL,
    "prompt mark": OSC + b"133;A" + BEL + OSC + b"133;C" + BEL,
}
_COLOURS: Mapping[str, bytes] = {
    "palette set": OSC + b"4;0;#ff0000" + ST,
    "palette query": OSC + b"4;0;?" + BEL,
    "foreground set": OSC + b"10;#000000" + BEL,
    "foreground query": OSC + b"10;?" + BEL,
    "background set": OSC + b"11;#000000" + BEL,
    "background query": OSC + b"11;?" + BEL,
    "cursor colour set": OSC + b"12;#000000" + BEL,
    "cursor colour query": OSC + b"12;?" + BEL,
    "palette of the Linux console": OSC + b"P0ff0000",
    "colours reset": OSC + b"104" + BEL + OSC + b"110" + BEL,
}
_QUERIES: Mapping[str, bytes] = {
    "primary attributes": CSI + b"c",
    "secondary attributes": CSI + b">c",
    "tertiary attributes": CSI + b"=c",
    "attributes, in raw C1": C1_CSI + b"c",
    "attributes, in UTF-8 C1": _utf8(0x9B) + b"c",
    "attributes, by DECID": ESC + b"Z",
    "status report": CSI + b"5n",
    "cursor report": CSI + b"6n",
    "extended cursor report": CSI + b"?6n",
    "mode report": CSI + b"?2026$p",
    "version report": CSI + b">0q",
    "setting report": DCS + b"$qm" + ST,
    "setting report, in raw C1": C1_DCS + b"$qm" + C1_ST,
    "termcap report": DCS + b"+q544e" + ST,
    "parameters report": CSI + b"x",
    "checksum report": CSI + b"1;1;1;1;1;1*y",
    "keyboard protocol report": CSI + b"?u",
    "enquiry": b"\x05",
}
_MODES: Mapping[str, bytes] = {
    "alternate screen": CSI + b"?1049h",
    "alternate screen of old": CSI + b"?47h",
    "mouse clicks": CSI + b"?1000h",
    "mouse drags": CSI + b"?1002h",
    "mouse motion": CSI + b"?1003h",
    "mouse in SGR form": CSI + b"?1006h",
    "focus reports": CSI + b"?1004h",
    "bracketed paste": CSI + b"?2004h",
    "bracketed paste off": CSI + b"?2004l",
    "application cursor keys": CSI + b"?1h",
    "application cursor keys, in raw C1": C1_CSI + b"?1h",
    "hidden cursor": CSI + b"?25l",
    "reverse screen": CSI + b"?5h",
    "132 columns": CSI + b"?3h",
    "no wrapping": CSI + b"?7l",
    "origin mode": CSI + b"?6h",
    "synchronized output": CSI + b"?2026h",
    "insert mode": CSI + b"4h",
    "keyboard lock": CSI + b"2h",
    "local echo off": CSI + b"12l",
    "newline mode": CSI + b"20h",
    "scroll region": CSI + b"1;2r",
    "left and right margins": CSI + b"?69h" + CSI + b"1;2s",
    "keypad": ESC + b"=",
    "cursor shape": CSI + b"5 q",
    "keyboard protocol of kitty": CSI + b">31u",
    "modified keys of xterm": CSI + b">4;2m",
    "pointer mode of xterm": CSI + b">3p",
    "protected characters": CSI + b'1"q',
    "C1 controls in 8 bits": ESC + b" G",
    "printer on": CSI + b"5i",
    "leds": CSI + b"1q",
}
_STRINGS: Mapping[str, bytes] = {
    "sixel": DCS + b"q#0;2;100;0;0#0~~" + ST,
    "passthrough of tmux": DCS + b"tmux;\x1b\x1b]52;c;" + _BASE64 + BEL + ST,
    "user keys": DCS + b"0;1|17/50574e4544" + ST,
    "device string in raw C1": C1_DCS + b"q~~" + C1_ST,
    "device string without an end": DCS + b"q~~",
    "application command": APC + b"PWNED" + ST,
    "application command in raw C1": C1_APC + b"PWNED" + C1_ST,
    "graphics of kitty": APC + b"Ga=T,f=24,s=1,v=1;/////w==" + ST,
    "privacy message": PM + b"PWNED" + ST,
    "start of string": SOS + b"PWNED" + ST,
    "file of iTerm2": OSC + b"1337;File=inline=1:" + _BASE64 + BEL,
    "clipboard of iTerm2": OSC + b"1337;CopyToClipboard=" + BEL + b"PWNED" + OSC + b"1337;EndCopy" + BEL,
    "string ended by CAN": OSC + b"0;PWNED\x18",
    "string within a string": OSC + b"0;a" + OSC + b"52;c;" + _BASE64 + BEL,
}
_RESETS_AND_MOVES: Mapping[str, bytes] = {
    "reset": ESC + b"c",
    "soft reset": CSI + b"!p",
    "alignment pattern": ESC + b"#8",
    "double height": ESC + b"#3",
    "clear screen": CSI + b"2J",
    "clear scrollback": CSI + b"3J",
    "clear line": CSI + b"2K",
    "clear line, in raw C1": C1_CSI + b"2K",
    "cursor up": CSI + b"9A",
    "cursor home": CSI + b"H",
    "cursor to a column": CSI + b"1G",
    "cursor saved and restored": ESC + b"7" + ESC + b"8",
    "reverse index": ESC + b"M",
    "reverse index, in raw C1": b"\x8d",
    "repeat": b"x" + CSI + b"99999b",
    "many lines": CSI + b"99999L",
    "scroll": CSI + b"99999S",
    "window moved": CSI + b"3;0;0t",
    "window resized": CSI + b"8;1;1t",
    "window hidden": CSI + b"2t",
    "tab stops cleared": CSI + b"3g",
    "sequence with a control inside": CSI + b"\x082\x07J",
    "sequence without an end": CSI + b"?104",
    "escape alone": ESC,
    "conceal": CSI + b"8mPWNED" + CSI + b"0m",
    "colour with a private parameter": CSI + b"?31m",
    "colour with an intermediate": CSI + b"31 m",
}
_CONTROLS: Mapping[str, bytes] = {
    "bell": BEL,
    "backspaces": b"good" + b"\x08" * 4 + b"evil",
    "vertical tab": b"a\x0bb",
    "form feed": b"a\x0cb",
    "shift out": b"\x0eqqq",
    "shift in": b"\x0fqqq",
    "line drawing": ESC + b"(0qqq",
    "other character set": ESC + b"%@qqq",
    "single shift": ESC + b"Nq",
    "locking shift": ESC + b"n",
    "cancel": b"\x18",
    "substitute": b"\x1a",
    "delete": b"a\x7fb",
    "start of heading": b"\x01",
    "flow stopped": b"\x13",
    "next line in raw C1": b"a\x85b",
    "next line in UTF-8": b"a" + _utf8(0x85) + b"b",
    "single shift in raw C1": b"\x8eq",
}
_TEXT: Mapping[str, bytes] = {
    "line separator": _utf8(0x2028),
    "paragraph separator": _utf8(0x2029),
    "right-to-left override": _utf8(0x202E) + b"txt.exe" + _utf8(0x202C),
    "left-to-right override": _utf8(0x202D) + b"x" + _utf8(0x202C),
    "bidi embedding": _utf8(0x202B) + b"x" + _utf8(0x202C),
    "bidi isolate": _utf8(0x2067) + b"x" + _utf8(0x2069),
    "bidi marks": _utf8(0x200E, 0x200F, 0x061C),
    "zero width space": b"PW" + _utf8(0x200B) + b"NED",
    "zero width joiners": b"PW" + _utf8(0x200C, 0x200D, 0x2060) + b"NED",
    "invisible operators": _utf8(0x2061, 0x2062, 0x2063, 0x2064),
    "soft hyphen": b"PW" + _utf8(0xAD) + b"NED",
    "byte order mark": b"PW" + _utf8(0xFEFF) + b"NED",
    "tag characters": _utf8(*(0xE0000 + ord(letter) for letter in PWNED)),
    "variation selectors": b"x" + _utf8(0xFE00, 0xFE01, 0xE0100, 0xE0101),
    "annotation characters": _utf8(0xFFF9, 0xFFFA, 0xFFFB),
    "Hangul fillers": _utf8(0x115F, 0x3164, 0xFFA0),
    "musical format characters": _utf8(0x1D173, 0x1D17A),
    "Mongolian vowel separator": _utf8(0x180E),
    "surrogate": b"\xed\xa0\x80",
    "overlong escape": b"\xc0\x9b[2J",
    "bytes that are no UTF-8": b"\xff\xfe\x80",
    "first byte of a character, then escape": b"\xe2" + CSI + b"2J",
}
ESCAPES: Mapping[str, bytes] = {
    **_CLIPBOARD,
    **_TITLES_AND_LINKS,
    **_COLOURS,
    **_QUERIES,
    **_MODES,
    **_STRINGS,
    **_RESETS_AND_MOVES,
    **_CONTROLS,
    **_TEXT,
}


def as_text(escape: bytes) -> str:
    """What a face that speaks text is given: an 8-bit control is that control; another stray byte is U+FFFD."""
    return "".join(map(_letter, escape.decode("utf-8", "surrogateescape")))


def _letter(letter: str) -> str:
    byte = ord(letter) - 0xDC00  # where it stands for a byte that is no UTF-8
    return letter if not 0x80 <= byte <= 0xFF else chr(byte) if byte < 0xA0 else "\N{REPLACEMENT CHARACTER}"
