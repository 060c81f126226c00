"""Events: which there are, who tells them when a shim was killed, and how they are read."""

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from bgjob.api import Cancellation, Jobs, open_jobs
from bgjob.api.spec import spec_of
from bgjob.api.start import launch
from bgjob.home import event_log
from tests.support.gate import Gate
from tests.support.queueing import OpenJobs
from tests.support.server import Server, ToolError
from tests.support.shims import guard_pid, kill_both, shim_pid
from tests.support.telling import kinds, until
from tests.support.waiting import PATIENCE_S, wait_until


class TestWhatHappened:
    def test_how_a_job_was_ended_is_told(self, server: Server) -> None:
        killed, timed_out = server.execute("cat"), server.execute("cat", timeout_s=0.1)
        server.call("kill_job", job_id=killed)
        last = until(server, "ended", job_ids=[killed])[-1]
        assert (last["cause"], last["signal"]) == ("killed", "SIGTERM")
        assert until(server, "ended", job_ids=[timed_out])[-1]["cause"] == "timed_out"

    def test_a_job_that_prints_a_prompt_and_waits_is_told_once_for_each_question(
        self, server: Server
    ) -> None:
        job_id = server.execute("printf 'name? '; read a; printf 'again? '; read b; echo bye")
        asked = until(server, "input", job_ids=[job_id])[-1]
        assert asked["prompt"] == "name?"
        since = server.call("job_events")["cursor"]
        server.call("interact_with_job", job_id=job_id, input="x")
        found = until(server, "input", since=since, job_ids=[job_id])
        assert [event["prompt"] for event in found] == ["name? again?"]  # a pipe echoes no newline
        server.call("interact_with_job", job_id=job_id, input="y")
        assert kinds(until(server, "ended", job_ids=[job_id])) == ["started", "input", "input", "ended"]

    def test_a_silent_reader_waits_for_input_too_and_one_with_closed_stdin_does_not(
        self, server: Server
    ) -> None:
        reader = server.execute("cat")
        assert until(server, "input", job_ids=[reader])[-1]["kind"] == "input"
        busy = server.execute("exec <&-; sleep 2.5")
        assert kinds(until(server, "ended", job_ids=[busy])) == ["started", "ended"]

    def test_a_command_that_cannot_be_started_is_told_to_have_ended(self, jobs: Jobs, tmp_path: Path) -> None:
        (gone := tmp_path / "gone").mkdir()
        spec = spec_of(jobs.context, "true", cwd=str(gone))
        gone.rmdir()
        job = launch(jobs.context, spec, {})
        found = jobs.events("0.0", job_ids=[job.id], timeout_s=PATIENCE_S)
        assert [(event.kind, event.details["cause"]) for event in found.events] == [
            ("ended", "never_started")
        ]


