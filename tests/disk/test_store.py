"""The store: directories are the truth, nothing half-made is seen, nothing broken stops it, any number may use it."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest

from bgjob.core.errors import BgjobError, JobNotFound, StoreUnusable
from bgjob.core.job import Exited, Lost, Running, State, status_word
from bgjob.home import jobdir, slots
from bgjob.store.records import read_state
from bgjob.store.retention import clean
from bgjob.store.store import GONE_REMEMBERED, ONE_BY_ONE, Store
from tests.disk.test_records import NOT_RECORDS
from tests.support.stores import ended_job, jobs_on, listed, new_spec, running_job, write_outcome

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "home"))


# -- half-made ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["os.mkdir", "os.rename", "os.link", "os.open"])
def test_a_starter_killed_while_it_makes_a_job_leaves_nothing_to_be_seen(store: Store, step: str) -> None:
    script = f"""
import os, signal, sys
from bgjob.store.store import Store
from tests.support.stores import new_spec
store = Store(sys.argv[1])
{step} = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
store.create(new_spec())
"""
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", script, store.home], cwd=root, check=False).returncode == -9
    assert listed(store) == []
    assert jobs_on(store).list().jobs == []


def test_a_job_is_complete_and_locked_the_moment_it_is_visible(store: Store) -> None:
    """A watcher never sees one without its command, nor one that nobody answers for."""
    release = FORK.Event()
    makers = [FORK.Process(target=make_jobs, args=(store.home, 60, release)) for _ in range(2)]
    for maker in makers:
        maker.start()
    seen: set[str] = set()
    while len(seen) < 120:
        for _, job in Store(store.home).jobs():
            assert job.spec.command == "true"
            assert isinstance(job.state, Running)
            seen.add(job.id)
    release.set()
    for maker in makers:
        maker.join()
        assert maker.exitcode == 0


def make_jobs(home: str, count: int, release: Event) -> None:
    store = Store(home)
    locks = [store.create(new_spec()).lock for _ in range(count)]
    release.wait()
    assert len(locks) == count


def test_a_job_that_cannot_be_made_leaves_no_trace(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(os, "rename", fail)
    fds = count_in("/proc/self/fd")
    with pytest.raises((OSError, StoreUnusable), match="no room"):
        store.create(new_spec())
    assert count_in(f"{store.home}/drafts") == 0
    assert listed(store) == []
    assert count_in("/proc/self/fd") == fds


def count_in(directory: str) -> int:
    return len(list(Path(directory).iterdir()))


# -- broken ---------------------------------------------------------------------------------------------

FOREIGN_SPECS: dict[str, dict[str, object]] = {
    "an id that is none": {"id": "../../etc"},
    "an id of another type": {"id": 17},
    "another job's id": {"id": "00000000-0000-4000-8000-000000000000"},
    "a time that is none": {"created_at": "yesterday"},
    "a time beyond time": {"created_at": float("inf")},
    "not even a time": {"created_at": float("nan")},
    "a command of another type": {"command": ["rm", "-rf"]},
    "no command": {"command": None},
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [*NOT_RECORDS, *FOREIGN_SPECS])
def test_a_spec_that_cannot_be_read_is_said_and_stops_nothing(store: Store, kind: str) -> None:
    good, bad = ended_job(store), ended_job(store)
    path = Path(store.directory(bad)) / "spec.json"
    break_spec(path, kind)
    fresh = Store(store.home)
    jobs = jobs_on(fresh)
    job = fresh.load(bad)
    assert job.id == bad
    assert isinstance(job.spec.command, str)
    assert isinstance(job.state, Exited)  # what the shim recorded is still true
    assert {job.id for job in jobs.list().jobs} == {good, bad}
    assert jobs.status(bad).output_bytes == 0
    assert jobs.output(bad).stdout == ""
    assert jobs.kill(bad).status == "already_terminated"
    clean(fresh, keep_jobs=1000, keep_days=7, interval_s=0)
    shutil.rmtree(f"{store.home}/index")
    assert set(listed(Store(store.home))) == {good, bad}


def break_spec(path: Path, kind: str) -> None:
    record = json.loads(path.read_text())
    path.unlink()
    if kind in FOREIGN_SPECS:
        path.write_text(json.dumps({**record, **FOREIGN_SPECS[kind]}))
    else:
        NOT_RECORDS[kind](path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", NOT_RECORDS)
@pytest.mark.parametrize("name", ["outcome.json", "run.json"])
def test_an_outcome_or_run_that_cannot_be_read_counts_as_missing(store: Store, kind: str, name: str) -> None:
    new = running_job(store)
    job_id = Path(new.directory).name
    NOT_RECORDS[kind](Path(new.directory) / name)
    job = store.load(job_id)
    assert isinstance(job.state, Running)
    assert job.run is None
    os.close(new.lock)
    assert isinstance(store.load(job_id).state, Lost)
    assert jobs_on(store).list().jobs[0].id == job_id


@pytest.mark.parametrize(
    "change",
    [
        {"ended_at": "late"},
        {"ended_at": None},
        {"ended_at": float("nan")},
        {"duration_s": []},
        {"output_bytes": "many"},
        {"exit_code": "0"},
        {"cause": "abducted"},
        {"cause": ["exited"]},
    ],
    ids=str,
)
def test_an_outcome_with_values_that_make_no_sense_stops_nothing(
    store: Store, change: dict[str, object]
) -> None:
    job_id = ended_job(store)
    write_outcome(Path(store.directory(job_id)), **change)
    jobs = jobs_on(store, MCP_BG_CLEANUP_INTERVAL="0.001")
    job = jobs.list().jobs[0]
    assert status_word(job.state) == "failed"
    assert isinstance(job.state, Lost)


def test_what_does_not_belong_into_the_home_is_passed_over(store: Store) -> None:
    job_id = ended_job(store)
    for name in ("jobs", "index", "drafts", "trash", "slots"):
        Path(store.home, name, "README").write_text("not a job")
        Path(store.home, name, "notanumber-00000000-0000-4000-8000-000000000000").write_text("")
        Path(store.home, name, "lost+found").mkdir()
    os.utime(Path(store.home, "drafts", "README"), (0, 0))
    clean(store, keep_jobs=1000, keep_days=7, interval_s=0)
    assert listed(Store(store.home)) == [job_id]


def test_a_file_in_the_place_of_a_job_is_no_job(store: Store) -> None:
    job_id = new_spec().id
    Path(store.home, "jobs", job_id).write_text("")
    with pytest.raises(JobNotFound):
        store.load(job_id)


# -- the index ------------------------------------------------------------------------------------------


def test_the_index_can_be_thrown_away_and_keeps_its_order(store: Store) -> None:
    now = time.time()
    ids = [ended_job(store, created_at=now - age) for age in (5, 300, 1, 40_000)]
    by_age = [ids[2], ids[0], ids[1], ids[3]]
    assert listed(store) == by_age
    shutil.rmtree(f"{store.home}/index")
    assert listed(Store(store.home)) == by_age


def test_the_index_may_vanish_under_a_running_server(store: Store) -> None:
    before = ended_job(store)
    shutil.rmtree(f"{store.home}/index")
    assert listed(store) == [before]
    shutil.rmtree(f"{store.home}/index")
    after = ended_job(store)
    assert listed(store) == [after, before]


def test_a_rebuild_of_the_index_that_was_killed_is_made_up_for(store: Store) -> None:
    ids = {ended_job(store) for _ in range(6)}
    shutil.rmtree(f"{store.home}/index")
    script = """
