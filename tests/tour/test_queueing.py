"""The queue: a job that finds no room, or has to wait for others, starts exactly once when it may."""

import re
from collections.abc import Callable

import pytest

from bgjob.api import Jobs
from bgjob.core.errors import JobLimitReached
from bgjob.core.job import Exited, Queued
from tests.support.gate import Gate
from tests.support.queueing import Diary, OpenJobs, ends, occupy, state
from tests.support.server import StartServer


def test_beyond_the_limit_a_job_waits_instead_of_failing(one: Jobs, gate: Gate, diary: Diary) -> None:
    occupy(one, gate)
    with pytest.raises(JobLimitReached):
        one.execute("true")
    job_id = one.execute(f"{diary.entry('ran')}; exit 3", queue=True).id
    look = one.status(job_id)
    assert isinstance(look.job.state, Queued)
    assert look.place
    assert (look.place.position, look.place.reason) == (1, "it waits for a free slot")
    assert diary.words() == []
    gate.open()
    (end,) = ends(one, job_id)
    assert isinstance(end, Exited)
    assert (end.code, diary.words()) == (3, ["ran"])


def test_higher_priority_first_and_among_equals_the_older(one: Jobs, gate: Gate, diary: Diary) -> None:
    occupy(one, gate)
    ids = [
        one.execute(diary.entry(word), queue=True, options={"priority": priority}).id
        for word, priority in (("c", 0), ("a", 7), ("d", 0), ("e", -3), ("b", 7))
    ]
    assert [one.status(job_id).place.position for job_id in ids] == [3, 1, 4, 5, 2]  # type: ignore[union-attr]
    gate.open()
    ends(one, *ids)
    assert diary.words() == ["a", "b", "c", "d", "e"]


def test_after_the_success_of_others(one: Jobs, gate: Gate, diary: Diary) -> None:
    """By id and by name; a job that is already over counts too."""
    done = one.execute("true", name="done").id
    ends(one, done)
    occupied = occupy(one, gate, queue=True)
    job_id = one.execute(diary.entry("ran"), after=["done", occupied]).id
    place = one.status(job_id).place
    assert place
    assert place.reason == f"it waits: job {occupied}, after which it is to run, still runs"
    named = one.status(one.execute("true", name="then", after=[job_id]).id).place
    later = one.status(one.execute("true", after=["then"]).id).place
    assert named
    assert later
    assert named.reason == f"it waits: job {job_id}, after which it is to run, is queued itself"
    assert re.match(r"it waits: job then \([0-9a-f]{8}\), after which", later.reason)
    gate.open()
    assert isinstance(ends(one, job_id)[0], Exited)
    assert diary.words() == ["ran"]


def test_a_group_has_slots_of_its_own(open_with: OpenJobs, new_gate: Callable[[str], Gate]) -> None:
    """A full group keeps only its own waiting; a job of a group needs one of all slots too."""
    jobs = open_with(MCP_BG_MAX_JOBS="2", MCP_BG_GROUPS="gpu=1,jobs=2")
    gpu, plain = new_gate("gpu"), new_gate("plain")
    occupy(jobs, gpu, queue=True, options={"group": "gpu"})
    with pytest.raises(JobLimitReached, match="gpu"):
        jobs.execute("true", options={"group": "gpu"})
    second = jobs.execute("exit 2", queue=True, options={"group": "gpu"}).id
    assert jobs.status(second).place.reason == "it waits for a free slot of group gpu, or of all"  # type: ignore[union-attr]
    other = jobs.execute(plain.pause, queue=True, options={"group": "jobs"}).id  # a name like any other
    plain.wait_until_reached()
    assert isinstance(state(jobs, second), Queued)
    third = jobs.execute("exit 3", queue=True, options={"group": "jobs"}).id
    assert isinstance(state(jobs, third), Queued)  # two slots in all
    gpu.open()
    plain.open()
    assert [getattr(end, "code", None) for end in ends(jobs, second, other, third)] == [2, 0, 3]


def test_what_waits_is_not_said_to_run(start_server: StartServer, gate: Gate) -> None:
    server = start_server(MCP_BG_MAX_JOBS="1")
    running = server.execute(gate.pause)
    gate.wait_until_reached()
    queued = server.call("execute_command", command="true", queue=True)
    assert (queued["status"], queued["position"]) == ("queued", 1)
    ids = {
        word: [job["job_id"] for job in server.call("list_jobs", status=word)["jobs"]]
        for word in ("queued", "running")
    }
    assert ids == {"queued": [queued["job_id"]], "running": [running]}
    (waited,) = server.call("wait_for_job", job_ids=[queued["job_id"]], timeout_s=0)["jobs"]
    assert (waited["status"], waited["reason"]) == ("queued", "it waits for a free slot")
    gate.open()


def test_what_can_no_longer_start_fails_in_the_first_answer(start_server: StartServer) -> None:
    """No answer says that it waits for a slot: what it was to run after has failed already."""
    server = start_server()
    failed = server.execute("exit 3", name="build", wait_s=30)
    answer = server.call("execute_command", command="true", name="tests", after=["build"])
    assert (answer["status"], answer["cause"]) == ("failed", "never_started")
    why = f"it was to run after the success of job {failed}, which failed with exit code 3"
    (waited,) = server.call("wait_for_job", job_ids=[answer["job_id"]])["jobs"]
    for told in (answer, waited, server.status(answer["job_id"])):
        assert (told["status"], told["cause"], told["reason"]) == ("failed", "never_started", why)
    (event,) = server.call("job_events", job_ids=[answer["job_id"]])["events"]
    assert (event["kind"], event["name"], event["reason"]) == ("ended", "tests", why)


def test_a_queued_job_can_be_cancelled(start_server: StartServer, gate: Gate, diary: Diary) -> None:
    server = start_server(MCP_BG_MAX_JOBS="1")
    server.execute(gate.pause)
    gate.wait_until_reached()
    first, second = (server.execute(diary.entry(word), queue=True) for word in ("first", "second"))
    assert server.call("kill_job", job_id=first)["status"] == "killed"
    status = server.status(first)
    assert (status["status"], status["cause"]) == ("killed", "killed")
    assert server.status(second)["position"] == 1
    assert server.call("kill_job", job_id=first)["status"] == "already_terminated"
    gate.open()
    server.call("wait_for_job", job_ids=[second], timeout_s=30)
    assert diary.words() == ["second"]
