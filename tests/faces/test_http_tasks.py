"""Tasks over HTTP: any server can be asked, with the rights that a token has."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.http_server import META, HttpServer, Message, Response, stateless
from tests.support.requires import linux_only
from tests.support.waiting import wait_until

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
KNOWS_TASKS = {**META, CAPABILITIES: {"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}}}
HEADER_MISMATCH = -32020


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[HttpServer]]:
    """Two of one home."""
    home: Path = tmp_path_factory.mktemp("tasks") / "home"
    with (
        HttpServer(home, MCP_BG_TASK_AFTER="0") as first,
        HttpServer(home, MCP_BG_TASK_AFTER="0") as second,
    ):
        second.token = first.token
        yield [first, second]
    end_all_jobs(home)


def send(server: HttpServer, method: str, *, named: str, token: str | None = None, **params: Any) -> Response:
    message, headers = stateless(method, **params, _meta=KNOWS_TASKS)
    headers = [each for each in headers if each[0] != "Mcp-Name"]
    return server.post(message, *headers, ("Mcp-Name", named), token=token)


def result(response: Response) -> Message:
    assert response.status == 200, response
    answer: Message = response.json if response.body.startswith(b"{") else response.events[-1]
    return dict(answer["result"])


def started(server: HttpServer, command: str, **arguments: Any) -> str:
    call = {"command": command, "wait_s": 30, **arguments}
    task = result(send(server, "tools/call", named="execute_command", name="execute_command", arguments=call))
    assert task["resultType"] == "task"
    return str(task["taskId"])


def got(server: HttpServer, task_id: str) -> Message:
    return result(send(server, "tasks/get", named=task_id, taskId=task_id))


def test_another_server_tells_of_the_end(servers: list[HttpServer], gate: Gate) -> None:
    first, second = servers
    task_id = started(first, f"{gate.pause}; exit 3")
    gate.wait_until_reached()
    gate.open()
    wait_until(lambda: got(second, task_id)["status"] == "completed")
    assert got(first, task_id)["result"]["structuredContent"]["exit_code"] == 3


@linux_only
def test_who_may_not_type_may_not_answer_a_prompt(servers: list[HttpServer], gate: Gate) -> None:
    first, second = servers
    reader = first.add_token("reader", "--scope", "read")
    task_id = started(first, f"{gate.pause}; printf 'Go on? '; read answer; exit $answer", stdin="open")
    gate.wait_until_reached()
    gate.open()
    wait_until(lambda: got(first, task_id)["status"] == "input_required")
    (key,) = got(first, task_id)["inputRequests"]
    response = {key: {"action": "accept", "content": {"input": "7"}}}
    update: dict[str, Any] = {"named": task_id, "taskId": task_id, "inputResponses": response}
    assert send(first, "tasks/update", token=reader, **update).status == 403
    assert got(first, task_id)["status"] == "input_required"
    assert result(send(second, "tasks/update", **update))["resultType"] == "complete"
    wait_until(lambda: got(second, task_id)["status"] == "completed")
    assert got(second, task_id)["result"]["structuredContent"]["exit_code"] == 7


def test_who_may_not_end_a_job_may_not_end_it_with_its_wait(servers: list[HttpServer]) -> None:
    first, _ = servers
    starter = first.add_token("starter", "--scope", "read", "--scope", "run")
    task_id = started(first, "sleep 60", options={"kill_on_cancel": True})
    refused = send(first, "tasks/cancel", named=task_id, taskId=task_id, token=starter)
    assert refused.status == 400
    assert "kill" in refused.json["error"]["message"]
    assert got(first, task_id)["status"] == "working"
    result(send(first, "tasks/cancel", named=task_id, taskId=task_id))
    assert first.call("get_job_status", job_id=task_id)["status"] == "killed"


def test_who_may_only_look_cancels_waits_for_jobs_and_not_those_of_a_start(servers: list[HttpServer]) -> None:
    """As with the two tools that wait."""
    first, _ = servers
    observer = first.add_token("observer", "--scope", "read")
    of_start = started(first, "sleep 60")
    call = {"job_ids": [of_start], "timeout_s": 30}
    waiting = send(
        first, "tools/call", named="wait_for_job", name="wait_for_job", arguments=call, token=observer
    )
    of_wait = result(waiting)["taskId"]
    refused = send(first, "tasks/cancel", named=of_start, taskId=of_start, token=observer)
    assert refused.status == 400
    assert "scope run" in refused.json["error"]["message"]
    result(send(first, "tasks/cancel", named=of_wait, taskId=of_wait, token=observer))
    assert [got(first, task_id)["status"] for task_id in (of_start, of_wait)] == ["working", "cancelled"]
    first.call("kill_job", job_id=of_start)


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_the_header_names_the_task(servers: list[HttpServer], method: str) -> None:
    first, _ = servers
    task_id = started(first, "sleep 60", options={"kill_on_cancel": True})
    answer = send(first, method, named="another", taskId=task_id, inputResponses={})
    assert (answer.status, answer.json["error"]["code"]) == (400, HEADER_MISMATCH)
    result(send(first, "tasks/cancel", named=task_id, taskId=task_id))
