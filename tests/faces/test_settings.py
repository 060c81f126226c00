"""The settings of a server: each is really used, and each bad value is an error at start that names it."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from anyio.from_thread import BlockingPortal

from bgjob.api import JobStatus
from bgjob.core.config import SETTINGS
from bgjob.protocol.methods import TASKS_EXTENSION
from bgjob.protocol.revisions import CAPABILITIES_KEY
from bgjob.system import processes
from tests.faces.command_line import Cli
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.http_server import META
from tests.support.raw_client import SERVE, RawClient
from tests.support.server import Server, StartServer, ToolError
from tests.support.waiting import wait_until

Ended = Callable[[str], JobStatus]

BAD_VALUES = {
    "MCP_BG_TASK_AFTER": "soon",
    "MCP_BG_MAX_JOBS": "lots",
    "MCP_BG_MAX_OUTPUT_SIZE": "10 parsecs",
    "MCP_BG_JOB_TIMEOUT": "-1",
    "MCP_BG_CLEANUP_INTERVAL": "0",
    "MCP_BG_WORKING_DIR": "/no/such/directory",
    "MCP_BG_ALLOWED_COMMANDS": "^echo ,(",
    "MCP_BG_MAX_RESPONSE": "1GB",
    "MCP_BG_KEEP_DAYS": "a week",
    "MCP_BG_KEEP_JOBS": "1.5",
    "MCP_BG_MAX_WAIT": "for ever",
    "MCP_BG_LIMITS": "memory",
    "MCP_BG_GROUPS": "gpu=none",
    "MCP_BG_NEWS": "sometimes",
    "MCP_BG_ON_EVENT": "  ",
    "MCP_BG_MAX_STORE_SIZE": "1023KB",
    "MCP_BG_HIDDEN_VARIABLES": "A=B",
    "MCP_BG_ALLOWED_COMMAND": "^git ",
}
ACCEPTED = {row.variable: row.accepted for row in SETTINGS} | {
    "MCP_BG_WORKING_DIR": "a directory that exists",
    "MCP_BG_ALLOWED_COMMAND": "MCP_BG_ALLOWED_COMMANDS",
}


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, subprocess.CompletedProcess[str]]:
    """Each bad value's server, all started at once."""
    home = tmp_path_factory.mktemp("bad") / "home"

    def serve(variable: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            SERVE,
            env={**os.environ, "BGJOB_HOME": str(home), variable: BAD_VALUES[variable]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    with ThreadPoolExecutor(3) as pool:
        return dict(zip(BAD_VALUES, pool.map(serve, BAD_VALUES), strict=True))


class TestABadValue:
    @pytest.mark.parametrize("variable", BAD_VALUES)
    def test_is_one_line_that_names_the_variable_the_value_and_what_is_accepted(
        self, refusals: dict[str, subprocess.CompletedProcess[str]], variable: str
    ) -> None:
        refused = refusals[variable]
        assert refused.returncode == 2
        assert refused.stdout == ""
        (line,) = refused.stderr.splitlines()
        assert f"{variable}={BAD_VALUES[variable]!r}" in line
        assert ACCEPTED[variable] in line

    def test_is_tried_for_every_setting(self) -> None:
        assert {row.variable for row in SETTINGS} < BAD_VALUES.keys()

    def test_of_a_misspelt_allow_list_too_for_without_one_everything_may_run(
        self, refusals: dict[str, subprocess.CompletedProcess[str]]
    ) -> None:
        assert "did you mean MCP_BG_ALLOWED_COMMANDS?" in refusals["MCP_BG_ALLOWED_COMMAND"].stderr


class TestAnUnknownSetting:
    """Perhaps of a newer version, perhaps misspelt."""

    SETTINGS: ClassVar = {
        "MCP_BG_MAX_JBOS": "5",
        "MCP_BG_OF_NEXT_YEAR": "on",
        "MCP_BG_\x1b[2J": "x",
        "MCP_BG_EMPTY": "",
    }

    @pytest.mark.parametrize("arguments", [["mcp"], ["ps"]])
    def test_is_a_warning_of_one_line_and_stops_nobody(self, home: Path, arguments: list[str]) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "bgjob", *arguments],
            env={**os.environ, "BGJOB_HOME": str(home), **self.SETTINGS},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0
        escape, misspelt, newer = sorted(done.stderr.splitlines())
        assert escape.isprintable()
        assert "MCP_BG_MAX_JBOS is not a setting of this version" in misspelt
        assert "did you mean MCP_BG_MAX_JOBS?" in misspelt
        assert "MCP_BG_OF_NEXT_YEAR is not a setting of this version" in newer


def test_a_call_waits_no_longer_than_it_may_also_if_it_becomes_a_task(home: Path) -> None:
    meta = META | {CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}}}
    with RawClient(home, MCP_BG_TASK_AFTER="3600", MCP_BG_MAX_WAIT="0.2") as client:
        given = {"command": "sleep 1000", "wait_s": 5}
        answer = client.ask("tools/call", {"name": "execute_command", "arguments": given, "_meta": meta})[
            "result"
        ]
    assert (answer["resultType"], answer["status"]) == ("task", "working")


