"""Codex with the hooks that `bgjob client add codex --hooks` installs: what its model is told, and when.

One session in a terminal for most of it. Its user is asked to trust the hooks, and does. PostToolUse is added by hand,
as docs/hooks.md says.
"""

import json
from collections.abc import Iterator

import pytest

from tests.clients import chats, packages, seen
from tests.clients.chats import CodexChat
from tests.clients.model.script import call, say
from tests.clients.model.server import PATIENCE_S
from tests.clients.sessions import (
    HeldJobs,
    Setup,
    held_jobs,
    set_up,
    times_told,
)
from tests.clients.told_by_hooks import ToldByHooks
from tests.support.npm_packages import installing_takes_long
from tests.support.programs import run_to_its_end
from tests.support.requires import linux_only, needs

pytestmark = [linux_only, installing_takes_long, needs("tmux")]


@pytest.fixture(scope="module")
def setup(npm_packages: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    with set_up("codex", tmp_path_factory.mktemp("codex")) as setup:
        hooks = setup.home / ".codex" / "hooks.json"
        settings = json.loads(hooks.read_text())
        settings["hooks"]["PostToolUse"] = settings["hooks"]["Stop"]
        hooks.write_text(json.dumps(settings))
        yield setup


@pytest.fixture(scope="module")
def chat(setup: Setup) -> Iterator[CodexChat]:
    with chats.codex(setup) as chat:
        chat.trust_hooks()
        yield chat


@pytest.fixture(scope="module")
def job(setup: Setup) -> Iterator[HeldJobs]:
    with held_jobs(setup) as jobs:
        yield jobs


def test_hooks_that_nobody_trusts_do_not_run(setup: Setup) -> None:
    """`codex exec` does not ask. This test is the first: the others trust them."""
    command = [*packages.program("codex"), "exec", "--skip-git-repo-check", "hello"]
    done = run_to_its_end(command, setup.project, PATIENCE_S, setup.environment)
    assert done.returncode == 0, done.stdout
    assert "NOTED" in done.stdout
    assert setup.hooks("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop") == []


def test_a_job_is_that_of_the_session_that_each_call_names(
    chat: CodexChat, setup: Setup, job: HeldJobs
) -> None:
    one = job("mine")
    chat.ask(one.start, say("begun"))
    session = setup.hooks("UserPromptSubmit")[-1].given["session_id"]
    assert setup.spec_of(one.id)["by"] == {
        "client": "codex-mcp-client",
        "version": packages.versions()["@openai/codex"],
        "session": session,
        "cwd": str(setup.project),
    }
    metas = [
        message["params"]["_meta"] for message in setup.tap.asked if message.get("method") == "tools/call"
    ]
    assert {(meta["sessionId"], meta["threadId"]) for meta in metas} == {(session, session)}
    one.end()
    chat.ask(say("next"))


class TestCodex(ToldByHooks):
    client = "Codex"
    at_prompt, at_stop, after_tool = "UserPromptSubmit", "Stop", "PostToolUse"
    other_tool = call("exec_command", cmd="true")


def test_a_session_that_is_resumed_is_told_what_ended_meanwhile_and_what_still_runs(
    chat: CodexChat, setup: Setup, job: HeldJobs
) -> None:
    """The last test of this session: it ends, and goes on in another process."""
    ended, running = job("meanwhile"), job("stillruns")
    chat.ask(ended.start, running.start, say("begun"))
    session = setup.hooks("UserPromptSubmit")[-1].given["session_id"]
    chat.close()
    ended.end()
    with chats.codex(setup, "resume", session) as resumed:
        resumed.terminal.wait_for("scripted default")
        resumed.ask(say("welcome"))
        assert setup.hooks("SessionStart")[-1].given["source"] == "resume"
        (asked,) = ended.tellings
        assert f'bgjob: still running: "{running.name}{running.mark.strip()}.' in asked.news
        running.end()
        resumed.ask(say("next"))
        assert [times_told(setup.model.asked[-1], one) for one in (ended, running)] == [1, 1]
    seen.told("Codex", "hook SessionStart", "resumed", "told with the next prompt")
