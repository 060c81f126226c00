"""A full disk costs output and nothing else: every lost byte is counted, and the log goes on when there is room."""

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bgjob.api import open_jobs
from bgjob.core.job import Exited
from bgjob.home import log_writer
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.link.control import ShimConnection
from bgjob.output.merged import log_file
from tests.support.gate import Gate
from tests.support.logs import STREAMS, PipedLog, assert_readers_tell_the_truth
from tests.support.shims import ask

PAGE_BYTES = 4096


class SmallDisk:
    """A tmpfs that can be filled to the last page, or to the last inode, and emptied again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"
        self._ballast.touch()

    def fill(self, leave_bytes: int = 0) -> None:
        with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while file.write(b"x" * PAGE_BYTES):
                pass
        os.truncate(self._ballast, max(0, self._ballast.stat().st_size - leave_bytes))

    def use_up_the_inodes(self, leave: int = 0) -> None:
        made: list[Path] = []
        with contextlib.suppress(OSError):
            for number in range(10_000):
                made.append(self.path / f"inode-{os.urandom(4).hex()}-{number}")
                made[-1].touch(exist_ok=False)
        for path in made[-1 - leave : -1]:
            path.unlink()

    def empty(self) -> None:
        os.truncate(self._ballast, 0)
        for path in self.path.glob("inode-*"):
            path.unlink()


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallDisk]:
    path = tmp_path_factory.mktemp("disk")
    if os.geteuid() != 0 or os.system(f"mount -t tmpfs -o size=400k,nr_inodes=80 tmpfs {path} 2>/dev/null"):
        pytest.skip("needs to mount a tmpfs")
    yield SmallDisk(path)
    os.system(f"umount -l {path}")


@pytest.fixture
def disk(small_disk: SmallDisk, monkeypatch: pytest.MonkeyPatch) -> SmallDisk:
    monkeypatch.setattr(log_writer, "DISK_RETRY_S", 0.0)  # the clock: look again at once
    small_disk.empty()
    for directory in filter(Path.is_dir, small_disk.path.iterdir()):
        shutil.rmtree(directory)
    return small_disk


@pytest.mark.parametrize("splice", [True, False], ids=["splice", "copy"])
@pytest.mark.parametrize("pages_left", [0, 1, 2, 3])
def test_what_a_full_disk_costs_is_counted_and_the_log_goes_on(
    disk: SmallDisk, splice: bool, pages_left: int
) -> None:
    with PipedLog(disk.path / "log", 64 << 10, splice=splice) as log:
        log.print(STDOUT, 6000)
        log.take_all()
        disk.fill(leave_bytes=pages_left * PAGE_BYTES)
        for stream in (STDOUT, STDERR, STDOUT):
            log.print(stream, 20_000)
            log.take_all()
        disk.empty()
        log.print(STDERR, 500)
        log.take_all()
        assert_readers_tell_the_truth(log)
        reader = log.reader()
        assert sum(gap.count for stream in STREAMS for gap in reader.gaps(stream, 0, reader.end)) > 0
        assert next(reader.backward(STDERR, 0, reader.end)).data[-500:] == log.everything[-500:]


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("print"), st.sampled_from(STREAMS), st.integers(1, 9000)),
        st.tuples(st.sampled_from(["fill", "inodes", "empty"]), st.integers(0, 3), st.just(0)),
    ),
    min_size=5,
    max_size=40,
)


@settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(actions=ACTIONS, limit=st.integers(1 << 10, 128 << 10), splice=st.booleans())
def test_any_sequence_of_full_and_empty_is_counted_exactly(
    disk: SmallDisk, actions: list[tuple[str, int, int]], limit: int, splice: bool
) -> None:
    disk.empty()
    shutil.rmtree(disk.path / "log", ignore_errors=True)
    with PipedLog(disk.path / "log", limit, splice=splice) as log:
        log.print(STDOUT, 100)
        log.take_all()
        for action, number, size in actions:
            if action == "print":
                log.print(number, size)
                log.take_all()
            elif action == "fill":
                disk.fill(leave_bytes=number * PAGE_BYTES)
            elif action == "inodes":
                disk.use_up_the_inodes(leave=number)
            else:
                disk.empty()
        disk.empty()
        log.print(STDERR, 100)
        log.take_all()
        assert_readers_tell_the_truth(log)
        assert_no_orphans(log.directory)


def assert_no_orphans(log: Path) -> None:
    data = {path.name for path in log.iterdir() if not path.suffix}
    runs = {path.stem for path in log.iterdir() if path.suffix == ".runs"}
    assert data == runs


@pytest.mark.parametrize("splice", [True, False], ids=["splice", "copy"])
def test_output_that_was_lost_before_the_first_byte_was_kept_is_told(disk: SmallDisk, splice: bool) -> None:
    with PipedLog(disk.path / "log", 64 << 10, splice=splice) as log:
        disk.fill()
        disk.use_up_the_inodes()
        log.print(STDOUT, 1000)
        log.take_all()
        disk.empty()
        log.print(STDOUT, 1000)
        log.take_all()
        assert_readers_tell_the_truth(log)


def test_the_last_words_that_a_full_disk_swallowed_are_counted(disk: SmallDisk, tmp_path: Path) -> None:
    """Nothing comes after them, and the disk is still full: the answer says all the same that they are missing."""
    gate = Gate(tmp_path / "gate")
    with contextlib.closing(
        open_jobs({**os.environ, "BGJOB_HOME": str(disk.path / "home")}, many=False)
    ) as jobs:
        job_id = jobs.execute(f"echo kept; {gate.pause}; seq 1 100000").id
        gate.wait_until_reached()
        ask(jobs, job_id, op="wait", beyond=4)  # it is in the log
        disk.fill()
        gate.open()
        for _ in jobs.follow(job_id, wait=True):
            pass
        output, state = jobs.output(job_id), jobs.status(job_id).job.state
        assert isinstance(state, Exited)
        assert state.output_bytes == 5 + 588_895
        kept = sum(len(line) for line in output.stdout.splitlines(True) if not line.startswith("[bgjob"))
        assert output.stdout.startswith("kept\n")
        counted = kept + output.stdout_dropped_bytes + output.stdout_left_out_bytes
        assert counted in (state.output_bytes, state.output_bytes + 1)  # the note begins on a line of its own


def test_a_follower_does_not_spin_while_a_full_disk_swallows_output(
    disk: SmallDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shim's log is longer than what is on disk: that alone is nothing new to read."""
    gate = Gate(tmp_path / "gate")
    with contextlib.closing(
        open_jobs({**os.environ, "BGJOB_HOME": str(disk.path / "home")}, many=False)
    ) as jobs:
        job_id = jobs.execute(f"echo kept; {gate.pause}; seq 1 100000; {gate.pause}").id
        gate.wait_until_reached()
        ask(jobs, job_id, op="wait", beyond=4)  # it is in the log
        disk.fill()
        gate.open()
        gate.wait_until_reached()
        asked = count_questions(monkeypatch)
        follower = threading.Thread(target=lambda: list(jobs.follow(job_id, wait=True)))
        follower.start()
        follower.join(0.5)
        gate.open()
        follower.join(10)
        assert len(asked) < 20


