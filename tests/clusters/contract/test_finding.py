"""Finding: jobs are listed, named and searched here, wherever they run."""

import uuid
from typing import Any

import pytest

from bgjob.core.errors import AlreadyRunning
from bgjob.core.job import Exited, Killed
from tests.clusters.target import Target
from tests.support.gate import Gate


def new_name() -> str:
    return f"name-{uuid.uuid4().hex[:8]}"


def test_a_job_is_listed_with_how_it_stands(target: Target, gate: Gate) -> None:
    ended, running = target.start("exit 3"), target.start(gate.pause)
    gate.wait_until_reached()
    target.ended(ended)
    first, second, *_ = target.jobs.list().jobs
    assert (first.id, second.id) == (running, ended)
    assert isinstance(second.state, Exited)
    assert [job.id for job in target.jobs.list(status="running").jobs] == [running]
    gate.open()


def test_a_job_is_found_by_its_name_and_by_how_its_id_begins(target: Target) -> None:
    name = new_name()
    older, job_id = target.start("exit 1", name=name), target.start("exit 2", name=name)
    for each in (older, job_id):
        target.ended(each)
    assert target.jobs.find(name).id == target.jobs.find(job_id[:13]).id == job_id
    assert getattr(target.jobs.status(name).job.state, "code", None) == 2


def test_a_job_of_a_name_that_runs_is_used_again(target: Target, gate: Gate) -> None:
    words: dict[str, Any] = {"name": new_name(), **target.where}
    first = target.jobs.run(gate.pause, if_running="reuse", **words)
    gate.wait_until_reached()
    second = target.jobs.run("echo never", if_running="reuse", **words)
    assert (first.reused, second.reused, second.job.id) == (False, True, first.job.id)
    with pytest.raises(AlreadyRunning, match=first.job.id):
        target.jobs.run("echo never", if_running="refuse", **words)
    third = target.jobs.run("exit 6", if_running="restart", **words)
    assert isinstance(target.jobs.status(first.job.id).job.state, Killed)
    assert getattr(target.state(third.job.id), "code", None) == 6


def test_lines_are_found_in_one_job_and_in_all(target: Target) -> None:
    word = new_name()
    ids = [target.start(f"seq 1 {count}; echo 'error: {word} {count}' >&2") for count in (10, 20)]
    for job_id in ids:
        target.ended(job_id)
    (found,) = target.jobs.search(rf"^error: {word} \d+$", job_ids=ids[:1]).jobs
    (match,) = found.matches
    assert (match.line, match.stream) == (f"error: {word} 10", "stderr")
    assert target.jobs.output(ids[0], match.cursor).stderr == f"error: {word} 10\n"
    everywhere = target.jobs.search(word)
    assert (everywhere.count, [each.job.id for each in everywhere.jobs]) == (2, ids[::-1])


def test_a_running_job_is_searched_too(target: Target, gate: Gate) -> None:
    job_id = target.start(f"echo found me; {gate.pause}")
    gate.wait_until_reached()
    target.wait_until_printed(job_id, "found me")
    assert target.jobs.search("found", job_ids=[job_id]).count == 1
    gate.open()


def test_jobs_with_a_target_and_without_are_one_list(target: Target) -> None:
    here, there = target.jobs.execute("exit 1").id, target.start("exit 2")
    for job_id in (here, there):
        target.ended(job_id)
    assert {job.id for job in target.jobs.list(limit=2).jobs} == {here, there}
