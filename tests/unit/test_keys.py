"""Named keys against what xterm sends: tables, and terminfo where it has an opinion."""

import curses

import pytest

from bgjob.core.errors import InvalidArgument
from bgjob.terminal.keys import KEY_NAMES, keys_to_bytes

XTERM = {
    "enter": b"\r",
    "return": b"\r",
    "tab": b"\t",
    "esc": b"\x1b",
    "escape": b"\x1b",
    "backspace": b"\x7f",
    "space": b" ",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "home": b"\x1b[H",
    "end": b"\x1b[F",
    "pageup": b"\x1b[5~",
    "page-down": b"\x1b[6~",
    "pgdn": b"\x1b[6~",
    "insert": b"\x1b[2~",
    "delete": b"\x1b[3~",
    "del": b"\x1b[3~",
    "f1": b"\x1bOP",
    "f4": b"\x1bOS",
    "f5": b"\x1b[15~",
    "f12": b"\x1b[24~",
    "ctrl-a": b"\x01",
    "ctrl-c": b"\x03",
    "ctrl-z": b"\x1a",
    "ctrl-[": b"\x1b",
    "ctrl-\\": b"\x1c",
    "ctrl-]": b"\x1d",
    "ctrl-^": b"\x1e",
    "ctrl-_": b"\x1f",
    "ctrl-@": b"\0",
    "ctrl-?": b"\x7f",
    "ctrl-space": b"\0",
    "ctrl-backspace": b"\b",
    "alt-x": b"\x1bx",
    "alt-X": b"\x1bX",
    "alt--": b"\x1b-",
    "alt-é": b"\x1b\xc3\xa9",
    "alt-enter": b"\x1b\r",
    "alt-backspace": b"\x1b\x7f",
    "ctrl-alt-a": b"\x1b\x01",
    "shift-a": b"A",
    "shift-tab": b"\x1b[Z",
    "alt-shift-tab": b"\x1b\x1b[Z",
    "shift-up": b"\x1b[1;2A",
    "alt-left": b"\x1b[1;3D",
    "ctrl-right": b"\x1b[1;5C",
    "ctrl-shift-end": b"\x1b[1;6F",
    "shift-f1": b"\x1b[1;2P",
    "ctrl-f5": b"\x1b[15;5~",
    "shift-delete": b"\x1b[3;2~",
    "a": b"a",
    "A": b"A",
    "-": b"-",
    "+": b"+",
    "^": b"^",
    " ": b" ",
    "ü": b"\xc3\xbc",
}

SAME_KEY = [
    ["ctrl-c", "ctrl+c", "C-c", "c-c", "Ctrl-C", "CTRL+C", "control-c", "^c", "^C"],
    ["alt-x", "Alt+x", "M-x", "meta-x"],
    ["shift-up", "Shift+Up", "S-up", "SHIFT-UP"],
    ["ctrl-alt-right", "alt-ctrl-right", "C-M-right", "Ctrl+Alt+Right"],
    ["pageup", "PageUp", "page_up", "Page-Up", "pgup"],
]

TERMINFO = {
    "up": "kcuu1",
    "down": "kcud1",
    "left": "kcub1",
    "right": "kcuf1",
    "home": "khome",
    "end": "kend",
    "insert": "kich1",
    "delete": "kdch1",
    "pageup": "kpp",
    "pagedown": "knp",
    "backspace": "kbs",
    "shift-tab": "kcbt",
    "shift-left": "kLFT",
    "shift-home": "kHOM",
    **{f"f{number}": f"kf{number}" for number in range(1, 13)},
    **{f"shift-f{number}": f"kf{number + 12}" for number in range(1, 13)},
    **{f"ctrl-f{number}": f"kf{number + 24}" for number in range(1, 13)},
}

UNKNOWN = {
    "entr": "'enter'",
    "ctlr-c": "'ctrl-c'",
    "ctrl-rigt": "'ctrl-right'",
    "pagedwn": "'pagedown'",
    "F13": "'f",
    "shfit-tab": "'shift-tab'",
}


@pytest.mark.parametrize("name", XTERM)
def test_a_key_is_what_xterm_sends_for_it(name: str) -> None:
    assert keys_to_bytes([name]) == XTERM[name]


@pytest.mark.parametrize("names", SAME_KEY, ids=lambda names: names[0])
def test_a_key_has_one_meaning_in_every_spelling(names: list[str]) -> None:
    assert len({keys_to_bytes([name]) for name in names}) == 1


def test_every_letter_has_its_control_key() -> None:
    letters = [f"ctrl-{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    assert keys_to_bytes(letters) == bytes(range(1, 27))


def test_keys_are_sent_in_order() -> None:
    assert keys_to_bytes(["h", "i", "enter", "ctrl-d"]) == b"hi\r\x04"
    assert keys_to_bytes([]) == b""


def test_application_mode_changes_the_bare_cursor_keys_only() -> None:
    names = ["up", "end", "ctrl-up", "f5", "delete", "enter"]
    assert keys_to_bytes(names, application_cursor=True) == b"\x1bOA\x1bOF\x1b[1;5A\x1b[15~\x1b[3~\r"


def test_the_keys_are_those_of_xterms_terminfo() -> None:
    curses.setupterm("xterm-256color", 1)
    wanted = {name: curses.tigetstr(capability) for name, capability in TERMINFO.items()}
    assert {name: keys_to_bytes([name], application_cursor=True) for name in TERMINFO} == wanted


@pytest.mark.parametrize("name", KEY_NAMES)
def test_every_named_key_can_be_held_with_every_modifier(name: str) -> None:
    for modifier in ("shift", "alt", "ctrl", "ctrl-alt-shift"):
        assert keys_to_bytes([f"{modifier}-{name}"])


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_key_is_named_with_the_closest_one_and_some_others(name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        keys_to_bytes(["enter", name])
    message = str(caught.value)
    assert repr(name) in message
    assert f"Did you mean {UNKNOWN[name]}" in message
    assert "ctrl-c" in message
    assert "pagedown" in message


@pytest.mark.parametrize("name", ["", "\n", "\x03", "ctrl-", "hello world", "ctrl-xyzzy", "alt-\t", "\ud800"])
def test_what_is_no_key_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        keys_to_bytes([name])


@pytest.mark.parametrize("name", ["ctrl-1", "ctrl-é", "ctrl-;"])
def test_a_control_key_that_no_terminal_can_send_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot send"):
        keys_to_bytes([name])


def test_a_very_long_name_is_not_repeated_whole() -> None:
    with pytest.raises(InvalidArgument) as caught:
        keys_to_bytes(["x" * 100_000])
    assert len(str(caught.value)) < 400
