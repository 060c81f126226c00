"""Waits that become tasks: of the extension, where the server decides, and of the handshake of 2025-11-25."""

import contextlib
import fcntl
import gc
import json
import os
import shutil
import signal
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Jobs, Typed, open_jobs, prompt
from bgjob.api.context import open_context
from bgjob.api.kept_waits import KeptWait, keep_wait, look_at_wait
from bgjob.home import jobdir, sessions, waits
from bgjob.mcp.caller import Caller
from bgjob.mcp.fields import timestamp
from bgjob.mcp.server import SERVER
from bgjob.mcp.service import Service
from bgjob.protocol.connection import Connection
from bgjob.protocol.request import Request
from bgjob.store.store import Store
from tests.support.raw_client import Message, RawClient
from tests.support.requires import linux_only
from tests.support.stores import jobs_on, running_job, write_outcome
from tests.support.waiting import wait_until

TASKS = "io.modelcontextprotocol/tasks"
KNOWS_TASKS: Mapping[str, Any] = {"extensions": {TASKS: {}}}
ASKS_TOO = {**KNOWS_TASKS, "elicitation": {"form": {}}}
MISSING_CAPABILITY, INVALID_PARAMS, METHOD_NOT_FOUND = -32021, -32602, -32601
SESSION = "the session"
NO_TASK = "00000000-0000-4000-8000-000000000000"

Start = Callable[..., "TaskClient"]


class Gate:
    """A lock that we hold: commands wait for it until we let it go."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self.wait = f"flock -s {path} true"

    def open(self) -> None:
        self._file.close()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.open()


def alone(capabilities: Mapping[str, Any], **params: Any) -> Message:
    """Params of the stateless revision."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    return {**params, "_meta": meta}


