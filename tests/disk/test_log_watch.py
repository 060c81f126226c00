"""Watches on a log: every line that matches is told, however the log was written and whoever goes on with it."""

import random
import re
from pathlib import Path
from typing import Any

import pytest

from bgjob.core.patterns import compile_any
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.home.log_writer import LogWriter
from bgjob.output import log_watch
from bgjob.output.log_reader import LogReader
from bgjob.output.log_watch import LogWatch
from tests.support.logs import pour

Events = list[dict[str, Any]]


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(tmp_path / "log")


@pytest.fixture
def without_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_watch, "BURST", 1e9)


def scan(watch: LogWatch, log: str) -> Events:
    return list(watch.scan(LogReader(log), lambda: False))


def lines_of(events: Events) -> list[str]:
    return [event["line"] for event in events]


@pytest.mark.usefixtures("without_limit")
@pytest.mark.parametrize("seed", range(20))
def test_what_is_told_is_what_matches_though_it_comes_in_pieces_and_is_taken_over(
    log: str, seed: int
) -> None:
    """Two streams in random pieces, a new watch that goes on from the old one's state, now and then."""
    rng = random.Random(seed)
    writer = LogWriter(log, 1 << 30)
    patterns = ["needle", "^b.*x$", r"[0-9]{3}"]
    texts = {
        stream: b"".join(
            rng.choice([b"hay\n", b"a needle\n", b"b 12 x\r\n", b"b 123 y\n", b"\n", b"needle 456\n"])
            for _ in range(60)
        )
        for stream in (STDOUT, STDERR)
    }
    expected = sorted(
        (pattern, line.decode())
        for text in texts.values()
        for line in text.splitlines()
        for pattern in patterns
        if re.search(pattern.encode(), line)
    )
    watch, told, left = LogWatch(patterns, {}), [], dict(texts)
    while any(left.values()):
        stream = rng.choice([each for each in left if left[each]])
        size = rng.randrange(1, 40)
        pour(writer, stream, left[stream][:size])
        left[stream] = left[stream][size:]
        if rng.random() < 0.3:
            told += scan(watch, log)
        if rng.random() < 0.2:
            watch = LogWatch(patterns, watch.state)
    told += scan(watch, log)
    told += watch.finish()
    assert sorted((event["pattern"], event["line"].rstrip("\r")) for event in told) == expected


def test_a_match_has_its_stream_and_the_cursor_of_its_line(log: str) -> None:
    pour(LogWriter(log, 1 << 20), STDERR, b"one\ntwo needle\n")
    (event,) = scan(LogWatch(["needle"], {}), log)
    assert event == {
        "kind": "matched",
        "pattern": "needle",
        "line": "two needle",
        "stream": "stderr",
        "cursor": "4-15",
    }


def test_a_line_is_matched_as_an_answer_shows_it(log: str) -> None:
    bar = b"\r".join(b"download %d%%" % part for part in range(101))
    pour(LogWriter(log, 1 << 20), STDOUT, b"\x1b[31merror\x1b[0m: boom\r\n" + bar + b"\nan error\n")
    told = scan(LogWatch(["^error: boom$", "^download 100%$", "error"], {}), log)
    assert [(event["pattern"], event["line"].rstrip("\r")) for event in told] == [
        ("^error: boom$", "error: boom"),
        ("error", "error: boom"),
        ("^download 100%$", "download 100%"),
        ("error", "an error"),
    ]


def test_an_unfinished_line_is_told_once_as_it_is_shown(log: str) -> None:
    writer, watch = LogWriter(log, 1 << 20), LogWatch(["^password: $"], {})
    pour(writer, STDOUT, b"\x1b[1mpassword\x1b[0m: ")
    assert scan(watch, log) == []
    assert lines_of(list(watch.match_unfinished())) == ["password: "]
    pour(writer, STDOUT, b"\n")
    assert scan(watch, log) == []


def test_coloured_lines_that_were_left_out_are_counted(log: str) -> None:
    watch = LogWatch(["^noise$"], {})
    pour(LogWriter(log, 1 << 30), STDOUT, b"\x1b[31mnoise\x1b[0m\n" * 5000)
    told = [*scan(watch, log), *watch.finish()]
    assert sum("line" in each for each in told) + sum(each.get("suppressed", 0) for each in told) == 5000


def test_a_long_line_is_shown_around_its_match(log: str) -> None:
    pour(LogWriter(log, 1 << 20), STDOUT, b"x" * 5000 + b"needle" + b"y" * 5000 + b"\n")
    (event,) = scan(LogWatch(["needle"], {}), log)
    assert "needle" in event["line"]
    assert len(event["line"]) <= log_watch.SHOWN_BYTES + 1


