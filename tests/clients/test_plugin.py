"""The plugin for Claude Code: the client finds nothing wrong with it, installs it, and starts its server."""

from pathlib import Path

import pytest

from bgjob import __version__
from bgjob.system.own_package import full_version
from tests.clients.client_user import BGJOB, User
from tests.support.npm_packages import installing_takes_long
from tests.support.requires import linux_only

pytestmark = [linux_only, installing_takes_long]

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugins" / "claude-code"


@pytest.mark.parametrize("manifest", [ROOT, PLUGIN], ids=["marketplace", "plugin"])
def test_it_is_valid(user: User, manifest: Path) -> None:
    report = user("claude", "plugin", "validate", "--strict", str(manifest))
    assert "Validation passed" in report
    assert report.endswith("exit code 0")


@pytest.fixture
def installed(user: User) -> User:
    """From this directory, as from a repository; the user has bgjob on PATH."""
    user.environment["PATH"] = f"{Path(BGJOB).parent}:{user.environment['PATH']}"
    for command in (["marketplace", "add", str(ROOT)], ["install", "bgjob@bgjob"]):
        done = user("claude", "plugin", *command)
        assert done.endswith("exit code 0"), done
    return user


def test_it_has_a_server_hooks_and_a_skill(installed: User) -> None:
    details = installed("claude", "plugin", "details", "bgjob@bgjob")
    assert f"bgjob {__version__}" in details
    assert "Skills (1)  background-jobs" in details
    assert "Hooks (4)  SessionStart, UserPromptSubmit, Stop, PostToolUse" in details
    assert "MCP servers (1)  bgjob" in details


def test_its_server_is_connected(installed: User) -> None:
    listed = installed("claude", "mcp", "list")
    assert "plugin:bgjob:bgjob: " in listed
    assert "✔ Connected" in listed


def test_bgjob_knows_that_it_is_there(installed: User) -> None:
    assert "has bgjob already, with its hooks, by its plugin" in installed(BGJOB, "client", "add", "claude")
    checked = installed(BGJOB, "client", "check", "claude")
    assert f"bgjob {full_version()} starts by its plugin bgjob@bgjob" in checked
    assert checked.endswith("exit code 0")


def test_once_it_is_uninstalled_bgjob_can_be_added(installed: User) -> None:
    assert installed("claude", "plugin", "uninstall", "bgjob@bgjob").endswith("exit code 0")
    assert "has bgjob now" in installed(BGJOB, "client", "add", "claude")