class TestTheVariablesOfTheClient:
    def test_are_not_handed_to_jobs_unless_the_caller_gives_them(self, start_server: StartServer) -> None:
        server = start_server(
            CLAUDE_CODE_SESSION_ID="the session",
            CLAUDE_CODE_MESSAGING_SOCKET="/tmp/inbox",
            CLAUDE_CODE_MESSAGING_TOKEN="secret",
            CLAUDECODE="1",
        )
        seen = server.call("execute_command", command="env", wait_s=30)["stdout"].splitlines()
        assert "CLAUDECODE=1" in seen
        hidden = ("CLAUDE_CODE_SESSION_ID=", "CLAUDE_CODE_MESSAGING_")
        assert not [line for line in seen if line.startswith(hidden)]
        given = server.call(
            "execute_command", command="env", wait_s=30, env={"CLAUDE_CODE_MESSAGING_TOKEN": "mine"}
        )
        assert "CLAUDE_CODE_MESSAGING_TOKEN=mine" in given["stdout"].splitlines()

    def test_are_those_of_the_setting(self, start_server: StartServer) -> None:
        server = start_server(
            MCP_BG_HIDDEN_VARIABLES="SECRET_*, ONE",
            SECRET_A="a",
            ONE="1",
            ONES="2",
            CLAUDE_CODE_MESSAGING_TOKEN="b",
        )
        seen = server.call("execute_command", command="env", wait_s=30)["stdout"].splitlines()
        assert {"ONES=2", "CLAUDE_CODE_MESSAGING_TOKEN=b"} <= {*seen}
        assert not {"SECRET_A=a", "ONE=1"} & {*seen}

    @pytest.mark.parametrize(
        "asked", [{}, {"queue": True, "options": {"delay_s": 0.1}}], ids=["zygote", "dispatcher"]
    )
    def test_are_in_no_process_that_supervises_a_job(
        self, start_server: StartServer, gate: Gate, asked: dict[str, Any]
    ) -> None:
        secret = f"TOKEN={uuid4()}"
        server = start_server(
            MCP_BG_HIDDEN_VARIABLES="TOKEN",
            MCP_BG_ON_EVENT="true",  # so that there is a watcher, too
            TOKEN=secret.partition("=")[2],
        )
        command = f"tr '\\0' '\\n' < /proc/$PPID/environ; {gate.pause}"
        job_id = server.execute(command, **asked)
        gate.wait_until_reached()
        wait_until(
            lambda: carriers(secret) == {server.pid}, "of all processes the server alone has the secret"
        )
        gate.open()
        server.call("wait_for_job", job_ids=[job_id], timeout_s=60)
        assert secret not in server.output(job_id)["stdout"]

    def test_of_another_starter_are_in_no_dispatcher(self, home: Path, gate: Gate) -> None:
        """Who started the dispatcher hides nothing; the job that it starts is of someone who does."""
        cli, secret = Cli(home), f"TOKEN={uuid4()}"
        value = {"TOKEN": secret.partition("=")[2]}
        first = cli("run", "--queue", "--delay", "1000", "true", env=value).stdout.strip()
        command = f"tr '\\0' '\\n' < /proc/$PPID/environ; {gate.pause}"
        hiding = {"MCP_BG_HIDDEN_VARIABLES": "TOKEN", **value}
        job_id = cli("run", "--queue", "--delay", "0.1", command, env=hiding).stdout.strip()
        gate.wait_until_reached()
        gate.open()
        cli("wait", job_id)
        assert secret not in cli("logs", job_id).stdout
        cli("kill", first)

    def test_are_in_no_process_that_supervises_a_job_of_the_command_line(
        self, home: Path, gate: Gate
    ) -> None:
        secret = f"TOKEN={uuid4()}"
        value = {"TOKEN": secret.partition("=")[2], "MCP_BG_HIDDEN_VARIABLES": "TOKEN"}
        Cli(home)("run", gate.pause, env=value)
        gate.wait_until_reached()
        wait_until(lambda: not carriers(secret), "no process has the secret")
        gate.open()