def test_an_unfinished_line_is_told_once_now_or_when_it_ends(log: str) -> None:
    writer, watch = LogWriter(log, 1 << 20), LogWatch(["pass", "word: x"], {})
    pour(writer, STDOUT, b"password: ")
    assert scan(watch, log) == []
    assert [event["pattern"] for event in watch.match_unfinished()] == ["pass"]
    assert list(watch.match_unfinished()) == []
    pour(writer, STDOUT, b"x\n")
    assert [event["pattern"] for event in scan(watch, log)] == ["word: x"]


def test_a_noisy_pattern_is_counted_and_takes_nothing_from_the_others(log: str) -> None:
    watch = LogWatch(["noise", "rare"], {})
    pour(LogWriter(log, 1 << 30), STDOUT, b"noise\n" * 5000 + b"rare\n" + b"noise\n" * 5000)
    told = scan(watch, log)
    assert [event["line"] for event in told if event["pattern"] == "rare"] == ["rare"]
    noise = [event for event in told if event["pattern"] == "noise"]
    assert len(noise) <= log_watch.BURST + 2
    over = [event for event in watch.finish() if event["pattern"] == "noise"]
    assert (
        sum("line" in each for each in noise + over) + sum(each.get("suppressed", 0) for each in noise + over)
        == 10_000
    )


def test_what_was_counted_and_missed_is_not_forgotten_by_the_next_one(log: str) -> None:
    watch = LogWatch(["noise"], {})
    pour(LogWriter(log, 1 << 30), STDOUT, b"noise\n" * 1000)
    told = scan(watch, log)
    rest = list(LogWatch(["noise"], watch.state).finish())
    assert len(told) + sum(each.get("suppressed", 0) for each in [*told, *rest]) == 1000


def test_what_is_kept_of_one_stream_is_watched_though_the_other_is_gone(
    log: str, without_limit: None
) -> None:
    """A line of stderr that came in two parts is one, whatever of stdout is gone in between."""
    writer, watch = LogWriter(log, 64_000), LogWatch(["^error [0-9]+$"], {})
    for number in range(50):
        pour(writer, STDERR, b"err")
        pour(writer, STDOUT, b"x" * 4999 + b"\n")
        pour(writer, STDERR, b"or %d\n" % number)
    assert lines_of(scan(watch, log)) == [f"error {number}" for number in range(50)]
    (unwatched,) = [event for event in watch.finish() if event["kind"] == "unwatched"]
    assert unwatched["bytes"] == 250_000 - LogReader(log).kept(STDOUT, 0, 1 << 30)


def test_bytes_that_are_gone_before_they_were_read_are_told(log: str) -> None:
    writer = LogWriter(log, 8000)
    pour(writer, STDOUT, b"begin\n")
    watch = LogWatch(["begin", "end"], {})
    assert lines_of(scan(watch, log)) == ["begin"]
    for _ in range(100):
        pour(writer, STDOUT, b"x" * 999 + b"\n")
    pour(writer, STDOUT, b"end\n")
    assert lines_of(scan(watch, log)) == ["end"]
    (unwatched,) = [event for event in watch.finish() if event["kind"] == "unwatched"]
    kept = LogReader(log).kept(STDOUT, 0, 1 << 30)
    assert unwatched["bytes"] == 100_010 - kept


def test_out_of_time_it_is_behind_and_goes_on_from_there(log: str) -> None:
    pour(LogWriter(log, 1 << 30), STDOUT, b"hay\n" * 100_000 + b"needle\n")
    watch = LogWatch(["needle"], {})
    assert list(watch.scan(LogReader(log), lambda: True)) == []
    assert watch.is_behind
    assert lines_of(scan(watch, log)) == ["needle"]
    assert not watch.is_behind


@pytest.mark.parametrize(
    "patterns",
    [["a", "b"], ["(?i)ERROR", "Warn"], [r"\Qa.b", "c"], ["a|b", "^c$"], ["x{900}", "y{900}"], [r"\d+"]],
)
def test_patterns_together_find_what_they_find_alone(patterns: list[str], log: str) -> None:
    text = b"a\nb\nerror\nwarn\nWarn\na.b\nc\ncc\n17\n" + b"x" * 900 + b"\n" + b"y" * 1800 + b"\n"
    pour(LogWriter(log, 1 << 20), STDOUT, text)
    together = sorted((event["pattern"], event["cursor"]) for event in scan(LogWatch(patterns, {}), log))
    alone = sorted(
        (pattern, event["cursor"]) for pattern in patterns for event in scan(LogWatch([pattern], {}), log)
    )
    assert together == alone
    assert together


def test_patterns_that_cannot_be_put_together_are_said_not_to_be() -> None:
    assert compile_any([r"\Qa.b", "c"]) is None
    assert compile_any(["a", "b"]) is not None
