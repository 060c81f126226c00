"""What a job printed on its terminal, as lines that can be read."""

import pytest

from bgjob.output.pty_text import FULL_SCREEN, MOST_HELD_BYTES, PtyText

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


def readable(*pieces: bytes) -> bytes:
    text = PtyText()
    return b"".join([*map(text.feed, pieces), text.finish()])


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"plain\r\n", b"plain\n"),
        (b"\x1b[1;31mred\x1b[0m", b"\x1b[1;31mred\x1b[0m"),
        (b"\x1b[?2004hprompt$ \x1b[?2004l\r\n", b"prompt$ \n"),
        (b"\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", b"textlink"),
        (b"\x1b[6n\x1b[c\x1b[>c\x1bP+q544e\x1b\\x", b"x"),
        (b"\x1b=\x1b(B\x1b7x\x1b8", b"x"),
        (b"\x1b[2;1Hone\x1b[3;1Htwo\x1b[4dthree", b"one\ntwo\nthree"),
        (b"a\r\n\x1b[0m\x1b[Hb", b"a\n\x1b[0mb"),
        (b"a\x1b[3Cb\x1b[1G\x1b[Kc", b"a   b\rc"),
        (b"before" + ENTER + b"drawn\x1b[31m" + LEAVE + b"after", b"before\n" + FULL_SCREEN + b"after"),
        (b"x\r\n\r" + ENTER + b"drawn", b"x\n\r" + FULL_SCREEN),
        (ENTER + b"drawn\x1bcnew", FULL_SCREEN + b"new"),
        (b"what is not known: \x1b\x01", b"what is not known: \x1b\x01"),
        (b"half a sequence \x1b[31", b"half a sequence \x1b[31"),
    ],
)
def test_each_kind(printed: bytes, shown: bytes) -> None:
    assert readable(printed) == shown


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_the_pieces_in_which_it_comes_do_not_matter(size: int) -> None:
    printed = b"a\r\n\x1b[2;5Hb" + ENTER + b"c\x1b]0;t\x07" + LEAVE + b"d\x1b[31me\x1b]2;t\x1b\\f\x1b[?25lg"
    pieces = [printed[at : at + size] for at in range(0, len(printed), size)]
    assert readable(*pieces) == readable(printed) == b"a\nb\n" + FULL_SCREEN + b"d\x1b[31mefg"


def test_what_does_not_end_is_held_back_only_so_long() -> None:
    text = PtyText()
    assert text.feed(b"\x1b]0;" + b"x" * 100) == b""
    assert len(text.feed(b"x" * MOST_HELD_BYTES)) > 100