def carriers(entry: str) -> set[int]:
    """Processes that were started with this in their environment."""
    environs = {pid: processes.read_if_there(f"/proc/{pid}/environ") or b"" for pid in processes.every_pid()}
    return {pid for pid, environ in environs.items() if entry.encode() in environ.split(b"\0")}


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workplace = tmp_path_factory.mktemp("workplace")
    (workplace / "inside").mkdir()
    return workplace


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("settings") / "home"
    yield home
    end_all_jobs(home)


@pytest.fixture(scope="module")
def server(portal: BlockingPortal, home: Path, workplace: Path) -> Iterator[Server]:
    environment = {
        "MCP_BG_WORKING_DIR": str(workplace),
        "MCP_BG_ALLOWED_COMMANDS": "^echo ,^pwd$,^printf %0",
        "MCP_BG_MAX_RESPONSE": "1KB",
    }
    with contextlib.closing(Server(portal, home, environment, "auto")) as server:
        yield server


class TestTheWorkplace:
    """One server with a working directory, an allow-list and a small answer."""

    @pytest.mark.parametrize(("cwd", "place"), [(None, "."), ("inside", "inside")])
    def test_jobs_run_in_the_working_directory(
        self, server: Server, ended: Ended, workplace: Path, cwd: str | None, place: str
    ) -> None:
        job_id = server.execute("pwd", cwd=cwd)
        ended(job_id)
        assert server.output(job_id)["stdout"] == f"{workplace / place}\n"

    @pytest.mark.parametrize(
        "command", ["echo a", "echo 'a; b' \"$HOME\"", "echo a | echo b", "echo a && pwd"]
    )
    def test_a_command_whose_every_part_is_allowed_runs(
        self, server: Server, ended: Ended, command: str
    ) -> None:
        job_id = server.execute(command)
        ended(job_id)
        assert server.status(job_id)["status"] == "completed"

    @pytest.mark.parametrize(
        "command",
        [
            "touch x",
            "echo a; touch x",
            "echo a\ntouch x",
            "echo a & touch x",
            "echo a && touch x",
            "echo a || touch x",
            "echo a | tee x",
            "echo $(touch x)",
            "echo `touch x`",
            'echo "$(touch x)"',
            "echo a > x",
            "echo a >> x",
            "echo <(touch x)",
            "echo a\rtouch x",
            "echo a; (touch x)",
            "echo a; X=1 touch x",
            "pwd; eval 'touch x'",
            "echoes a",
        ],
    )
    def test_nothing_rides_along_on_an_allowed_command(
        self, server: Server, workplace: Path, command: str
    ) -> None:
        with pytest.raises(ToolError, match=r"^Invalid command: "):
            server.execute(command)
        assert [entry.name for entry in workplace.iterdir()] == ["inside"]

    def test_a_plain_environment_or_a_directory_outside_is_no_way_around(self, server: Server) -> None:
        with pytest.raises(ToolError, match=r"^Invalid command: .*env"):
            server.execute("pwd", env={"PATH": "/tmp"})
        with pytest.raises(ToolError, match=r"^Invalid command: .*MCP_BG_WORKING_DIR"):
            server.execute("pwd", cwd="..")

    @pytest.mark.parametrize(("size_bytes", "whole"), [(980, True), (1025, False)])
    def test_an_answer_holds_what_the_setting_says_and_no_more(
        self, server: Server, ended: Ended, size_bytes: int, whole: bool
    ) -> None:
        job_id = server.execute(f"printf %0{size_bytes}d")
        ended(job_id)
        output = server.output(job_id, raw=True)
        assert (output["stdout"] == "0" * size_bytes) == whole
        assert ("stdout_left_out_bytes" in output) != whole
