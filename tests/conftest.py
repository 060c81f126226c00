"""What every test stands on: a private home, real servers with a real MCP client, and a gate for jobs."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, settings

from bgjob.api import Jobs, JobStatus, open_jobs
from bgjob.home import watch_registry
from tests.support.control_groups import skip_without_control_group
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.queueing import Diary, OpenJobs
from tests.support.server import CLAUDE_CODE, Server, StartServer
from tests.support.telling import watchers
from tests.support.waiting import wait_until

# The files that take minutes, in this order: docs/testing.md says how long, and what each shows.
SLOWEST = (
    "test_kill_points",
    "test_power_loss",
    "test_state_fuzz",
    "test_random_kills",
    "test_cli",
    "test_queue_kills",
    "test_settings",
    "test_model",
    "test_wire",
    "test_load",
    "test_fuzz",
)

# no test reads the config file of the person who runs it
os.environ["XDG_CONFIG_HOME"] = os.devnull

# this machine may be busy: how long something takes is measured elsewhere
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# A shell that runs us in the background hands down an ignored SIGINT, nohup an ignored SIGHUP; so would we.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first, so that no worker is left alone with it in the end."""
    items.sort(key=lambda item: SLOWEST.index(item.path.stem) if item.path.stem in SLOWEST else len(SLOWEST))


def pytest_runtest_setup(item: pytest.Item) -> None:
    skip_without_control_group(item)


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


@pytest.fixture
def start_server(portal: BlockingPortal, home: Path) -> Iterator[StartServer]:
    """Any number of servers on one home: start_server(MCP_BG_MAX_JOBS="3")."""
    with contextlib.ExitStack() as started:

        def start(mode: str = "auto", client: str = CLAUDE_CODE, **environment: str) -> Server:
            session = {"CLAUDE_CODE_SESSION_ID": str(uuid4())}  # each has a client of its own
            server = Server(portal, home, session | environment, mode, client)
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
def ended(jobs: Jobs) -> Callable[[str], JobStatus]:
    """Wait until a job has ended, without polling: by following its output to the end."""

    def wait(job_id: str) -> JobStatus:
        for _ in jobs.follow(job_id, wait=True):
            pass
        return jobs.status(job_id)

    return wait


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


@pytest.fixture
def open_with(home: Path) -> Iterator[OpenJobs]:
    """The jobs of this home with settings of its own: open_with(MCP_BG_MAX_JOBS="1")."""
    with contextlib.ExitStack() as opened:

        def with_settings(**settings: str) -> Jobs:
            jobs = open_jobs({**os.environ, "BGJOB_HOME": str(home), **settings})
            opened.enter_context(contextlib.closing(jobs))
            return jobs

        yield with_settings


@pytest.fixture
def one(open_with: OpenJobs) -> Jobs:
    """One slot."""
    return open_with(MCP_BG_MAX_JOBS="1")


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "diary")


@pytest.fixture
def new_gate(tmp_path: Path) -> Callable[[str], Gate]:
    return lambda name: Gate(tmp_path / name)


@pytest.fixture
def no_watcher_left(home: Path) -> Iterator[None]:
    """Whatever a test does: without jobs there is none."""
    yield
    for path in (home / watch_registry.WATCHES).glob("*"):
        path.unlink(missing_ok=True)  # its watcher may strike it out just now
    wait_until(lambda: not watchers(home))
