"""What every test stands on: a private home, real servers with a real MCP client, and a gate for jobs."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, settings
from mcp import Client, StdioServerParameters

from bgjob.api import Jobs, Look, open_jobs
from bgjob.core.errors import JobNotFound
from bgjob.core.job import Running
from bgjob.home import queue_dir
from bgjob.system import processes
from tests.chaos.tools import wait_until

# this machine may be busy: how long something takes is measured elsewhere
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# a shell that runs us in the background hands down an ignored SIGINT, and so would we
signal.signal(signal.SIGINT, signal.default_int_handler)


class ToolError(Exception):
    """What a model would read."""


class Gate:
    """Two FIFOs: the job says it got here, then blocks until the test lets it go on."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._reached, self._opened = directory / "reached", directory / "opened"
        os.mkfifo(self._reached)
        os.mkfifo(self._opened)
        self.reach = f"echo > {self._reached}"
        self.pause = f"{self.reach}; read _ < {self._opened}"  # a piece of shell

    def wait_until_reached(self) -> None:
        self._reached.read_bytes()

    def open(self) -> None:
        self._opened.write_text("\n")


class Server:
    """`bgjob mcp` in a process of its own, and the SDK's client on its stdin and stdout."""

    def __init__(self, portal: BlockingPortal, home: Path, environment: dict[str, str], mode: str) -> None:
        self._portal, self._pid_file = portal, home.parent / f"pid-{os.urandom(4).hex()}"
        script = f'echo $$ > {self._pid_file}; exec "{sys.executable}" -m bgjob mcp'
        parameters = StdioServerParameters(
            command="/bin/sh",
            args=["-c", script],
            env={**os.environ, "BGJOB_HOME": str(home), **environment},
        )
        self._leave = contextlib.ExitStack()
        client = Client(parameters, mode=mode)
        self.client: Client = self._leave.enter_context(portal.wrap_async_context_manager(client))

    @property
    def pid(self) -> int:
        return int(self._pid_file.read_text())

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = self._portal.call(lambda: self.client.call_tool(tool, arguments))
        text = "".join(getattr(part, "text", "") for part in result.content)
        if result.is_error:
            raise ToolError(text)
        assert result.structured_content is not None
        return dict(result.structured_content)

    def execute(self, command: str, **options: Any) -> str:
        return str(self.call("execute_command", command=command, **options)["job_id"])

    def status(self, job_id: str) -> dict[str, Any]:
        return self.call("get_job_status", job_id=job_id)

    def output(self, job_id: str, **options: Any) -> dict[str, Any]:
        return self.call("get_job_output", job_id=job_id, **options)

    def wait_until_printed(self, job_id: str, text: str) -> None:
        """Until it is in the log: what a job has written may be in its pipe for another moment."""
        answer = self.call("wait_for_job", job_ids=[job_id], pattern=text, literal=True, timeout_s=30)
        assert answer["jobs"][0]["condition"] == "pattern"

    def talk(self, job_id: str, typed: str, answer: str) -> None:
        """The job answers so, and nothing else: at once, or, on a busy machine, when the call is over."""
        reply = self.call("interact_with_job", job_id=job_id, input=typed, wait_s=1)
        said, cursor = reply["stdout"], reply["cursor"]
        while said != answer and answer.startswith(said):
            (job,) = self.call("wait_for_job", job_ids=[job_id], pattern=".", since=cursor, timeout_s=30)[
                "jobs"
            ]
            assert job["condition"] == "pattern"
            said, cursor = said + job["stdout"], job["cursor"]
        assert said == answer

    def kill(self) -> None:
        """SIGKILL: no cleanup, no goodbye."""
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        with contextlib.suppress(Exception):  # the client of a killed server has reason to complain
            self._leave.close()


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Its own for each test, unless the test is content with the shared server."""
    shares = "server" in request.fixturenames and "start_server" not in request.fixturenames
    home: Path = request.getfixturevalue("shared_home") if shares else tmp_path / "home"
    yield home
    end_all_jobs(home)


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared") / "home"


@pytest.fixture(scope="session")
def shared_server(portal: BlockingPortal, shared_home: Path) -> Iterator[Server]:
    settings = {"MCP_BG_MAX_JOBS": "100", "MCP_BG_NEWS": "off"}  # no test's answers tell of another's jobs
    server = Server(portal, shared_home, settings, "auto")
    yield server
    server.close()


@pytest.fixture
def server(shared_server: Server, home: Path) -> Server:
    """One for all tests that do it no harm: a server's start takes a second."""
    return shared_server


StartServer = Callable[..., Server]


@pytest.fixture
def start_server(portal: BlockingPortal, home: Path) -> Iterator[StartServer]:
    """Any number of servers on one home: start_server(MCP_BG_MAX_JOBS="3")."""
    with contextlib.ExitStack() as started:

        def start(mode: str = "auto", **environment: str) -> Server:
            server = Server(portal, home, environment, mode)
            started.callback(server.close)
            return server

        yield start


@pytest.fixture
def jobs(home: Path) -> Iterator[Jobs]:
    """The door itself, on the same home as the servers of the test."""
    with contextlib.closing(
        open_jobs({**os.environ, "BGJOB_HOME": str(home), "MCP_BG_MAX_JOBS": "100"})
    ) as jobs:
        yield jobs


@pytest.fixture
def ended(jobs: Jobs) -> Callable[[str], Look]:
    """Wait until a job has ended, without polling: by following its output to the end."""

    def wait(job_id: str) -> Look:
        for _ in jobs.follow(job_id, wait=True):
            pass
        return jobs.look(job_id)

    return wait


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


def empty_queue(jobs: Jobs, home: Path) -> None:
    """First: else what ends makes room for what waits. Then there is nobody left who would start anything."""
    for entry in queue_dir.entries(str(home)):
        with contextlib.suppress(JobNotFound):
            jobs.kill(queue_dir.job_of(entry), grace_s=0)
    wait_until(lambda: not queue_dir.has_dispatcher(str(home)), "a queue without jobs has no drainer")


def end_all_jobs(home: Path) -> None:
    """No test leaves a process behind."""
    if not home.is_dir():
        return
    jobs = open_jobs({**os.environ, "BGJOB_HOME": str(home)}, many=False)
    empty_queue(jobs, home)
    for job in jobs.list(limit=100_000).jobs:
        look = jobs.look(job.id)
        if look.descendants or (isinstance(look.job.state, Running) and look.job.run):
            jobs.kill(job.id, grace_s=0)
            assert not processes.marked(job.id)
