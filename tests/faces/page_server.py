"""What the tests of the page without a browser share: a server for each file, a login for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bgjob.core.scopes import SCOPES
from bgjob.web.page.logins import Logins
from tests.support.homes import end_all_jobs
from tests.support.http_server import HttpServer
from tests.support.page_login import PageLogin

LogIn = Callable[..., PageLogin]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with HttpServer(tmp_path_factory.mktemp("page") / "home", MCP_BG_MAX_JOBS="100", USER="ann") as server:
        yield server


@pytest.fixture
def home(server: HttpServer) -> Iterator[Path]:
    yield server.home
    end_all_jobs(server.home)


@pytest.fixture
def login(server: HttpServer, home: Path) -> PageLogin:
    return logged_in(server)


def logged_in(server: HttpServer, *scopes: str) -> PageLogin:
    """Of a browser of its own."""
    return PageLogin(server, Logins(str(server.home)).add_key(scopes or tuple(SCOPES)))
