"""The log of events: many writers, a reader at any time, any of them killed or stopped."""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from bgjob import event_log
from bgjob.event_log import Cursor

START = Cursor(0, 0)
SPAWN = multiprocessing.get_context("fork")


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "SEGMENT_BYTES", 4096)


def all_of(log: str, since: Cursor = START) -> list[dict[str, Any]]:
    return [event for event, _ in event_log.read(log, since)]


def in_processes(count: int, work: Callable[[int], None]) -> list[BaseProcess]:
    started = [SPAWN.Process(target=work, args=(number,)) for number in range(count)]
    for each in started:
        each.start()
    return list(started)


def test_what_is_appended_is_read_in_order_and_only_once_by_its_cursor(log: str) -> None:
    for number in range(3):
        event_log.append(log, "started", "a", number=number)
    (_, place), *_ = event_log.read(log, START)
    assert [event["number"] for event in all_of(log)] == [0, 1, 2]
    assert [event["number"] for event in all_of(log, place)] == [1, 2]
    assert all_of(log, event_log.end(log)) == []


def test_an_event_has_its_time_kind_and_job(log: str) -> None:
    event_log.append(log, "ended", "some-id", cause="exited")
    (event,) = all_of(log)
    assert event["kind"] == "ended"
    assert event["job_id"] == "some-id"
    assert event["cause"] == "exited"
    assert event["at"] > 1_600_000_000


def test_many_writers_lose_nothing_and_each_keeps_its_order(
    log: str, small_segments: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "SEGMENTS_KEPT", 1_000_000)

    def write(writer: int) -> None:
        for number in range(150):
            event_log.append(log, "matched", str(writer), number=number)

    writers = in_processes(6, write)
    for each in writers:
        each.join()
    for writer in range(6):
        numbers = [event["number"] for event in all_of(log) if event["job_id"] == str(writer)]
        assert list(dict.fromkeys(numbers)) == list(range(150))
    assert len(event_log.segments(log)) > 1


def test_a_reader_misses_nothing_while_segments_are_begun_under_it(log: str, small_segments: None) -> None:
    def write(writer: int) -> None:
        for number in range(200):
            event_log.append(log, "matched", str(writer), number=number)

    writers = in_processes(3, write)
    place, seen = START, set()
    while any(each.is_alive() for each in writers) or event_log.whole(log, place) != event_log.end(log):
        for event, behind in event_log.read(log, place):
            seen.add((event["job_id"], event["number"]))
            place = behind
    assert seen == {(str(writer), number) for writer in range(3) for number in range(200)}


def test_a_writer_that_is_killed_spoils_nothing_of_the_others(
    log: str, small_segments: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "SEGMENTS_KEPT", 1_000_000)  # the doomed write as much as they can

    def write(writer: int) -> None:
        number = 0
        while writer > 0 or number < 300:
            event_log.append(log, "matched", str(writer), number=number)
            number += 1

    steady, *doomed = in_processes(4, write)
    for each in doomed:
        each.kill()
        each.join()
    steady.join()
    numbers = [event["number"] for event in all_of(log) if event["job_id"] == "0"]
    assert list(dict.fromkeys(numbers)) == list(range(300))


def test_a_writer_that_is_stopped_holds_up_nobody(log: str, small_segments: None) -> None:
    def write(writer: int) -> None:
        number = 0
        while True:
            event_log.append(log, "matched", "stopped", number=number)
            number += 1

    stopped = in_processes(3, write)
    while not event_log.segments(log):
        pass
    for each in stopped:
        os.kill(each.pid or 0, signal.SIGSTOP)
    for number in range(200):
        event_log.append(log, "matched", "free", number=number)
    numbers = [event["number"] for event in all_of(log) if event["job_id"] == "free"]
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
    event_log.append(log, "ended", "a")
    assert [event["job_id"] for event in all_of(log, Cursor(2, 0))] == ["a"]


def test_only_the_newest_segments_are_kept(log: str, small_segments: None) -> None:
    for number in range(3000):
        event_log.append(log, "matched", "a", number=number)
    assert len(event_log.segments(log)) == event_log.SEGMENTS_KEPT
    numbers = [event["number"] for event in all_of(log)]
    assert numbers == list(range(numbers[0], 3000))
    assert numbers[0] > 0


def test_a_reader_goes_on_when_retention_takes_the_segment_it_reads(log: str, small_segments: None) -> None:
    event_log.append(log, "matched", "a", number=-1)
    reader = event_log.read(log, START)
    _, place = next(reader)
    for number in range(3000):
        event_log.append(log, "matched", "a", number=number)
    for _, behind in reader:  # the rest of what it has open
        place = behind
    numbers = [event["number"] for event in all_of(log, place)]
    assert numbers == list(range(numbers[0], 3000))


@pytest.mark.parametrize("torn", [b'{"at": 1, "kind": "en', b"\0" * 100, b"\xff\n[1]\n7\nnull\n", b"{}\n"])
def test_what_is_torn_or_foreign_hides_no_other_event(log: str, torn: bytes) -> None:
    event_log.append(log, "started", "a")
    with Path(log, "1").open("ab") as file:
        file.write(torn)
    event_log.append(log, "ended", "a")
    assert [event["kind"] for event in all_of(log)] == ["started", "ended"]


def test_an_event_that_is_only_half_written_is_not_passed_by(log: str) -> None:
    event_log.append(log, "started", "a")
    (_, place), *_ = event_log.read(log, START)
    line = json.dumps({"at": 1.0, "kind": "ended", "job_id": "a"}).encode()
    with Path(log, "1").open("ab", buffering=0) as file:
        file.write(line[:20])
        assert all_of(log, place) == []
        file.write(line[20:] + b"\n")
    assert [event["kind"] for event in all_of(log, place)] == ["ended"]


@pytest.mark.parametrize("cursor", [Cursor(1, 10**9), Cursor(900, 3), Cursor(0, 7)])
def test_a_cursor_from_before_a_power_cut_or_of_another_log_reads_rather_too_much(
    log: str, cursor: Cursor
) -> None:
    event_log.append(log, "started", "a")
    assert [event["kind"] for event in all_of(log, cursor)] == ["started"]


def test_a_cursor_in_the_middle_of_an_event_reads_that_event(log: str) -> None:
    event_log.append(log, "started", "a")
    event_log.append(log, "ended", "a")
    (_, place), *_ = event_log.read(log, START)
    assert [event["kind"] for event in all_of(log, Cursor(1, place.byte + 9))] == ["ended"]


@pytest.mark.parametrize("text", ["", "1", "1.", ".1", "a.b", "1.2.3", "-1.2", "1" * 60, "1.٣"])
def test_a_cursor_is_two_numbers(text: str) -> None:
    with pytest.raises(ValueError, match=r"^.{0,40}$"):
        Cursor.parse(text)


def test_no_directory_and_no_room_are_nobodys_trouble(tmp_path: Path) -> None:
    event_log.append(str(tmp_path / "missing"), "ended", "a")
    (tmp_path / "1").mkdir()
    event_log.append(str(tmp_path), "ended", "a")
