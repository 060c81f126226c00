"""The contract: what is promised of a job, wherever it runs. Each test is run on every engine of `ENGINES`.

The tests of an engine share one home with one target, and run one after the other; a test that needs settings of
its own, or does harm, makes a target of its own (`new_target`).
"""

from collections.abc import Iterator

import pytest
from anyio.from_thread import BlockingPortal

from tests.clusters.engine import Engine
from tests.clusters.target import Target
from tests.support.server import CLAUDE_CODE, Server, StartServer

ENGINES = ["local", "ssh", "ray"]


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """By the fixture of its name."""
    engine: Engine = request.getfixturevalue(request.param)
    return engine


@pytest.fixture(scope="session")
def shared_target(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with Target(engine, tmp_path_factory.mktemp(engine.kind), MCP_BG_NEWS="off") as target:
        yield target


@pytest.fixture
def target(shared_target: Target) -> Iterator[Target]:
    yield shared_target
    shared_target.end_jobs()


@pytest.fixture(scope="session")
def shared_server(portal: BlockingPortal, shared_target: Target) -> Iterator[Server]:
    server = Server(portal, shared_target.home, shared_target.settings, "auto")
    yield server
    server.close()


@pytest.fixture
def server(shared_server: Server, target: Target) -> Server:
    """An MCP server on the home of the target."""
    return shared_server


@pytest.fixture
def start_server(portal: BlockingPortal, target: Target) -> Iterator[StartServer]:
    """Further ones, which a test may kill."""
    started: list[Server] = []

    def start(**environment: str) -> Server:
        started.append(Server(portal, target.home, {**target.settings, **environment}, "auto", CLAUDE_CODE))
        return started[-1]

    yield start
    for server in started:
        server.close()