class TaskClient(RawClient):
    """Of the stateless revision, with these capabilities in each request."""

    capabilities: Mapping[str, Any] = KNOWS_TASKS

    def alone(self, **params: Any) -> Message:
        return alone(self.capabilities, **params)

    def result(self, method: str, **params: Any) -> Message:
        answer = self.ask(method, self.alone(**params))
        assert "result" in answer, answer
        return dict(answer["result"])

    def error(self, method: str, **params: Any) -> Message:
        return dict(self.ask(method, self.alone(**params))["error"])

    def tool(self, name: str, /, **arguments: Any) -> Message:
        return self.result("tools/call", name=name, arguments=arguments)

    def task(self, name: str, /, **arguments: Any) -> str:
        """Its id: the call must have become one."""
        result = self.tool(name, **arguments)
        assert result["resultType"] == "task", result
        return str(result["taskId"])

    def get(self, task_id: str) -> Message:
        return self.result("tasks/get", taskId=task_id)

    def until(self, task_id: str, *statuses: str) -> Message:
        found: list[Message] = []

        def stands_so() -> bool:
            found.append(self.get(task_id))
            return found[-1]["status"] in statuses

        wait_until(stands_so)
        return found[-1]

    def answer(self, task_id: str) -> Message:
        """What the call would have answered, once the task is completed."""
        return dict(self.until(task_id, "completed")["result"]["structuredContent"])


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Any number of servers of one session, whose calls become tasks at once."""
    with contextlib.ExitStack() as started:

        def client(**environment: str) -> TaskClient:
            own = {"MCP_BG_TASK_AFTER": "0", "CLAUDE_CODE_SESSION_ID": SESSION, **environment}
            client = TaskClient(home, **own)
            started.push(client)
            return client

        yield client


@pytest.fixture
def client(start: Start) -> TaskClient:
    return start()


class TestWhatBecomesATask:
    def test_the_server_says_that_it_knows_tasks(self, client: TaskClient) -> None:
        capabilities = client.result("server/discover")["capabilities"]
        assert capabilities["extensions"] == {TASKS: {}}
        assert "tasks" not in capabilities

    def test_a_start_with_a_wait(self, client: TaskClient, gate: Gate) -> None:
        created = client.tool("execute_command", command=f"{gate.wait}; exit 3", wait_s=30)
        assert created["resultType"] == "task"
        assert created["status"] == "working"
        assert created["ttlMs"] is None
        assert created["pollIntervalMs"] == 2000
        assert "result" not in created
        gate.open()
        answer = client.answer(created["taskId"])
        assert answer["job_id"] == created["taskId"]
        assert (answer["status"], answer["exit_code"]) == ("failed", 3)

    def test_a_wait_for_a_job_that_runs(self, client: TaskClient, gate: Gate) -> None:
        job_id = client.tool("execute_command", command=f"echo first; {gate.wait}; echo last")[
            "structuredContent"
        ]["job_id"]
        assert client.task("wait_for_job", job_ids=[job_id], timeout_s=30) == job_id
        gate.open()
        (job,) = client.answer(job_id)["jobs"]
        assert (job["condition"], job["exit_code"], job["stdout"]) == ("exit", 0, "first\nlast\n")

    def test_until(self, client: TaskClient, gate: Gate) -> None:
        task_id = client.task(
            "execute_command", command=f"{gate.wait}; echo it is ready; cat", until={"pattern": "ready"}
        )
        assert client.get(task_id)["status"] == "working"
        gate.open()
        answer = client.answer(task_id)
        assert (answer["met"], answer["condition"], answer["match"]) == (True, "pattern", "it is ready")
        assert answer["status"] == "running"
        assert task_id.startswith(answer["job_id"])

    def test_the_id_of_a_task_names_its_job(self, client: TaskClient, gate: Gate) -> None:
        task_id = client.task("execute_command", command=gate.wait, until={"pattern": "x"})
        status = client.tool("get_job_status", job_id=task_id)["structuredContent"]
        assert status["status"] == "running"

    def test_several_jobs(self, client: TaskClient, gate: Gate) -> None:
        ids = [
            client.tool("execute_command", command=f"{gate.wait}; exit {code}")["structuredContent"]["job_id"]
            for code in (1, 2)
        ]
        task_id = client.task("wait_for_job", job_ids=ids, mode="all", timeout_s=40)
        assert task_id not in ids
        gate.open()
        assert [job["exit_code"] for job in client.answer(task_id)["jobs"]] == [1, 2]

    def test_its_answer_has_the_size_that_was_asked_for(self, client: TaskClient, gate: Gate) -> None:
        command = f"{gate.wait}; seq 100000"
        task_id = client.task("execute_command", command=command, wait_s=40, max_tokens=100)
        gate.open()
        answer = client.answer(task_id)
        assert len(answer["stdout"]) < 1000
        assert answer["stdout_left_out_bytes"] > 500_000

    def test_a_start_without_a_wait_does_not(self, client: TaskClient, gate: Gate) -> None:
        started = client.tool("execute_command", command=gate.wait)
        assert started["resultType"] == "complete"
        assert started["structuredContent"]["status"] == "running"

    def test_what_is_over_in_time_does_not(self, start: Start) -> None:
        patient = start(MCP_BG_TASK_AFTER="40")
        ended = patient.tool("execute_command", command="exit 3", wait_s=45)
        assert ended["resultType"] == "complete"
        assert ended["structuredContent"]["exit_code"] == 3

    def test_a_wait_that_is_shorter_does_not(self, start: Start, gate: Gate) -> None:
        patient = start(MCP_BG_TASK_AFTER="1")
        answer = patient.tool("execute_command", command=gate.wait, wait_s=0.5)
        assert answer["structuredContent"]["status"] == "running"

    def test_a_client_that_does_not_know_tasks_never_sees_one(self, client: TaskClient, gate: Gate) -> None:
        client.capabilities = {}
        answer = client.tool("execute_command", command=f"sleep 0.2; {gate.wait}", wait_s=1)
        assert answer["resultType"] == "complete"
        assert answer["structuredContent"]["status"] == "running"
        error = client.error("tasks/get", taskId=NO_TASK)
        assert error["code"] == MISSING_CAPABILITY
        assert error["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}

    def test_a_client_of_the_handshake_that_declares_the_extension_never_sees_one(
        self, home: Path, gate: Gate
    ) -> None:
        with RawClient(home, MCP_BG_TASK_AFTER="0") as old:
            hello = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "old", "version": "1"}}
            old.ask("initialize", {**hello, "capabilities": KNOWS_TASKS})
            answer = old.call("execute_command", {"command": gate.wait, "wait_s": 0.5})
            assert answer["structuredContent"]["status"] == "running"
            assert old.ask("tasks/get", {"taskId": NO_TASK})["error"]["code"] == METHOD_NOT_FOUND


ADDED = ("deadline_since_boot_s", "boot_id")
"""What records of older versions lack."""


class TestHowLong:
    def test_a_model_that_asks_for_no_longer_than_a_call_is_told_of_the_end(
        self, start: Start, home: Path, gate: Gate
    ) -> None:
        client = start(MCP_BG_MAX_WAIT="0.3")
        task_id = client.task("execute_command", command=gate.wait, wait_s=0.2)
        wait = waits.read(str(home), task_id)
        assert wait is not None
        assert wait["deadline"] is None
        gate.open()
        assert client.answer(task_id)["exit_code"] == 0

    def test_one_that_says_how_much_longer_is_told_when_that_time_is_up(
        self, start: Start, gate: Gate
    ) -> None:
        client = start(MCP_BG_MAX_WAIT="0.1")
        task_id = client.task("execute_command", command=gate.wait, wait_s=0.3)
        assert client.answer(task_id)["status"] == "running"


def set_clock_after(home: Path, task_id: str, seconds: float, **changed: Any) -> None:
    """As if the machine's clock were set by so much since the task began: what it says is in its record."""
    record = {**(waits.read(str(home), task_id) or {}), **changed}
    record["deadline"] -= seconds
    jobdir.write_record(f"{waits.path_of(str(home), task_id)}/{waits.WAIT}", record)


