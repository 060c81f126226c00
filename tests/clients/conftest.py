"""The clients of npm, and our server on each transport."""

import os
import shutil
from pathlib import Path

import pytest

from tests.clients import endpoints, packages
from tests.clients.endpoints import Endpoint


@pytest.fixture(scope="session")
def npm_packages() -> None:
    if not shutil.which("npm") and not os.environ.get("CI"):
        pytest.skip("needs npm, which installs the clients. On Debian: apt-get install nodejs npm")
    packages.install()


@pytest.fixture(params=["stdio"])
def endpoint(request: pytest.FixtureRequest, tmp_path: Path, home: Path) -> Endpoint:
    return endpoints.on_stdio(tmp_path / "tap", home)


@pytest.fixture
def bare_environment(npm_packages: None, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "user").mkdir()
    return packages.bare_environment(tmp_path / "user")
