"""Text of jobs on the screen of `bgjob top`."""

import pytest

from bgjob.cli.top.text import fitting, last_rows, visible, wrapped
from bgjob.output.tty_text import width
from tests.support.escapes import ESCAPES, STEERS, UNSEEN, as_text


@pytest.mark.parametrize("name", ESCAPES)
def test_nothing_steers_the_terminal_or_is_not_seen(name: str) -> None:
    shown = visible(as_text(ESCAPES[name]))
    assert not STEERS.search(shown)
    assert not UNSEEN.search(shown)
    assert "\n" not in shown
    assert "\t" not in shown


def test_each_part_of_an_emoji_is_drawn_by_itself() -> None:
    """Terminals differ in how wide the whole is, and what follows it would move."""
    assert visible("👨‍👩‍👧 ❤️") == "👨👩👧 ❤"


def test_a_character_that_no_table_knows_is_marked() -> None:
    assert visible("a\u0378b") == "a\N{REPLACEMENT CHARACTER}b"


def test_tabs_are_blanks() -> None:
    assert visible("a\tb") == "a       b"


@pytest.mark.parametrize("text", ["", "x", "0123456789" * 3, "日本語の名前" * 5, "a日" * 20, "e\u0301" * 30])
@pytest.mark.parametrize("columns", [2, 7, 80])
def test_a_wrapped_line_is_whole_and_fits(text: str, columns: int) -> None:
    rows = wrapped(text, columns)
    assert "".join(rows) == text
    assert all(width(row) <= columns for row in rows)
    assert len(rows) >= 1


def test_the_last_rows_may_begin_within_a_line() -> None:
    assert last_rows(["aaaabbbb", "c", "ddddee"], 4, 4) == ["bbbb", "c", "dddd", "ee"]
    assert last_rows(["a"], 4, 4) == ["a"]
    assert last_rows([], 4, 4) == []


def test_how_many_of_the_first_lines_fit() -> None:
    assert fitting(["aaaabbbb", "c", "ddddee"], 4, 4) == 2
    assert fitting(["aaaabbbb", "c", "ddddee"], 4, 5) == 3
    assert fitting(["a" * 100], 4, 5) == 1
    assert fitting([], 4, 5) == 0