class TestItsDeadline:
    @pytest.mark.parametrize("seconds", [7200.0, -7200.0])
    def test_does_not_move_when_the_clock_is_set(
        self, start: Start, home: Path, gate: Gate, seconds: float
    ) -> None:
        client = start(MCP_BG_MAX_WAIT="0.1")
        lasts = client.task("execute_command", command=gate.wait, wait_s=3600)
        is_up = client.task("execute_command", command=gate.wait, wait_s=0.2)
        for task_id in (lasts, is_up):
            set_clock_after(home, task_id, seconds)
        assert client.get(lasts)["status"] == "working"
        assert client.answer(is_up)["status"] == "running"
        gate.open()
        assert client.answer(lasts)["exit_code"] == 0

    @pytest.mark.parametrize("changed", [{"boot_id": "another"}, {"boot_id": None}])
    def test_is_that_of_the_wall_clock_after_a_boot(
        self, start: Start, home: Path, gate: Gate, changed: dict[str, Any]
    ) -> None:
        client = start(MCP_BG_MAX_WAIT="0.1")
        task_id = client.task("execute_command", command=gate.wait, wait_s=3600)
        set_clock_after(home, task_id, 0.0, **changed)
        assert client.get(task_id)["status"] == "working"
        set_clock_after(home, task_id, 7200.0, **changed)
        assert client.answer(task_id)["status"] == "running"

    def test_so_is_that_of_a_task_of_an_older_version(self, start: Start, home: Path, gate: Gate) -> None:
        client = start(MCP_BG_MAX_WAIT="0.1")
        task_id = client.task("execute_command", command=gate.wait, wait_s=3600)
        path = Path(waits.path_of(str(home), task_id), waits.WAIT)
        record = json.loads(path.read_text())
        jobdir.write_record(str(path), {name: record[name] for name in record if name not in ADDED})
        assert client.get(task_id)["status"] == "working"
        set_clock_after(home, task_id, 7200.0)
        assert client.answer(task_id)["status"] == "running"


class TestAnyServer:
    def test_a_task_survives_its_server(self, start: Start, gate: Gate) -> None:
        first = start()
        task_id = first.task("execute_command", command=f"{gate.wait}; exit 5", wait_s=30)
        first.process.kill()
        first.process.wait()
        gate.open()
        assert start().answer(task_id)["exit_code"] == 5

    def test_what_came_true_while_nobody_listened_is_told(self, start: Start, jobs: Jobs, gate: Gate) -> None:
        first = start()
        command = f"{gate.wait}; echo ready; echo and more; exit 4"
        task_id = first.task("execute_command", command=command, until={"pattern": "ready"})
        first.process.kill()
        first.process.wait()
        gate.open()
        jobs.wait_for([task_id.partition(".")[0]])
        answer = start().answer(task_id)
        assert (answer["met"], answer["match"]) == (True, "ready")

    def test_a_silence_while_nobody_listened_is_told(self, start: Start, jobs: Jobs, tmp_path: Path) -> None:
        first, later = start(), Gate(tmp_path / "later")
        command = f"echo one; {later.wait}; echo two; sleep 60"
        task_id = first.task("execute_command", command=command, until={"silence_s": 2})
        first.process.kill()
        first.process.wait()
        job_id = task_id.partition(".")[0]
        wait_until(lambda: (jobs.status(job_id).idle_s or 0) > 2.5)
        later.open()
        jobs.wait_for([job_id], pattern="two")
        answer = start().answer(task_id)
        assert (answer["met"], answer["condition"]) == (True, "silence")
        jobs.kill(job_id)

    def test_a_silence_between_two_looks_of_one_server_is_told(
        self, client: TaskClient, jobs: Jobs, gate: Gate
    ) -> None:
        command = f"echo one; {gate.wait}; while echo two; do sleep 0.1; done"
        task_id = client.task("execute_command", command=command, until={"silence_s": 2})
        client.get(task_id)
        job_id = task_id.partition(".")[0]
        wait_until(lambda: (jobs.status(job_id).idle_s or 0) > 2.5)
        gate.open()
        jobs.wait_for([job_id], pattern="two")
        answer = client.answer(task_id)
        assert (answer["met"], answer["condition"]) == (True, "silence")
        jobs.kill(job_id)

    @linux_only
    def test_a_prompt_that_somebody_answered_while_nobody_listened_is_told(
        self, start: Start, jobs: Jobs, gate: Gate
    ) -> None:
        first = start()
        command = f"{gate.wait}; {ASKS.format(then='sleep 60')}"
        task_id = first.task("execute_command", command=command, until={"for_input": True})
        first.process.kill()
        first.process.wait()
        gate.open()
        job_id = task_id.partition(".")[0]
        wait_until(lambda: bool(jobs.events(job_ids=[job_id], kinds=["input"]).events))
        jobs.interact(job_id, Typed("yes"), wait_s=0)
        jobs.wait_for([job_id], pattern="got yes")
        answer = start().answer(task_id)
        assert (answer["met"], answer["condition"]) == (True, "input")
        jobs.kill(job_id)

    def test_how_it_ended_does_not_change(self, start: Start, jobs: Jobs, gate: Gate, tmp_path: Path) -> None:
        first, second, ready = start(), start(), Gate(tmp_path / "ready")
        command = f"{ready.wait}; echo ready; {gate.wait}; echo more; exit 4"
        task_id = first.task("execute_command", command=command, until={"pattern": "ready"})
        ready.open()
        before = first.until(task_id, "completed")
        gate.open()
        jobs.wait_for([task_id.partition(".")[0]])
        assert second.get(task_id)["result"] == before["result"]
        assert first.get(task_id)["lastUpdatedAt"] == before["lastUpdatedAt"]

    def test_a_second_wait_for_the_same_job_is_another_task(self, client: TaskClient, gate: Gate) -> None:
        task_id = client.task("execute_command", command=gate.wait, wait_s=30)
        other = client.task("wait_for_job", job_ids=[task_id], timeout_s=30)
        assert other != task_id
        gate.open()
        assert client.answer(other)["jobs"][0]["job_id"] == task_id
        assert client.answer(task_id)["job_id"] == task_id

    def test_a_job_that_was_removed(self, client: TaskClient, jobs: Jobs, gate: Gate) -> None:
        task_id = client.task("execute_command", command=gate.wait, wait_s=30)
        gate.open()
        jobs.wait_for([task_id])
        wait_until(lambda: not jobs.has_shim(task_id))
        shutil.rmtree(jobs.directory(task_id))
        result = client.until(task_id, "completed")["result"]
        assert result["isError"] is True
        assert "not found" in result["content"][0]["text"]

    @pytest.mark.parametrize("task_id", [NO_TASK, "", "../jobs", "x" * 5000, "\u202e", None, 7])
    @pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
    def test_no_such_task(self, client: TaskClient, method: str, task_id: object) -> None:
        error = client.error(method, taskId=task_id, inputResponses={})
        assert error["code"] == INVALID_PARAMS
        assert len(error["message"]) < 500


