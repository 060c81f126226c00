"""Keys of `bgjob top`: what terminals send, by name."""

import pytest

from bgjob.cli.top.keys import Keys

SENT = [
    (b"j", ["j"]),
    (b"jk", ["j", "k"]),
    (b"\x1b[A", ["up"]),
    (b"\x1bOA", ["up"]),
    (b"\x1b[B\x1b[B", ["down", "down"]),
    (b"\x1b[5~", ["page up"]),
    (b"\x1b[6~", ["page down"]),
    (b"\x1b[H", ["home"]),
    (b"\x1b[1~", ["home"]),
    (b"\x1b[7~", ["home"]),
    (b"\x1bOF", ["end"]),
    (b"\x1b[4~", ["end"]),
    (b"\r", ["enter"]),
    (b"\n", ["enter"]),
    (b"\x7f", ["backspace"]),
    (b"\x03", ["ctrl-c"]),
    (b"\x1a", ["ctrl-z"]),
    ("é日".encode(), ["é", "日"]),
    (b"\x1bq", ["escape", "q"]),
    (b"\x1b\x1b[A", ["escape", "up"]),
]


@pytest.mark.parametrize(("sent", "names"), SENT, ids=repr)
def test_what_a_terminal_sends_is_a_key_by_name(sent: bytes, names: list[str]) -> None:
    assert Keys().feed(sent) == names


@pytest.mark.parametrize(("sent", "names"), SENT, ids=repr)
def test_it_may_come_in_pieces(sent: bytes, names: list[str]) -> None:
    keys = Keys()
    assert [name for byte in sent for name in keys.feed(bytes([byte]))] == names
    assert not keys.is_held


@pytest.mark.parametrize(
    "sent",
    [b"\x1b[1;5A", b"\x1b[15~", b"\x1b[?1;2c", b"\x1b[<0;3;4M", b"\x1bOP", b"\x00", b"\xff", b"\x1b[200~"],
)
def test_what_has_no_name_here_is_no_key_and_no_letters(sent: bytes) -> None:
    """An answer of the terminal or a function key must not be taken for an x and a y."""
    assert Keys().feed(sent + b"j") == ["j"]


def test_an_escape_is_a_key_when_nothing_follows() -> None:
    keys = Keys()
    assert keys.feed(b"\x1b") == []
    assert keys.is_held
    assert keys.finish() == ["escape"]
    assert not keys.is_held


def test_half_a_sequence_that_is_never_finished_is_no_key() -> None:
    keys = Keys()
    assert keys.feed(b"\x1b[1") == []
    assert keys.finish() == []
    assert keys.feed(b"j") == ["j"]
