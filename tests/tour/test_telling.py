"""Events: whoever comes back, after a restart, a compaction or as somebody else, misses nothing."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Jobs
from tests.support.gate import Gate
from tests.support.server import Server, StartServer
from tests.support.telling import events, kinds, listens, until
from tests.support.waiting import PATIENCE_S, wait_until


def test_a_jobs_start_and_end_are_told_with_their_cause(server: Server) -> None:
    job_id = server.execute("echo hi; exit 3", name="tests")
    started, ended = until(server, "ended", job_ids=[job_id])
    assert (started["kind"], started["job_id"], started["name"]) == ("started", job_id, "tests")
    assert started["pid"] > 0
    assert (ended["kind"], ended["cause"], ended["exit_code"], ended["name"]) == (
        "ended",
        "exited",
        3,
        "tests",
    )
    assert ended["output_bytes"] == 3
    assert started["time"] <= ended["time"]


def test_an_agent_that_restarts_misses_nothing(start_server: StartServer, gate: Gate) -> None:
    """Not what happens while no server is alive either."""
    first = start_server()
    job_id = first.execute(f"{gate.pause}; exit 7")
    gate.wait_until_reached()
    cursor = first.call("job_events")["cursor"]
    first.kill()
    gate.open()
    second = start_server()
    (ended,) = until(second, "ended", since=cursor)
    assert (ended["job_id"], ended["exit_code"]) == (job_id, 7)
    after = second.call("job_events", since=second.call("job_events", since=cursor)["cursor"])
    assert after["events"] == []


def test_a_waiting_call_is_woken(server: Server, gate: Gate) -> None:
    job_id = server.execute(gate.pause)
    gate.wait_until_reached()
    cursor = server.call("job_events")["cursor"]
    threading.Timer(0.2, gate.open).start()
    began = time.monotonic()
    found = events(server, since=cursor, job_ids=[job_id], timeout_s=PATIENCE_S)
    assert kinds(found) == ["ended"]
    assert time.monotonic() - began < PATIENCE_S / 2


def test_thirty_jobs_are_told_in_one_answer_each_by_its_end(start_server: StartServer) -> None:
    """What led to an end is left out where the end is told, and the cursor is behind both."""
    server = start_server(MCP_BG_MAX_JOBS="4")
    ids = [
        server.execute(f"exit {number % 2}", queue=True, **({"name": f"test {number}"} if number % 3 else {}))
        for number in range(30)
    ]
    server.call("wait_for_job", job_ids=ids, mode="all")
    for job_id in ids:
        until(server, "ended", job_ids=[job_id])
    answer = server.call("job_events", since="0.0")
    assert kinds(answer["events"]) == ["ended"] * 30
    assert "more" not in answer
    assert len(json.dumps(answer)) / 4 < 2000
    told = {event["job_id"]: event for event in answer["events"]}
    assert [told[job_id]["exit_code"] for job_id in ids] == [0, 1] * 15
    assert [told[job_id].get("name") for job_id in ids[:3]] == [None, "test 1", "test 2"]
    assert [told[job_id].get("command") for job_id in ids[:3]] == ["exit 0", None, None]
    assert events(server, since=answer["cursor"]) == []
    asked = events(server, since="0.0", kinds=["started", "ended"], max_tokens=8000)
    assert sorted(kinds(asked)) == ["ended"] * 30 + ["started"] * 30


def test_a_start_is_told_while_the_job_runs_and_its_end_later(server: Server, gate: Gate) -> None:
    job_id = server.execute(f"{gate.pause}; exit 3")
    gate.wait_until_reached()
    until(server, "started", job_ids=[job_id])
    answer = server.call("job_events", since="0.0", job_ids=[job_id])
    started, cursor = answer["events"][0], answer["cursor"]
    assert (started["job_id"], started["kind"]) == (job_id, "started")
    gate.open()
    ended = until(server, "ended", since=cursor, job_ids=[job_id])[-1]
    assert (ended["job_id"], ended["exit_code"]) == (job_id, 3)


def test_whoever_has_no_cursor_is_told_the_last_ten(start_server: StartServer) -> None:
    server = start_server()
    ids = [until(server, "ended", job_ids=[server.execute("true")])[0]["job_id"] for _ in range(12)]
    answer = server.call("job_events")
    assert [(event["job_id"], event["kind"]) for event in answer["events"]] == [
        (job_id, "ended") for job_id in ids[2:]
    ]
    assert answer["left_out"] == 2
    assert [event["job_id"] for event in events(server, since=answer["earlier"])] == ids


def test_whoever_has_no_cursor_and_waits_is_told_what_happens_next(
    start_server: StartServer, gate: Gate
) -> None:
    """What has happened before is no answer to somebody who waits."""
    server = start_server()
    until(server, "ended", job_ids=[server.execute("true")])
    job_id = server.execute(f"{gate.pause}; exit 3")
    gate.wait_until_reached()
    until(server, "started", job_ids=[job_id])
    nothing = server.call("job_events", kinds=["started", "ended"], timeout_s=0.2)
    assert nothing["events"] == []
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(events, server, kinds=["ended"], timeout_s=PATIENCE_S)
        wait_until(lambda: listens(server.pid))
        gate.open()
        (ended,) = call.result()
    assert (ended["job_id"], ended["exit_code"]) == (job_id, 3)
    assert events(server, since=nothing["cursor"])[-1] == ended


def test_whoever_waits_is_told_at_once_of_its_own_job_that_ended_untold(
    start_server: StartServer, jobs: Jobs
) -> None:
    server = start_server()
    told = server.call("execute_command", command="exit 3", wait_s=PATIENCE_S)["job_id"]
    job_id = server.execute("exit 4")
    assert jobs.events("0.0", job_ids=[job_id], kinds=["ended"], timeout_s=PATIENCE_S).events
    answer = server.call("job_events", timeout_s=PATIENCE_S)
    assert [(event["job_id"], event["exit_code"]) for event in answer["events"]] == [(job_id, 4)]
    assert told != job_id
    assert "news" not in answer
    assert server.call("job_events", timeout_s=0.2)["events"] == []


def test_without_news_whoever_waits_is_told_what_happens_from_now_on(
    start_server: StartServer, jobs: Jobs
) -> None:
    server = start_server(MCP_BG_NEWS="off")
    job_id = server.execute("exit 4")
    assert jobs.events("0.0", job_ids=[job_id], kinds=["ended"], timeout_s=PATIENCE_S).events
    assert server.call("job_events", timeout_s=0.2)["events"] == []


@pytest.mark.usefixtures("no_watcher_left")
def test_each_line_that_matches_is_told_with_its_pattern_and_place(jobs: Jobs) -> None:
    job = jobs.execute(
        "echo fine; echo 'an ERROR here' >&2; echo warning: x; cat", watch=["ERROR", "^warn.*x$"]
    )
    found: list[Any] = []
    cursor = "0.0"
    while len(found) < 2:
        answer = jobs.events(cursor, job_ids=[job.id], kinds=["matched"], timeout_s=PATIENCE_S)
        assert answer.events
        found, cursor = found + answer.events, answer.cursor
    told = {event.details["pattern"]: event.details for event in found}
    assert (told["ERROR"]["line"], told["ERROR"]["stream"]) == ("an ERROR here", "stderr")
    assert (told["^warn.*x$"]["line"], told["^warn.*x$"]["stream"]) == ("warning: x", "stdout")
    assert jobs.output(job.id, told["ERROR"]["cursor"]).stderr == "an ERROR here\n"


@pytest.mark.usefixtures("no_watcher_left")
def test_a_command_is_run_for_each_event_with_the_event_on_its_stdin(
    start_server: StartServer, tmp_path: Path
) -> None:
    out = tmp_path / "told"
    server = start_server(
        MCP_BG_ON_EVENT=f'echo "$BGJOB_EVENT $BGJOB_JOB_ID $BGJOB_JOB_NAME $(cat)" >> {out}'
    )
    job_id = server.execute("echo needle; exit 2", name="mine", watch=["needle"])
    wait_until(lambda: out.exists() and "ended" in out.read_text() and "matched" in out.read_text())
    lines = [line.split(" ", 3) for line in out.read_text().splitlines()]
    assert {line[0] for line in lines} == {"started", "matched", "ended"}
    assert {(line[1], line[2]) for line in lines} == {(job_id, "mine")}
    ended = next(json.loads(line[3]) for line in lines if line[0] == "ended")
    assert (ended["kind"], ended["exit_code"]) == ("ended", 2)