import os, signal, sys
from bgjob.store.index import Index
from bgjob.store.store import Store
enter, left = Index.enter, [3]
def limited(*arguments):
    left[0] -= 1
    enter(*arguments) if left[0] else os.kill(os.getpid(), signal.SIGKILL)
Index.enter = limited
Store(sys.argv[1])
"""
    assert subprocess.run([sys.executable, "-c", script, store.home], check=False).returncode == -9
    again = Store(store.home)
    clean(again, keep_jobs=1000, keep_days=7, interval_s=0)
    assert set(listed(again)) == ids


def test_a_place_in_the_order_is_a_place_also_when_its_job_is_gone(store: Store) -> None:
    now = time.time()
    ids = [ended_job(store, created_at=now - age) for age in range(6)]
    places = [place for place, _ in store.ids()]
    store.remove(places[2], ids[2])
    assert [job_id for _, job_id in store.ids(before=places[2])] == ids[3:]


# -- many at once ---------------------------------------------------------------------------------------


def test_making_listing_and_cleaning_at_once_disturbs_nobody(store: Store) -> None:
    """Nobody fails; and a job that is being removed is there or not there, never `lost`."""
    workers = [
        FORK.Process(target=work, args=(store.home, role, 2.0))
        for role in ("make", "make", "list", "list", "clean", "clean")
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * len(workers)


def work(home: str, role: str, seconds: float) -> None:
    roles: dict[str, Callable[[Store], None]] = {"make": make_one, "list": list_all, "clean": clean_all}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        roles[role](Store(home))


def make_one(store: Store) -> None:
    for _ in range(5):
        ended_job(store)


def clean_all(store: Store) -> None:
    clean(store, keep_jobs=3, keep_days=7, interval_s=0)


def list_all(store: Store) -> None:
    for _, job in store.jobs():
        assert job.spec.command == "true", job
        assert not isinstance(job.state, Lost), job


def test_a_job_removed_while_it_is_read_is_not_found(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = ended_job(store)
    place = next(store.ids())[0]
    read = jobdir.read_record

    def remove_first(path: str) -> jobdir.Record | None:
        monkeypatch.setattr(jobdir, "read_record", read)
        Store(store.home).remove(place, job_id)
        return read(path)

    monkeypatch.setattr(jobdir, "read_record", remove_first)
    with pytest.raises(JobNotFound):
        store.load(job_id)


def test_slots_are_exact_across_processes(store: Store, tmp_path: Path) -> None:
    """Eight processes claim and release as fast as they can: never more than three hold one."""
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    workers = [FORK.Process(target=hammer, args=(store.home, str(tokens), 3, 40)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 8
    assert count_in(f"{store.home}/slots") <= 3


def hammer(home: str, tokens: str, limit: int, rounds: int) -> None:
    store, mine, held = Store(home), f"{tokens}/{os.getpid()}", 0
    while held < rounds:
        slot = slots.claim(f"{store.home}/slots", "", limit)
        if slot is None:
            continue
        held += 1
        Path(mine).touch(exist_ok=False)
        assert count_in(tokens) <= limit
        Path(mine).unlink()
        os.close(slot)


def test_a_job_with_two_places_in_the_index_is_listed_once(store: Store) -> None:
    first, second = ended_job(store), ended_job(store)
    place = next(place for place, job_id in store.ids() if job_id == first)
    index = Path(store.home) / "index"
    os.link(index / place, index / f"{int(place[:16]) + 10**9}-{first}")
    assert [job_id for _, job_id in store.ids()] == [first, second]
    assert [job_id for _, job_id in store.ids(before=next(store.ids())[0])] == [second]


def test_what_others_have_cleaned_up_is_forgotten(store: Store) -> None:
    ids = [ended_job(store) for _ in range(GONE_REMEMBERED + 20)]
    assert len(list(store.jobs())) == len(ids)
    while len(list(Store(store.home).jobs())) > 10:  # each removes some
        clean(Store(store.home), keep_jobs=10, keep_days=7, interval_s=0)
    assert len(list(store.jobs())) == 10
    assert len(store._ended) + len(store._specs) <= 10 + GONE_REMEMBERED


def test_of_a_job_that_is_not_remembered_nothing_is(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each job that a server has ever seen would cost it memory."""
    monkeypatch.setattr("bgjob.store.store.REMEMBERED_JOBS", 20)
    for job_id in [ended_job(store) for _ in range(100)]:
        store.load(job_id)
        assert not store.has_shim(job_id)
    assert len(store._without_shim) <= 20
    assert not store.has_shim(job_id)


