"""Waiting: one call instead of polling, for whatever a caller can name; it never touches the job."""

import contextlib
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Cancellation, Conditions, Jobs, prompt, status
from bgjob.link import sweep
from tests.support.gate import Gate
from tests.support.server import Server, StartServer, ToolError
from tests.support.shims import kill_both, stopped
from tests.support.waiting import PATIENCE_S, wait_until

SERVER_ON_A_PORT = (
    "import http.server, sys\n"
    "server = http.server.HTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler)\n"
    "print('serving on', server.server_port, flush=True); server.serve_forever()"
)


def wait(server: Server, *job_ids: str, **conditions: Any) -> dict[str, Any]:
    return server.call("wait_for_job", job_ids=list(job_ids), **conditions)


def test_a_wait_ends_with_the_job_and_brings_its_output(server: Server, gate: Gate) -> None:
    job_id = server.execute(f"echo before; {gate.pause}; echo after; exit 3")
    gate.wait_until_reached()
    server.wait_until_printed(job_id, "before")
    first = server.output(job_id)
    threading.Thread(target=gate.open).start()
    answer = wait(server, job_id, since=first["cursor"])
    assert answer["met"]
    (job,) = answer["jobs"]
    assert (job["condition"], job["status"], job["exit_code"]) == ("exit", "failed", 3)
    assert job["stdout"] == "after\n"


def test_a_quick_command_needs_one_round_trip(server: Server) -> None:
    answer = server.call("execute_command", command="echo hi; exit 2", wait_s=20)
    assert (answer["status"], answer["exit_code"], answer["stdout"]) == ("failed", 2, "hi\n")


def test_a_slow_command_is_still_running_after_its_wait(server: Server) -> None:
    answers = (
        server.call("execute_command", command="echo started; sleep 1000", wait_s=wait_s)
        for wait_s in (0.5, 2, 30)
    )
    answer = next(answer for answer in answers if answer["stdout"])  # a busy machine takes its time
    assert (answer["status"], answer["stdout"]) == ("running", "started\n")
    assert "exit_code" not in answer


def test_a_pattern_is_found_in_what_comes_and_in_what_was_there(server: Server, gate: Gate) -> None:
    job_id = server.execute(f"echo starting; {gate.pause}; echo 'server ready in 12 ms'; cat")
    gate.wait_until_reached()
    threading.Thread(target=gate.open).start()
    (job,) = wait(server, job_id, pattern=r"ready in \d+ ms")["jobs"]
    assert (job["condition"], job["match"], job["status"]) == ("pattern", "server ready in 12 ms", "running")
    (again,) = wait(server, job_id, pattern="ready", timeout_s=5)["jobs"]
    assert again["condition"] == "pattern"
    later = wait(server, job_id, pattern="ready", since=job["cursor"], timeout_s=0.1)
    assert later["met"] is False


def test_a_prompt_without_a_newline_is_matched_too(server: Server) -> None:
    job_id = server.execute("printf 'Continue? [y/n] '; cat")
    (job,) = wait(server, job_id, pattern=r"\[y/n\]")["jobs"]
    assert job["match"] == "Continue? [y/n] "


def test_a_line_that_comes_in_pieces_is_matched_whole(server: Server, gate: Gate) -> None:
    job_id = server.execute(f"printf 'build suc'; {gate.pause}; echo ceeded; cat")
    gate.wait_until_reached()
    threading.Timer(0.1, gate.open).start()
    (job,) = wait(server, job_id, pattern="build succeeded", timeout_s=20)["jobs"]
    assert job["match"] == "build succeeded"


