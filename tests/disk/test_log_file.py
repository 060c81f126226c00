"""A job's output as one file that grep can read: the only segment, or all segments merged."""

import subprocess
from pathlib import Path

import pytest

from bgjob.home.jobdir import MERGED
from bgjob.home.log_format import STDERR, STDOUT, segment_name
from bgjob.output import merged
from bgjob.output.merged import log_file, log_note
from tests.support.logs import PipedLog

LINES = {
    STDOUT: b"".join(b"out %d\n" % number for number in range(100_000)),
    STDERR: b"".join(b"err %d\n" % number for number in range(100_000)),
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


def filled(directory: Path, limit_bytes: int, rounds: int, size: int = 3000) -> PipedLog:
    log = PipedLog(directory / "log", limit_bytes, contents=LINES)
    go_on(log, rounds, size)
    return log


def go_on(log: PipedLog, rounds: int, size: int = 3000) -> None:
    for _ in range(rounds):
        log.print(STDOUT, size)
        log.take_all()
        log.print(STDERR, size // 10)
        log.take_all()


def path_of(directory: Path, log: PipedLog) -> Path:
    path = log_file(str(directory), log.reader())
    assert path is not None
    return Path(path)


def test_a_log_with_one_segment_is_its_own_file_and_grows(directory: Path) -> None:
    with filled(directory, 1 << 20, 3) as log:
        path = path_of(directory, log)
        assert path == directory / "log" / segment_name(0)
        go_on(log, 1)
        assert path.read_bytes() == log.everything
        assert path_of(directory, log) == path
    assert not (directory / MERGED).exists()


def test_segments_are_merged_in_the_order_of_the_log(directory: Path) -> None:
    with filled(directory, 64 << 10, 10) as log:
        path = path_of(directory, log)
        assert path == directory / MERGED
        assert path.read_bytes() == log.everything
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_line_stands_where_bytes_were_dropped(directory: Path) -> None:
    with filled(directory, 16 << 10, 40) as log:
        path = path_of(directory, log)
        gone = subprocess.run(
            ["grep", "-o", r"\[bgjob: [0-9]* bytes dropped here", path],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        dropped = sum(int(line.split()[1]) for line in gone.splitlines())
        reader = log.reader()
        kept = sum(right - left for left, right in reader.stretches(0, reader.end))
        assert dropped == reader.end - kept > 0
        assert path.read_bytes().startswith(bytes(log.everything[:1000]))
        assert path.read_bytes().endswith(bytes(log.everything[-1000:]))


def test_it_is_written_again_only_when_the_log_has_grown(directory: Path) -> None:
    with filled(directory, 64 << 10, 10) as log:
        before = path_of(directory, log).stat()
        assert path_of(directory, log).stat().st_ino == before.st_ino
        go_on(log, 1)
        path = path_of(directory, log)
        assert path.read_bytes() == log.everything
        assert path.stat().st_size > before.st_size


def test_what_cannot_be_written_leaves_no_path_and_nothing_behind(directory: Path) -> None:
    with filled(directory, 64 << 10, 10) as log:
        (directory / MERGED).mkdir()
        (directory / MERGED / "in the way").touch()
        assert log_file(str(directory), log.reader()) is None
        note = log_note(str(directory), log.reader(), None, is_growing=False)
        assert note == "the file could not be written, for want of room or rights: use search_job_output"
    assert {path.name for path in directory.iterdir()} == {"log", MERGED}


def test_a_link_in_its_place_is_not_followed(directory: Path) -> None:
    elsewhere = directory / "elsewhere"
    elsewhere.write_text("precious")
    (directory / MERGED).symlink_to(elsewhere)
    with filled(directory, 64 << 10, 10) as log:
        assert path_of(directory, log).read_bytes() == log.everything
    assert elsewhere.read_text() == "precious"


def test_a_log_that_is_too_large_is_not_copied_and_the_note_says_how_to_search_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merged, "MOST_BYTES", 10_000)
    with filled(directory, 64 << 10, 10) as log:
        assert log_file(str(directory), log.reader()) is None
        note = log_note(str(directory), log.reader(), None, is_growing=True)
        assert note is not None
        command = note.partition(", or ")[2].replace("PATTERN", "'^out 42$'")
        assert subprocess.check_output(["sh", "-c", command]) == b"out 42\n"


def test_a_silent_job_has_no_file_and_no_note(directory: Path) -> None:
    with filled(directory, 1 << 20, 0) as log:
        assert log_file(str(directory), log.reader()) is None
        assert log_note(str(directory), log.reader(), None, is_growing=True) is None
