"""Ids: a job is called by its id, by how the id begins, or by its name; and never another one is meant."""

import json
from typing import Any

import pytest

from tests.support.server import Server, StartServer, ToolError


@pytest.fixture
def server(start_server: StartServer) -> Server:
    """With a home of its own: the names of other tests are not ours."""
    return start_server(MCP_BG_MAX_JOBS="100", MCP_BG_NEWS="off")


def test_every_tool_takes_a_name_and_the_beginning_of_an_id(server: Server) -> None:
    job_id = server.execute("echo ready; cat", name="dev")
    for word in ("dev", job_id[:4], job_id[:8], f"{job_id[:8]}…"):
        waited = server.call("wait_for_job", job_ids=[word], pattern="ready", since={word: "0"}, timeout_s=30)
        assert waited["met"]
        assert waited["jobs"][0]["job_id"] == job_id
        assert server.call("get_job_status", job_id=word)["status"] == "running"
        assert server.call("get_job_output", job_id=word)["stdout"].startswith("ready\n")
        assert server.call("tail_job_output", job_id=word)["stdout"]
        assert server.call("interact_with_job", job_id=word, input="hi")["stdout"] == "hi\n"
        assert server.call("search_job_output", pattern="ready", job_ids=[word])["count"] == 1
        assert server.call("job_events", job_ids=[word])["events"]
    assert server.call("kill_job", job_id="dev")["status"] == "killed"


def test_a_name_means_the_job_that_runs_and_else_the_newest(server: Server) -> None:
    running = server.execute("sleep 1000", name="dev")
    ended = [server.call("execute_command", command="true", name="dev", wait_s=30) for _ in range(2)]
    assert server.call("get_job_status", job_id="dev")["status"] == "running"
    assert server.call("kill_job", job_id="dev")["status"] == "killed"
    assert server.status(running)["status"] == "killed"
    newest = server.call("wait_for_job", job_ids=["dev"])["jobs"][0]["job_id"]
    assert newest == ended[-1]["job_id"]


def test_of_two_running_jobs_of_a_name_none_is_guessed(server: Server) -> None:
    ids = [server.execute("sleep 1000", name="dev") for _ in range(2)]
    with pytest.raises(ToolError, match="2 running jobs") as told:
        server.call("kill_job", job_id="dev")
    assert all(job_id in str(told.value) for job_id in ids)
    assert [server.status(job_id)["status"] for job_id in ids] == ["running", "running"]


def test_less_than_four_characters_or_an_unknown_name_are_no_job(server: Server) -> None:
    job_id = server.execute("sleep 1000")
    for word in (job_id[:3], "nope", ""):
        with pytest.raises(ToolError, match=f"Job {word} not found"):
            server.call("get_job_status", job_id=word)
        assert server.call("kill_job", job_id=word)["status"] == "not_found"
    assert server.status(job_id)["status"] == "running"


@pytest.mark.parametrize(
    "given",
    [
        lambda job_id: {"job_id": job_id},
        lambda job_id: {"job_ids": job_id},
        lambda job_id: {"job_id": [job_id]},
        lambda job_id: {"job_ids": json.dumps([job_id])},
        lambda job_id: {"job_ids": [job_id], "since": json.dumps({job_id: "0"})},
    ],
)
def test_one_id_is_a_list_of_one_and_json_text_is_what_it_says(server: Server, given: Any) -> None:
    job_id = server.execute("exit 3")
    waited = server.call("wait_for_job", timeout_s=30, **given(job_id))
    assert waited["jobs"][0]["exit_code"] == 3


def test_arguments_may_come_as_json_text(server: Server) -> None:
    answer = server.call(
        "execute_command",
        command="echo $WHO",
        env='{"WHO": "me"}',
        options='{"memory": "1GB"}',
        watch="m.",
        wait_s=30,
    )
    assert answer["stdout"] == "me\n"
    status = server.call("get_job_status", job_ids=[answer["job_id"]])
    assert status["limits"]["memory"] == 1 << 30
    found = server.call("search_job_output", pattern="me", job_id=answer["job_id"])
    assert found["count"] == 1


def test_text_that_is_no_json_stays_text(server: Server) -> None:
    with pytest.raises(ToolError, match=r"options=.*give"):
        server.call("execute_command", command="true", options="{not json")
    answer = server.call("execute_command", command="echo '{\"a\": 1}'", wait_s=30)
    assert answer["stdout"] == '{"a": 1}\n'
