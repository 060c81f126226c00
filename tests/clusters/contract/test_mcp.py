"""The same over MCP: a server on stdio, and the tools as a model calls them."""

import pytest

from tests.clusters.target import Target
from tests.support.gate import Gate
from tests.support.searching import matches
from tests.support.server import Server, StartServer, ToolError


def test_a_command_and_its_end_are_one_call(server: Server, target: Target) -> None:
    done = target.executed(server, "echo out; echo err >&2; exit 7", wait_s=30)
    assert (done["status"], done["exit_code"]) == ("failed", 7)
    assert (done["stdout"], done["stderr"]) == ("out\n", "err\n")
    assert done.get("target") == target.name


def test_a_session_of_all_tools(server: Server, target: Target) -> None:
    command = "printf 'name? '; read name; echo hello $name; seq 1 300; cat"
    job_id = target.executed(server, command, name="session")["job_id"]
    (asked,) = server.call("wait_for_job", job_ids=[job_id], for_input=True, timeout_s=30)["jobs"]
    assert (asked["condition"], asked["prompt"]) == ("input", "name?")
    server.call("interact_with_job", job_id=job_id, input="ann", wait_s=1)
    server.wait_until_printed(job_id, "300")
    status = server.status(job_id)
    assert (status["status"], status.get("target")) == ("running", target.name)
    assert server.call("tail_job_output", job_id=job_id, lines=2)["stdout"] == "299\n300\n"
    assert server.output(job_id)["stdout"].startswith("name? hello ann\n1\n2\n")
    found = matches(server.call("search_job_output", pattern="hello (ann|bob)$", job_ids=[job_id]))
    assert [match["job_id"] for match in found] == [job_id]
    assert server.call("list_jobs")["jobs"][0]["job_id"] == job_id
    server.talk(job_id, "typed", "typed\n")
    assert server.call("kill_job", job_id=job_id)["status"] == "killed"
    assert server.status("session")["status"] == "killed"
    events = server.call("job_events", job_ids=[job_id], kinds=["ended"], since="0.0", timeout_s=30)["events"]
    assert [event["cause"] for event in events] == ["killed"]


def test_a_screen_is_shown(server: Server, target: Target) -> None:
    done = target.executed(server, r"printf '\033[?1049h\033[H\033[2J\033[3;4Hcell'", pty=True, wait_s=30)
    assert done["screen"] == "\n\n   cell"


def test_a_job_outlives_the_server_that_started_it(
    start_server: StartServer, target: Target, gate: Gate
) -> None:
    first = start_server()
    job_id = target.executed(first, f"echo before; {gate.pause}; cat; exit 7")["job_id"]
    gate.wait_until_reached()
    target.wait_until_started(job_id)
    first.kill()
    gate.open()
    second = start_server()
    second.talk(job_id, "to the second", "to the second\n")
    second.call("interact_with_job", job_id=job_id, input="", add_newline=False, close_stdin=True)
    (ended,) = second.call("wait_for_job", job_ids=[job_id], timeout_s=30)["jobs"]
    assert (ended["status"], ended["exit_code"]) == ("failed", 7)
    assert second.output(job_id)["stdout"] == "before\nto the second\n"


def test_a_target_that_is_not_in_the_file_is_refused(server: Server) -> None:
    """A model cannot invent hosts; without targets there is no such argument."""
    with pytest.raises(ToolError, match="target"):
        server.call("execute_command", command="true", target="nowhere")
