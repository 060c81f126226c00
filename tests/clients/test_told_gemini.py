"""Gemini CLI with the hooks that `bgjob client add gemini --hooks` installs: what its model is told, and when.

One session in a terminal for most of it. AfterTool is added by hand, as docs/hooks.md says.
"""

import json
from collections.abc import Iterator

import pytest

from tests.clients import chats, packages, seen
from tests.clients.chats import GeminiChat
from tests.clients.model.script import call, prompt, say
from tests.clients.model.server import PATIENCE_S
from tests.clients.sessions import HeldJobs, Setup, held_jobs, set_up
from tests.clients.told_by_hooks import ToldByHooks
from tests.support.npm_packages import installing_takes_long
from tests.support.programs import run_to_its_end
from tests.support.requires import linux_only, needs

pytestmark = [linux_only, installing_takes_long, needs("tmux")]


@pytest.fixture(scope="module")
def setup(npm_packages: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    with set_up("gemini", tmp_path_factory.mktemp("gemini")) as setup:
        path = setup.home / ".gemini" / "settings.json"
        settings = json.loads(path.read_text())
        settings["hooks"]["AfterTool"] = settings["hooks"]["AfterAgent"]
        path.write_text(json.dumps(settings))
        yield setup


@pytest.fixture(scope="module")
def chat(setup: Setup) -> Iterator[GeminiChat]:
    with chats.gemini(setup) as chat:
        yield chat


@pytest.fixture(scope="module")
def job(setup: Setup) -> Iterator[HeldJobs]:
    with held_jobs(setup) as jobs:
        yield jobs


def test_a_job_is_that_of_the_process_of_the_client(chat: GeminiChat, setup: Setup, job: HeldJobs) -> None:
    one = job("mine")
    chat.ask(one.start, say("begun"))
    by = setup.spec_of(one.id)["by"]
    assert by == {
        "client": "gemini-cli-mcp-client",
        "version": packages.versions()["@google/gemini-cli"],
        "session": by["session"],
        "cwd": str(setup.project),
    }
    assert by["session"].startswith("process ")
    one.end()
    chat.ask(say("next"))


class TestGemini(ToldByHooks):
    client = "Gemini CLI"
    at_prompt, at_stop, after_tool = "BeforeAgent", "AfterAgent", "AfterTool"
    other_tool = call("run_shell_command", command="true")
    turns_when_it_goes_on = 2


def test_a_session_that_is_cleared_is_told_by_its_next_prompt(chat: GeminiChat, job: HeldJobs) -> None:
    """What a hook of SessionStart says after /clear is not given to the model."""
    one = job("cleared")
    chat.ask(one.start, say("begun and cleared"))
    one.end()
    assert chat.clear().given["source"] == "clear"
    chat.terminal.wait_until(lambda: "begun and cleared" not in chat.terminal.screen, "the screen is cleared")
    chat.ask(say("next"))
    (asked,) = one.tellings
    assert one.line in asked.news.replace("\\", "")
    seen.told("Gemini CLI", "hook BeforeAgent", "idle, then cleared", "told with the next prompt")


def test_a_session_that_is_resumed_in_another_process_is_a_new_one(
    chat: GeminiChat, setup: Setup, job: HeldJobs
) -> None:
    """The last test of this session. Its calls name no session, so that its jobs are those of its process."""
    one = job("resumed")
    chat.ask(one.start, say("begun"))
    chat.close()
    one.end()
    command = [*packages.program("gemini"), "--yolo", "--model", "gemini-2.5-pro", "--resume", "latest"]
    again = [*command, "--prompt", prompt(call("list_jobs"), say("I know"))]
    done = run_to_its_end(again, setup.project, PATIENCE_S, setup.environment)
    assert done.returncode == 0, done.stdout
    assert setup.hooks("SessionStart")[-1].given["source"] == "resume"
    assert one.tellings == []
    asked = setup.model.asked[-1]
    assert (asked.step.text, one.id in asked.news) == ("I know", True)
    seen.told("Gemini CLI", "hook SessionStart", "resumed in another process", "not told; `list_jobs` has it")
