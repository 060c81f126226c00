"""What a page does to jobs, by requests to a real server."""

from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Jobs
from bgjob.core.job import Exited, Job, Queued, Running
from bgjob.system import processes
from tests.faces.page_server import home, logged_in, login, server
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.http_server import HttpServer
from tests.support.page_login import PageLogin
from tests.support.waiting import wait_until

__all__ = ["home", "login", "server"]
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def done(login: PageLogin, act: str, **asked: Any) -> Any:
    answer = login.post(f"/api/{act}", asked)
    assert answer.status == 200, answer
    return answer.json


def refused(login: PageLogin, act: str, **asked: Any) -> tuple[int, str]:
    answer = login.post(f"/api/{act}", asked)
    return answer.status, answer.json["error"]


def loaded(jobs: Jobs, job_id: str) -> Job:
    return jobs.status(job_id).job


class TestStart:
    def test_a_job_is_started_with_all_options_of_the_tool(
        self, jobs: Jobs, login: PageLogin, tmp_path: Path
    ) -> None:
        started = done(
            login,
            "start",
            command='echo "$WORD"; pwd; read x',
            name="mine",
            cwd=str(tmp_path),
            env={"WORD": "given"},
            pty=True,
            rows=10,
            cols=40,
            timeout_s=500,
            options={"silence_s": 400, "restart": "on-failure"},
        )
        spec = loaded(jobs, started["job"]).spec
        assert (spec.name, spec.cwd, spec.pty, spec.rows, spec.cols) == ("mine", str(tmp_path), True, 10, 40)
        assert (spec.timeout_s, spec.limits, spec.restart["policy"]) == (
            500,
            {"silence_s": 400},
            "on-failure",
        )
        assert (spec.by["client"], spec.by["user"]) == ("page", "ann")
        jobs.wait_for([started["job"]], for_input=True)
        assert jobs.output(started["job"]).stdout.split() == ["given", str(tmp_path)]

    def test_it_does_not_wait(self, jobs: Jobs, login: PageLogin, gate: Gate) -> None:
        started = done(login, "start", command=gate.pause, wait_s=100, until={"pattern": "x"})
        assert started["status"] == "running"
        gate.wait_until_reached()
        gate.open()

    def test_one_that_runs_is_used(self, login: PageLogin) -> None:
        first = done(login, "start", command="sleep 1000", name="one")
        second = done(login, "start", command="sleep 1000", name="one", if_running="reuse")
        assert (second["job"], second["reused"]) == (first["job"], True)
        status, error = refused(login, "start", command="sleep 1000", name="one", if_running="refuse")
        assert (status, "is running already" in error) == (409, True)

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({}, "command"),
            ({"command": "   "}, "Invalid command: it is empty"),
            ({"command": "true", "colour": "red"}, "Unknown argument colour"),
            ({"command": "true", "timeout_s": -1}, "timeout_s"),
            ({"command": "true", "options": {"memory": "much"}}, "memory='much' is not valid"),
            ({"command": "true", "cwd": "/no/such/place"}, "/no/such/place"),
            ({"command": ["true"]}, "command"),
        ],
    )
    def test_what_is_wrong_is_said_in_the_words_of_the_tool(
        self, login: PageLogin, given: dict[str, Any], said: str
    ) -> None:
        status, error = refused(login, "start", **given)
        assert status == 400
        assert said in error

    def test_that_no_slot_is_free_is_said_in_words_of_the_page(self, tmp_path: Path) -> None:
        with HttpServer(tmp_path / "home", MCP_BG_MAX_JOBS="1") as server:
            login = logged_in(server)
            done(login, "start", command="sleep 1000")
            status, error = refused(login, "start", command="true")
            assert (status, "Queue it" in error, "list_jobs" in error) == (409, True, False)
            assert done(login, "start", command="true", queue=True)["status"] == "queued"
        end_all_jobs(tmp_path / "home")


class TestAnswer:
    def test_a_prompt_is_answered_and_an_event_tells_by_whom(self, jobs: Jobs, login: PageLogin) -> None:
        job_id = jobs.execute("printf 'Go on? '; read answer; echo got $answer; read x", pty=True).id
        jobs.wait_for([job_id], for_input=True)
        assert done(login, "answer", job=job_id, text="yes") == {}
        jobs.wait_for([job_id], pattern="got yes")
        (typed,) = jobs.events(kinds=["typed"], job_ids=[job_id]).events
        assert (typed.details["by"], typed.details["bytes"]) == ("ann in a browser", len("yes\r"))

    def test_keys_enter_and_the_end_of_input_are_typed(self, jobs: Jobs, login: PageLogin) -> None:
        job_id = jobs.execute("cat; echo over").id
        done(login, "answer", job=job_id, text="a", enter=False)
        done(login, "answer", job=job_id, keys=["tab"])
        done(login, "answer", job=job_id, text="")
        done(login, "answer", job=job_id, text="b", enter=True, eof=True)
        jobs.wait_for([job_id])
        assert jobs.output(job_id).stdout == "a\t\nb\nover\n"

    def test_what_cannot_be_typed_is_said(self, jobs: Jobs, login: PageLogin) -> None:
        null, over = jobs.execute("sleep 1000", stdin="null").id, jobs.execute("true").id
        jobs.wait_for([over])
        assert refused(login, "answer", job=null)[0] == 400
        assert refused(login, "answer", job=null, text="x", keys="enter")[0] == 400
        assert refused(login, "answer", job=UNKNOWN, text="x")[0] == 404
        for job_id, why in ((null, "its stdin is /dev/null"), (over, "is not running")):
            status, error = refused(login, "answer", job=job_id, text="x")
            assert (status, why in error) == (409, True)

    def test_what_a_job_does_not_read_is_said(self, jobs: Jobs, login: PageLogin) -> None:
        job_id = jobs.execute("sleep 1000").id
        status, error = refused(login, "answer", job=job_id, text="x" * (1 << 20))
        assert (status, "does not read the rest" in error) == (409, True)


