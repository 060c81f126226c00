"""A client written for the reference, unchanged: every row of the contract, with two clients of that time.

One is the SDK's, told to shake hands as of old. The other really is old: PyPI `mcp` 1.26, in an environment of its own
whose Python is in BGJOB_OLD_CLIENT_PYTHON (scripts/test sets it).
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pytest
from anyio.from_thread import BlockingPortal

from bgjob.api import Jobs, JobStatus
from bgjob.home import slots
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.raw_client import RawClient
from tests.support.server import Server, ToolError
from tests.support.waiting import wait_until

Ended = Callable[[str], JobStatus]

OLD_CLIENT = Path(__file__).with_name("old_client.py")
BIN = Path(sys.executable).parent
MAX_JOBS = 3
NO_SUCH_JOB = "00000000-0000-4000-8000-000000000000"
TOOLS = {
    "execute_command",
    "get_job_status",
    "get_job_output",
    "tail_job_output",
    "list_jobs",
    "interact_with_job",
    "kill_job",
}


class Client(Protocol):
    """What a caller of the reference does: name a tool, give arguments, read the answer or the error."""

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]: ...


class OldClient:
    """The old client's process, as a thing to call."""

    def __init__(self, python: str, home: Path) -> None:
        environment = {**os.environ, "BGJOB_HOME": str(home), "MCP_BG_MAX_JOBS": str(MAX_JOBS)}
        self._process = subprocess.Popen(
            [python, OLD_CLIENT, sys.executable, "-m", "bgjob", "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self.hello = self._read()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        self._in.write(json.dumps({"tool": tool, "arguments": arguments}).encode() + b"\n")
        self._in.flush()
        result = self._read()
        (content,) = result["content"]
        if result["isError"]:
            raise ToolError(content["text"])
        assert json.loads(content["text"]) == result["structuredContent"]
        return dict(result["structuredContent"])

    def _read(self) -> dict[str, Any]:
        return dict(json.loads(self._out.readline()))

    def close(self) -> None:
        with self._process:
            self._in.close()
        assert self._process.returncode == 0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("reference") / "home"
    yield home
    end_all_jobs(home)


@pytest.fixture(scope="module")
def old_client(home: Path) -> Iterator[OldClient]:
    python = os.environ.get("BGJOB_OLD_CLIENT_PYTHON")
    if not python:
        reason = "BGJOB_OLD_CLIENT_PYTHON is not set; scripts/test makes that environment and sets it"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with contextlib.closing(OldClient(python, home)) as client:
        yield client


@pytest.fixture(scope="module")
def legacy(portal: BlockingPortal, home: Path) -> Iterator[Server]:
    with contextlib.closing(Server(portal, home, {"MCP_BG_MAX_JOBS": str(MAX_JOBS)}, "legacy")) as server:
        yield server


@pytest.fixture(params=["legacy", "old_client"])
def client(request: pytest.FixtureRequest, home: Path) -> Iterator[Client]:
    yield request.getfixturevalue(request.param)
    wait_until(lambda: _free_all_slots(home), "the next test has all the slots")


def _free_all_slots(home: Path) -> bool:
    """False: a job that was just being started, or the guard of one that has ended, still has one."""
    end_all_jobs(home)
    claimed = [slots.claim(str(home / "slots"), "", MAX_JOBS) for _ in range(MAX_JOBS)]
    slots.release([fd for fd in claimed if fd is not None])
    return None not in claimed


@dataclass(frozen=True)
class Shown:
    """The fields that the reference has, and no others."""

    stdout: str
    stderr: str

    @classmethod
    def of(cls, answer: dict[str, Any]) -> "Shown":
        return cls(answer["stdout"], answer["stderr"])


class TestExecuteCommand:
    def test_it_answers_a_uuid_of_version_4(self, client: Client) -> None:
        job_id = execute(client, "true")
        assert str(uuid.UUID(job_id, version=4)) == job_id

    @pytest.mark.parametrize("command", ["", "  \t\n"])
    def test_a_blank_command_is_invalid(self, client: Client, command: str) -> None:
        assert error(client, "execute_command", command=command).startswith("Invalid command: ")

    def test_a_command_against_the_policy_is_invalid(self, client: Client) -> None:
        assert error(client, "execute_command", command="rm -rf /").startswith("Invalid command: ")

    def test_one_job_more_than_may_run_is_refused(self, client: Client) -> None:
        for _ in range(MAX_JOBS):
            execute(client, "cat")
        said = error(client, "execute_command", command="cat")
        assert said.startswith(f"Job limit reached: Maximum concurrent jobs limit ({MAX_JOBS}) reached")


class TestGetJobStatus:
    @pytest.mark.parametrize(
        ("command", "word"), [("exit 0", "completed"), ("exit 3", "failed"), ("kill -9 $$", "killed")]
    )
    def test_an_ended_job_has_the_references_word(
        self, client: Client, ended: Ended, command: str, word: str
    ) -> None:
        job_id = execute(client, command)
        ended(job_id)
        assert status(client, job_id) == word

    def test_a_job_that_runs_is_running(self, client: Client, gate: Gate) -> None:
        job_id = execute(client, gate.pause)
        gate.wait_until_reached()
        assert status(client, job_id) == "running"

    def test_an_unknown_id_is_not_found(self, client: Client) -> None:
        assert_not_found(client, "get_job_status")


class TestGetJobOutput:
    def test_it_answers_all_of_both_streams(self, client: Client, ended: Ended) -> None:
        job_id = execute(client, "seq 1 2000; echo oops >&2")
        ended(job_id)
        answer = client.call("get_job_output", job_id=job_id)
        assert Shown.of(answer) == Shown("".join(f"{number}\n" for number in range(1, 2001)), "oops\n")

    def test_an_unknown_id_is_not_found(self, client: Client) -> None:
        assert_not_found(client, "get_job_output")


class TestTailJobOutput:
    @pytest.mark.parametrize(("lines", "first"), [(None, 1151), (1, 1200), (1000, 201)])
    def test_it_answers_the_last_lines_of_each_stream(
        self, client: Client, ended: Ended, lines: int | None, first: int
    ) -> None:
        job_id = execute(client, "seq 1 1200; seq 1 1200 >&2")
        ended(job_id)
        answer = client.call("tail_job_output", job_id=job_id, **({"lines": lines} if lines else {}))
        wanted = "".join(f"{number}\n" for number in range(first, 1201))
        assert Shown.of(answer) == Shown(wanted, wanted)

    @pytest.mark.parametrize("lines", [0, 1001])
    def test_lines_out_of_range_is_an_error_about_lines(self, client: Client, lines: int) -> None:
        assert "lines" in error(client, "tail_job_output", job_id=NO_SUCH_JOB, lines=lines)

    def test_an_unknown_id_is_not_found(self, client: Client) -> None:
        assert_not_found(client, "tail_job_output")


class TestListJobs:
    def test_it_lists_the_newest_first_with_the_references_fields(self, client: Client, ended: Ended) -> None:
        before = datetime.now(UTC)
        first, second = execute(client, "exit 0 # first"), execute(client, "exit 1 # second")
        ended(first), ended(second)
        newest, older = client.call("list_jobs")["jobs"][:2]
        assert row(newest) == (second, "failed", "exit 1 # second")
        assert row(older) == (first, "completed", "exit 0 # first")
        started = [datetime.fromisoformat(job["started"]) for job in (older, newest)]
        assert [moment.utcoffset() for moment in started] == [UTC.utcoffset(None)] * 2
        # each by its own shim's clock, when it was exec'd: the second may be the first by a millisecond
        assert all(before.replace(microsecond=0) <= moment <= datetime.now(UTC) for moment in started)


def row(job: dict[str, Any]) -> tuple[str, str, str]:
    return job["job_id"], job["status"], job["command"]


class TestInteractWithJob:
    @pytest.mark.parametrize("text", ["hello", "hello\n"])
    def test_it_answers_what_the_job_printed_and_adds_a_missing_newline(
        self, client: Client, jobs: Jobs, text: str
    ) -> None:
        job_id = execute(client, "cat")
        wait_until(lambda: jobs.status(job_id).waits_for_input is True)
        assert Shown.of(client.call("interact_with_job", job_id=job_id, input=text)) == Shown("hello\n", "")

    def test_an_unknown_id_is_not_found(self, client: Client) -> None:
        assert_not_found(client, "interact_with_job", input="x")

    def test_a_finished_job_accepts_no_input(self, client: Client, ended: Ended) -> None:
        job_id = execute(client, "true")
        ended(job_id)
        said = error(client, "interact_with_job", job_id=job_id, input="x")
        assert said.startswith(f"Job {job_id} is not running and cannot accept input")


class TestKillJob:
    def test_its_three_words(self, client: Client) -> None:
        job_id = execute(client, "cat")
        assert kill(client, job_id) == "killed"
        assert kill(client, job_id) == "already_terminated"
        assert kill(client, NO_SUCH_JOB) == "not_found"
        assert status(client, job_id) == "killed"


def execute(client: Client, command: str) -> str:
    return str(client.call("execute_command", command=command)["job_id"])


def status(client: Client, job_id: str) -> str:
    return str(client.call("get_job_status", job_id=job_id)["status"])


def kill(client: Client, job_id: str) -> str:
    return str(client.call("kill_job", job_id=job_id)["status"])


def error(client: Client, tool: str, **arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        client.call(tool, **arguments)
    return str(caught.value)


def assert_not_found(client: Client, tool: str, **arguments: Any) -> None:
    said = error(client, tool, job_id=NO_SUCH_JOB, **arguments)
    assert re.match(rf"Job {NO_SUCH_JOB} not found\b", said)


def test_the_old_client_is_old_and_sees_the_seven_tools(old_client: OldClient) -> None:
    assert old_client.hello["protocolVersion"] < "2026"
    assert old_client.hello["serverInfo"]["name"] == "bgjob"
    assert {tool["name"] for tool in old_client.hello["tools"]} >= TOOLS
    assert all("outputSchema" in tool for tool in old_client.hello["tools"])


@pytest.mark.parametrize(
    "command",
    [[BIN / "mcp-background-job"], [BIN / "bgjob"], [sys.executable, "-m", "bgjob", "mcp"]],
    ids=["the reference's command", "one word without a terminal", "the module"],
)
def test_every_way_to_start_it_serves(tmp_path: Path, command: list[str]) -> None:
    with RawClient(tmp_path / "home", command) as client:
        client.shake_hands()
        assert {tool["name"] for tool in client.tools()} >= TOOLS
