"""`bgjob client add` with the real clients, installed by npm: each then knows bgjob by its own account."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bgjob.cli.client_table import CLIENTS
from tests.clients import packages
from tests.clients.programs import run_to_its_end
from tests.support.requires import linux_only

pytestmark = [linux_only, packages.installing_takes_long]

BGJOB = str(Path(sys.executable).with_name("bgjob"))
RUN_S = 120
SHOWS = {
    "claude": ["mcp", "get", "bgjob"],
    "codex": ["mcp", "get", "bgjob"],
    "gemini": ["mcp", "list"],
    "opencode": ["mcp", "list"],
}
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9",
}


@pytest.fixture(scope="module")
def without_network() -> list[str]:
    """A client has nothing to look for outside of this machine; where we may, we see to it."""
    unshare = ["unshare", "--net"]
    done = subprocess.run([*unshare, "true"], capture_output=True, check=False)
    return unshare if done.returncode == 0 else []


class User:
    def __init__(self, home: Path, prefix: list[str]) -> None:
        self.home, self._prefix = home, prefix
        self._environment = {
            **QUIET,
            "HOME": str(home),
            "PATH": f"{packages.MODULES / '.bin'}:{packages.node().parent}:{os.environ['PATH']}",
            "BGJOB_HOME": str(home / "jobs"),
        }

    def __call__(self, *command: str) -> str:
        done = run_to_its_end([*self._prefix, *command], self.home, RUN_S, self._environment)
        return f"{done.stdout}\nexit code {done.returncode}"


@pytest.fixture
def user(tmp_path: Path, npm_packages: None, without_network: list[str]) -> User:
    home = tmp_path / "user"
    home.mkdir()
    return User(home, without_network)


@pytest.mark.parametrize("client", SHOWS)
class TestARealClient:
    def test_it_has_bgjob_after_one_command_and_a_second_one_changes_nothing(
        self, user: User, client: str
    ) -> None:
        add = (BGJOB, "client", "add", client, "--env", "MCP_BG_MAX_JOBS=7", "--env", "NOTE=a b")
        added = user(*add)
        assert "has bgjob now, in" in added
        assert added.endswith("exit code 0")
        assert BGJOB in user(client, *SHOWS[client])
        assert "has bgjob already, in" in user(*add)

    def test_it_has_what_is_printed_if_it_is_put_where_it_is_said(self, user: User, client: str) -> None:
        printed = user(BGJOB, "client", "add", client, "--print")
        heading, _, text = printed.partition("put this into ")[2].partition("\n\n")
        path = Path(heading)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.removesuffix("\nexit code 0"))
        assert BGJOB in user(client, *SHOWS[client])
        assert "has bgjob already, in" in user(BGJOB, "client", "add", client)

    def test_another_server_of_that_name_is_replaced_as_the_error_says(self, user: User, client: str) -> None:
        assert "has bgjob now" in user(BGJOB, "client", "add", client)
        refused = user(BGJOB, "client", "add", client, "--env", "A=b")
        assert "it has other variables" in refused
        if remove := CLIENTS[client].remove:
            assert user(*remove.split(), "bgjob").endswith("exit code 0")
            assert "has bgjob now" in user(BGJOB, "client", "add", client, "--env", "A=b")