class TestCancel:
    def test_ends_the_wait_and_leaves_the_job_alone(self, client: TaskClient, gate: Gate) -> None:
        task_id = client.task("execute_command", command=f"{gate.wait}; echo done", wait_s=30)
        assert client.result("tasks/cancel", taskId=task_id)["resultType"] == "complete"
        assert client.get(task_id)["status"] == "cancelled"
        assert client.tool("get_job_status", job_id=task_id)["structuredContent"]["status"] == "running"
        gate.open()
        assert client.get(task_id)["status"] == "cancelled"
        client.result("tasks/cancel", taskId=task_id)

    def test_ends_the_job_if_that_was_asked_for(self, client: TaskClient, gate: Gate) -> None:
        task_id = client.task(
            "execute_command", command=gate.wait, wait_s=30, options={"kill_on_cancel": True}
        )
        client.result("tasks/cancel", taskId=task_id)
        assert client.get(task_id)["status"] == "cancelled"
        assert client.tool("get_job_status", job_id=task_id)["structuredContent"]["status"] == "killed"

    def test_but_not_a_job_that_the_call_did_not_start(
        self, start: Start, client: TaskClient, gate: Gate
    ) -> None:
        other = start(CLAUDE_CODE_SESSION_ID="another session")
        job_id = other.tool("execute_command", command=gate.wait, name="dev")["structuredContent"]["job_id"]
        reused = {"name": "dev", "if_running": "reuse", "options": {"kill_on_cancel": True}}
        task_id = client.task("execute_command", command=gate.wait, wait_s=30, **reused)
        client.result("tasks/cancel", taskId=task_id)
        assert client.tool("get_job_status", job_id=job_id)["structuredContent"]["status"] == "running"

    def test_after_the_end_it_changes_nothing(self, client: TaskClient, gate: Gate) -> None:
        task_id = client.task("execute_command", command=f"{gate.wait}; exit 3", wait_s=30)
        gate.open()
        client.answer(task_id)
        client.result("tasks/cancel", taskId=task_id)
        assert client.get(task_id)["status"] == "completed"

    def test_a_cancelled_call_leaves_no_task(self, start: Start, home: Path, gate: Gate) -> None:
        client = start(MCP_BG_TASK_AFTER="40")
        call = client.send(
            "tools/call",
            client.alone(name="execute_command", arguments={"command": gate.wait, "wait_s": 45}),
        )
        wait_until(lambda: len(list((home / "jobs").glob("*/run.json"))) == 1)
        client.write(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}' % call)
        client.result("server/discover")
        assert not (home / "waits").exists()


ASKS = "printf 'Delete it? '; read answer; echo \"got $answer\"; {then}"