def test_a_slot_is_free_when_its_holder_is_killed(store: Store) -> None:
    slot = slots.claim(f"{store.home}/slots", "", 1)
    assert slot is not None
    holder = subprocess.Popen(["sleep", "1000"], pass_fds=[slot])
    os.close(slot)
    assert slots.claim(f"{store.home}/slots", "", 1) is None
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    again = slots.claim(f"{store.home}/slots", "", 1)
    assert again is not None
    os.close(again)


# -- the home -------------------------------------------------------------------------------------------


def a_file(home: Path) -> None:
    home.write_text("")


def open_to_others(home: Path) -> None:
    home.mkdir()
    home.chmod(0o755)


def a_link_to_a_file(home: Path) -> None:
    (home.parent / "home-file").write_text("")
    home.symlink_to("home-file")


def a_dangling_link(home: Path) -> None:
    home.symlink_to("nowhere")


def somebody_elses(home: Path) -> None:
    home.mkdir(mode=0o700)
    try:
        os.chown(home, 12345, 12345)
    except PermissionError:
        pytest.skip("needs root")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (a_file, "BGJOB_HOME"),
        (open_to_others, "chmod 700"),
        (a_link_to_a_file, "is no directory"),
        (a_dangling_link, "BGJOB_HOME"),
        (somebody_elses, "BGJOB_HOME"),
    ],
)
def test_a_home_that_is_not_safe_is_a_clear_error(
    tmp_path: Path, make: Callable[[Path], None], says: str
) -> None:
    home = tmp_path / "home"
    make(home)
    with pytest.raises(StoreUnusable, match=says) as caught:
        Store(str(home))
    assert str(home) in str(caught.value)


@pytest.mark.parametrize("name", ["jobs", "index", "slots", "drafts", "trash"])
def test_a_file_in_the_place_of_a_directory_of_the_home_is_a_clear_error(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / name).write_text("")
    with pytest.raises(StoreUnusable, match="BGJOB_HOME"):
        Store(str(home))