@pytest.mark.parametrize("pty", [False, True])
def test_a_pattern_matches_what_a_terminal_would_show(server: Server, pty: bool) -> None:
    """The beginning of a line is where its text begins, whatever colours and redrawing come before it."""
    command = r"printf '\033[?2004l\r\033[1mready\033[22m in \033[36m12\033[39m ms\n'; cat"
    answer = server.call(
        "execute_command",
        command=command,
        pty=pty,
        stdin="open",
        wait_s=30,
        until={"pattern": r"^ready in \d+ ms$"},
    )
    assert (answer["met"], answer["match"]) == (True, "ready in 12 ms")
    job_id = server.execute(r"printf '\033[31merror\033[0m: boom\n'; cat", pty=pty)
    answer = wait(server, job_id, pattern="ready", stop_pattern="^error: boom$", timeout_s=30)
    (job,) = answer["jobs"]
    assert (job["condition"], job["match"]) == ("stop_pattern", "error: boom")


def test_an_unfinished_line_is_matched_as_it_is_shown_now(server: Server, gate: Gate) -> None:
    job_id = server.execute(rf"printf '\rdone 10%%'; {gate.pause}; printf '\rdone 100%%'; cat", pty=True)
    gate.wait_until_reached()
    assert not wait(server, job_id, pattern="^done 100%$", timeout_s=0.1)["met"]
    threading.Thread(target=gate.open).start()
    (job,) = wait(server, job_id, pattern="^done 100%$", timeout_s=30)["jobs"]
    assert (job["condition"], job["match"]) == ("pattern", "done 100%")


def test_a_stop_pattern_ends_the_wait_as_a_failure(server: Server) -> None:
    job_id = server.execute("echo 'error: no such module'; echo ready; cat")
    answer = wait(server, job_id, pattern="ready", stop_pattern="^error")
    (job,) = answer["jobs"]
    assert answer["met"] is False
    assert (job["condition"], job["match"]) == ("stop_pattern", "error: no such module")


def test_a_job_that_ends_before_it_is_ready_has_not_met_the_wait(server: Server) -> None:
    job_id = server.execute("echo 'no such module' >&2; exit 1")
    answer = wait(server, job_id, pattern="ready")
    (job,) = answer["jobs"]
    assert answer["met"] is False
    assert (job["condition"], job["status"], job["exit_code"]) == ("exit", "failed", 1)