def count_questions(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Everything that is asked of any shim from now on."""
    asked: list[object] = []
    ask = ShimConnection.ask

    def counted(
        line: ShimConnection, patience_s: float, payload: bytes = b"", **request: object
    ) -> dict[str, Any]:
        asked.append(request)
        return ask(line, patience_s, payload, **request)

    monkeypatch.setattr(ShimConnection, "ask", counted)
    return asked


def test_a_full_disk_first_costs_the_middle_of_our_own_log(disk: SmallDisk) -> None:
    """What is newest is worth more: the oldest middle makes room for it."""
    with PipedLog(disk.path / "log", 128 << 10) as log:
        for _ in range(10):
            log.print(STDOUT, 9000)
            log.take_all()
        disk.fill()
        log.print(STDOUT, 20_000)
        log.take_all()
        log.print(STDOUT, 100)
        log.take_all()
        assert_readers_tell_the_truth(log)
        reader = log.reader()
        assert joined_tail(reader.backward(STDOUT, 0, reader.end)) == log.everything[-100:]


def joined_tail(pieces: Iterator[object]) -> bytes:
    return bytes(getattr(next(pieces), "data"))[-100:]  # noqa: B009


def test_a_full_disk_is_not_asked_for_every_byte(disk: SmallDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a second is enough; in between output is dropped without a try."""
    monkeypatch.setattr(log_writer, "DISK_RETRY_S", 1000.0)
    with PipedLog(disk.path / "log", 64 << 10) as log:
        log.print(STDOUT, 100)
        log.take_all()
        disk.fill()
        log.print(STDOUT, 20_000)
        log.take_all()
        disk.empty()
        log.print(STDOUT, 100)
        log.take_all()
        assert log.reader().end < log.writer.end == 20_200
        monkeypatch.setattr(time, "monotonic", lambda: 1e12)
        log.print(STDOUT, 100)
        log.take_all()
        assert_readers_tell_the_truth(log)


# Each segment may be 4 kB by the limit of the log, but the system allows files of 1,500 bytes only.
LIMITED = """
import resource, sys
from pathlib import Path
from bgjob.home import log_writer
from bgjob.api import open_jobs
from bgjob.link.control import ShimConnection
from bgjob.output.merged import log_file
from bgjob.core.job import Exited
from tests.support.logs import STREAMS, PipedLog, assert_readers_tell_the_truth
log_writer.DISK_RETRY_S = 0.0
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, resource.RLIM_INFINITY))
with PipedLog(Path(sys.argv[1]), 64 << 10, splice=sys.argv[2] == "splice") as log:
    for number in range(40):
        log.print(STREAMS[number % 3 == 0], 700)
        log.take_all()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    log.print(STREAMS[0], 700)
    log.take_all()
    assert_readers_tell_the_truth(log)
    assert log.reader().gaps(STREAMS[0], 0, log.writer.end)
"""


@pytest.mark.parametrize("way", ["splice", "copy"])
def test_a_limit_on_file_sizes_is_a_full_disk_too(tmp_path: Path, way: str) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path / "log", way],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_without_room_for_one_file_of_all_segments_there_is_no_path_and_nothing_left_behind(
    disk: SmallDisk,
) -> None:
    directory = disk.path / "job"
    directory.mkdir()
    with PipedLog(directory / "log", 64 << 10) as log:
        for _ in range(10):
            log.print(STDOUT, 5000)
            log.take_all()
        disk.fill(leave_bytes=2 * PAGE_BYTES)
        assert log_file(str(directory), log.reader()) is None
        assert [path.name for path in directory.iterdir()] == ["log"]
        disk.empty()
        assert log_file(str(directory), log.reader()) is not None
    shutil.rmtree(directory)
