"""A copy of a log, kept by its news, is the log: whatever is printed, and however little is told at a time."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bgjob.agent.log_news import LogNews
from bgjob.home.log_format import RUN, RUNS_SUFFIX, STDERR, STDOUT
from bgjob.output.log_reader import LogReader
from tests.remote.replica import contents, write_pieces
from tests.support.logs import STREAMS, PipedLog, assert_pieces_are_in_place

STEPS = st.lists(
    st.tuples(
        st.sampled_from(STREAMS),
        st.one_of(st.integers(1, 40), st.integers(1, 9000)),
        st.one_of(st.none(), st.integers(1, 200), st.integers(1, 20_000)),  # how much is told then
    ),
    max_size=60,
)
Steps = list[tuple[int, int, int | None]]
ALL = 1 << 30


def told(news: LogNews, copy: Path, most_bytes: int) -> bool:
    """True: that was all."""
    new = news.take(most_bytes)
    assert new.is_all or new.pieces
    assert new.size <= most_bytes + RUN.size * 2 + 1
    write_pieces(copy, new)
    return new.is_all


def assert_the_copy_tells_the_truth(log: PipedLog, copy: Path) -> None:
    """All that it has is right; and it has all that the log has, up to its own end."""
    reader, original = LogReader(str(copy)), log.reader()
    for stream in STREAMS:
        pieces = list(reader.forward(stream, 0, reader.end))
        assert_pieces_are_in_place(log, stream, pieces)
        assert reader.kept(stream, 0, reader.end) >= original.kept(stream, 0, reader.end)


def in_full(log: PipedLog, copy: Path) -> None:
    there, here = contents(log.directory), contents(copy)
    unlabelled = {name for name, data in there.items() if not data and name.isdecimal()}
    for name in [*unlabelled, *(name + RUNS_SUFFIX for name in unlabelled)]:
        there.pop(name, None)  # a segment that was begun, and has no byte yet
    for name in list(there):
        if name.endswith(RUNS_SUFFIX) and here.get(name) != there[name]:
            assert there[name][: -RUN.size] == here[name]  # its last run labels no byte yet
            there[name] = here[name]
    assert here == there


@settings(max_examples=80)
@given(steps=STEPS, limit=st.integers(1 << 10, 64 << 10), is_renewed=st.booleans())
def test_a_copy_is_right_at_every_moment_and_whole_in_the_end(
    steps: Steps, limit: int, is_renewed: bool
) -> None:
    """Also if it is told by one agent after the other, which know only what the copy has."""
    with tempfile.TemporaryDirectory() as scratch, PipedLog(Path(scratch, "log"), limit) as log:
        copy = Path(scratch, "copy")
        copy.mkdir()
        news = LogNews(str(log.directory), {})
        for stream, size, most in steps:
            log.print(stream, size)
            log.take_all()
            if most is not None:
                told(news, copy, most)
                assert_the_copy_tells_the_truth(log, copy)
            if is_renewed:
                news = LogNews(str(log.directory), {name: len(data) for name, data in contents(copy).items()})
        while not told(news, copy, 5000):
            assert_the_copy_tells_the_truth(log, copy)
        in_full(log, copy)


def test_a_copy_of_a_log_that_is_printed_faster_than_it_is_told_stays_small(tmp_path: Path) -> None:
    with PipedLog(tmp_path / "log", 20_000) as log:
        copy = tmp_path / "copy"
        copy.mkdir()
        news = LogNews(str(log.directory), {})
        for number in range(160):
            log.print(STREAMS[number % 7 == 0], 6000)
            log.take_all()
            told(news, copy, 2000)
            assert sum(map(len, contents(copy).values())) <= 20_000
        assert_the_copy_tells_the_truth(log, copy)


def test_a_run_that_labels_no_byte_yet_is_not_told(tmp_path: Path) -> None:
    """Its writer writes another in its place if nothing comes."""
    with PipedLog(tmp_path / "log", 20_000) as log:
        news = LogNews(str(log.directory), {})
        log.print(STDOUT, 10)
        log.take_all()
        news.take(ALL)
        log.writer._label(STDERR)
        assert news.take(ALL) == ([], [], True)
        log.print(STDERR, 1)
        log.take_all()
        runs, data = news.take(ALL).pieces
        assert (len(runs.data), data.data) == (RUN.size, bytes(log.everything[10:]))


def test_what_its_writer_cuts_off_is_cut_off_the_copy(tmp_path: Path) -> None:
    """A full disk takes half a write, which is undone."""
    with PipedLog(tmp_path / "log", 20_000) as log:
        copy = tmp_path / "copy"
        copy.mkdir()
        news = LogNews(str(log.directory), {})
        log.print(STDOUT, 100)
        log.take_all()
        told(news, copy, ALL)
        (segment,) = (path for path in log.directory.iterdir() if path.name.isdecimal())
        with segment.open("r+b") as file:
            file.truncate(60)
        assert told(news, copy, ALL)
        assert (copy / segment.name).stat().st_size == 60


@pytest.mark.parametrize("name", ["0", "draft", "00000000000000000000.new"])
def test_other_files_are_none_of_its_business(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    assert LogNews(str(tmp_path), {}).take(ALL) == ([], [], True)
    assert LogNews(str(tmp_path / "missing"), {}).take(ALL) == ([], [], True)
