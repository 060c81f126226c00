"""Keys by name, as the bytes an xterm sends for them.

A name is a key, with modifiers in front: "enter", "ctrl-c", "shift-up", "alt-x"; also "Ctrl+C", "C-c" and
"^c". A single printable character is itself.
"""

import re
from collections.abc import Sequence

from bgjob.core.errors import InvalidArgument
from bgjob.core.late_pattern import late_pattern

SHIFT, ALT, CTRL = 1, 2, 4
ESC = b"\x1b"

_MODIFIERS = {
    "shift": SHIFT,
    "s": SHIFT,
    "alt": ALT,
    "meta": ALT,
    "m": ALT,
    "ctrl": CTRL,
    "control": CTRL,
    "c": CTRL,
}
_NAME = late_pattern(rf"((?:\^|(?:{'|'.join(_MODIFIERS)})[-+])*)(.+)", re.IGNORECASE | re.DOTALL)

_CURSOR = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
_SS3 = {"f1": "P", "f2": "Q", "f3": "R", "f4": "S"}
_NUMBERED = {
    "insert": 2,
    "delete": 3,
    "pageup": 5,
    "pagedown": 6,
    "f5": 15,
    "f6": 17,
    "f7": 18,
    "f8": 19,
    "f9": 20,
    "f10": 21,
    "f11": 23,
    "f12": 24,
}
_TYPED = {"enter": b"\r", "tab": b"\t", "esc": ESC, "backspace": b"\x7f", "space": b" "}
_TYPED_OTHERWISE = {
    ("tab", SHIFT): b"\x1b[Z",
    ("space", CTRL): b"\0",
    ("backspace", CTRL): b"\b",
}
_ALIASES = {
    "escape": "esc",
    "return": "enter",
    "bs": "backspace",
    "del": "delete",
    "ins": "insert",
    "pgup": "pageup",
    "pgdn": "pagedown",
    "pgdown": "pagedown",
    "spc": "space",
}
_CONTROL_SIGNS = {"@": 0, "[": 27, "\\": 28, "]": 29, "^": 30, "_": 31, "/": 31, "?": 127}

KEY_NAMES = [*_TYPED, *_CURSOR, *_NUMBERED, *_SS3]
_SOME = "enter, tab, esc, backspace, up, pagedown, home, delete, f1 to f12, ctrl-c, alt-x, shift-tab"


def keys_to_bytes(names: Sequence[str], *, application_cursor: bool = False) -> bytes:
    """The bytes that a terminal sends when these keys are pressed one after the other.

    application_cursor: the program has set the cursor keys to application mode, see Screen.
    """
    return b"".join(_key(name, application_cursor) for name in names)


def _key(name: str, application_cursor: bool) -> bytes:
    modifiers, key = _parsed(name)
    if len(key) == 1:
        return _character(name, key, modifiers)
    if key in _TYPED:
        return _typed(key, modifiers)
    if key in _NUMBERED:
        return f"\x1b[{_NUMBERED[key]}{_parameter(modifiers)}~".encode()
    letter = _CURSOR.get(key) or _SS3.get(key)
    if letter is None:
        raise _unknown(name)
    if modifiers:
        return f"\x1b[1{_parameter(modifiers)}{letter}".encode()
    return f"\x1b{'O' if key in _SS3 or application_cursor else '['}{letter}".encode()


def _parsed(name: str) -> tuple[int, str]:
    """The modifiers and the key. A single character keeps its case: alt-X is not alt-x."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise _unknown(name)
    modifiers = 0
    for word in re.findall(r"\^|\w+", match[1].lower()):
        modifiers |= CTRL if word == "^" else _MODIFIERS[word]
    key = match[2] if len(match[2]) == 1 else re.sub(r"[-_ ]", "", match[2]).lower()
    return modifiers, "space" if key == " " else _ALIASES.get(key, key)


def _parameter(modifiers: int) -> str:
    return f";{modifiers + 1}" if modifiers else ""


def _typed(key: str, modifiers: int) -> bytes:
    plain = _TYPED_OTHERWISE.get((key, modifiers & ~ALT), _TYPED[key])
    return ESC + plain if modifiers & ALT else plain


def _character(name: str, key: str, modifiers: int) -> bytes:
    if not key.isprintable():
        raise _unknown(name)
    typed = key.upper() if modifiers & SHIFT else key
    data = _control_character(name, key) if modifiers & CTRL else typed.encode()
    return ESC + data if modifiers & ALT else data


def _control_character(name: str, key: str) -> bytes:
    if "a" <= key.lower() <= "z":
        return bytes([ord(key.lower()) - ord("a") + 1])
    if key in _CONTROL_SIGNS:
        return bytes([_CONTROL_SIGNS[key]])
    raise InvalidArgument(
        f"A terminal cannot send {name!r}: with ctrl go the letters, space, named keys and {' '.join(_CONTROL_SIGNS)}"
    )


def _unknown(name: str) -> InvalidArgument:
    shown = name if len(name) <= 40 else name[:40] + "…"
    closest = _closest(name[:40])
    hint = f" Did you mean {closest!r}?" if closest else ""
    return InvalidArgument(
        f"{shown!r} is not a key.{hint} Accepted are names like {_SOME}; text is not a key."
    )


def _closest(name: str) -> str | None:
    from difflib import get_close_matches

    match = _NAME.fullmatch(name)
    modifiers, key = (match[1].lower(), match[2].lower()) if match else ("", name.lower())
    if not modifiers:
        letters = "abcdefghijklmnopqrstuvwxyz"
        names = [f"{modifier}-{letter}" for modifier in ("ctrl", "alt") for letter in letters]
        names += [f"{modifier}-{other}" for modifier in ("ctrl", "alt", "shift") for other in KEY_NAMES]
    else:
        names = []
    found = get_close_matches(key, [*KEY_NAMES, *_ALIASES, *names], n=1, cutoff=0.5)
    return modifiers + found[0] if found else None
