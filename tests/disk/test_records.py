"""Records: written whole, and whatever lies in the place of one is taken for missing; nothing raises, nothing hangs."""

import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from bgjob.home import jobdir, queue_dir

GOOD = {"format": 1, "cause": "exited"}


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_symlink_to_a_good_one(path: Path) -> None:
    real = path.with_name("elsewhere.json")
    real.write_text(json.dumps(GOOD))
    path.symlink_to(real)


def of_bytes(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def endless(path: Path) -> None:
    """10 GB of zeros that take no room on disk."""
    with path.open("wb") as file:
        file.truncate(10 << 30)


NOT_RECORDS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "empty": of_bytes(b""),
    "reserved and never written": of_bytes(b" " * jobdir.RESERVED_BYTES),
    "torn": of_bytes(json.dumps(GOOD).encode()[:-4]),
    "torn in the middle of a character": of_bytes(b'{"name": "caf\xc3'),
    "NULs, as after a power cut": of_bytes(b"\0" * 4096),
    "two records": of_bytes(b"{}{}"),
    "a list": of_bytes(b"[1, 2]"),
    "a number": of_bytes(b"17"),
    "null": of_bytes(b"null"),
    "nested beyond reason": of_bytes(b'{"a":' * 100_000),
    "lists beyond reason": of_bytes(b"[" * 200_000),
    "a number of a million digits": of_bytes(b'{"pid": ' + b"9" * 1_000_000 + b"}"),
    "a symlink": a_symlink_to_a_good_one,
    "a dangling symlink": lambda path: path.symlink_to("nowhere"),
    "a symlink to itself": lambda path: path.symlink_to(path.name),
    "a directory": lambda path: path.mkdir(),
    "a FIFO": a_fifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", NOT_RECORDS)
def test_what_is_not_a_record_is_taken_for_missing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "outcome.json"
    NOT_RECORDS[kind](path)
    assert jobdir.read_record(str(path)) is None


LIMITED_READ = """
import resource, sys
from bgjob.home import jobdir
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
assert jobdir.read_record(sys.argv[1]) is None
"""


def test_a_huge_file_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "outcome.json"
    endless(path)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED_READ, path], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_fifo_is_no_record_also_if_somebody_has_written_one_into_it(tmp_path: Path) -> None:
    """The next one might be written without end."""
    path = tmp_path / "outcome.json"
    os.mkfifo(path)
    holder = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    path.write_text(json.dumps(GOOD))
    assert jobdir.read_record(str(path)) is None
    os.close(holder)


def test_a_fifo_in_the_place_of_a_draft_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "outcome.json.new")
    with pytest.raises(OSError, match=r"outcome\.json"):
        jobdir.write_record(str(tmp_path / "outcome.json"), GOOD)


def test_a_draft_without_end_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "outcome.json"
    endless(tmp_path / "outcome.json.new")
    jobdir.write_record(str(path), GOOD)
    assert jobdir.read_record(str(path)) == GOOD
    assert path.stat().st_size == jobdir.RESERVED_BYTES


QUEUE = {"after": [], "after_policy": "any", "not_before": 0, "max_jobs": 1, "group_slots": None}
NO_QUEUE_OPTIONS: dict[str, dict[str, object]] = {
    "after a path": {"queue": QUEUE | {"after": ["../../../elsewhere"]}},
    "after a text": {"queue": QUEUE | {"after": "x" * 1_000_000}},
    "after lists": {"queue": QUEUE | {"after": [["x"]]}},
    "at a time without end": {"queue": QUEUE | {"not_before": 10**400}},
    "in a group that is a path": {"queue": QUEUE, "group": "../../elsewhere"},
    "in a group with a NUL": {"queue": QUEUE, "group": "a\0b"},
    "in a group that is a list": {"queue": QUEUE, "group": ["a"]},
}


@pytest.mark.parametrize("what", NO_QUEUE_OPTIONS)
def test_a_spec_that_waits_for_what_cannot_be_is_not_queued(what: str) -> None:
    """A name becomes a part of a path; and one such spec must not end whoever starts the others."""
    assert queue_dir.queue_options_of(NO_QUEUE_OPTIONS[what]) is None
    assert queue_dir.queue_options_of({"queue": QUEUE, "group": "a"}) == {"queue": QUEUE, "group": "a"}


def test_a_path_below_a_file_is_missing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert jobdir.read_record(str(tmp_path / "file" / "outcome.json")) is None


def test_a_record_of_a_newer_version_is_read_with_all_it_has(tmp_path: Path) -> None:
    path = str(tmp_path / "run.json")
    jobdir.write_record(path, {"format": 99, "pid": 1, "novelty": [1, {"x": None}]})
    assert jobdir.read_record(path) == {"format": 99, "pid": 1, "novelty": [1, {"x": None}]}


@pytest.mark.parametrize("size", [0, 10, 1000, 1024, 5000, 100_000])
def test_a_record_replaces_what_was_reserved_whatever_its_size(tmp_path: Path, size: int) -> None:
    path = str(tmp_path / "outcome.json")
    jobdir.reserve_record(path)
    assert jobdir.read_record(path) is None
    jobdir.write_record(path, {"text": "é" * size}, durable=True)
    assert jobdir.read_record(path) == {"text": "é" * size}
    assert [file.name for file in tmp_path.iterdir()] == ["outcome.json"]
    assert Path(path).stat().st_mode & 0o777 == 0o600


def test_a_longer_draft_left_by_a_crash_does_not_show_through(tmp_path: Path) -> None:
    (tmp_path / "run.json.new").write_bytes(b'{"pid": 1, "left": "over"}' * 100)
    jobdir.write_record(str(tmp_path / "run.json"), {"pid": 2})
    assert jobdir.read_record(str(tmp_path / "run.json")) == {"pid": 2}


def test_a_reader_sees_the_old_record_or_the_new_one(tmp_path: Path) -> None:
    path = str(tmp_path / "run.json")
    jobdir.write_record(path, {"number": 0, "padding": ""})
    done = threading.Event()

    def write() -> None:
        for number in range(1, 800):
            jobdir.write_record(path, {"number": number, "padding": "x" * (number * 37 % 9000)})
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = [0]
    while not done.is_set():
        record = jobdir.read_record(path)
        assert record is not None
        assert len(record["padding"]) == record["number"] * 37 % 9000
        seen.append(record["number"])
    writer.join()
    assert seen == sorted(seen)


@pytest.mark.timeout(600)
def test_what_is_not_a_lock_is_not_held(tmp_path: Path) -> None:
    held = jobdir.create_locked(str(tmp_path / "lock"), {})
    (tmp_path / "symlink").symlink_to("lock")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    assert jobdir.is_locked(str(tmp_path / "lock"))
    for name in ("symlink", "directory", "fifo", "missing"):
        assert not jobdir.is_locked(str(tmp_path / name))
    os.close(held)
    assert not jobdir.is_locked(str(tmp_path / "lock"))


def test_a_lock_is_held_until_the_last_process_that_has_it_is_gone(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    lock = jobdir.create_locked(path, GOOD)
    holder = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[lock])
    os.close(lock)
    assert jobdir.is_locked(path)
    with path_open(path) as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    holder.communicate()
    assert not jobdir.is_locked(path)


def test_asking_whether_it_is_locked_does_not_lock_it(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    os.close(jobdir.create_locked(path, GOOD))
    for _ in range(100):
        assert not jobdir.is_locked(path)
    with path_open(path) as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert jobdir.read_record(path) == GOOD


def path_open(path: str) -> BinaryIO:
    return Path(path).open("rb")
