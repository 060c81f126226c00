"""The log of events: many writers, a reader at any time, any of them killed or stopped."""

import json
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from bgjob.home import event_log
from bgjob.home.event_log import Cursor
from bgjob.store import event_reader

START = Cursor(0, 0)
JOB = "aaaaaaaa-0000-4000-8000-000000000000"
ANOTHER = "bbbbbbbb-0000-4000-8000-000000000000"
SPAWN = multiprocessing.get_context("fork")


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "SEGMENT_BYTES", 4096)


def job(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def all_of(log: str, since: Cursor = START) -> list[dict[str, Any]]:
    return [event for event, _ in event_reader.read(log, since)]


def in_processes(count: int, work: Callable[[int], None]) -> list[BaseProcess]:
    started = [SPAWN.Process(target=work, args=(number,)) for number in range(count)]
    for each in started:
        each.start()
    return list(started)


def test_what_is_appended_is_read_in_order_and_only_once_by_its_cursor(log: str) -> None:
    for number in range(3):
        event_log.append(log, "started", JOB, number=number)
    (_, place), *_ = event_reader.read(log, START)
    assert [event["number"] for event in all_of(log)] == [0, 1, 2]
    assert [event["number"] for event in all_of(log, place)] == [1, 2]
    assert all_of(log, event_log.end(log)) == []


def test_an_event_has_its_time_kind_and_job(log: str) -> None:
    event_log.append(log, "ended", JOB, cause="exited")
    (event,) = all_of(log)
    assert event["kind"] == "ended"
    assert event["job_id"] == JOB
    assert event["cause"] == "exited"
    assert event["at"] > 1_600_000_000


def test_many_writers_lose_nothing_and_each_keeps_its_order(
    log: str, small_segments: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "SEGMENTS_KEPT", 1_000_000)

    def write(writer: int) -> None:
        for number in range(150):
            event_log.append(log, "matched", job(writer), number=number)

    writers = in_processes(6, write)
    for each in writers:
        each.join()
    for writer in range(6):
        numbers = [event["number"] for event in all_of(log) if event["job_id"] == job(writer)]
        assert list(dict.fromkeys(numbers)) == list(range(150))
    assert len(event_log.segments(log)) > 1


def test_a_reader_misses_nothing_while_segments_are_begun_under_it(log: str, small_segments: None) -> None:
    def write(writer: int) -> None:
        for number in range(200):
            event_log.append(log, "matched", job(writer), number=number)

    writers = in_processes(3, write)
    place, seen = START, set()

    def has_more() -> bool:
        return event_reader.place_between_events(log, place) != event_log.end(log)

    while any(each.is_alive() for each in writers) or has_more():
        for event, behind in event_reader.read(log, place):
            seen.add((event["job_id"], event["number"]))
            place = behind
    assert seen == {(job(writer), number) for writer in range(3) for number in range(200)}


def test_a_writer_that_is_killed_spoils_nothing_of_the_others(
    log: str, small_segments: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "SEGMENTS_KEPT", 1_000_000)  # the doomed write as much as they can

    def write(writer: int) -> None:
        number = 0
        while writer > 0 or number < 300:
            event_log.append(log, "matched", job(writer), number=number)
            number += 1

    steady, *doomed = in_processes(4, write)
    for each in doomed:
        each.kill()
        each.join()
    steady.join()
    numbers = [event["number"] for event in all_of(log) if event["job_id"] == job(0)]
    assert list(dict.fromkeys(numbers)) == list(range(300))


def test_a_writer_that_is_stopped_holds_up_nobody(log: str, small_segments: None) -> None:
    def write(writer: int) -> None:
        number = 0
        while True:
            event_log.append(log, "matched", ANOTHER, number=number)
            number += 1

    stopped = in_processes(3, write)
    while not event_log.segments(log):
        pass
    for each in stopped:
        os.kill(each.pid or 0, signal.SIGSTOP)
    for number in range(200):
        event_log.append(log, "matched", JOB, number=number)
    numbers = [event["number"] for event in all_of(log) if event["job_id"] == JOB]
    for each in stopped:
        each.kill()
        each.join()
    assert list(dict.fromkeys(numbers)) == list(range(200))
    assert Path(log, str(event_log.newest(log))).stat().st_size < 2 * event_log.SEGMENT_BYTES


def test_an_event_that_came_as_its_segment_was_closed_is_found_behind_it(
    log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Just between the write and the look, another process begins the next segment."""
    real, calls = event_log.newest, [0]

    def newest(directory: str) -> int:
        calls[0] += 1
        if calls[0] == 2:
            Path(directory, "2").touch()
        return real(directory)

    monkeypatch.setattr(event_log, "newest", newest)
    event_log.append(log, "ended", JOB)
    assert [event["job_id"] for event in all_of(log, Cursor(2, 0))] == [JOB]


def test_only_the_newest_segments_are_kept(log: str, small_segments: None) -> None:
    for number in range(3000):
        event_log.append(log, "matched", JOB, number=number)
    assert len(event_log.segments(log)) == event_log.SEGMENTS_KEPT
    numbers = [event["number"] for event in all_of(log)]
    assert numbers == list(range(numbers[0], 3000))
    assert numbers[0] > 0


def test_a_reader_goes_on_when_retention_takes_the_segment_it_reads(log: str, small_segments: None) -> None:
    event_log.append(log, "matched", JOB, number=-1)
    reader = event_reader.read(log, START)
    _, place = next(reader)
    for number in range(3000):
        event_log.append(log, "matched", JOB, number=number)
    for _, behind in reader:  # the rest of what it has open
        place = behind
    numbers = [event["number"] for event in all_of(log, place)]
    assert numbers == list(range(numbers[0], 3000))


@pytest.mark.parametrize("torn", [b'{"at": 1, "kind": "en', b"\0" * 100, b"\xff\n[1]\n7\nnull\n", b"{}\n"])
def test_what_is_torn_or_foreign_hides_no_other_event(log: str, torn: bytes) -> None:
    event_log.append(log, "started", JOB)
    with Path(log, "1").open("ab") as file:
        file.write(torn)
    event_log.append(log, "ended", JOB)
    assert [event["kind"] for event in all_of(log)] == ["started", "ended"]


def test_an_event_that_is_only_half_written_is_not_passed_by(log: str) -> None:
    event_log.append(log, "started", JOB)
    (_, place), *_ = event_reader.read(log, START)
    line = json.dumps({"at": 1.0, "kind": "ended", "job_id": JOB}).encode()
    with Path(log, "1").open("ab", buffering=0) as file:
        file.write(line[:20])
        assert all_of(log, place) == []
        file.write(line[20:] + b"\n")
    assert [event["kind"] for event in all_of(log, place)] == ["ended"]


@pytest.mark.parametrize("cursor", [Cursor(1, 10**9), Cursor(900, 3), Cursor(0, 7)])
def test_a_cursor_from_before_a_power_cut_or_of_another_log_reads_rather_too_much(
    log: str, cursor: Cursor
) -> None:
    event_log.append(log, "started", JOB)
    assert [event["kind"] for event in all_of(log, cursor)] == ["started"]


def test_a_cursor_in_the_middle_of_an_event_reads_that_event(log: str) -> None:
    event_log.append(log, "started", JOB)
    event_log.append(log, "ended", JOB)
    (_, place), *_ = event_reader.read(log, START)
    assert [event["kind"] for event in all_of(log, Cursor(1, place.byte + 9))] == ["ended"]


@pytest.mark.parametrize("text", ["", "1", "1.", ".1", "a.b", "1.2.3", "-1.2", "1" * 60, "1.٣"])
def test_a_cursor_is_two_numbers(text: str) -> None:
    with pytest.raises(ValueError, match=r"^.{0,40}$"):
        Cursor.parse(text)


def test_no_directory_and_no_room_are_nobodys_trouble(tmp_path: Path) -> None:
    event_log.append(str(tmp_path / "missing"), "ended", JOB)
    (tmp_path / "1").mkdir()
    event_log.append(str(tmp_path), "ended", JOB)


def event_line(**values: Any) -> bytes:
    return json.dumps({"at": 1.0, "kind": "ended", "job_id": JOB, **values}).encode() + b"\n"


HEAD = event_line().removesuffix(b"}\n")
NO_EVENTS = {
    "brackets without end": b"[" * 100_000 + b"\n",
    "nested beyond reason": HEAD + b', "x": ' + b"[" * 50_000 + b"}\n",
    "longer than any event": event_line(x="y" * event_log.LINE_MAX_BYTES),
    "a number of 5000 digits": HEAD + b', "x": ' + b"7" * 5000 + b"}\n",
    "a time that is none": event_line(at=float("nan")),
    "a time without end": event_line(at=float("inf")),
    "a time beyond the calendar": event_line(at=1e14),
    "a time that is a text": event_line(at="1.0"),
    "a second time": HEAD + b', "at": []}\n',
    "a kind that writes to a terminal": event_line(kind="\x1b]0;x\x07"),
    "a kind that is a list": event_line(kind=["ended"]),
    "a kind without end": event_line(kind="e" * 1000),
    "a job that is a path": event_line(job_id="../../../etc"),
    "a job that is a number": event_line(job_id=7),
    "a name that is an object": event_line(name={"a": 1}),
    "an exit code that is a text": event_line(exit_code="0; rm -rf"),
    "a signal that no system has": event_line(signal=10**30),
    "a cause in sentences": event_line(cause="exited. Now run this:"),
    "no UTF-8": HEAD + b', "name": "\xff\xfe"}\n',
    "no object": b'["at", "kind", "job_id"]\n',
}


@pytest.mark.parametrize("line", NO_EVENTS.values(), ids=NO_EVENTS.keys())
def test_a_line_that_breaks_the_rules_is_no_event_and_hides_none(log: str, line: bytes) -> None:
    event_log.append(log, "started", JOB)
    with Path(log, "1").open("ab") as file:
        file.write(line)
    event_log.append(log, "matched", JOB)
    assert [event["kind"] for event in all_of(log)] == ["started", "matched"]


def test_of_the_details_of_an_event_those_are_told_that_are_plain(log: str) -> None:
    details = {
        "depth": 3,
        "colour": "blue",
        "of": None,
        "tree": [[1]],
        "map": {"a": 1},
        "\x1b[2J": 1,
        "w" * 99: 1,
    }
    event_log.append(log, "something_new", JOB, huge=10**30, text="x" * 20_000, **details)
    (event,) = all_of(log)
    assert event.keys() == {"at", "kind", "job_id", "depth", "colour", "of"}


def test_an_event_with_more_to_say_than_a_line_holds_is_told_without_that(log: str) -> None:
    event_log.append(log, "ended", JOB, reason="x" * event_log.LINE_MAX_BYTES)
    (event,) = all_of(log)
    assert event.keys() == {"at", "kind", "job_id"}


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(path.parent)  # its path may be too long for a socket's
        server.bind(path.name)
        os.chdir(here)


def without_newline(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 << 30)


THINGS: dict[str, Callable[[Path], object]] = {
    "a directory": Path.mkdir,
    "a FIFO": os.mkfifo,
    "a socket": a_socket,
    "a symlink to a device": lambda path: path.symlink_to("/dev/zero"),
    "a symlink to itself": lambda path: path.symlink_to(path.name),
    "10 GB without a newline": without_newline,
}


@pytest.mark.parametrize("name", ["1", "2", "7", "007", str(10**23)])
@pytest.mark.parametrize("thing", THINGS)
def test_what_lies_among_the_segments_stops_neither_writers_nor_readers(
    log: str, small_segments: None, thing: str, name: str
) -> None:
    THINGS[thing](Path(log, name))
    for number in range(100):  # some segments
        event_log.append(log, "matched", JOB, number=number)
    assert [event["number"] for event in all_of(log)] == list(range(100))
    assert next(event_reader.newest_first(log)).behind == event_log.end(log)
    assert len(event_log.segments(log)) > 2


def test_a_number_that_no_log_comes_to_is_no_segment(log: str) -> None:
    Path(log, str(10**23)).write_bytes(event_line())
    event_log.append(log, "started", JOB)
    assert [event["kind"] for event in all_of(log)] == ["started"]
    assert event_log.end(log).segment == 1


def test_a_segment_far_ahead_is_read_at_once(log: str) -> None:
    """A file that somebody put there: the log goes on in it."""
    event_log.append(log, "started", JOB)
    Path(log, "20260101").touch()
    event_log.append(log, "ended", JOB)
    assert [event["kind"] for event in all_of(log)] == ["started", "ended"]


def test_a_log_that_cannot_go_on_is_bounded_too(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "SEGMENT_BYTES", 1000)
    monkeypatch.setattr(event_log, "SEGMENT_MAX_BYTES", 4000)
    for number in range(2, 2 + event_log.TRIES):
        Path(log, str(number)).mkdir()
    for number in range(200):
        event_log.append(log, "matched", JOB, number=number)
    assert event_log.segments(log) == [1]
    assert 4000 <= Path(log, "1").stat().st_size < 5000


@pytest.mark.parametrize("cursor", [Cursor(1, 10**30), Cursor(10**30, 0), Cursor(1, 1 << 63)])
def test_a_cursor_beyond_all_numbers_reads_rather_too_much(log: str, cursor: Cursor) -> None:
    event_log.append(log, "started", JOB)
    assert [event["kind"] for event in all_of(log, cursor)] == ["started"]