@linux_only
class TestPrompts:
    def start(self, client: TaskClient, gate: Gate, then: str = "exit 6") -> str:
        client.capabilities = ASKS_TOO
        return self.asked_as_task(client, gate, ASKS.format(then=then))

    def asked_as_task(self, client: TaskClient, gate: Gate, command: str, **how: Any) -> str:
        """A call that finds the prompt there already becomes no task: it asks only then."""
        command = f"{gate.wait}; {command}"
        task_id = client.task("execute_command", command=command, wait_s=30, stdin="open", **how)
        gate.open()
        return task_id

    def test_a_client_that_can_ask_is_asked(self, client: TaskClient, gate: Gate) -> None:
        task_id = self.start(client, gate)
        task = client.until(task_id, "input_required")
        ((key, request),) = task["inputRequests"].items()
        assert request["method"] == "elicitation/create"
        assert "Delete it?" in request["params"]["message"]
        assert request["params"]["requestedSchema"]["required"] == ["input"]
        assert client.get(task_id)["inputRequests"].keys() == {key}
        response = {key: {"action": "accept", "content": {"input": "yes"}}}
        acknowledged = client.result("tasks/update", taskId=task_id, inputResponses=response)
        assert acknowledged.keys() == {"resultType", "_meta"}
        answer = client.answer(task_id)
        assert (answer["exit_code"], answer["stdout"]) == (6, "Delete it? got yes\n")

    def test_from_any_server_and_each_prompt_once(self, start: Start, gate: Gate) -> None:
        first = start()
        task_id = self.start(first, gate, then=ASKS.format(then="exit 0"))
        (key,) = first.until(task_id, "input_required")["inputRequests"]
        first.process.kill()
        first.process.wait()
        second = start()
        second.capabilities = ASKS_TOO
        response = {key: {"action": "accept", "content": {"input": "1"}}}
        second.result("tasks/update", taskId=task_id, inputResponses=response)
        second.result("tasks/update", taskId=task_id, inputResponses=response)  # a repeat types nothing
        (other,) = second.until(task_id, "input_required")["inputRequests"]
        assert other != key
        response = {other: {"action": "accept", "content": {"input": "2"}}}
        second.result("tasks/update", taskId=task_id, inputResponses=response)
        assert second.answer(task_id)["stdout"] == "Delete it? got 1\nDelete it? got 2\n"

    def test_a_late_response_is_typed_into_no_other_prompt(self, client: TaskClient, gate: Gate) -> None:
        task_id = self.start(client, gate, then=ASKS.format(then="exit 0"))
        (key,) = client.until(task_id, "input_required")["inputRequests"]
        client.tool("interact_with_job", job_id=task_id, input="no")
        (other,) = client.until(task_id, "input_required")["inputRequests"]
        assert other != key
        late = {key: {"action": "accept", "content": {"input": "yes"}}}
        client.result("tasks/update", taskId=task_id, inputResponses=late)
        response = {other: {"action": "accept", "content": {"input": "2"}}}
        client.result("tasks/update", taskId=task_id, inputResponses=response)
        assert client.answer(task_id)["stdout"] == "Delete it? got no\nDelete it? got 2\n"

    def test_a_job_that_asks_without_a_word_is_answered_each_time(
        self, client: TaskClient, gate: Gate
    ) -> None:
        client.capabilities = ASKS_TOO
        task_id = self.asked_as_task(client, gate, 'read a; read b; echo "$a $b"')
        keys = []
        for text in ("one", "two"):
            (key,) = client.until(task_id, "input_required")["inputRequests"]
            keys.append(key)
            response = {key: {"action": "accept", "content": {"input": text}}}
            client.result("tasks/update", taskId=task_id, inputResponses=response)
        assert client.answer(task_id)["stdout"] == "one two\n"
        assert len(set(keys)) == 2

    def test_a_person_who_declines_leaves_it_to_the_model(self, client: TaskClient, gate: Gate) -> None:
        task_id = self.start(client, gate)
        (key,) = client.until(task_id, "input_required")["inputRequests"]
        client.result("tasks/update", taskId=task_id, inputResponses={key: {"action": "decline"}})
        answer = client.answer(task_id)
        assert (answer["status"], answer["prompt"]) == ("running", "Delete it?")
        client.tool("kill_job", job_id=task_id)

    def test_a_client_that_cannot_ask_gets_the_prompt_as_its_answer(
        self, client: TaskClient, gate: Gate
    ) -> None:
        task_id = self.asked_as_task(client, gate, ASKS.format(then=""))
        answer = client.answer(task_id)
        assert (answer["status"], answer["waits_for_input"]) == ("running", True)
        client.tool("kill_job", job_id=task_id)

    def test_nobody_is_asked_for_a_password(self, client: TaskClient, gate: Gate) -> None:
        client.capabilities = ASKS_TOO
        task_id = self.asked_as_task(client, gate, "printf 'Password: '; read answer")
        assert client.answer(task_id)["prompt"] == "Password:"
        client.tool("kill_job", job_id=task_id)

    @pytest.mark.parametrize(
        ("command", "prompt"),
        [
            ("stty -echo; printf 'Contraseña: '; read answer", "Contraseña:"),
            ("read -s -p 'Слово: ' answer", "Слово:"),
            ("script -qc \"bash -c 'read -s -p Wort: answer'\" /dev/null", "Wort:"),
        ],
    )
    def test_nor_for_what_the_terminal_does_not_show(
        self, client: TaskClient, gate: Gate, command: str, prompt: str
    ) -> None:
        client.capabilities = ASKS_TOO
        task_id = self.asked_as_task(client, gate, command, pty=True)
        assert client.until(task_id, "completed", "input_required")["status"] == "completed"
        assert client.answer(task_id)["prompt"] == prompt
        client.tool("kill_job", job_id=task_id)

    @pytest.mark.parametrize(
        "response",
        [
            None,
            [],
            "x",
            1,
            {"action": 1},
            {"action": "accept"},
            {"action": "accept", "content": {"input": 1}},
        ],
    )
    def test_a_response_that_cannot_be_read(self, client: TaskClient, gate: Gate, response: object) -> None:
        task_id = self.start(client, gate)
        (key,) = client.until(task_id, "input_required")["inputRequests"]
        for responses in ({key: response}, *([] if isinstance(response, dict) else [response])):
            error = client.error("tasks/update", taskId=task_id, inputResponses=responses)
            assert error["code"] == INVALID_PARAMS
        assert client.get(task_id)["status"] == "input_required"
        client.tool("kill_job", job_id=task_id)

    def test_a_response_is_taken_though_the_shim_is_busy_at_first(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def ask_busy(*asked: Any) -> Mapping[str, Any]:
            return busy.pop() if busy else ask(*asked)

        ask, busy = prompt._ask_shim, list[Mapping[str, Any]]()
        with contextlib.closing(open_jobs({**os.environ, "BGJOB_HOME": str(home)})) as jobs:
            job = jobs.execute(ASKS.format(then="exit 6"), stdin="open")
            wait = KeptWait(id="", job_ids=[job.id], created_at=time.time(), deadline=None)
            kept = keep_wait(jobs.context, wait)
            look = partial(look_at_wait, jobs.context, kept, asks=True)
            wait_until(lambda: bool(look().asking), "it asks")
            monkeypatch.setattr(prompt, "_ask_shim", ask_busy)
            busy.append({})
            assert look().asking, "it asked a moment ago, and has printed nothing since"
            busy.append({})
            other = open_context({**os.environ, "BGJOB_HOME": str(home)}, many=False)
            assert look_at_wait(other, kept, asks=True, is_patient=True).asking
            assert not busy
            jobs.kill(job.id)

    def test_a_response_to_no_request_is_ignored(self, client: TaskClient, gate: Gate) -> None:
        task_id = self.start(client, gate)
        client.until(task_id, "input_required")
        unknown = {"nothing": {"action": "accept", "content": {"input": "x"}}}
        client.result("tasks/update", taskId=task_id, inputResponses=unknown)
        assert client.get(task_id)["status"] == "input_required"
        client.tool("kill_job", job_id=task_id)
        assert client.answer(task_id)["status"] == "killed"


class TestSubscription:
    def listen(self, client: TaskClient, *task_ids: str) -> Message:
        client.send("subscriptions/listen", client.alone(notifications={"taskIds": list(task_ids)}))
        return dict(client.next_message()["params"]["notifications"])

    def test_its_client_is_told_of_the_end(self, start: Start, gate: Gate) -> None:
        task_id = start().task("execute_command", command=f"{gate.wait}; exit 3", wait_s=30)
        other = start()
        assert self.listen(other, task_id, NO_TASK) == {"taskIds": [task_id]}
        first = other.next_message()
        assert (first["method"], first["params"]["status"]) == ("notifications/tasks", "working")
        gate.open()
        params = other.next_message()["params"]
        assert (params["taskId"], params["status"]) == (task_id, "completed")
        assert params["result"]["structuredContent"]["exit_code"] == 3

    @linux_only
    def test_and_of_a_prompt(self, client: TaskClient, gate: Gate) -> None:
        client.capabilities = ASKS_TOO
        command = f"{gate.wait}; {ASKS.format(then='')}"
        task_id = client.task("execute_command", command=command, wait_s=30, stdin="open")
        gate.open()
        self.listen(client, task_id)
        told = [client.next_message()["params"]]
        if told[-1]["status"] == "working":
            told.append(client.next_message()["params"])
        assert told[-1]["status"] == "input_required"
        (key,) = told[-1]["inputRequests"]
        response = {key: {"action": "accept", "content": {"input": "y"}}}
        client.send("tasks/update", client.alone(taskId=task_id, inputResponses=response))
        while (message := client.next_message()).get("params", {}).get("status") != "completed":
            assert message.get("method", "notifications/tasks") == "notifications/tasks"

    def test_and_of_the_end_that_another_server_has_seen(self, start: Start, gate: Gate) -> None:
        first, other = start(), start()
        task_id = first.task("execute_command", command=gate.wait, wait_s=30)
        self.listen(other, task_id)
        assert other.next_message()["params"]["status"] == "working"
        first.result("tasks/cancel", taskId=task_id)
        assert other.next_message()["params"]["status"] == "cancelled"

    def test_who_does_not_know_tasks_is_refused(self, client: TaskClient) -> None:
        client.capabilities = {}
        error = client.error("subscriptions/listen", notifications={"taskIds": [NO_TASK]})
        assert error["code"] == MISSING_CAPABILITY


class TestKept:
    def test_a_wait_that_is_over_is_removed_when_nobody_has_asked_for_a_day(
        self, start: Start, home: Path, gate: Gate, tmp_path: Path
    ) -> None:
        eager, first = start(MCP_BG_CLEANUP_INTERVAL="0.000001"), Gate(tmp_path / "first")
        over = eager.task("execute_command", command=first.wait, wait_s=30)
        first.open()
        eager.answer(over)
        goes_on, young = (eager.task("execute_command", command=gate.wait, wait_s=30) for _ in range(2))
        for task_id in (over, goes_on):
            os.utime(home / "waits" / task_id / "wait.json", (1, 1))
        eager.tool("execute_command", command="true")
        assert sorted(waits.ids(str(home))) == sorted([goes_on, young])

    def test_one_that_is_asked_for_is_kept_also_when_it_is_over(
        self, client: TaskClient, home: Path, gate: Gate
    ) -> None:
        task_id = client.task("execute_command", command=gate.wait, wait_s=30)
        gate.open()
        client.answer(task_id)
        os.utime(home / "waits" / task_id / "wait.json", (1, 1))
        client.get(task_id)
        assert waits.asked_at(str(home), task_id) > 1

    def test_one_that_is_just_being_kept_is_not_removed(self, start: Start, home: Path) -> None:
        eager = start(MCP_BG_CLEANUP_INTERVAL="0.000001")
        eager.tool("execute_command", command="true")
        young, old = (home / "waits" / name for name in (NO_TASK, f"{NO_TASK}.2"))
        for directory in (young, old):
            directory.mkdir(parents=True, mode=0o700)
        (home / "waits").chmod(0o700)
        os.utime(old, (1, 1))
        eager.tool("execute_command", command="true")
        assert waits.ids(str(home)) == [NO_TASK]

    def test_a_wait_that_cannot_be_kept_is_answered_as_without_tasks(
        self, client: TaskClient, home: Path, gate: Gate
    ) -> None:
        """No room on the disk, or this: the job runs, and its id must not be lost."""
        client.tool("list_jobs")  # it has made its home
        (home / "waits").write_text("")
        started = client.tool("execute_command", command=gate.wait, wait_s=30)
        assert started["resultType"] == "complete"
        job_id = started["structuredContent"]["job_id"]
        assert started["structuredContent"]["status"] == "running"
        waited = client.tool("wait_for_job", job_ids=[job_id], timeout_s=30)
        assert waited["structuredContent"]["met"] is False

    def test_a_wait_of_any_length_is_kept(self, client: TaskClient, gate: Gate) -> None:
        task_id = client.task("execute_command", command=gate.wait, wait_s=30)
        longer = client.task("wait_for_job", job_ids=[task_id], timeout_s=1e300)
        assert client.get(longer)["status"] == "working"

    @pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"id": 7}', "\0"])
    def test_a_record_that_cannot_be_read_is_no_task(
        self, client: TaskClient, home: Path, gate: Gate, text: str
    ) -> None:
        task_id = client.task("execute_command", command=gate.wait, wait_s=30)
        (home / "waits" / task_id / "wait.json").write_text(text)
        assert client.error("tasks/get", taskId=task_id)["code"] == INVALID_PARAMS


