"""What stands out on a screen: reverse video, and backgrounds that are not those of the rest."""

import pytest

from bgjob.terminal.screen import render
from bgjob.terminal.style import LONGEST_RUN, MOST_RUNS, PLAIN, Style, styled


def highlight(data: str, rows: int = 5, columns: int = 30) -> list[str]:
    return render([data.encode()], rows, columns).highlight


@pytest.mark.parametrize(
    ("sequences", "style"),
    [
        (["7"], Style(reverse=True)),
        (["7", "27"], PLAIN),
        (["7", "41", ""], PLAIN),
        (["7", "0"], PLAIN),
        (["07;041"], Style("41", True)),
        (["1;31;44;4"], Style("44", others="1;31;4")),
        (["1;31", "22;39"], PLAIN),
        (["1;2;31", "32"], Style(others="1;2;32")),
        (["1;2", "22"], PLAIN),
        (["4:3", "4:0"], PLAIN),
        (["3;9;53", "23;29;55"], PLAIN),
        (["58;5;9", "59"], PLAIN),
        (["91", "38;2;1;2;3"], Style(others="38;2;1;2;3")),
        (["104"], Style("104")),
        (["44", "49"], PLAIN),
        (["48;5;7;7"], Style("48;5;7", True)),
        (["48;2;7;7;7"], Style("48;2;7;7;7")),
        (["38;5;7"], Style(others="38;5;7")),
        (["38;2;7;41;0", "1"], Style(others="38;2;7;41;0;1")),
        (["38;2;7;41;0;1", "38;5;1", "22"], Style(others="38;5;1")),
        (["48:5:41"], Style("48:5:41")),
        (["38:5:7;4:3"], Style(others="38:5:7;4:3")),
        (["48"], PLAIN),
        (["38;5"], PLAIN),
        (["99999999", "a", ";;;"], PLAIN),
    ],
)
def test_a_style_is_what_sgr_has_set(sequences: list[str], style: Style) -> None:
    found = PLAIN
    for sequence in sequences:
        found = styled(found, sequence)
    assert found == style


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        ("plain \x1b[31mred\x1b[m", []),
        ("one \x1b[7m two \x1b[27m three", ["two"]),
        ("\x1b[7mall of it", ["all of it"]),
        ("\x1b[7ma\x1b[31mb\x1b[1mc\x1b[m d", ["abc"]),
        ("\x1b[7mone\x1b[m\r\n\x1b[7mtwo\x1b[m", ["one", "two"]),
        ("\x1b[7mone\x1b[m and \x1b[7mtwo\x1b[m", ["one", "two"]),
        ("\x1b[7m漢字\x1b[m e\x1b[7me\u0301\x1b[m", ["漢字", "e\u0301"]),
        ("\x1b[7m     \x1b[m|", []),
        ("\x1b[7m│──│\x1b[m|", []),
        ("\x1b[7mgone\x1b[m\r\x1b[K", []),
        ("\x1b[7mover\x1b[m\rwritten", []),
        ("\x1b7\x1b[7m\x1b8plain", []),
        ("\x1b[7m\x1b[>4;1m\x1b[?4mstill", ["still"]),
        ("text of a page \x1b[44mBanana\x1b[m", ["Banana"]),
        ("\x1b[47mtext of a box \x1b[44mBanana\x1b[47m more", ["Banana"]),
        ("\x1b[47mtext of a box \x1b[44mb\x1b[47m  \x1b[44mBanana\x1b[47m", ["b  Banana"]),
        ("\x1b[44mall of a page", []),
    ],
)
def test_the_texts_that_stand_out_are_told(data: str, texts: list[str]) -> None:
    assert highlight(data) == texts


def test_of_many_texts_that_stand_out_the_first_are_told() -> None:
    many = "".join(f"\x1b[7m{number}\x1b[m    " for number in range(50))
    assert highlight(many, 40, 80) == [str(number) for number in range(MOST_RUNS)]
    assert highlight(f"\x1b[7m{'x' * 900}", 3, 1000) == ["x" * LONGEST_RUN]


def test_what_is_drawn_after_a_clear_has_the_style_that_was_set_before() -> None:
    from bgjob.terminal.screen import end_of_log

    window = b"\x1b[7m" + b"line\r\n" * 50_000 + b"\x1b[H\x1b[2Jselected"
    assert end_of_log(window, 1000, [(0, 5, 20)]).highlight == ["selected"]
