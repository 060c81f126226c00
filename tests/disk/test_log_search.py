"""Search finds what a plain reading of the log, line by line, finds: in any interleaving, over any border."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count, pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bgjob.core.patterns import compile_pattern
from bgjob.home.log_format import STDERR, STDOUT, segment_name
from bgjob.output import log_lines, log_search
from bgjob.output.line_pages import around_place
from bgjob.output.log_reader import LogReader
from bgjob.output.log_search import Match, search
from bgjob.output.text import plain_line
from tests.support.log_stories import STORIES, Story, bytes_on_disk, contents, plainly, printed, told
from tests.support.logs import PipedLog

PATTERNS = [
    "a",
    "ab+",
    "^a",
    "b$",
    "^$",
    "^b*$",
    "[^a]b",
    "a.b",
    r"\bab\b",
    "(?i)A B",
    "a|b$",
    r"\s",
    "x*",
    "z",
]
LITERALS = ["a", "z"]
RELAXED = settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def expected(
    log: PipedLog, pattern: str, streams: list[int], window: tuple[int, int], context: int
) -> list[Match]:
    regex = re.compile(pattern.replace("$", "(?:\r?$)").encode())
    found = []
    for stream in streams:
        for lines in plainly(log, stream, window):
            texts = [bytes(byte.value for byte in line).removesuffix(b"\n") for line in lines]
            for number, (line, text) in enumerate(zip(lines, texts, strict=True)):
                if shown := as_matched(regex, text):
                    before = tuple(texts[max(0, number - context) : number])
                    after = tuple(texts[number + 1 : number + 1 + context])
                    first = line[0]
                    found.append(
                        Match(
                            first.offset,
                            line[-1].offset + 1,
                            stream,
                            first.time_us,
                            shown[0],
                            before,
                            after,
                        )
                    )
    return sorted(found, key=lambda match: match.offset)


def as_matched(regex: re.Pattern[bytes], line: bytes) -> list[bytes]:
    """The form in which a line matches: as an answer shows it, else as it was printed."""
    is_redrawn = re.search(rb"[\x1b\b]|\r[^\n]", line)
    forms = [plain_line(line).encode(), line] if is_redrawn else [line]
    return [form for form in forms if regex.search(form)]


def without_returns(matches: list[Match]) -> list[Match]:
    """At the end of a line they mean nothing."""
    return [replace(match, line=match.line.rstrip(b"\r")) for match in matches]


@pytest.fixture(scope="module", autouse=True)
def jumping_clock() -> Iterator[None]:
    """Every look at it is 7 ms later."""
    ticks = count(1_700_000_000_000_000_000, 7_000_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bgjob.home.log_writer.time.time_ns", lambda: next(ticks))
        yield


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def new_directory(scratch: Path) -> Path:
    return scratch / os.urandom(8).hex()


@RELAXED
@given(
    story=STORIES,
    pattern=st.sampled_from(PATTERNS),
    streams=st.sampled_from([[STDOUT], [STDERR], [STDOUT, STDERR]]),
    cut=st.one_of(st.none(), st.tuples(st.integers(0, 2000), st.integers(0, 2000))),
    context=st.integers(0, 3),
    limit=st.integers(0, 12),
    newest_first=st.booleans(),
    counting=st.booleans(),
    literal=st.booleans(),
)
def test_any_search_finds_what_a_plain_reading_finds(
    scratch: Path,
    story: Story,
    pattern: str,
    streams: list[int],
    cut: tuple[int, int] | None,
    context: int,
    limit: int,
    newest_first: bool,
    counting: bool,
    literal: bool,
) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        PipedLog(new_directory(scratch), story.limit_bytes, contents=contents(story)) as log,
    ):
        patch.setattr(log_lines, "CELL_MIN_BYTES", story.cell_bytes)
        patch.setattr(log_lines, "CELL_MAX_BYTES", story.cell_bytes * 4)
        told(log, story)
        window = cut or (0, log.writer.end)
        result = search(
            log.reader(),
            compile_pattern(pattern, literal=pattern in LITERALS and literal),
            streams=streams,
            since=window[0],
            until=window[1],
            context_lines=context,
            limit=limit,
            newest_first=newest_first,
            count=counting,
        )
        everything = expected(log, pattern, streams, window, context)
    ordered = everything[::-1] if newest_first else everything
    assert without_returns(result.matches) == without_returns(ordered[:limit])
    assert result.count == (len(everything) if counting else None)
    assert result.more == (len(everything) > limit)
    assert result.complete


@RELAXED
@given(
    story=STORIES,
    pattern=st.sampled_from(PATTERNS),
    shares=st.lists(st.floats(0, 1), max_size=9),
    share=st.floats(0, 1),
    limit=st.integers(1, 5),
    newest_first=st.booleans(),
)
def test_matches_are_counted_between_borders_and_chosen_from_a_place_on(
    scratch: Path,
    story: Story,
    pattern: str,
    shares: list[float],
    share: float,
    limit: int,
    newest_first: bool,
) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        PipedLog(new_directory(scratch), story.limit_bytes, contents=contents(story)) as log,
    ):
        patch.setattr(log_lines, "CELL_MIN_BYTES", story.cell_bytes)
        patch.setattr(log_lines, "CELL_MAX_BYTES", story.cell_bytes * 4)
        told(log, story)
        borders, place = sorted({int(each * log.writer.end) for each in shares}), int(share * log.writer.end)
        searched = partial(
            search,
            log.reader(),
            compile_pattern(pattern),
            limit=limit,
            newest_first=newest_first,
            place=place,
        )
        counted, window = searched(borders=borders), around_place(log.reader(), place)
        near = (
            searched(count=False, until=window[1]) if newest_first else searched(count=False, since=window[0])
        )
        everything = expected(log, pattern, [STDOUT, STDERR], (0, log.writer.end), 0)
    edges = [0, *borders, log.writer.end]
    assert counted.between == [
        sum(left <= match.offset < right for match in everything) for left, right in pairwise(edges)
    ]
    assert counted.count == len(everything)
    before = [match for match in everything if match.offset < place][::-1]
    wanted = before if newest_first else [match for match in everything if match.offset >= place]
    for result in (counted, near):
        assert without_returns(result.matches) == without_returns(wanted[:limit])
    assert near.more == (len(wanted) > limit)


@RELAXED
@given(story=STORIES, share=st.tuples(st.floats(0, 1), st.floats(0, 1)))
@example(Story(0, 2, [(STDOUT, 50)] * 3, 400, 1 << 20, 64), (0.0, 0.0))
def test_a_time_range_is_the_window_of_what_was_printed_in_it(
    scratch: Path, story: Story, share: tuple[float, float]
) -> None:
    with PipedLog(new_directory(scratch), story.limit_bytes, contents=contents(story)) as log:
        told(log, story)
        kept = bytes_on_disk(log.directory)
        if not kept:
            return
        first, last = kept[0].time_us, kept[-1].time_us
        after, before = (first + int((last - first + 2) * part) for part in share)
        inside = [byte.offset for byte in kept if after <= byte.time_us < before]
        window = (inside[0], inside[-1] + 1) if inside else (0, 0)
        result = search(
            log.reader(),
            compile_pattern("a"),
            after_us=after,
            before_us=before,
            limit=1000,
            newest_first=False,
        )
        everything = expected(log, "a", [STDOUT, STDERR], window, 0)
        assert without_returns(result.matches) == without_returns(everything)


# -- one by one -----------------------------------------------------------------------------------------


def found(log: LogReader, pattern: str) -> list[bytes]:
    return [
        match.line for match in search(log, compile_pattern(pattern), limit=100, newest_first=False).matches
    ]


def test_a_line_that_the_other_stream_cuts_is_found_whole(tmp_path: Path) -> None:
    log = printed(tmp_path, (STDOUT, b"all is w"), (STDERR, b"oops\n"), (STDOUT, b"ell\n"))
    assert found(log, "all is well") == [b"all is well"]
    assert found(log, "^oops$") == [b"oops"]
    assert found(log, "wo|sell") == []


def test_a_line_is_found_over_the_ends_of_many_segments(tmp_path: Path) -> None:
    line = b"begin " + b"x" * 200 + b" end"
    log = printed(tmp_path, (STDOUT, b"one\n" + line + b"\ntwo\n"), segment_bytes=30)
    assert len(log.segments(0, log.end)) > 5
    assert found(log, "^begin x+ end$") == [line]


def test_lines_on_both_sides_of_dropped_bytes_are_not_one(tmp_path: Path) -> None:
    printed(tmp_path, (STDOUT, b"0123456789abcd" * 3), segment_bytes=16 + 16 + 14)
    (tmp_path / segment_name(14)).unlink()
    assert found(LogReader(str(tmp_path)), "[0-9a-d]{15}") == []
    assert len(found(LogReader(str(tmp_path)), "^0123456789abcd$")) == 2


def test_what_the_other_stream_lost_does_not_cut_a_line(tmp_path: Path) -> None:
    parts = ((STDOUT, b"all is w"), (STDERR, b"x" * 300), (STDOUT, b"ell\n"))
    printed(tmp_path, *parts, segment_bytes=100)
    (tmp_path / segment_name(sorted(int(path.name) for path in tmp_path.glob("*[0-9]"))[1])).unlink()
    for newest_first in (False, True):
        log = LogReader(str(tmp_path))
        result = search(log, compile_pattern("all is well|x{200}"), limit=9, newest_first=newest_first)
        assert [match.line for match in result.matches] == [b"all is well"]


def test_a_segment_deleted_under_a_search_is_a_gap_and_the_search_goes_on(tmp_path: Path) -> None:
    log = printed(tmp_path, (STDOUT, b"line of text\n" * 30), segment_bytes=100)
    middle = log.segments(0, log.end)[2]
    (tmp_path / segment_name(middle.start)).unlink()
    lines = found(log, "line|text")
    assert 20 < len(lines) < 30
    assert lines[0] == lines[-1] == b"line of text"


def test_an_unfinished_last_line_is_a_line(tmp_path: Path) -> None:
    assert found(printed(tmp_path, (STDOUT, b"one\nPassword: ")), r"^Password: $") == [b"Password: "]


def test_the_end_of_a_line_is_also_before_a_carriage_return(tmp_path: Path) -> None:
    assert found(printed(tmp_path, (STDOUT, b"done\r\n\r\nundone\r\n")), "^done$|^$") == [b"done\r", b"\r"]


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("^error", [b"error: boom"]),
        ("^fin$", [b"fin"]),
        ("^100%$", [b"100%"]),
        ("^ok$", [b"ok"]),
        ("^$", [b"", b""]),
        ("http", [b"a \x1b]8;;http://x/\x07link\x1b]8;;\x07"]),
        ("link$", [b"a link"]),
    ],
)
def test_a_line_is_found_as_an_answer_shows_it(tmp_path: Path, pattern: str, lines: list[bytes]) -> None:
    printed_lines = [
        b"\x1b[31merror\x1b[0m: boom\r",
        b"\x1b[?2004l\rfin",
        b"10%\r50%\r100%",
        b"no\b\bok\x1b[K",
        b"\x1b[0m",
        b"",
        b"a \x1b]8;;http://x/\x07link\x1b]8;;\x07",
    ]
    log = printed(tmp_path, (STDOUT, b"\n".join(printed_lines)))
    assert [line.rstrip(b"\r") for line in found(log, pattern)] == lines


def test_a_line_that_matches_as_printed_and_as_shown_counts_once(tmp_path: Path) -> None:
    line = b"\x1b[31ma needle\x1b[0m and another needle\n"
    result = search(
        printed(tmp_path, (STDOUT, line * 50_000)), compile_pattern("needle"), limit=3, newest_first=True
    )
    assert result.count == 50_000
    assert [match.offset for match in result.matches] == [len(line) * at for at in (49_999, 49_998, 49_997)]
    assert {match.end - match.offset for match in result.matches} == {len(line)}


def test_of_a_long_bar_the_state_that_matches_is_shown(tmp_path: Path) -> None:
    bar = b"\r".join(b"%3d%% of the download" % part for part in range(101))
    log = printed(tmp_path, (STDOUT, b"begin\n" + bar + b"\nend\n"))
    [match] = search(log, compile_pattern("^100%"), limit=2, newest_first=True).matches
    assert (match.line, match.starts_late, match.ends_early) == (b"100% of the download", False, False)
    assert (match.offset, match.end) == (6, 6 + len(bar) + 1)


def test_a_job_that_printed_nothing_has_no_matches(tmp_path: Path) -> None:
    result = search(LogReader(str(tmp_path / "log")), compile_pattern("a"), limit=1, newest_first=True)
    assert (result.matches, result.count, result.more) == ([], 0, False)


@pytest.mark.parametrize("newest_first", [False, True])
def test_of_a_long_line_the_part_around_the_match_is_shown(tmp_path: Path, newest_first: bool) -> None:
    line = "é" * 4000 + "needle" + "ü" * 4000
    log = printed(tmp_path, (STDOUT, f"short\n{line}\nshort\n".encode()))
    [match] = search(log, compile_pattern("needle"), limit=1, newest_first=newest_first).matches
    assert (match.starts_late, match.ends_early) == (True, True)
    assert len(match.line) <= log_search.SHOWN_BYTES
    assert re.fullmatch("é{100,}needleü{100,}", match.line.decode())
    assert (match.offset, match.end) == (6, 6 + len(line.encode()) + 1)


@pytest.mark.parametrize("newest_first", [False, True])
def test_text_that_never_has_a_newline_is_searched_in_parts(tmp_path: Path, newest_first: bool) -> None:
    noise = b"x" * (3 * log_lines.LINE_MAX_BYTES)
    log = printed(tmp_path, (STDOUT, noise + b"needle" + noise))
    result = search(log, compile_pattern("needle"), limit=5, newest_first=newest_first)
    assert result.count == 1
    assert b"needle" in result.matches[0].line


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [0, 1, 5])
def test_a_line_that_is_searched_in_parts_counts_once(tmp_path: Path, newest_first: bool, limit: int) -> None:
    long = b"needle " * log_lines.LINE_MAX_BYTES
    log = printed(tmp_path, (STDOUT, b"one\n" + long + b"\ntwo needle\n" + long + b"\n" + long))
    result = search(
        log, compile_pattern("needle"), limit=limit, newest_first=newest_first, context_lines=2, since=4
    )
    assert (result.count, len(result.matches), result.more) == (4, min(limit, 4), limit < 4)


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_line_that_is_searched_in_parts_is_not_its_own_context(tmp_path: Path, newest_first: bool) -> None:
    noise = b"x" * (3 * log_lines.LINE_MAX_BYTES)
    log = printed(tmp_path, (STDOUT, b"one\ntwo\n" + noise + b"needle" + noise + b"\nthree\nfour\n"))
    [match] = search(
        log, compile_pattern("needle"), limit=5, newest_first=newest_first, context_lines=1
    ).matches
    assert (match.before, match.after) == ((b"two",), (b"three",))


@pytest.mark.parametrize("newest_first", [False, True])
def test_what_lies_beside_a_line_of_many_parts_is_another_line(
    tmp_path: Path, newest_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the parts end: also with the line, or before its newline."""
    for name, value in {"LINE_MAX_BYTES": 16, "CELL_MIN_BYTES": 4, "CELL_MAX_BYTES": 4}.items():
        monkeypatch.setattr(log_lines, name, value)
    for size in range(50):
        text = b"y\n%by\ny\n" % (b"x" * size + b"xy\n") * 3
        log = printed(tmp_path / str(size), (STDOUT, text))
        assert search(log, compile_pattern("[xy]"), limit=4, newest_first=newest_first).count == 12
        assert search(log, compile_pattern("x"), limit=0, newest_first=newest_first).count == 3