class TestOnceOnly:
    def test_what_a_task_has_told_is_no_news(self, client: TaskClient, home: Path, gate: Gate) -> None:
        task_id = client.task("execute_command", command=gate.wait, wait_s=30)
        assert sessions.expected(str(home), SESSION) == [task_id]
        gate.open()
        client.answer(task_id)
        assert "news" not in client.tool("list_jobs")["structuredContent"]
        wait_until(lambda: not sessions.expected(str(home), SESSION), "what was told is expected no more")
        assert "news" not in client.tool("list_jobs")["structuredContent"]

    def test_whoever_asks_for_a_task_will_tell(self, client: TaskClient, home: Path, gate: Gate) -> None:
        task_id = client.task("execute_command", command=gate.wait, wait_s=30)
        assert waits.jobs_asked_for(str(home), SESSION) == {task_id}
        assert waits.jobs_asked_for(str(home), "another") == set()
        os.utime(home / "waits" / task_id / "wait.json", (1, 1))
        assert waits.jobs_asked_for(str(home), SESSION) == set()
        client.get(task_id)
        assert waits.jobs_asked_for(str(home), SESSION) == {task_id}

    def test_but_not_what_comes_after_the_end_of_the_task(
        self, client: TaskClient, home: Path, gate: Gate, tmp_path: Path
    ) -> None:
        """A server has started, its wait is over: that it fails soon after is for news and hooks to tell."""
        ready = Gate(tmp_path / "ready")
        command = f"{ready.wait}; echo ready; {gate.wait}; exit 3"
        task_id = client.task("execute_command", command=command, until={"pattern": "ready"})
        job_id = task_id.partition(".")[0]
        assert waits.jobs_asked_for(str(home), SESSION) == {job_id}
        ready.open()
        client.answer(task_id)
        assert waits.jobs_asked_for(str(home), SESSION) == set()
        other = client.task("wait_for_job", job_ids=[job_id], timeout_s=30)
        client.result("tasks/cancel", taskId=other)
        assert waits.jobs_asked_for(str(home), SESSION) == set()


