"""Values of arguments of the command line: durations, moments, cursors, ports, conditions."""

import argparse
import time
from datetime import UTC, datetime

import pytest

from bgjob.cli.arguments import condition, moment, moment_or_cursor, port, seconds

NOON = datetime(2026, 7, 28, 12, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10", 10.0),
        ("0.5", 0.5),
        ("10s", 10.0),
        ("30m", 1800.0),
        ("8h", 28800.0),
        ("2d", 172800.0),
        ("1w", 604800.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
    ],
)
def test_a_duration(text: str, expected: float) -> None:
    assert seconds(text) == expected
    if not text[-1].isdigit():
        before = time.time()
        assert before - expected <= moment(text) <= time.time() - expected


@pytest.mark.parametrize("text", ["", "h", "8x", "-8h", "8 h", "nan", "1e3", "8h!", "99999d", "٣h"])
def test_a_duration_that_is_none(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no duration"):
        seconds(text)


@pytest.mark.parametrize(
    "text", ["2026-07-28T12:00Z", "2026-07-28 12:00:00+00:00", "2026-07-28T14:00:00+02:00"]
)
def test_a_time(text: str) -> None:
    assert moment(text) == moment_or_cursor(text) == NOON


def test_a_time_is_local_unless_it_says_otherwise() -> None:
    assert moment("2026-07-28T12:00") == time.mktime((2026, 7, 28, 12, 0, 0, 0, 0, -1))
    assert moment("2026-07-28") == time.mktime((2026, 7, 28, 0, 0, 0, 0, 0, -1))


@pytest.mark.parametrize("cursor", ["0", "12", "12-34", "3.456"])
def test_a_cursor_stays_as_it_is(cursor: str) -> None:
    assert moment_or_cursor(cursor) == cursor


@pytest.mark.parametrize("text", ["soon", "", "12-", "1.2.3", "٣", "2026-02-30"])
def test_what_is_no_moment_is_told_with_what_is(text: str) -> None:
    for parse in (moment, moment_or_cursor):
        with pytest.raises(argparse.ArgumentTypeError, match="Accepted: 10s, 30m, 8h, 2d, or a time such as"):
            parse(text)


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("65535", 65535), ("any", 0)])
def test_a_port(text: str, number: int) -> None:
    assert port(text) == number


@pytest.mark.parametrize("text", ["0", "65536", "-1", "x", "", "²"])
def test_a_port_that_is_none(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="Accepted: 1 to 65535, or any"):
        port(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input", ("for_input", True)),
        ("port=80", ("port", 80)),
        ("pattern=a=b", ("pattern", "a=b")),
        ("stop-pattern=x", ("stop_pattern", "x")),
        ("silence=3s", ("silence_s", 3.0)),
    ],
)
def test_a_condition(text: str, expected: tuple[str, object]) -> None:
    assert condition(text) == expected


@pytest.mark.parametrize("text", ["", "end", "port", "port=", "pattern=", "input=1", "colour=red"])
def test_a_condition_that_is_none(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no condition"):
        condition(text)