def test_a_home_that_cannot_be_written_is_an_error_of_ours_when_a_job_is_made(tmp_path: Path) -> None:
    """Not a traceback: whoever calls can read what is wrong."""
    store = Store(str(tmp_path / "home"))
    shutil.rmtree(f"{store.home}/drafts")
    Path(store.home, "drafts").write_text("")
    with pytest.raises(BgjobError):
        jobs_on(store).execute("true")


def test_everything_in_the_home_is_private_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = Store(str(tmp_path / "home"))
        ended_job(store)
        clean(store, keep_jobs=10, keep_days=7, interval_s=0)
        slot = slots.claim(f"{store.home}/slots", "", 1)
    finally:
        os.umask(old)
    assert slot is not None
    os.close(slot)
    modes = {path: path.stat().st_mode & 0o777 for path in Path(store.home).rglob("*")}
    outcome = next(Path(store.home).rglob("outcome.json"))  # ours, and not the shim's
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077 and path != outcome} == {}


# -- many jobs ------------------------------------------------------------------------------------------


def test_a_page_of_ten_thousand_jobs_comes_at_once(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "home"))
    now = time.time()
    ids = [ended_job(store, created_at=now - number, ended_at=now) for number in range(10_000)]
    jobs = jobs_on(Store(store.home), MCP_BG_KEEP_JOBS="20000")
    Path(store.home, "cleaned").touch()
    began = time.process_time()
    page = jobs.list(limit=100)
    took_s = time.process_time() - began
    assert [job.id for job in page.jobs] == ids[:100]
    assert took_s < 1.0
    began = time.process_time()
    deep = jobs.list(limit=100, cursor=list(store.ids())[5000][0])
    assert time.process_time() - began < 1.0
    assert [job.id for job in deep.jobs] == ids[5001:5101]


@pytest.mark.parametrize("limit", [20, 1000])
def test_all_pages_together_cost_one_pass_over_the_jobs(
    store: Store, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Also where an answer holds fewer jobs than are asked for."""
    job_ids = [ended_job(store, created_at=1000.0 + number) for number in range(4 * ONE_BY_ONE)]
    for directory in (store.jobs_directory, f"{store.home}/index"):
        os.utime(directory, (1000.0, 1000.0))  # it has not just changed
    listed, read = list[list[str]](), list[State]()
    monkeypatch.setattr(os, "listdir", recorded(os.listdir, listed))
    monkeypatch.setattr("bgjob.store.store.read_state", recorded(read_state, read))
    jobs = jobs_on(Store(store.home), MCP_BG_MAX_RESPONSE="5000")
    page = jobs.list(limit=limit)
    pages = [page]
    while page.next_cursor:
        page = jobs.list(limit=limit, cursor=page.next_cursor)
        pages.append(page)
    assert [job.id for page in pages for job in page.jobs] == job_ids[::-1]
    assert len(pages) > 5
    assert sum(len(names) >= len(job_ids) for names in listed) <= 2  # the index, and perhaps the jobs
    assert len(read) == len(job_ids)


def recorded(function: Callable[..., Any], answers: list[Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        answers.append(function(*arguments))
        return answers[-1]

    return call


def test_a_list_goes_on_behind_its_cursor_while_jobs_come_and_go(store: Store) -> None:
    job_ids = [ended_job(store, created_at=1000.0 + number) for number in range(9)]
    jobs = jobs_on(store)
    first = jobs.list(limit=3)
    other = Store(store.home)
    for job_id in (job_ids[6], job_ids[5]):  # that which the cursor names, and the next
        other.remove(next(place for place, each in other.ids() if each == job_id), job_id)
    ended_job(other)
    rest = jobs.list(limit=9, cursor=first.next_cursor)
    assert [job.id for job in first.jobs] == job_ids[:5:-1]
    assert [job.id for job in rest.jobs] == job_ids[4::-1]


# -- many ------------------------------------------------------------------------------------------------


def test_jobs_that_another_process_removes_are_listed_no_more_however_many_there_are(store: Store) -> None:
    job_ids = [ended_job(store, created_at=1000.0 + number) for number in range(3 * ONE_BY_ONE)]
    assert listed(store) == job_ids[::-1]
    gone = {job_ids[0], job_ids[-1]}  # one that is looked up alone, one that is looked up with all others
    for job_id in gone:
        shutil.rmtree(store.directory(job_id))
    assert listed(store) == [job_id for job_id in job_ids[::-1] if job_id not in gone]


def test_a_shim_that_is_gone_is_not_looked_for_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    new = running_job(store)
    job_id = Path(new.directory).name
    write_outcome(Path(new.directory))
    assert isinstance(store.load(job_id).state, Exited)
    assert store.has_shim(job_id)  # it ends what the job has left
    os.close(new.lock)
    assert not store.has_shim(job_id)
    monkeypatch.setattr(jobdir, "is_locked", lambda _path: pytest.fail("it was looked for"))
    assert not store.has_shim(job_id)
