"""Amounts in a few columns."""

import pytest

from bgjob.cli.amounts import ASCII_BLOCKS, BLOCKS, age, percent, size, sparkline


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (7200, "2h"), (1e6, "11d")],
)
def test_an_age_is_in_its_largest_unit(seconds: float, text: str) -> None:
    assert age(seconds) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0"),
        (700, "700"),
        (5 << 10, "5.0K"),
        (999 << 10, "999K"),
        (1000 << 10, "1.0M"),
        (1536 << 10, "1.5M"),
        (10 << 20, "10M"),
        (999 << 20, "999M"),
        (5 << 30, "5.0G"),
        (200 << 30, "200G"),
        (3 << 40, "3.0T"),
        (3 << 60, "3.0E"),
    ],
)
def test_a_size_takes_four_columns(size_bytes: int, text: str) -> None:
    assert size(size_bytes) == text
    assert len(text) <= 4


def test_a_share_may_be_of_several_processors() -> None:
    assert [percent(share) for share in (0.2, 99.7, 398)] == ["0%", "100%", "398%"]


class TestASparkline:
    def test_it_has_a_block_for_each_value(self) -> None:
        assert sparkline(range(8), 8, low=0, high=8) == BLOCKS
        assert sparkline(range(8), 8, low=0, high=8, blocks=ASCII_BLOCKS) == ASCII_BLOCKS

    def test_it_shows_the_last_ones_at_the_right(self) -> None:
        assert sparkline([0, 0, 100], 2, low=0, high=100) == "▁█"
        assert sparkline([100], 4, low=0, high=100) == "   █"

    def test_what_lies_outside_is_drawn_at_the_edge(self) -> None:
        assert sparkline([-5, 500], 2, low=0, high=100) == "▁█"

    def test_it_is_flat_where_nothing_changes(self) -> None:
        assert sparkline([7, 7], 2, low=7, high=7) == "▁▁"

    @pytest.mark.parametrize("columns", [0, 3])
    def test_it_is_blank_without_values(self, columns: int) -> None:
        assert sparkline([], columns, low=0, high=0) == " " * columns
