"""What cannot be seen in a command, a name or a path is shown as U+FFFD."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bgjob.output.cleaner import clean, first_hidden, without_hidden


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("npm test\n\tnext", "npm test\n\tnext"),
        ("ünï 漢字 a\u00a0b", "ünï 漢字 a\u00a0b"),
        ("👩\u200d💻 ☁\ufe0f", "👩\u200d💻 ☁\ufe0f"),
        ("echo \x1b[31mred\x1b[0m", "echo \ufffd[31mred\ufffd[0m"),
        ("good\x08\x08\x08\x08evil\r\n", "good\ufffdevil\ufffd\n"),
        ("a\u202eb\u200b\u200cc", "a\ufffdb\ufffdc"),
        ("rm fo\ufe00o", "rm fo\ufffdo"),
        ("\U000e0041\U000e0042", "\ufffd"),
        ("caf\udce9", "caf\ufffd"),
    ],
)
def test_what_is_no_output_is_shown_as_it_stands(text: str, shown: str) -> None:
    assert without_hidden(text) == without_hidden(shown) == shown
    assert (first_hidden(text) is None) == (text == shown)


# Unicode's Default_Ignorable_Code_Point, and what ends a line or orders it
IGNORABLE = (
    "00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 2028-202E 2060-206F 3164 FE00-FE0F FEFF FFA0 FFF0-FFFB "
    "1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"
)


def test_all_that_unicode_lets_a_reader_ignore_is_hidden() -> None:
    ranges = [[int(end, 16) for end in each.split("-")] for each in IGNORABLE.split()]
    letters = [chr(code) for first, *last in ranges for code in range(first, (last or [first])[0] + 1)]
    assert [letter for letter in letters if without_hidden(f"a{letter}b") != "a\ufffdb"] == []
    assert [letter for letter in letters if clean(f"a{letter}{letter}b") != "a\ufffdb"] == []


@given(st.text())
def test_nothing_hidden_is_left_and_the_first_of_it_is_found(text: str) -> None:
    shown, first = without_hidden(text), first_hidden(text)
    assert first_hidden(shown) is None
    assert len(shown) <= len(text)
    assert text[:first] == shown[:first]
