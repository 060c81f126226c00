"""A terminal's state, painted onto another terminal: from then on the same bytes do the same to both."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bgjob.terminal.emulator import Terminal
from bgjob.terminal.page import Screen
from bgjob.terminal.painting import painted

ROWS, COLUMNS = 6, 12
NUMBERS = st.integers(0, 14).map(str)
CSI = st.tuples(st.lists(NUMBERS, max_size=3), st.sampled_from("@ABCDEFGHIJKLMPSTXZ`adefr")).map(
    lambda parts: f"\x1b[{';'.join(parts[0])}{parts[1]}"
)
SGR = st.lists(
    st.sampled_from(["0", "1", "2", "4", "7", "22", "27", "31", "39", "44", "49", "38;5;9", "48;2;1;2;3"]),
    max_size=3,
).map(lambda numbers: f"\x1b[{';'.join(numbers)}m")
MODES = st.sampled_from(
    [f"\x1b[{mode}{final}" for mode in ("4", "20", "?1", "?6", "?7", "?25", "?1049") for final in "hl"]
)
ESCAPES = st.sampled_from(
    [
        "\x1b7",
        "\x1b8",
        "\x1bD",
        "\x1bM",
        "\x1bE",
        "\x1b(0",
        "\x1b(B",
        "\x0e",
        "\x0f",
        "\x1b[!p",
        "\x1b]2;title\x07",
    ]
)
TEXT = st.text("abcxyz |ü漢", min_size=1, max_size=15)
PLAIN = st.sampled_from(["\r", "\n", "\b", "\t"])
BYTES = st.lists(st.one_of(TEXT, PLAIN, CSI, SGR, MODES, ESCAPES), max_size=25).map(
    lambda parts: "".join(parts).encode()
)


def fed(*pieces: bytes) -> Terminal:
    terminal = Terminal(ROWS, COLUMNS)
    for piece in pieces:
        terminal.feed(piece)
    return terminal


def seen(terminal: Terminal) -> Screen:
    """Without what is only guessed: which texts stand out depends on halves of letters that nobody sees."""
    return replace(terminal.screen(), highlight=[])


@settings(max_examples=500, deadline=None, derandomize=True)
@given(before=BYTES, earlier=BYTES, after=BYTES)
def test_what_follows_does_the_same_to_both(before: bytes, earlier: bytes, after: bytes) -> None:
    """Whatever the other terminal showed earlier."""
    first = fed(before)
    second = fed(earlier, b"\x1b[?1049l\x1b]2;\x07", painted(first.picture()))
    assert seen(second) == seen(first)
    assert second.rows() == first.rows()
    for terminal in (first, second):
        terminal.feed(after)
    assert second.rows() == first.rows()
    assert seen(second) == seen(first)


@pytest.mark.parametrize(
    "cut",
    [b"\x1b", b"\x1b[", b"\x1b[3", b"\x1b]2;tit", b"\xe6\xbc", "漢".encode()[:1], b"\x1b_" + b"x" * 10_000],
    ids=lambda cut: repr(cut[:8]),
)
def test_what_was_begun_goes_on(cut: bytes) -> None:
    first = fed(b"text" + cut)
    second = fed(painted(first.picture()) + first.begun())
    for terminal in (first, second):
        terminal.feed(b"1mmore\x1b\\\x07end")
    assert second.rows() == first.rows()


def test_nothing_of_it_is_a_question() -> None:
    """A title is the only text of a job that stands in an escape sequence, and has no control characters."""
    shown = painted(fed(b"\x1b]2;a\x1b[6n\x07b\x07 \x1b[c\x1b[6n\x1bZ\x05 text \x1b[?u").picture())
    assert b"\x05" not in shown
    assert not any(question in shown for question in (b"n", b"\x1b[c", b"\x1bZ", b"?u"))


def test_styles_are_written_once_for_a_run_of_cells() -> None:
    (first, *_) = fed(b"\x1b[1;31mred\x1b[0m plain \x1b[41m   ").rows()
    assert first == "\x1b[0m\x1b[1;31mred\x1b[0m plain \x1b[0m\x1b[41m  \x1b[0m"
