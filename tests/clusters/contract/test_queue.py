"""The queue: a job that finds no room waits for its turn where it is to run, and starts once."""

from collections.abc import Callable

from bgjob.core.job import Killed, Queued
from tests.clusters.engine import Engine
from tests.clusters.target import Target
from tests.support.gate import Gate
from tests.support.queueing import Diary
from tests.support.waiting import wait_until

NewTarget = Callable[..., Target]


def fill(target: Target, gate: Gate) -> str:
    """A job that leaves no room."""
    job_id = target.start(gate.pause, options=target.engine.whole)
    gate.wait_until_reached()
    return job_id


def in_turn(target: Target, command: str, **asked: object) -> str:
    return target.start(command, queue=True, options=target.engine.whole, **asked)


def test_a_job_that_finds_no_room_waits_and_runs_once(
    new_target: NewTarget, engine: Engine, gate: Gate, diary: Diary
) -> None:
    target = new_target(engine, max_jobs=1)
    fill(target, gate)
    job_id = in_turn(target, f"{diary.entry('ran')}; exit 3")
    wait_until(lambda: target.jobs.status(job_id).place is not None, "its place is known")
    status = target.jobs.status(job_id)
    assert isinstance(status.job.state, Queued)
    assert status.place
    assert status.place.reason
    assert diary.words() == []
    gate.open()
    assert getattr(target.state(job_id), "code", None) == 3
    assert diary.words() == ["ran"]


def test_a_job_that_waits_is_cancelled_without_a_run(
    new_target: NewTarget, engine: Engine, gate: Gate, diary: Diary
) -> None:
    target = new_target(engine, max_jobs=1)
    first = fill(target, gate)
    job_id = in_turn(target, diary.entry("ran"))
    assert target.jobs.kill(job_id).status == "killed"
    assert isinstance(target.jobs.status(job_id).job.state, Killed)
    gate.open()
    target.ended(first)
    assert diary.words() == []


def test_jobs_run_one_after_the_other_where_there_is_one_slot(
    new_target: NewTarget, engine: Engine, diary: Diary
) -> None:
    target = new_target(engine, max_jobs=1)
    ids = [in_turn(target, f"{diary.entry(f'in-{n}')}; {diary.entry(f'out-{n}')}") for n in range(4)]
    for job_id in ids:
        assert getattr(target.state(job_id), "code", None) == 0
    words = diary.words()
    assert sorted(words) == sorted(f"{way}-{n}" for way in ("in", "out") for n in range(4))
    pairs = list(zip(words[::2], words[1::2], strict=True))
    assert all(begin.removeprefix("in-") == end.removeprefix("out-") for begin, end in pairs)