class TestKilled:
    def test_the_end_is_told_when_the_shim_was_killed(self, jobs: Jobs, gate: Gate) -> None:
        job = jobs.execute(f"{gate.pause}; exit 5")
        gate.wait_until_reached()
        os.kill(shim_pid(jobs, job.id), signal.SIGKILL)
        gate.open()
        (ended,) = jobs.events("0.0", job_ids=[job.id], kinds=["ended"], timeout_s=PATIENCE_S).events
        assert (ended.details["cause"], ended.details["exit_code"]) == ("exited", 5)

    def test_the_end_is_told_when_shim_and_guard_were_killed(self, jobs: Jobs) -> None:
        """By whoever looks: there is nobody else."""
        job = jobs.execute("exec sleep 1000")
        kill_both(jobs, job.id)
        (ended,) = jobs.events("0.0", job_ids=[job.id], kinds=["ended"]).events
        assert ended.details["cause"] == "lost"
        again = jobs.events("0.0", job_ids=[job.id], kinds=["ended"])
        assert len(again.events) == 1

    def test_a_wait_for_events_notices_that_too(self, jobs: Jobs) -> None:
        job = jobs.execute("exec sleep 1000")
        cursor = jobs.events().cursor
        threading.Thread(target=kill_both, args=(jobs, job.id)).start()
        found = jobs.events(cursor, kinds=["ended"], timeout_s=PATIENCE_S)
        assert [event.job_id for event in found.events] == [job.id]

    @pytest.mark.parametrize(
        ("command", "options"), [("exit 4", {}), ("kill -9 $$", {}), ("exec sleep 1000", {"silence_s": 0.1})]
    )
    def test_an_end_whose_event_was_lost_is_told_as_it_was(
        self, jobs: Jobs, home: Path, command: str, options: dict[str, Any]
    ) -> None:
        """As after a power cut: the outcome is on disk, the end of the log is not."""
        job = jobs.execute(command, name="it", options=options)
        (told,) = jobs.events("0.0", kinds=["ended"], timeout_s=PATIENCE_S).events
        log = home / "events" / "1"
        log.write_bytes(log.read_bytes().partition(b'{"at"')[0])
        event_log.append(str(log.parent), "started", job.id)
        wait_until(lambda: not jobs.has_shim(job.id))
        reader = open_jobs({"BGJOB_HOME": str(home)}, many=False)
        (ended,) = reader.events("0.0", job_ids=[job.id], kinds=["ended"]).events
        assert (ended.name, ended.details) == (told.name, told.details)

    def test_of_several_that_find_an_end_untold_one_tells_it(self, jobs: Jobs, home: Path) -> None:
        job = jobs.execute("exec sleep 1000")
        kill_both(jobs, job.id)
        answers: list[int] = []

        def look() -> None:
            answers.append(len(jobs.events("0.0", job_ids=[job.id], kinds=["ended"]).events))

        threads = [threading.Thread(target=look) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert answers == [1] * 8


class TestWaiting:
    def test_a_call_that_is_called_off_ends(self, jobs: Jobs) -> None:
        cancellation = Cancellation()
        threading.Timer(0.1, cancellation.cancel).start()
        began = time.monotonic()
        assert jobs.events(timeout_s=PATIENCE_S, cancellation=cancellation).events == []
        assert time.monotonic() - began < PATIENCE_S / 2
        cancellation.close()

    def test_without_events_it_answers_in_time_and_with_the_same_cursor(self, jobs: Jobs) -> None:
        first = jobs.events(timeout_s=0.1)
        assert jobs.events(first.cursor, timeout_s=0.1).cursor == first.cursor


class TestTheBudget:
    def test_without_a_cursor_the_newest_fit_and_the_others_can_be_read(self, jobs: Jobs) -> None:
        job = jobs.execute("sleep 1000")
        for number in range(100):
            event_log.append(jobs.events_directory, "limit_near", job.id, limit="memory", number=number)
        newest = jobs.events(max_tokens=200)
        assert newest.events[-1].details["number"] == 99
        assert newest.left_out + len(newest.events) == 101
        assert not newest.more
        assert newest.earlier is not None
        oldest = jobs.events(newest.earlier, max_tokens=200)
        assert oldest.events[0].kind == "started"
        assert oldest.more

    def test_by_the_cursor_every_event_is_read_once_and_in_order(self, jobs: Jobs) -> None:
        job = jobs.execute("cat")
        for number in range(100):
            event_log.append(jobs.events_directory, "limit_near", job.id, number=number)
        cursor, numbers = "0.0", []
        while True:
            found = jobs.events(cursor, kinds=["limit_near"], max_tokens=300)
            numbers += [event.details["number"] for event in found.events]
            cursor = found.cursor
            if not found.more:
                break
        assert numbers == list(range(100))

    def test_page_by_page_every_end_is_told_and_of_a_job_that_runs_its_start(self, jobs: Jobs) -> None:
        """What is left out leads to an end on the same page or on a later one."""
        ids = [str(uuid4()) for _ in range(40)]
        running = jobs.execute("cat").id
        for kind in ("queued", "moved", "started", "ended"):
            for job_id in ids:
                event_log.append(jobs.events_directory, kind, job_id)
        cursor, told, more = "0.0", list[tuple[str, str]](), True
        while more:
            found = jobs.events(cursor, max_tokens=500, condensed=True)
            told += [(event.job_id, event.kind) for event in found.events if event.kind != "input"]
            assert 0 < len(found.events) < 30
            cursor, more = found.cursor, found.more
        told.remove((running, "started"))
        assert told == [(job_id, "ended") for job_id in ids]

    def test_an_answer_is_as_small_as_was_asked_for(self, server: Server) -> None:
        for number in range(20):
            server.call("execute_command", command=f"exit {number}", wait_s=20)
        answer = server.call("job_events", since="0.0", max_tokens=300)
        assert len(json.dumps(answer["events"])) / 4 < 400
        assert answer["more"]

    def test_what_retention_has_taken_is_said(
        self, open_with: OpenJobs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs = open_with(MCP_BG_MAX_RESPONSE="1MB")
        monkeypatch.setattr(event_log, "SEGMENT_BYTES", 2000)
        job = jobs.execute("sleep 1000")
        for number in range(600):
            event_log.append(jobs.events_directory, "limit_near", job.id, number=number)
        found = jobs.events("1.0", max_tokens=100_000)
        assert found.gone_bytes > 0
        assert found.events[-1].details["number"] == 599
        assert jobs.events(found.cursor).gone_bytes == 0


class TestArguments:
    def test_a_cursor_that_is_none_is_an_error_that_says_so(self, server: Server) -> None:
        with pytest.raises(ToolError, match="'12-x' is not a cursor of events"):
            server.call("job_events", since="12-x")

    def test_an_unknown_job_is_not_found(self, server: Server) -> None:
        with pytest.raises(ToolError, match="not found"):
            server.call("job_events", job_ids=["00000000-0000-4000-8000-000000000000"])

    def test_a_job_that_was_cleaned_up_still_has_its_events(self, jobs: Jobs) -> None:
        job = jobs.execute("exit 1", name="gone")
        jobs.events("0.0", kinds=["ended"], timeout_s=PATIENCE_S)
        wait_until(lambda: not jobs.has_shim(job.id))
        ((place, _),) = jobs.store.ids()
        jobs.store.remove(place, job.id)
        found = jobs.events("0.0", job_ids=[job.id])
        assert [event.kind for event in found.events] == ["started", "ended"]
        assert found.events[-1].name == "gone"


def test_a_guard_that_takes_over_tells_the_end_at_least_once(jobs: Jobs, gate: Gate) -> None:
    job = jobs.execute(f"sleep 1000 & {gate.pause}; exit 6")
    gate.wait_until_reached()
    guard = guard_pid(jobs, job.id)
    gate.open()
    jobs.events("0.0", job_ids=[job.id], kinds=["ended"], timeout_s=PATIENCE_S)
    os.kill(shim_pid(jobs, job.id), signal.SIGKILL)
    run = Path(jobs.directory(job.id), "run.json")
    wait_until(lambda: json.loads(run.read_text())["shim_pid"] == guard)
    found = jobs.events("0.0", job_ids=[job.id], kinds=["ended"]).events
    assert found
    assert {event.details["exit_code"] for event in found} == {6}