class TestEnds:
    def test_jobs_are_killed_each_with_a_word(self, jobs: Jobs, login: PageLogin) -> None:
        runs, over = jobs.execute("sleep 1000").id, jobs.execute("true").id
        queued = jobs.execute("true", queue=True, options={"delay_s": 1000}).id
        jobs.wait_for([over])
        told = done(login, "kill", jobs=[runs, over, queued, UNKNOWN, runs])["jobs"]
        assert told == {runs: "killed", over: "already_terminated", queued: "killed", UNKNOWN: "not_found"}
        assert not isinstance(loaded(jobs, runs).state, Running)

    def test_ended_jobs_are_removed_each_with_a_word_or_why_not(self, jobs: Jobs, login: PageLogin) -> None:
        runs, over, wanted = (jobs.execute(command).id for command in ("sleep 1000", "true", "true"))
        jobs.wait_for([over])
        jobs.wait_for([wanted])
        waits = jobs.execute("true", queue=True, after=[wanted], options={"delay_s": 1000}).id
        told = done(login, "remove", jobs=[runs, over, wanted, waits, UNKNOWN])["jobs"]
        assert told[over] == "removed"
        assert "it runs. Kill it first." in told[runs]
        assert "a job in the queue is to run after it" in told[wanted]
        assert "it waits in the queue" in told[waits]
        assert "not found" in told[UNKNOWN]
        assert {job.id for job in jobs.list().jobs} >= {runs, wanted, waits}
        assert over not in {job.id for job in jobs.list().jobs}

    @pytest.mark.parametrize("act", ["kill", "remove"])
    @pytest.mark.parametrize("ids", [[], "x", [1], None])
    def test_no_list_of_ids_is_an_error(self, login: PageLogin, act: str, ids: object) -> None:
        assert refused(login, act, jobs=ids)[0] == 400

    def test_a_signal_is_sent_and_no_more(self, jobs: Jobs, login: PageLogin) -> None:
        job_id = jobs.execute("trap 'echo heard; exit 0' USR1; echo ready; while :; do sleep 0.05; done").id
        jobs.wait_for([job_id], pattern="ready")
        assert done(login, "signal", job=job_id, signal="usr1")["status"] == "signaled"
        jobs.wait_for([job_id])
        assert jobs.output(job_id).stdout == "ready\nheard\n"
        assert refused(login, "signal", job=job_id, signal="USR1")[0] == 409
        assert refused(login, "signal", job=job_id, signal="LOUD")[0] == 400

    def test_a_job_is_paused_and_goes_on(self, jobs: Jobs, login: PageLogin) -> None:
        job_id = jobs.execute("sleep 1000", timeout_s=600.0).id
        paused = done(login, "pause", job=job_id)
        assert (paused["status"], paused["goes_on"]) == ("paused", ["its timeout of 600 s"])
        assert all(map(processes.is_stopped, jobs.processes(job_id)))
        assert done(login, "resume", job=job_id)["status"] == "resumed"
        wait_until(lambda: not any(map(processes.is_stopped, jobs.processes(job_id))))
        assert done(login, "resume", job=job_id)["status"] == "not_paused"


class TestAgain:
    def test_a_job_is_run_again(self, jobs: Jobs, login: PageLogin) -> None:
        old = jobs.execute("exit 4", name="again").id
        jobs.wait_for([old])
        new = done(login, "rerun", job=old)["job"]
        jobs.wait_for([new])
        job = loaded(jobs, new)
        assert (job.spec.of, job.spec.name, job.spec.by["client"]) == (old, "again", "page")
        assert isinstance(job.state, Exited)
        assert job.state.code == 4

    def test_a_queued_job_is_moved(self, jobs: Jobs, login: PageLogin) -> None:
        ids = [jobs.execute("true", queue=True, options={"delay_s": 1000}).id for _ in range(2)]
        assert done(login, "priority", job=ids[1], priority=7) == {}
        place = jobs.status(ids[1]).place
        assert place is not None
        assert (place.priority, place.position) == (7, 1)
        assert isinstance(loaded(jobs, ids[0]).state, Queued)
        assert refused(login, "priority", job=ids[0], priority="high")[0] == 400
        assert refused(login, "priority", job=ids[0], priority=1001)[0] == 400


@pytest.mark.parametrize(
    ("act", "scope"),
    [
        *((act, "run") for act in ("start", "answer", "rerun", "priority", "type", "resize", "hold")),
        *((act, "kill") for act in ("kill", "remove", "signal", "pause", "resume")),
    ],
)
def test_each_needs_its_right(server: HttpServer, home: Path, act: str, scope: str) -> None:
    others = [each for each in ("read", "run", "kill") if each != scope]
    status, error = refused(logged_in(server, *others), act)
    assert (status, "This login may not" in error) == (403, True)
    assert refused(logged_in(server, scope), act)[0] == 400


def test_a_start_that_ends_a_job_needs_the_right_to_end_jobs(
    server: HttpServer, home: Path, jobs: Jobs
) -> None:
    running = jobs.execute("sleep 1000", name="kept").id
    again = {"command": "sleep 1000", "name": "kept", "if_running": "restart"}
    assert refused(logged_in(server, "run", "read"), "start", **again) == (
        403,
        "This login may not end jobs.",
    )
    assert isinstance(loaded(jobs, running).state, Running)
    assert done(logged_in(server, "run", "kill"), "start", **again)["job"] != running
