"""What a person's terminal is given: everything can be seen, only colours steer, however the bytes come in."""

from collections.abc import Sequence
from time import process_time_ns

import pytest
import wcwidth  # type: ignore[import-untyped, unused-ignore]
from hypothesis import example, given
from hypothesis import strategies as st

from bgjob.output.tty_text import RESET, TtyText, cut, one_line, width
from tests.support.escapes import ESCAPES, SGR, STEERS, UNSEEN, as_text


def shown(*pieces: bytes) -> str:
    text = TtyText()
    return "".join([*map(text.feed, pieces), text.finish()])


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        ("plain\ttext\r\n", "plain\ttext\r\n"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        ("\x1b[mnone\x1b[;m", "\x1b[mnone\x1b[;m"),
        ("\x1b[1;38;5;8;48;2;8;8;8mall\x1b[m", "\x1b[1;38;5;8;48;2;8;8;8mall\x1b[m"),
        ("\x1b[38:2::8:8:8;4:3mall\x1b[m", "\x1b[38:2::8:8:8;4:3mall\x1b[m"),
        ("\x1b[8mhidden\x1b[m", "^[[8mhidden\x1b[m"),
        ("\x1b[1;08mhidden", "^[[1;08mhidden"),
        ("\x1b[38;8m", "^[[38;8m"),
        ("\x1b[?31m\x1b[>4;2m\x1b[31 m", "^[[?31m^[[>4;2m^[[31 m"),
        ("\x1b[" + "1;" * 40 + "m", "^[[" + "1;" * 40 + "m"),
        ("\x1b]52;c;eA==\x07", "^[]52;c;eA==^G"),
        ("good\b\b\b\bevil\x7f", "good^H^H^H^Hevil^?"),
        ("\x9b2J\x85", "\\x9b2J\\x85"),
        ("ünï 日本語 \u00a0\u3000 é", "ünï 日本語 \u00a0\u3000 é"),
        ("❤️ 👨‍👩‍👧 👩🏽‍💻 1️⃣", "❤️ 👨‍👩‍👧 👩🏽‍💻 1️⃣"),
        ("a\u200db \ufe0f ❤\ufe0f\ufe0f", "a\\u200db \\ufe0f ❤\\ufe0f\\ufe0f"),
        ("\u202etxt.exe\U000e0050", "\\u202etxt.exe\\U000e0050"),
    ],
)
def test_what_is_seen_of_what_was_printed(printed: str, seen: str) -> None:
    assert shown(printed.encode()) == seen


def test_bytes_that_are_no_text_are_seen_one_by_one() -> None:
    assert shown(b"a\xff\xc0\x9b[2Jb\xed\xa0\x80") == r"a\xff\xc0\x9b[2Jb\xed\xa0\x80"


def test_colours_are_taken_back_at_the_end() -> None:
    assert shown(b"\x1b[31mred") == f"\x1b[31mred{RESET}"
    assert shown(b"\x1b[31mred\x1b[0m") == "\x1b[31mred\x1b[0m"
    assert shown(b"\x1b[0;30mblack") == f"\x1b[0;30mblack{RESET}"


def test_a_prompt_is_shown_at_once() -> None:
    text = TtyText()
    assert text.feed("Password ✔ > ".encode()) == "Password ✔ > "
    assert text.feed("✔".encode()) == "✔"


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
def test_nothing_but_colours_gets_through(escape: bytes) -> None:
    for pieces in ([escape], [escape[at : at + 1] for at in range(len(escape))]):
        plain = SGR.sub("", shown(b"<", *pieces, b">"))
        assert (STEERS.findall(plain), UNSEEN.findall(plain)) == ([], [])
        assert (plain[0], plain[-1]) == ("<", ">")


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
def test_a_line_of_a_table_stays_one_line_without_colours(escape: bytes) -> None:
    line = one_line(f"{as_text(escape)}\x1b[31m\r\n\t{escape.decode('utf-8', 'surrogateescape')}")
    assert (STEERS.findall(line), UNSEEN.findall(line), set(line) & set("\r\n\t")) == ([], [], set())


BITS = st.sampled_from(
    [b"\x1b", b"[", b"3", b";", b":", b"m", b"x", b"\xe2", b"\x80", b"\x8d", b"\xff", "👨".encode(), "\ufe0f".encode()]
)  # fmt: skip


@given(st.lists(BITS | st.binary(max_size=3)))
@example(["👨\ufe0f".encode(), b"\x80\x80\x80", b"\xe2", b"\xe2", b"\x1b"])
def test_how_the_bytes_come_in_changes_nothing(pieces: Sequence[bytes]) -> None:
    whole = b"".join(pieces)
    assert shown(*pieces) == shown(whole)
    assert shown(*(whole[at : at + 1] for at in range(len(whole)))) == shown(whole)


def test_no_letter_is_drawn_wider_than_we_say() -> None:
    lines = [one_line(chr(code)) for code in range(0x20000)]  # beyond, all are wide or not seen
    assert [line for line in lines if wcwidth.wcswidth(line) > width(line)] == []


@given(st.text())
def test_no_text_is_drawn_wider_than_we_say(text: str) -> None:
    line = one_line(text)
    assert wcwidth.wcswidth(line) <= width(line)


@given(st.text(alphabet="aé日👨\u0301x"), st.integers(0, 12))
def test_a_cut_fits_and_says_that_it_is_one(text: str, columns: int) -> None:
    short = cut(text, columns)
    assert width(short) <= columns
    assert short == text or short == "" or (short[-1] == "…" and text.startswith(short[:-1]))


@pytest.mark.parametrize(
    "unit",
    [b"\x1b", b"\x1b[1;1", b"\x1b[" + b";" * 60 + b"8m", "\u200b".encode(), b"\x1b[38;5;" * 9, b"\xff"],
    ids=repr,
)
def test_it_is_linear_on_any_text(unit: bytes) -> None:
    assert cpu_ns(unit * 40_000) < 30 * cpu_ns(unit * 4_000) + 100_000_000


def cpu_ns(data: bytes) -> int:
    start = process_time_ns()
    shown(data)
    return process_time_ns() - start
