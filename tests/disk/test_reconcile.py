"""Ends that nobody told are told by whoever reads, at a price that does not grow with the store."""

import itertools
import os
import time
import tracemalloc
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.core.job import Job
from bgjob.home import event_log
from bgjob.home.event_log import Cursor
from bgjob.store import event_reader, reconcile
from bgjob.store.reconcile import Reconciler
from bgjob.store.store import Store
from tests.disk.test_event_log import THINGS
from tests.support.stores import ended_job, jobs_on, running_job

LINE = '\n{"at": 1.0, "kind": "%s", "job_id": "%s", "cause": "exited", "exit_code": 0}\n'


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "home"))


def told(store: Store) -> list[str]:
    events = event_reader.read(store.events, Cursor(0, 0))
    return [event["job_id"] for event, _ in events if event["kind"] == "ended"]


def count_loads(store: Store, monkeypatch: pytest.MonkeyPatch) -> "Iterator[int]":
    """The next number is that of the jobs that were read so far."""
    real, loads = store.load, [0]

    def load(job_id: str) -> Job:
        loads[0] += 1
        return real(job_id)

    monkeypatch.setattr(store, "load", load)
    return (loads[0] for _ in itertools.count())


def test_the_newest_events_are_read_without_the_jobs_of_the_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [ended_job(store) for _ in range(300)]
    for job_id in ids:
        event_log.append(store.events, "started", job_id, pid=7)
        event_log.append(store.events, "ended", job_id, cause="exited", exit_code=0)
    loads = count_loads(store, monkeypatch)
    found = jobs_on(store).events(max_tokens=500)
    assert [event.job_id for event in found.events if event.kind == "ended"] == ids[-len(found.events) // 2 :]
    assert len(found.events) + found.left_out == 600
    assert next(loads) <= len(found.events) + 1


def test_of_many_ends_that_nobody_told_each_is_told_once_and_some_at_a_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "LOOK_S", -1.0)
    monkeypatch.setattr(reconcile, "LOOKED_AT", 10)
    ids = [ended_job(store) for _ in range(35)]
    first, second = Reconciler(store), Reconciler(store)
    first.reconcile()
    assert sorted(told(store)) == sorted(ids[-10:])
    for _ in range(5):
        first.reconcile()
        second.reconcile()
    assert sorted(told(store)) == sorted(ids)


def test_many_that_run_are_looked_at_in_turns(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "LOOK_S", -1.0)
    monkeypatch.setattr(reconcile, "LOOKED_AT", 2)
    running = [running_job(store) for _ in range(9)]
    ours = Reconciler(store)
    ours.reconcile()
    for new in running[::2]:
        os.close(new.lock)
    for _ in range(9):
        ours.reconcile()
    assert sorted(told(store)) == sorted(Path(new.directory).name for new in running[::2])
    for new in running[1::2]:
        os.close(new.lock)


def test_what_is_asked_for_is_looked_at_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "LOOK_S", -1.0)
    monkeypatch.setattr(reconcile, "LOOKED_AT", 1)
    ids = [ended_job(store) for _ in range(5)]
    assert [event.job_id for event in jobs_on(store).events(job_ids=ids[:2]).events] == ids[:2]


def test_an_end_is_told_with_the_time_at_which_it_was(store: Store) -> None:
    ended_at = time.time() - 5000
    ended_job(store, ended_at)
    Reconciler(store).reconcile()
    ((event, _),) = event_reader.read(store.events, Cursor(0, 0))
    assert event["at"] == pytest.approx(ended_at, abs=0.001)


def test_an_end_that_is_old_is_told_no_more(store: Store) -> None:
    job_id = ended_job(store)
    os.utime(store.directory(job_id), (0, time.time() - reconcile.FORGOTTEN_S - 60))
    Reconciler(store).reconcile()
    assert told(store) == []


def test_an_end_that_may_have_been_told_in_what_retention_took_is_not_told_again(store: Store) -> None:
    before, after = ended_job(store), ended_job(store)
    full_at = time.time() - 1000
    Path(store.events, "5").touch()
    os.utime(Path(store.events, "5"), (full_at, full_at))
    os.utime(store.directory(before), (0, full_at - 60))
    Reconciler(store).reconcile()
    assert told(store) == [after]


@pytest.mark.parametrize("thing", THINGS)
def test_without_its_lock_an_end_is_told_all_the_same(store: Store, thing: str) -> None:
    THINGS[thing](Path(store.events, reconcile.LOCK))
    job_id = ended_job(store)
    Reconciler(store).reconcile()
    assert told(store) == [job_id]


def test_what_has_ended_takes_no_memory(store: Store) -> None:
    ids = [str(uuid.uuid4()) for _ in range(5000)]
    lines = (LINE % (kind, job_id) for job_id in ids for kind in ("started", "ended"))
    Path(store.events, "1").write_text("".join(lines))
    ours = Reconciler(store)
    tracemalloc.start()
    try:
        ours.reconcile()
        assert tracemalloc.get_traced_memory()[0] < 300_000
    finally:
        tracemalloc.stop()


def test_a_store_remembers_some_jobs_and_reads_the_others_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bgjob.store.store.REMEMBERED_JOBS", 20)
    ids = {ended_job(store) for _ in range(50)}
    for _ in range(2):
        assert {job.id for _, job in store.jobs()} == ids
    assert len(store._ended) + len(store._specs) <= 20
