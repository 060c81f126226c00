"""Which job is meant by what a person types: never another than the person thinks, least of all to end it."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bgjob.api import Jobs
from bgjob.core.errors import InvalidArgument, JobNotFound
from bgjob.core.job import Queued, Running
from bgjob.store.store import Store
from tests.support.stores import job_with, jobs_on, new_spec

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
