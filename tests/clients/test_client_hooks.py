"""`bgjob client add --hooks` with the real clients: each accepts the hooks, keeps our server, and loses both again."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bgjob.clients.hooks import HOOKS
from tests.clients import packages
from tests.clients.client_user import BGJOB, SHOWS, User
from tests.clients.codex_app_server import app_server_answer
from tests.support.npm_packages import installing_takes_long
from tests.support.requires import linux_only
from tests.support.waiting import wait_until

pytestmark = [linux_only, installing_takes_long]

NO_MODEL = "http://127.0.0.1:9"
"""A port at which nothing listens: a session begins, and its first request to the model fails."""


@pytest.fixture(autouse=True)
def package_of_opencode(user: User) -> None:
    """opencode installs a package from npm beside a plugin, and waits for it, unless this says that it is there."""
    folder = user.home / ".config" / "opencode"
    (folder / "node_modules").mkdir(parents=True)
    lock = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": packages.versions()["opencode-ai"]}}}}
    (folder / "package-lock.json").write_text(json.dumps(lock))


@pytest.mark.parametrize("client", HOOKS)
def test_it_has_server_and_hooks_and_loses_both_again(user: User, client: str) -> None:
    assert user(BGJOB, "client", "add", client, "--hooks").endswith("exit code 0")
    assert BGJOB in user(client, *SHOWS[client])
    assert "has the hooks already" in user(BGJOB, "client", "add", client, "--hooks")
    checked = user(BGJOB, "client", "check", client)
    assert f" starts by {BGJOB} (in " in checked
    assert checked.endswith("exit code 0")
    assert user(BGJOB, "client", "remove", client).endswith("exit code 0")
    assert BGJOB not in user(client, *SHOWS[client])
    assert HOOKS[client].commands(user.environment) == []


class RecordingBgjob:
    """Adds itself to a client as bgjob does; then it writes down what its hooks are given."""

    def __init__(self, user: User) -> None:
        self._user, self._path, self._log = user, user.home / "bin" / "bgjob", user.home / "hooks"
        self._path.parent.mkdir()

    def add_to(self, client: str) -> None:
        shutil.copy(BGJOB, self._path)
        added = self._user(str(self._path), "client", "add", client, "--hooks")
        assert added.endswith("exit code 0"), added
        record = (
            f'if [ "$1" = hook ]; then cat >> {self._log}; echo >> {self._log}; else exec {BGJOB} "$@"; fi'
        )
        self._path.write_text(f"#!/bin/sh\n{record}\n")

    def wait_for(self, *events: str) -> None:
        wait_until(
            lambda: self._events()[: len(events)] == [*events],
            f"the hooks of {' and '.join(events)} have run",
        )

    def _events(self) -> list[str]:
        """Only of whole lines."""
        texts = self._log.read_text().split("\n")[:-1] if self._log.exists() else []
        return [json.loads(text)["hook_event_name"] for text in texts if text]


@pytest.fixture
def bgjob(user: User) -> RecordingBgjob:
    return RecordingBgjob(user)


def test_claude_code_runs_the_hooks(user: User, bgjob: RecordingBgjob) -> None:
    bgjob.add_to("claude")
    variables = {"ANTHROPIC_BASE_URL": NO_MODEL, "ANTHROPIC_API_KEY": "test"}
    with user.running("claude", "-p", "hi", **variables):
        bgjob.wait_for("SessionStart", "UserPromptSubmit")


def test_gemini_cli_runs_the_hooks_beside_what_its_user_has_set(user: User, bgjob: RecordingBgjob) -> None:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
    }
    path = user.home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps(settings))
    bgjob.add_to("gemini")
    variables = {
        "GEMINI_API_KEY": "test",
        "GOOGLE_GEMINI_BASE_URL": NO_MODEL,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    with user.running("gemini", "-p", "hi", **variables):
        bgjob.wait_for("SessionStart", "BeforeAgent")


def test_codex_lists_the_hooks_and_leaves_it_to_its_user_to_trust_them(user: User) -> None:
    user(BGJOB, "client", "add", "codex", "--hooks")
    hooks = listed_by_codex(user)
    assert [hook["eventName"] for hook in hooks] == ["sessionStart", "userPromptSubmit", "stop"]
    assert {hook["command"] for hook in hooks} == {f"{BGJOB} hook codex"}
    assert {hook["trustStatus"] for hook in hooks} == {"untrusted"}
    assert "once you have trusted the hooks" in user(BGJOB, "client", "check", "codex")
    user(BGJOB, "client", "remove", "codex")
    assert listed_by_codex(user) == []


def listed_by_codex(user: User) -> list[dict[str, Any]]:
    answer = app_server_answer("hooks/list", {"cwds": [str(user.home)]}, user.home, user.environment)
    (listed,) = answer["data"]
    assert (listed["warnings"], listed["errors"]) == ([], [])
    hooks: list[dict[str, Any]] = listed["hooks"]
    return hooks


def test_opencode_lists_the_plugin(user: User) -> None:
    user(BGJOB, "client", "add", "opencode", "--hooks")
    plugin = Path(HOOKS["opencode"].path(user.environment))
    assert plugin.as_uri() in user("opencode", "debug", "info")
    user(BGJOB, "client", "remove", "opencode")
    assert plugin.as_uri() not in user("opencode", "debug", "info")