def test_a_server_is_started_and_ready_in_one_call(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "serve.py"
    script.write_text(SERVER_ON_A_PORT)
    answer = server.call("execute_command", command=f"python3 {script}", until={"port": 0})
    assert (answer["met"], answer["condition"], answer["status"]) == (True, "port", "running")
    assert server.status(answer["job_id"])["status"] == "running"
    again = server.call(
        "execute_command", command=f"python3 {script}", until={"pattern": r"on \d+"}, wait_s=30
    )
    assert again["match"].startswith("serving on ")


def test_a_server_that_crashes_is_not_ready(server: Server) -> None:
    crashed = server.call("execute_command", command="echo starting; exit 3", until={"port": 0})
    assert (crashed["met"], crashed["condition"], crashed["exit_code"]) == (False, "exit", 3)
    broken = server.call(
        "execute_command",
        command="echo 'error: no such module'; sleep 1000",
        until={"pattern": "ready", "stop_pattern": "^error"},
    )
    assert (broken["met"], broken["condition"], broken["status"]) == (False, "stop_pattern", "running")


def test_what_to_wait_for_may_be_text_and_a_bad_one_starts_nothing(start_server: StartServer) -> None:
    server = start_server()
    with pytest.raises(ToolError, match="pattern"):
        server.call("execute_command", command="sleep 1000", until={"pattern": "(unclosed"})
    assert server.call("list_jobs")["jobs"] == []
    answer = server.call("execute_command", command="echo ready; sleep 1000", until='{"pattern": "ready"}')
    assert answer["met"]


@pytest.mark.parametrize("pty", [True, False])
def test_a_call_that_waits_for_the_end_returns_at_a_prompt(server: Server, pty: bool) -> None:
    command = "printf 'Your name: '; read name; echo hello $name"
    started = server.call(
        "execute_command", command=command, pty=pty, stdin=None if pty else "open", wait_s=45
    )
    assert (started["status"], started["waits_for_input"]) == ("running", True)
    assert started["prompt"] == "Your name:"
    answer = wait(server, started["job_id"], timeout_s=45)
    (job,) = answer["jobs"]
    assert (answer["met"], job["condition"], job["waits_for_input"]) == (False, "input", True)
    assert job["prompt"] == "Your name:"


def test_a_prompt_that_the_caller_knows_does_not_end_its_next_wait(server: Server, gate: Gate) -> None:
    job_id = server.execute(
        f"printf 'Your name: '; read name; echo; {gate.pause}; printf 'And yours: '; read name"
    )
    (asking,) = wait(server, job_id, timeout_s=45)["jobs"]
    assert asking["condition"] == "input"
    (known,) = wait(server, job_id, since=asking["cursor"], timeout_s=0.5)["jobs"]
    assert "condition" not in known
    server.call("interact_with_job", job_id=job_id, input="Ada", wait_s=0)
    gate.wait_until_reached()
    threading.Thread(target=gate.open).start()
    (asks_again,) = wait(server, job_id, since=asking["cursor"], timeout_s=45)["jobs"]
    assert (asks_again["condition"], asks_again["prompt"]) == ("input", "And yours:")


def test_a_prompt_that_no_answer_has_told_ends_a_wait_with_a_cursor(server: Server, gate: Gate) -> None:
    job_id = server.execute(f"echo start; {gate.pause}; read name")
    gate.wait_until_reached()
    (busy,) = wait(server, job_id, pattern="start", timeout_s=45)["jobs"]
    assert "waits_for_input" not in busy
    gate.open()
    (asking,) = wait(server, job_id, since=busy["cursor"], timeout_s=45)["jobs"]
    assert (asking["condition"], asking["cursor"]) == ("input", busy["cursor"])
    (known,) = wait(server, job_id, since=busy["cursor"], timeout_s=0.5)["jobs"]
    assert "condition" not in known


def test_a_job_that_cannot_be_typed_into_is_not_waited_for_until_it_asks(start_server: StartServer) -> None:
    server = start_server()
    with pytest.raises(ToolError, match="stdin"):
        server.call("execute_command", command="sleep 1000", stdin="null", until={"for_input": True})
    assert server.call("list_jobs")["jobs"] == []
    job_id = server.execute("sleep 1000", stdin="null")
    with pytest.raises(ToolError, match="its stdin is /dev/null"):
        wait(server, job_id, for_input=True, timeout_s=45)
    asks = server.call("execute_command", command="read name", until={"for_input": True}, wait_s=45)
    assert asks["met"]


def test_a_wait_for_all_jobs_ends_when_one_of_them_asks(server: Server) -> None:
    busy, asking = server.execute("sleep 1000"), server.execute("printf 'Sure? '; read answer")
    answer = wait(server, busy, asking, mode="all", timeout_s=45)
    assert answer["met"] is False
    assert [job.get("condition") for job in answer["jobs"]] == [None, "input"]


def test_literal_text_and_one_stream_only(server: Server) -> None:
    job_id = server.execute("echo 'a.b (c)' >&2; cat")
    (job,) = wait(server, job_id, pattern="a.b (c)", literal=True, stream="stderr")["jobs"]
    assert job["condition"] == "pattern"
    assert not wait(server, job_id, pattern="a.b (c)", literal=True, stream="stdout", timeout_s=0.1)["met"]


def test_a_port_that_a_process_of_the_job_listens_on(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "serve.py"
    script.write_text(SERVER_ON_A_PORT)
    job_id = server.execute(f"python3 {script}")
    (job,) = wait(server, job_id, port=0, timeout_s=30)["jobs"]
    assert job["condition"] == "port"
    port = int(job["match"])
    assert wait(server, job_id, port=port)["jobs"][0]["match"] == str(port)
    assert f"serving on {port}" in wait(server, job_id, pattern="serving on")["jobs"][0]["stdout"]


def test_silence_is_a_condition(server: Server) -> None:
    job_id = server.execute("echo one; sleep 0.2; echo two; sleep 1000")
    (job,) = wait(server, job_id, silence_s=2, timeout_s=20)["jobs"]
    assert (job["condition"], job["stdout"]) == ("silence", "one\ntwo\n")


def test_the_silence_of_a_job_that_has_ended_is_not_what_was_asked_for(server: Server) -> None:
    job_id = server.execute("echo boom; exit 1", wait_s=30)
    for _ in range(2):
        answer = wait(server, job_id, silence_s=0.001, timeout_s=30)
        assert (answer["met"], answer["jobs"][0]["condition"]) == (False, "exit")


def test_a_job_that_waits_for_input_is_seen_with_its_prompt(server: Server) -> None:
    job_id = server.execute("printf 'Your name: '; read name; echo hello $name; cat > /dev/null")
    (job,) = wait(server, job_id, for_input=True, timeout_s=20)["jobs"]
    assert (job["condition"], job["prompt"]) == ("input", "Your name:")
    status = server.status(job_id)
    assert (status["waits_for_input"], status["prompt"]) == (True, "Your name:")
    listed = {each["job_id"]: each for each in server.call("list_jobs", status="running")["jobs"]}
    assert listed[job_id]["waits_for_input"] is True


def test_a_prompt_that_is_still_in_the_pipe_is_seen_too(
    jobs: Jobs, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells that the job waits before its shim has taken in what it asked."""
    monkeypatch.setattr(status, "SHIM_PATIENCE_S", 30.0)
    job_id = jobs.execute(f"{gate.pause}; printf 'Your name: '; read name").id
    gate.wait_until_reached()
    prompts: list[str | None] = []
    looking = threading.Thread(target=lambda: prompts.append(jobs.status(job_id).prompt))
    with stopped(jobs, job_id):
        gate.open()
        wait_until(lambda: prompt.waits_for_input(jobs.context, jobs.store.load(job_id)) == "yes")
        looking.start()
        looking.join(0.5)  # by now it would have answered without it
    looking.join()
    assert prompts == ["Your name:"]


def test_a_job_that_is_busy_does_not_wait_for_input(server: Server) -> None:
    job_id = server.execute("sleep 1000")
    assert not wait(server, job_id, for_input=True, timeout_s=0.3)["met"]
    assert server.status(job_id)["waits_for_input"] is False


def test_the_first_of_several_jobs_or_all_of_them(server: Server, gate: Gate) -> None:
    quick, slow = server.execute("exit 4"), server.execute(f"{gate.pause}; exit 5")
    gate.wait_until_reached()
    first = wait(server, quick, slow)
    assert [job.get("condition") for job in first["jobs"]] == ["exit", None]
    assert not wait(server, quick, slow, mode="all", timeout_s=0.2)["met"]
    gate.open()
    both = wait(server, quick, slow, mode="all")
    assert [job["exit_code"] for job in both["jobs"]] == [4, 5]


def test_a_time_out_is_no_error_and_says_where_to_go_on(server: Server) -> None:
    job_id = server.execute("echo so far; cat")
    server.call("interact_with_job", job_id=job_id, input="x")
    server.wait_until_printed(job_id, "x")
    answer = wait(server, job_id, timeout_s=0.05)
    (job,) = answer["jobs"]
    assert (answer["met"], job["status"], job["stdout"]) == (False, "running", "so far\nx\n")
    assert wait(server, job_id, since=job["cursor"], timeout_s=0.05)["jobs"][0]["stdout"] == ""


def test_a_wait_holds_no_longer_than_the_setting(start_server: StartServer) -> None:
    server = start_server(MCP_BG_MAX_WAIT="0.3")
    job_id = server.execute("sleep 1000")
    began = time.monotonic()
    answer = wait(server, job_id, timeout_s=3600)
    assert (answer["met"], answer["waited_s"]) == (False, 0.3)
    assert time.monotonic() - began < PATIENCE_S
    assert "waited_s" not in wait(server, job_id, timeout_s=0.2)
    assert server.call("execute_command", command="sleep 1000", wait_s=9)["waited_s"] == 0.3


def test_an_until_without_a_condition_is_none(server: Server) -> None:
    for until in ({}, {"for_input": False}, {"pattern": None}):
        answer = server.call("execute_command", command="exit 3", wait_s=30, until=until)
        assert (answer["exit_code"], "met" in answer) == (3, False)


def test_a_lost_job_ends_a_wait_for_what_it_would_print(jobs: Jobs, gate: Gate) -> None:
    """Its processes live, and nobody records what they print."""
    job_id = jobs.execute(f"{gate.reach}; sleep 1000").id
    gate.wait_until_reached()
    kill_both(jobs, job_id)
    (waited,) = jobs.wait_for([job_id], pattern="ready", timeout_s=40)
    assert waited.came is not None
    assert (waited.came.condition, waited.met, waited.status.left_running > 0) == ("exit", False, True)
    sweep.kill(job_id)


def test_a_lost_job_ends_a_wait(jobs: Jobs, gate: Gate) -> None:
    job_id = jobs.execute(f"{gate.reach}; sleep 1000").id
    gate.wait_until_reached()
    threading.Timer(0.1, kill_both, (jobs, job_id)).start()
    (waited,) = jobs.wait([job_id], Conditions(), timeout_s=20)
    assert waited.came is not None
    assert waited.came.condition == "exit"
    sweep.kill(job_id)


def test_a_cancelled_wait_is_gone_and_the_job_is_not(jobs: Jobs) -> None:
    """Its thread, its sockets: nothing of it is left."""
    job_id = jobs.execute("cat").id
    cancellation = Cancellation()
    before = len(list(Path("/proc/self/fd").iterdir()))
    waiting = threading.Thread(
        target=jobs.wait,
        args=([job_id], Conditions()),
        kwargs={"timeout_s": 40, "cancellation": cancellation},
    )
    waiting.start()
    cancellation.cancel()
    waiting.join(20)
    assert not waiting.is_alive()
    wait_until(lambda: len(list(Path("/proc/self/fd").iterdir())) <= before, "its sockets are closed")
    cancellation.close()
    assert jobs.status(job_id).descendants >= 1


def test_progress_is_told_with_the_last_line(jobs: Jobs) -> None:
    job_id = jobs.execute("echo compiling; sleep 1000", name="build").id
    jobs.wait_for([job_id], pattern="compiling")
    told: list[tuple[float, str]] = []

    def tell(passed: float, news: str) -> None:
        told.append((passed, news))
        cancellation.cancel()

    with contextlib.closing(Cancellation()) as cancellation:
        jobs.wait([job_id], Conditions(), timeout_s=40, cancellation=cancellation, tell=tell)
    assert [news for _, news in told] == ["build: compiling"]
    assert told[0][0] >= 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"job_ids": []}, "1 to 100"),
        ({"job_ids": ["nope"]}, "Job nope not found"),
        ({"pattern": "(unclosed"}, "pattern"),
        ({"pattern": r"(a)\1"}, "back-reference"),
        ({"port": 70000}, "port"),
        ({"since": "not a cursor"}, "cursor"),
        ({"mode": "some"}, "any, all"),
    ],
)
def test_a_bad_wait_is_a_clear_error(server: Server, arguments: dict[str, Any], words: str) -> None:
    job_id = server.execute("true")
    with pytest.raises(ToolError, match=words):
        server.call("wait_for_job", **{"job_ids": [job_id], **arguments})