class TestOfTheHandshake:
    """What 2025-11-25 had, for clients that declare it."""

    @pytest.fixture
    def old(self, home: Path) -> Iterator[RawClient]:
        with RawClient(home) as client:
            hello = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "old", "version": "1"}}
            welcome = client.ask("initialize", {**hello, "capabilities": {"tasks": {"cancel": {}}}})["result"]
            assert welcome["capabilities"]["tasks"] == {"cancel": {}, "requests": {"tools": {"call": {}}}}
            assert "extensions" not in welcome["capabilities"]
            yield client

    def call(self, client: RawClient, tool: str, **arguments: Any) -> Message:
        return client.ask("tools/call", {"name": tool, "arguments": arguments, "task": {"ttl": 60000}})

    def test_which_tools_may_be_called_as_tasks(self, old: RawClient) -> None:
        support = {tool["name"]: tool.get("execution") for tool in old.tools()}
        assert {name for name, given in support.items() if given} == {"execute_command", "wait_for_job"}
        assert support["wait_for_job"] == {"taskSupport": "optional"}
        refused = self.call(old, "list_jobs")
        assert refused["error"]["code"] == METHOD_NOT_FOUND

    def test_its_result_comes_when_it_is_over(self, old: RawClient, gate: Gate) -> None:
        task = self.call(old, "execute_command", command=f"{gate.wait}; exit 3", wait_s=30)["result"]["task"]
        assert (task["status"], task["ttl"], task["pollInterval"]) == ("working", None, 2000)
        assert old.ask("tasks/get", {"taskId": task["taskId"]})["result"]["status"] == "working"
        asked = old.send("tasks/result", {"taskId": task["taskId"]})
        old.ask("ping")
        gate.open()
        result = old.answer_to(asked)["result"]
        assert result["structuredContent"]["exit_code"] == 3
        related = result["_meta"]["io.modelcontextprotocol/related-task"]
        assert related == {"taskId": task["taskId"]}

    def test_its_time_is_what_was_asked_for(self, old: RawClient, gate: Gate) -> None:
        job_id = old.execute(gate.wait)
        task = self.call(old, "wait_for_job", job_ids=[job_id], timeout_s=0.2)["result"]["task"]
        result = old.ask("tasks/result", {"taskId": task["taskId"]})["result"]
        assert result["structuredContent"]["met"] is False

    def test_a_call_that_waits_for_nothing_is_over_at_once(self, old: RawClient, gate: Gate) -> None:
        task = self.call(old, "execute_command", command=gate.wait)["result"]["task"]
        assert task["status"] == "working"
        assert old.ask("tasks/get", {"taskId": task["taskId"]})["result"]["status"] == "completed"
        result = old.ask("tasks/result", {"taskId": task["taskId"]})["result"]
        assert result["structuredContent"]["status"] == "running"

    def test_an_error_is_a_task_that_failed(self, old: RawClient) -> None:
        task = self.call(old, "wait_for_job", job_ids=[NO_TASK])["result"]["task"]
        assert old.ask("tasks/get", {"taskId": task["taskId"]})["result"]["status"] == "failed"
        assert old.ask("tasks/result", {"taskId": task["taskId"]})["result"]["isError"] is True

    def test_cancel(self, old: RawClient, gate: Gate) -> None:
        task = self.call(old, "execute_command", command=gate.wait, wait_s=30)["result"]["task"]
        cancelled = old.ask("tasks/cancel", {"taskId": task["taskId"]})["result"]
        assert cancelled["status"] == "cancelled"
        assert old.ask("tasks/result", {"taskId": task["taskId"]})["error"]["code"] == INVALID_PARAMS
        again = old.ask("tasks/cancel", {"taskId": task["taskId"]})
        assert again["error"]["code"] == INVALID_PARAMS
        assert "it is cancelled" in again["error"]["message"]

    def test_a_result_that_is_waited_for_when_another_server_cancels(
        self, old: RawClient, start: Start, gate: Gate
    ) -> None:
        task = self.call(old, "execute_command", command=gate.wait, wait_s=3000)["result"]["task"]
        asked = old.send("tasks/result", {"taskId": task["taskId"]})
        old.ask("ping")
        start().result("tasks/cancel", taskId=task["taskId"])
        assert "it is cancelled" in old.answer_to(asked)["error"]["message"]

    def test_a_call_whose_task_cannot_be_kept_tells_its_job(
        self, old: RawClient, home: Path, gate: Gate
    ) -> None:
        old.call("list_jobs", {})  # it has made its home
        (home / "waits").write_text("")
        refused = self.call(old, "execute_command", command=gate.wait)["error"]["message"]
        (job,) = (home / "jobs").iterdir()
        assert job.name in refused

    def test_without_the_word_task_a_call_is_a_call(self, old: RawClient) -> None:
        answer = old.call("execute_command", {"command": "exit 3", "wait_s": 30})
        assert answer["structuredContent"]["exit_code"] == 3

    @pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
    def test_older_revisions_have_none(self, home: Path, revision: str) -> None:
        with RawClient(home) as client:
            hello = {"protocolVersion": revision, "clientInfo": {"name": "old", "version": "1"}}
            welcome = client.ask("initialize", {**hello, "capabilities": {"tasks": {}}})["result"]
            assert "tasks" not in welcome["capabilities"]
            assert not any("execution" in tool for tool in client.tools())
            answer = self.call(client, "execute_command", command="exit 3", wait_s=30)["result"]
            assert answer["structuredContent"]["exit_code"] == 3

    def test_killed_while_its_client_waits(self, old: RawClient, gate: Gate) -> None:
        task = self.call(old, "execute_command", command=gate.wait, wait_s=30)["result"]["task"]
        old.send("tasks/result", {"taskId": task["taskId"]})
        old.ask("ping")
        os.kill(old.process.pid, signal.SIGTERM)
        assert old.process.wait(timeout=120) != 0


