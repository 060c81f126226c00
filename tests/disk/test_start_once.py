"""A job that is asked for by its id runs once, however often it is asked for and whatever was left of it."""

import os
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bgjob.api import Jobs, JobStatus
from bgjob.api.start_once import start_once
from bgjob.core.errors import InvalidArgument, JobNotFound
from bgjob.core.frozen import replace
from bgjob.core.job import Exited, Job, Lost
from bgjob.home import jobdir, queue_dir
from bgjob.store.store import Store
from tests.support.gate import Gate
from tests.support.queueing import Diary, OpenJobs
from tests.support.stores import new_spec

Ended = Callable[[str], JobStatus]


@pytest.fixture
def job_id() -> str:
    return str(uuid.uuid4())


def abandoned(store: Store, job_id: str, *files: str) -> None:
    """What a starter leaves that was killed before a shim had its job; and these files."""
    new = store.create(replace(new_spec(), id=job_id))
    for name in files:
        Path(new.directory, name).write_text("x")
    os.close(new.lock)


def test_a_job_has_the_id_that_its_caller_gives(jobs: Jobs, job_id: str, ended: Ended) -> None:
    assert start_once(jobs.context, "exit 3", id=job_id).id == job_id
    state = ended(job_id).job.state
    assert isinstance(state, Exited)
    assert state.code == 3


def test_asked_again_it_is_the_same_job_as_it_is(jobs: Jobs, job_id: str, gate: Gate, ended: Ended) -> None:
    """Also if what was asked for would be refused by now."""
    first = start_once(jobs.context, gate.pause, id=job_id)
    gate.wait_until_reached()
    again = start_once(jobs.context, "echo other", id=job_id, cwd="/does/not/exist")
    assert again.spec == first.spec
    assert again.run == first.run
    gate.open()
    ended(job_id)
    assert isinstance(start_once(jobs.context, "echo other", id=job_id).state, Exited)


def test_an_id_is_a_uuid(jobs: Jobs) -> None:
    with pytest.raises(InvalidArgument, match="id="):
        jobs.execute("true", id="../../etc")
    with pytest.raises(JobNotFound):
        start_once(jobs.context, "true", id="../../etc")


def test_many_at_once_start_it_once(open_with: OpenJobs, job_id: str, diary: Diary) -> None:
    several = [open_with() for _ in range(4)]

    def start(number: int) -> Job:
        return start_once(several[number % 4].context, diary.entry("ran"), id=job_id)

    with ThreadPoolExecutor(12) as threads:
        assert {job.id for job in threads.map(start, range(12))} == {job_id}
    for _ in several[0].follow(job_id, wait=True):
        pass
    assert diary.words() == ["ran"]
    assert len(several[0].list().jobs) == 1


def test_what_was_never_started_is_begun_again(jobs: Jobs, job_id: str, diary: Diary, ended: Ended) -> None:
    abandoned(jobs.store, job_id)
    state = jobs.status(job_id).job.state
    assert isinstance(state, Lost)
    assert "never started" in state.reason
    start_once(jobs.context, diary.entry("ran"), id=job_id)
    assert isinstance(ended(job_id).job.state, Exited)
    assert diary.words() == ["ran"]
    assert [job.id for job in jobs.list().jobs] == [job_id]
    assert len(list(Path(jobs.home, "index").iterdir())) == 1


@pytest.mark.parametrize("sign", [jobdir.RUN, f"{jobdir.OUTCOME}.new", jobdir.LAUNCH_TAKEN, jobdir.LOG])
def test_what_may_have_started_stays_lost(jobs: Jobs, job_id: str, diary: Diary, sign: str) -> None:
    abandoned(jobs.store, job_id, sign)
    assert isinstance(start_once(jobs.context, diary.entry("ran"), id=job_id).state, Lost)
    assert diary.words() == []


def test_a_draft_that_a_killed_starter_left_is_no_obstacle(jobs: Jobs, job_id: str, ended: Ended) -> None:
    store = jobs.store
    draft = Path(store.home, "drafts", job_id)
    draft.mkdir()
    os.close(jobdir.create_locked(f"{draft}/spec.json", {}))
    store.index.enter(job_id, f"{draft}/spec.json", 1)
    queue_dir.enter(store.home, queue_dir.entry_for(job_id, 0, 1))
    start_once(jobs.context, "true", id=job_id)
    assert isinstance(ended(job_id).job.state, Exited)
    assert not draft.exists()
    assert queue_dir.entries(store.home) == []
    assert len(list(Path(store.home, "index").iterdir())) == 1