def test_context_does_not_reach_over_a_gap(tmp_path: Path) -> None:
    printed(tmp_path, (STDOUT, b"a\nb\nc\nd\ne\nf\ng\n" * 3), segment_bytes=16 + 16 + 14)
    (tmp_path / segment_name(14)).unlink()
    log = LogReader(str(tmp_path))
    result = search(log, compile_pattern("b|f"), limit=9, newest_first=False, context_lines=2)
    assert [(match.before, match.after) for match in result.matches] == [
        ((b"a",), (b"c", b"d")),
        ((b"d", b"e"), (b"g",)),
        ((b"a",), (b"c", b"d")),
        ((b"d", b"e"), (b"g",)),
    ]


def test_newest_first_reads_only_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even to know where the only line of the other stream begins."""
    log = printed(tmp_path, (STDOUT, b"a line of text\n" * 200_000), (STDERR, b"late\n"))
    read = 0
    pread = os.pread

    def counting_pread(fd: int, size: int, offset: int) -> bytes:
        nonlocal read
        data = pread(fd, size, offset)
        read += len(data)
        return data

    monkeypatch.setattr(os, "pread", counting_pread)
    result = search(log, compile_pattern("line"), limit=10, newest_first=True, count=False)
    assert (len(result.matches), result.more) == (10, True)
    assert read < 50_000


def test_a_search_that_is_out_of_time_says_so(tmp_path: Path) -> None:
    log = printed(tmp_path, (STDOUT, b"a line of text\n" * 100_000))
    asked = count()
    result = search(
        log, compile_pattern("line"), limit=3, newest_first=False, out_of_time=lambda: next(asked) >= 3
    )
    assert not result.complete
    assert len(result.matches) == 3
    assert 0 < (result.count or 0) < 100_000


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_memory_stays_flat_however_large_the_log(tmp_path: Path) -> None:
    line = b"2024-01-01 12:00:00 INFO a request was handled\n"
    log = printed(tmp_path, *[(STDOUT, line * 20_000), (STDERR, b"warning\n")] * 64, segment_bytes=8 << 20)
    assert log.end > 50 << 20
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = memory_bytes("VmRSS")
    result = search(log, compile_pattern("request|warning"), limit=50, newest_first=False, context_lines=2)
    assert result.count == 64 * 20_001
    assert memory_bytes("VmHWM") - before < 16 << 20


def memory_bytes(word: str) -> int:
    return int(Path("/proc/self/status").read_text().partition(f"{word}:")[2].split()[0]) * 1024