class TestMemory:
    """A server may live for months."""

    WARM, MEASURED = 50, 200
    LEAK_BYTES = 700
    """Per task: half of what the records of a job take."""

    def test_tasks_that_are_polled_to_their_end_leave_nothing(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("bgjob.store.store.REMEMBERED_JOBS", 20)
        store = Store(str(home))
        service = Service(jobs_on(store, MCP_BG_TASK_AFTER="0"))
        for _ in range(self.WARM):
            self.poll_one(store, service)
        tracemalloc.start()
        try:
            before = self.held_bytes()
            for _ in range(self.MEASURED):
                self.poll_one(store, service)
            assert self.held_bytes() - before < self.MEASURED * self.LEAK_BYTES
        finally:
            tracemalloc.stop()

    def poll_one(self, store: Store, service: Service) -> None:
        """The job is removed in the end, as another process does."""
        job = running_job(store)
        job_id = Path(job.directory).name
        arguments = {"job_ids": [job_id], "timeout_s": 1000}
        created = self.ask(service, "tools/call", name="wait_for_job", arguments=arguments)
        assert created["status"] == "working"
        assert self.ask(service, "tasks/get", taskId=created["taskId"])["status"] == "working"
        write_outcome(Path(job.directory))
        os.close(job.lock)
        assert self.ask(service, "tasks/get", taskId=created["taskId"])["status"] == "completed"
        other = Store(store.home)
        (place,) = [place for place, each in other.ids() if each == job_id]
        assert other.remove(place, job_id)

    def ask(self, service: Service, method: str, **params: Any) -> Message:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": alone(KNOWS_TASKS, **params)}
        (request,) = Connection(SERVER, can_notify=True).receive(message)
        assert isinstance(request, Request)
        caller = Caller(request, lambda _: None)
        try:
            return dict(service.perform(request, caller)["result"])
        finally:
            caller.close()

    def held_bytes(self) -> int:
        timestamp.cache_clear()  # of 4,096 times
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
