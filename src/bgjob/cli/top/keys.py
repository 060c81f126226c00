"""Keys as a terminal sends them: from bytes to names. The same for every kind of terminal.

A letter is its own name. Sequences that have no name here are no keys, and nothing of them is taken for letters.
"""

import codecs

from bgjob.core.late_pattern import late_pattern

# What follows ESC [ or ESC O, from rxvt to the Linux console.
SEQUENCES = {
    "A": "up",
    "B": "down",
    "H": "home",
    "F": "end",
    "1~": "home",
    "7~": "home",
    "4~": "end",
    "8~": "end",
    "5~": "page up",
    "6~": "page down",
    "M": "enter",
}
CONTROLS = {
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x03": "ctrl-c",
    "\x0c": "ctrl-l",
    "\x15": "ctrl-u",
    "\x1a": "ctrl-z",
    "\x02": "page up",
    "\x06": "page down",
}
_KEY = late_pattern(r"\x1b(?:\[([0-?]*[ -/]*[@-~])|O([ -~]))|[\s\S]")
_BEGUN = late_pattern(r"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")


class Keys:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._held = ""

    @property
    def is_held(self) -> bool:
        """An ESC has come: it is a key of its own if nothing follows soon."""
        return bool(self._held)

    def feed(self, data: bytes) -> list[str]:
        text = self._held + self._decoder.decode(data)
        begun = _BEGUN.search(text)
        self._held = text[begun.start() :] if begun else ""
        return _names(text[: len(text) - len(self._held)])

    def finish(self) -> list[str]:
        """Nothing follows."""
        held, self._held = self._held, ""
        return ["escape"] if held == "\x1b" else []


def _names(text: str) -> list[str]:
    return [name for key in _KEY.finditer(text) if (name := _name(key[0], key[1] or key[2]))]


def _name(key: str, sequence: str | None) -> str:
    if sequence is not None:
        return SEQUENCES.get(sequence, "")
    if key == "\x1b":
        return "escape"
    return CONTROLS.get(key, key if key.isprintable() else "")
