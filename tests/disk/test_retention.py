"""Clean-up: ended jobs go when they are too many or too old; a running one never, nor one with a live shim."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.home import jobdir
from bgjob.store import retention
from bgjob.store.retention import LEAST_REMOVED, MOST_REMOVED
from bgjob.store.store import Store
from tests.support.stores import ended_job, listed, new_spec, running_job, write_outcome

DAY_S = 86400.0


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "home"))


def clean(store: Store, keep_jobs: int = 1000, keep_days: float = 7) -> None:
    retention.clean(store, keep_jobs, keep_days, interval_s=0)


def names_in(store: Store, directory: str) -> list[str]:
    return [entry.name for entry in Path(store.home, directory).iterdir()]


def test_the_newest_are_kept_when_they_are_too_many(store: Store) -> None:
    now = time.time()
    ids = [ended_job(store, created_at=now - age, ended_at=now) for age in range(10)]
    clean(store, keep_jobs=4)
    assert listed(store) == ids[:4]
    assert set(names_in(store, "jobs")) == set(ids[:4])
    assert len(names_in(store, "index")) == 4
    assert names_in(store, "trash") == []


def test_one_start_removes_some_and_the_next_ones_the_rest(store: Store) -> None:
    """A start must not wait for thousands, and there must be fewer with each one."""
    now, keep = time.time(), 5
    for age in range(3 * MOST_REMOVED):
        ended_job(store, created_at=now - 1000 - age, ended_at=now)
    newest = list[str]()
    while (before := len(names_in(store, "jobs"))) > keep:
        retention.clean(store, keep, keep_days=7, interval_s=300)
        removed = before - len(names_in(store, "jobs"))
        assert min(LEAST_REMOVED, before - keep) <= removed <= MOST_REMOVED
        newest.append(ended_job(store))
        if before - removed == keep:
            break
    assert len(newest) >= 3
    # The last one has found all of it: the next one is due in 300 s.
    retention.clean(store, keep, keep_days=7, interval_s=300)
    assert listed(store)[:3] == newest[:-4:-1]
    assert len(names_in(store, "jobs")) == keep + 1


def test_jobs_that_cannot_be_removed_do_not_take_the_turn_of_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = [ended_job(store) for _ in range(LEAST_REMOVED)]
    ids = [ended_job(store, created_at=1000.0 + number) for number in range(2 * LEAST_REMOVED)]
    monkeypatch.setattr(retention, "REMOVING_S", -1.0)
    real = os.rename

    def rename(path: str, to: str) -> None:
        if Path(path).name in stuck:
            raise PermissionError
        real(path, to)

    monkeypatch.setattr(os, "rename", rename)
    clean(store, keep_jobs=0)
    assert set(names_in(store, "jobs")) == {*stuck, *ids[:LEAST_REMOVED]}
    clean(store, keep_jobs=0)
    assert set(names_in(store, "jobs")) == set(stuck)


def test_the_age_of_a_job_counts_from_its_end(store: Store) -> None:
    now = time.time()
    long_one = ended_job(store, created_at=now - 30 * DAY_S, ended_at=now - DAY_S)
    ended_job(store, created_at=now - 30 * DAY_S, ended_at=now - 8 * DAY_S)
    clean(store, keep_days=7)
    assert listed(store) == [long_one]


def test_a_job_is_kept_for_as_long_as_its_starter_promised_whoever_cleans(store: Store) -> None:
    now = time.time()
    kept = ended_job(store, ended_at=now - 30 * DAY_S, keep_days=90.0, keep_jobs=1000)
    ended_job(store, ended_at=now - 91 * DAY_S, keep_days=90.0, keep_jobs=1000)
    clean(store, keep_jobs=0, keep_days=0)
    assert listed(store) == [kept]


def test_a_job_is_kept_among_as_many_as_its_starter_promised_whoever_cleans(store: Store) -> None:
    now = time.time()
    ids = [
        ended_job(store, created_at=now - age, ended_at=now, keep_days=7.0, keep_jobs=3) for age in range(5)
    ]
    clean(store, keep_jobs=0)
    assert listed(store) == ids[:3]


def test_who_cleans_may_keep_jobs_for_longer_than_they_were_promised(store: Store) -> None:
    job_id = ended_job(store, ended_at=time.time() - 30 * DAY_S, keep_days=0.0, keep_jobs=0)
    clean(store, keep_days=90)
    assert listed(store) == [job_id]
    clean(store, keep_days=7)
    assert listed(store) == []


def test_a_job_that_goes_takes_nobodys_place_among_the_kept(store: Store) -> None:
    now = time.time()
    old = ended_job(store, created_at=now - 10, ended_at=now, keep_days=7.0, keep_jobs=2)
    for age in range(3):
        ended_job(store, created_at=now - age, ended_at=now, keep_days=0.0, keep_jobs=0)
    clean(store, keep_jobs=0, keep_days=0)
    assert listed(store) == [old]


def test_a_job_of_a_version_that_promised_nothing_has_the_longest_promise_that_is_known(store: Store) -> None:
    now = time.time()
    before = ended_job(store, ended_at=now - 30 * DAY_S)
    other = ended_job(store, ended_at=now, keep_days=90.0, keep_jobs=1000)
    clean(store, keep_jobs=0, keep_days=7)
    assert listed(store) == [other, before]
    Path(store.directory(other)).rename(store.home + "/gone")
    clean(Store(store.home), keep_jobs=0, keep_days=7)
    assert listed(store) == []


def test_a_lost_job_ages_too(store: Store) -> None:
    """From when its files were last written: how long it ran, nobody knows."""
    new = running_job(store, created_at=time.time() - 8 * DAY_S)
    os.close(new.lock)
    clean(store)
    assert listed(store) == [Path(new.directory).name]
    for path in [*Path(new.directory).iterdir(), Path(new.directory)]:
        os.utime(path, (time.time() - 8 * DAY_S,) * 2)
    clean(store)
    assert listed(store) == []


def test_a_running_job_is_never_removed_and_takes_nobodys_place(store: Store) -> None:
    now = time.time()
    old = running_job(store, created_at=now - 365 * DAY_S)
    new = running_job(store, created_at=now)
    ended = ended_job(store)
    clean(store, keep_jobs=1)
    assert set(listed(store)) == {Path(old.directory).name, Path(new.directory).name, ended}
    clean(store, keep_jobs=0, keep_days=0)
    assert set(listed(store)) == {Path(old.directory).name, Path(new.directory).name}
    os.close(old.lock)
    os.close(new.lock)


def test_a_job_that_has_ended_but_has_a_live_shim_is_never_removed(store: Store) -> None:
    """Processes it left behind still print into its log."""
    new = running_job(store)
    write_outcome(Path(new.directory), ended_at=time.time() - 30 * DAY_S)
    holder = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[new.lock])
    os.close(new.lock)
    clean(store, keep_jobs=0, keep_days=0)
    assert len(listed(store)) == 1
    holder.communicate()
    clean(store, keep_jobs=0, keep_days=0)
    assert listed(store) == []


def test_it_happens_once_per_interval_whoever_comes_by(store: Store) -> None:
    def come_by() -> None:
        retention.clean(Store(store.home), keep_jobs=0, keep_days=0, interval_s=300)

    come_by()
    job_id = ended_job(store, ended_at=time.time() - 1)
    come_by()
    assert listed(store) == [job_id]
    back_in_time(Path(store.home, "cleaned"), 200)
    come_by()
    assert listed(store) == [job_id]
    back_in_time(Path(store.home, "cleaned"), 301)
    come_by()
    assert listed(store) == []
    ended_job(store, ended_at=time.time() - 1)
    come_by()
    assert len(listed(store)) == 1


def back_in_time(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_a_clock_that_was_set_back_does_not_end_clean_up_for_ever(store: Store) -> None:
    clean(store)
    ended_job(store, ended_at=time.time() - 1)
    back_in_time(Path(store.home, "cleaned"), -365 * DAY_S)
    retention.clean(store, keep_jobs=0, keep_days=0, interval_s=300)
    assert listed(store) == []


def old_draft(store: Store) -> Path:
    path = Path(store.home, "drafts", new_spec().id)
    path.mkdir(mode=0o700)
    (path / "spec.json").write_text("{")
    back_in_time(path, 2 * 3600)
    return path


def old_trash(store: Store) -> Path:
    path = Path(store.home, "trash", new_spec().id)
    (path / "log").mkdir(parents=True)
    (path / "log" / "00000000000000000000").write_text("left over")
    back_in_time(path, 2 * 3600)
    return path


def old_index_entry(store: Store) -> Path:
    path = Path(store.home, "index", f"{int((time.time() - 7200) * 1e6):016d}-{new_spec().id}")
    path.touch()
    return path


@pytest.mark.parametrize("leave", [old_draft, old_trash, old_index_entry])
def test_what_killed_starters_and_cleaners_left_behind_is_swept(
    store: Store, leave: Callable[[Store], Path]
) -> None:
    path = leave(store)
    clean(store)
    assert not path.exists()


def test_what_is_being_made_just_now_is_left_alone(store: Store) -> None:
    draft = Path(store.home, "drafts", new_spec().id)
    draft.mkdir()
    entry = Path(store.home, "index", f"{int(time.time() * 1e6):016d}-{new_spec().id}")
    entry.touch()
    slow = old_draft(store)
    (slow / "spec.json").unlink()
    lock = jobdir.create_locked(str(slow / "spec.json"), {})  # old, but somebody is still at it
    back_in_time(slow, 7200)
    clean(store)
    assert draft.exists()
    assert entry.exists()
    assert slow.exists()
    os.close(lock)


def test_a_removal_that_was_killed_half_way_is_finished_later(store: Store) -> None:
    job_id = ended_job(store)
    Path(store.directory(job_id)).rename(f"{store.home}/trash/{job_id}")
    assert listed(store) == []
    back_in_time(Path(store.home, "trash", job_id), 7200)
    clean(store)
    assert names_in(store, "trash") == []


def test_a_job_directory_that_cannot_be_removed_does_not_stop_the_others(store: Store) -> None:
    stuck, other = ended_job(store), ended_job(store)
    Path(store.home, "trash", stuck, "in the way").mkdir(parents=True)
    clean(store, keep_jobs=0)
    assert other not in listed(store)
    clean(store, keep_jobs=0)
    assert listed(store) == []
