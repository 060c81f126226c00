"""From bytes to text: notes on lines of their own, no character torn, lines counted as people count them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bgjob.output.text import (
    Dropped,
    LeftOut,
    head_cut,
    render,
    stray_bytes,
    tail_cut,
    unfinished_bytes,
)

LEFT_OUT = '[bgjob: 5 bytes left out here; get_job_output with since="1-6" reads them]\n'
DROPPED = "[bgjob: 7 bytes dropped here, beyond what is kept of a job's output]\n"


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], ""),
        ([b""], ""),
        ([b"plain\n"], "plain\n"),
        ([b"no newline"], "no newline"),
        ([b"\xff\xfe caf\xc3\xa9"], "\ufffd\ufffd café"),
        ([b"head\n", LeftOut(5, "1-6"), b"tail\n"], f"head\n{LEFT_OUT}tail\n"),
        ([b"head", LeftOut(5, "1-6"), b"tail"], f"head\n{LEFT_OUT}tail"),
        ([LeftOut(5, "1-6"), b"tail"], f"{LEFT_OUT}tail"),
        ([b"head", Dropped(7)], f"head\n{DROPPED}"),
        ([Dropped(7), LeftOut(5, "1-6")], DROPPED + LEFT_OUT),
    ],
)
def test_notes_stand_on_lines_of_their_own(parts: list[bytes | LeftOut | Dropped], text: str) -> None:
    assert render(parts) == text


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (b"ascii", 0),
        ("é".encode(), 0),
        ("é".encode()[:1], 1),
        ("€".encode()[:1], 1),
        ("€".encode()[:2], 2),
        ("€".encode(), 0),
        ("😀".encode()[:1], 1),
        ("😀".encode()[:2], 2),
        ("😀".encode()[:3], 3),
        ("😀".encode(), 0),
        (b"\x80\x80\x80", 0),  # the rest of a character that has no beginning
        (b"\xff", 0),  # begins nothing
        (b"\xc3\n", 0),
        (b"a\xe2\x82", 2),
    ],
)
def test_a_character_whose_rest_has_not_come_is_recognised(data: bytes, count: int) -> None:
    assert unfinished_bytes(data) == count


@given(text=st.text(min_size=1), cut=st.integers(0, 1000))
def test_any_text_cut_anywhere_is_whole_but_for_its_unfinished_end(text: str, cut: int) -> None:
    data = text.encode("utf-8", "surrogatepass").decode("utf-8", "ignore").encode()[:cut]
    shown = data[: len(data) - unfinished_bytes(data)]
    assert shown.decode() == data.decode(errors="ignore")


@given(text=st.text(min_size=8), cut=st.integers(0, 1000))
def test_any_text_cut_anywhere_is_whole_but_for_the_strays_at_its_start(text: str, cut: int) -> None:
    whole = text.encode("utf-8", "ignore")
    data = whole[min(cut, max(0, len(whole) - 8)) :]
    assert data[stray_bytes(data) :].decode() == data.decode(errors="ignore")


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"one\ntwo\nthr", b"one\ntwo\n"),
        (b"a line at the start\nand a very much longer rest without", None),
        ("no newline, but an é".encode()[:-1], b"no newline, but an "),
        (b"whole\n", b"whole\n"),
    ],
)
def test_a_head_ends_with_a_line_or_else_with_a_character(data: bytes, shown: bytes | None) -> None:
    assert data[: head_cut(data)] == (data if shown is None else shown)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"ne\ntwo\nthree\n", b"two\nthree\n"),
        (b"a very much longer beginning without\nend", None),
        ("é, then no newline".encode()[1:], b", then no newline"),
    ],
)
def test_a_tail_begins_with_a_line_or_else_with_a_character(data: bytes, shown: bytes | None) -> None:
    assert data[tail_cut(data) :] == (data if shown is None else shown)


@given(data=st.binary(min_size=2, max_size=300))
def test_a_cut_never_takes_more_than_half(data: bytes) -> None:
    assert head_cut(data) >= len(data) // 2 - 3
    assert tail_cut(data) <= max(len(data) // 2, 3)
