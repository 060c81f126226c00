"""Which job is meant by what a person types: never another than the person thinks, least of all to end it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Jobs
from bgjob.core.errors import InvalidArgument, JobNotFound
from bgjob.core.job import Queued, Running
from bgjob.home import jobdir
from bgjob.store.job_names import MOST_UNWRITTEN
from bgjob.store.store import Store
from tests.disk.test_records import NOT_RECORDS
from tests.support.stores import ended_job, job_with, jobs_on, new_spec

FIRST = "abc11111-0000-4000-8000-000000000001"
SECOND = "abc22222-0000-4000-8000-000000000002"
THIRD = "def33333-0000-4000-8000-000000000003"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def jobs(home: Path) -> Jobs:
    return jobs_on(Store(str(home)))


@pytest.fixture
def run(home: Path) -> Iterator["Run"]:
    run = Run(home)
    yield run
    for lock in run.locks:
        os.close(lock)


class Run:
    """Jobs that run, as far as can be told: we hold their locks."""

    def __init__(self, home: Path) -> None:
        self._home, self.locks = home, list[int]()

    def __call__(self, id: str, name: str | None = None) -> None:
        new = Store(str(self._home)).create(replace(new_spec(), id=id, name=name))
        self.locks.append(new.lock)


def test_to_end_one_the_name_is_that_of_the_one_that_runs(home: Path, jobs: Jobs, run: Run) -> None:
    """The newest of that name has ended: it is not the one to end."""
    run(FIRST, "dev")
    job_with(home, id=SECOND, name="dev")
    assert jobs.find_typed("dev", steered=Running).id == FIRST
    assert jobs.find_typed("dev").id == SECOND


def test_of_several_that_run_under_one_name_none_is_guessed(jobs: Jobs, run: Run) -> None:
    run(FIRST, "dev")
    run(THIRD, "dev")
    with pytest.raises(InvalidArgument, match=rf"2 running jobs: {THIRD}, {FIRST}\. Give the id"):
        jobs.find_typed("dev", steered=Running)
    assert jobs.find_typed("dev").id == THIRD


def test_where_none_of_that_name_can_be_steered_it_is_the_newest(home: Path, jobs: Jobs, run: Run) -> None:
    job_with(home, id=FIRST, name="dev")
    run(SECOND, "dev")
    assert jobs.find_typed("dev", steered=Queued).id == SECOND


@pytest.mark.parametrize("word", ["d", "de"])
def test_to_end_one_a_letter_or_two_of_its_id_are_not_enough(jobs: Jobs, run: Run, word: str) -> None:
    run(THIRD)
    with pytest.raises(InvalidArgument, match="at least 3 characters"):
        jobs.find_typed(word, steered=Running)
    assert jobs.find_typed(word).id == THIRD


@pytest.mark.parametrize("word", ["def", "def3", THIRD])
def test_three_that_fit_no_other_are(jobs: Jobs, run: Run, word: str) -> None:
    run(FIRST)
    run(THIRD)
    assert jobs.find_typed(word, steered=Running).id == THIRD


@pytest.mark.parametrize("steered", [None, Running])
def test_a_beginning_that_fits_several_is_none(jobs: Jobs, run: Run, steered: type[Running] | None) -> None:
    run(FIRST)
    run(SECOND)
    with pytest.raises(InvalidArgument, match=rf"fits 2 jobs: {SECOND}, {FIRST}\. Give more"):
        jobs.find_typed("abc", steered=steered)


@pytest.mark.parametrize("word", ["integration-te…", "integration-te...", "integ..."])
@pytest.mark.parametrize("steered", [None, Running])
def test_a_name_that_was_cut_can_be_typed_back(
    jobs: Jobs, run: Run, word: str, steered: type[Running] | None
) -> None:
    run(FIRST, "integration-tests of everything")
    assert jobs.find_typed(word, steered=steered).id == FIRST


def test_a_name_that_begins_like_another_is_not_ended_for_it(jobs: Jobs, run: Run) -> None:
    """`dev` has ended long ago and is gone; a script that ends it must not end `dev-database`."""
    run(FIRST, "dev-database")
    assert jobs.find_typed("dev").id == FIRST
    with pytest.raises(JobNotFound):
        jobs.find_typed("dev", steered=Running)


def test_a_beginning_of_several_names_is_none(jobs: Jobs, run: Run) -> None:
    run(FIRST, "dev one")
    run(SECOND, "dev two")
    with pytest.raises(InvalidArgument, match="fits 2 names: 'dev one', 'dev two'"):
        jobs.find_typed("dev…", steered=Running)


@pytest.mark.parametrize("word", ["", "…", "...", "zzz", "abc…"])
@pytest.mark.parametrize("steered", [None, Running])
def test_what_fits_none_is_not_found(jobs: Jobs, run: Run, word: str, steered: type[Running] | None) -> None:
    run(FIRST, "dev")
    run(SECOND)
    with pytest.raises(JobNotFound):
        jobs.find_typed(word, steered=steered)


# -- names of many jobs ----------------------------------------------------------------------------------

MANY = 3 * MOST_UNWRITTEN


@pytest.fixture
def many(home: Path) -> Path:
    """A home of many named jobs, whose names a process has looked up before."""
    store = Store(str(home))
    for number in range(MANY):
        ended_job(store, created_at=1000.0 + number, name=f"job {number}")
    assert len(Store(str(home)).names()) == MANY
    return home


@pytest.fixture
def records_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    read, real = list[str](), jobdir.read_record

    def recorded(path: str) -> dict[str, Any] | None:
        read.append(path)
        return real(path)

    monkeypatch.setattr(jobdir, "read_record", recorded)
    return read


def test_a_name_is_found_without_reading_the_other_jobs(many: Path, records_read: list[str]) -> None:
    jobs = jobs_on(Store(str(many)))
    assert jobs.find_typed("job 7").spec.name == "job 7"
    assert jobs.find("job 7").spec.name == "job 7"
    assert len(records_read) < 20


def test_a_job_that_runs_is_found_among_many_ended_ones_of_its_name(
    home: Path, run: Run, records_read: list[str]
) -> None:
    store = Store(str(home))
    run(FIRST, "dev")
    for _ in range(MANY):
        ended_job(store, name="dev")
    store.names()
    records_read.clear()
    assert jobs_on(Store(str(home))).find_typed("dev", steered=Running).id == FIRST
    assert len(records_read) < 20


def test_jobs_that_come_and_go_without_a_word_in_the_file_of_names_are_known(many: Path) -> None:
    """No starter and no cleaner knows that file, of whatever version it is."""
    jobs, written = jobs_on(Store(str(many))), (many / "names").read_bytes()
    old, new = jobs.find("job 7").id, job_with(many, name="job 7")
    assert jobs.find("job 7").id == jobs_on(Store(str(many))).find("job 7").id == new
    shutil.rmtree(many / "jobs" / new)  # its place in the index stays, as after kill -9 of a cleaner
    assert jobs.find("job 7").id == jobs_on(Store(str(many))).find("job 7").id == old
    Store(str(many)).remove("", old)
    for each in (jobs, jobs_on(Store(str(many)))):
        with pytest.raises(JobNotFound):
            each.find("job 7")
    assert (many / "names").read_bytes() == written


def test_the_file_of_names_is_written_again_when_it_lacks_many(many: Path, records_read: list[str]) -> None:
    for number in range(2 * MOST_UNWRITTEN):
        job_with(many, name=f"later {number}")
    Store(str(many)).names()
    store = Store(str(many))
    records_read.clear()
    assert len(store.names()) == MANY + 2 * MOST_UNWRITTEN
    assert records_read == [f"{many}/names"]


@pytest.mark.parametrize("kind", NOT_RECORDS)
def test_a_file_of_names_that_is_no_record_is_made_again(many: Path, kind: str) -> None:
    (many / "names").unlink()
    NOT_RECORDS[kind](many / "names")
    assert jobs_on(Store(str(many))).find("job 7").spec.name == "job 7"


def test_a_wrong_name_in_the_file_finds_no_other_job(many: Path) -> None:
    store = Store(str(many))
    record = json.loads((many / "names").read_text())
    names = record["names"]
    names["job 7"], names["job 9"], names[""] = names["job 8"], [names["job 9"]], 17
    (many / "names").write_text(json.dumps(record))
    jobs = jobs_on(store)
    found = [jobs.find(f"job {number}").spec.name for number in (7, 9, 10)]
    assert found == ["job 7", "job 9", "job 10"]


@pytest.mark.parametrize("step", ["os.rename", "os.write"])
def test_a_process_killed_while_it_writes_the_names_leaves_nothing_wrong(home: Path, step: str) -> None:
    store = Store(str(home))
    ids = {f"job {number}": ended_job(store, name=f"job {number}") for number in range(MANY)}
    script = f"""
import os, signal, sys
from bgjob.store.store import Store
store = Store(sys.argv[1])
{step} = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
store.names()
"""
    assert subprocess.run([sys.executable, "-c", script, store.home], check=False).returncode == -9
    assert not (home / "names").exists()
    assert all(jobs_on(Store(str(home))).find(name).id == job_id for name, job_id in list(ids.items())[:3])
    assert (home / "names").exists()
