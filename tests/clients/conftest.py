"""The clients of npm, and our server on each transport."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import endpoints, packages
from tests.clients.client_user import User, without_network
from tests.clients.endpoints import Endpoint
from tests.support.http_server import HttpServer

# Clients keep files of their own there, below a HOME that each test gives them.
os.environ.pop("XDG_CONFIG_HOME", None)


@pytest.fixture(scope="session")
def npm_packages() -> None:
    packages.PACKAGES.install_or_skip()


@pytest.fixture(params=["stdio", "http"])
def endpoint(request: pytest.FixtureRequest, tmp_path: Path, home: Path) -> Iterator[Endpoint]:
    if request.param == "stdio":
        yield endpoints.on_stdio(tmp_path / "tap", home)
    else:
        with endpoints.on_http(tmp_path / "tap", home) as endpoint:
            yield endpoint


@pytest.fixture
def bare_environment(npm_packages: None, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "user").mkdir()
    return packages.bare_environment(tmp_path / "user")


@pytest.fixture
def user(tmp_path: Path, npm_packages: None) -> User:
    home = tmp_path / "user"
    home.mkdir()
    return User(home, without_network())


@pytest.fixture(scope="module")
def fixture_url(npm_packages: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("conformance") / "home"
    add_fixtures = "from tests.clients.conformance_server import add_fixtures; add_fixtures()"
    with HttpServer(home, first=add_fixtures, MCP_BG_TASK_AFTER="0") as server:
        yield f"http://127.0.0.1:{server.port}/mcp"
