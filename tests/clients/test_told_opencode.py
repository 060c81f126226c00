"""opencode with the plugin that `bgjob client add opencode --hooks` installs: what its model is told, and when.

One `opencode serve`, as its editors and its desktop program have it, with a new session for each test; and one in a
terminal.
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from tests.clients import chats, packages, seen
from tests.clients.model.script import Step, call, prompt, say
from tests.clients.model.server import PATIENCE_S, Asked
from tests.clients.sessions import (
    HeldJob,
    HeldJobs,
    HookCall,
    Setup,
    declared,
    held_jobs,
    set_up,
    tasks_in,
    times_told,
)
from tests.support.npm_packages import installing_takes_long
from tests.support.programs import run_to_its_end
from tests.support.requires import linux_only, needs
from tests.support.server import Server
from tests.support.waiting import wait_until

pytestmark = [linux_only, installing_takes_long]


class Session:
    """A session of a running opencode."""

    def __init__(self, setup: Setup, url: str) -> None:
        self.setup, self._url = setup, url
        self.id: str = self._post("/session", {})["id"]

    def ask(self, *steps: Step) -> None:
        """The turn is over then."""
        self._post(f"/session/{self.id}/message", _parts(*steps))

    def submit(self, *steps: Step) -> None:
        self._post(f"/session/{self.id}/prompt_async", _parts(*steps))

    @property
    def messages(self) -> str:
        """All that its user and its model have said, quotes as they were."""
        with urllib.request.urlopen(f"{self._url}/session/{self.id}/message", timeout=PATIENCE_S) as response:
            return str(response.read().decode()).replace("\\", "")

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            answer: dict[str, Any] = json.loads(response.read() or b"{}")
        return answer


def _parts(*steps: Step) -> dict[str, Any]:
    return {"parts": [{"type": "text", "text": prompt(*steps)}]}


@pytest.fixture(scope="module")
def setup(npm_packages: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    with set_up("opencode", tmp_path_factory.mktemp("opencode")) as setup:
        yield setup


@pytest.fixture(scope="module")
def url(setup: Setup) -> Iterator[str]:
    """Of the server, which is ended with all that it started."""
    with subprocess.Popen(
        [*packages.program("opencode"), "serve", "--hostname", "127.0.0.1", "--port", "0"],
        cwd=setup.project,
        env=setup.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        start_new_session=True,
    ) as server:
        try:
            assert server.stdout
            yield next(line.split()[-1] for line in server.stdout if "listening on" in line)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)


@pytest.fixture
def session(setup: Setup, url: str) -> Session:
    return Session(setup, url)


@pytest.fixture(scope="module")
def job(setup: Setup) -> Iterator[HeldJobs]:
    with held_jobs(setup) as jobs:
        yield jobs


def keep(way: str, situation: str, what: str) -> None:
    seen.told("opencode", way, situation, what)


def hooks_of(setup: Setup, one: HeldJob) -> list[HookCall]:
    """Those that were asked about this job."""
    return [hook for hook in setup.hooks("session.idle", "wait") if one.id in hook.given["job_ids"]]


def wait_until_idle(setup: Setup, one: HeldJob, times: int = 1) -> int:
    """The session of the job is idle with nothing to tell, and a process waits for its end: the id of that."""

    def waits() -> list[HookCall]:
        return [hook for hook in hooks_of(setup, one) if hook.event == "wait"]

    wait_until(lambda: len(waits()) >= times, f"a process waits for {one.name}", setup.model.told, PATIENCE_S)
    return waits()[times - 1].pid


def wait_until_told(setup: Setup, one: HeldJob) -> Asked:
    """The request that tells it."""
    return setup.model.wait_for_news(one.line)[0]


def test_an_idle_session_wakes(session: Session, setup: Setup, job: HeldJobs) -> None:
    one = job("idle", exit_code=3)
    session.ask(one.start, say("begun"))
    wait_until_idle(setup, one)
    one.end()
    asked = wait_until_told(setup, one)
    assert f"{one.line}failed with exit code 3 after " in asked.news
    assert ': "idle is over". tail_job_output' in asked.news
    assert "begun" in asked.conversation.text  # it is the same session
    wait_until_idle(setup, one, times=2)
    session.ask(say("next"))
    assert times_told(setup.model.asked[-1], one) == 1
    keep("plugin", "idle", "wakes")


def test_several_ends_are_one_message(session: Session, setup: Setup, job: HeldJobs) -> None:
    """All that have ended when the process that waits gets to look."""
    ones = [job(name) for name in ("several1", "several2", "several3")]
    session.ask(*(one.start for one in ones), say("begun"))
    waiter = wait_until_idle(setup, ones[0])
    os.kill(waiter, signal.SIGSTOP)
    for one in ones:
        one.end()
    os.kill(waiter, signal.SIGCONT)
    asked = wait_until_told(setup, ones[0])
    assert [asked.news.count(one.line) for one in ones] == [1, 1, 1]
    wait_until_idle(setup, ones[0], times=2)
    session.ask(say("next"))
    assert [times_told(setup.model.asked[-1], one) for one in ones] == [1, 1, 1]


def test_what_ended_unseen_in_the_turn_is_told_at_its_end(
    session: Session, setup: Setup, job: HeldJobs
) -> None:
    """Nobody waits for it yet: the hook of session.idle finds it."""
    one = job("unseen")
    session.submit(one.start, say("I stop", held="unseen has ended"))
    setup.model.do_while_held("unseen has ended", one.end)
    asked = wait_until_told(setup, one)
    assert "I stop" in asked.conversation.text
    wait_until(lambda: len(hooks_of(setup, one)) > 1, "the session is idle again", within_s=PATIENCE_S)
    assert [hook.event for hook in hooks_of(setup, one)][:2] == ["session.idle", "session.idle"]
    keep("plugin", "end of turn", "goes on and is told")


def test_what_ends_in_a_later_turn_is_told_in_it(session: Session, setup: Setup, job: HeldJobs) -> None:
    """A process waits for it since the session was idle. The message comes while the model works on another prompt."""
    one = job("later")
    session.ask(one.start, say("begun"))
    wait_until_idle(setup, one)
    session.submit(say("working", held="later has ended"))

    def end() -> None:
        one.end()
        wait_until(
            lambda: one.line in session.messages, "the session has got the message", within_s=PATIENCE_S
        )

    setup.model.do_while_held("later has ended", end)
    assert "working" in wait_until_told(setup, one).conversation.text
    wait_until_idle(setup, one, times=2)
    session.ask(say("next"))
    assert times_told(setup.model.asked[-1], one) == 1
    keep("plugin", "in a turn", "told in the turn")


def test_an_answer_of_ours_tells_in_the_turn_and_no_hook_again(
    session: Session, setup: Setup, job: HeldJobs
) -> None:
    one = job("answered")
    session.submit(
        one.start, call("list_jobs", held="answered has ended", status="running"), say("I know", held="told")
    )
    setup.model.do_while_held("answered has ended", one.end)
    setup.model.wait_for(lambda asked: asked.step.held == "told", "the model was answered")
    (asked,) = one.tellings
    assert (asked.step.text, one.line in asked.news) == ("I know", False)
    setup.model.release("told")
    wait_until_idle(setup, one)
    session.ask(say("next"))
    assert times_told(setup.model.asked[-1], one) == 1
    keep("answer", "in a turn", "told in the turn")


def test_each_session_is_told_of_its_own_jobs(
    session: Session, setup: Setup, url: str, job: HeldJobs, portal: BlockingPortal
) -> None:
    """Not of those of another session of this opencode, of another client, or of a shell."""
    another = Session(setup, url)
    by_hand, by_a_client, by_another, own = (job(name) for name in ("byhand", "byclient", "byanother", "own"))
    with contextlib.closing(Server(portal, setup.jobs_home, {}, "auto")) as server:
        by_hand.run_by_hand()
        server.execute(by_a_client.command, name=by_a_client.name)
        session.ask(own.start, say("begun by this"))
        another.ask(by_another.start, say("begun by another"))
        for one in (own, by_another):
            wait_until_idle(setup, one)
        for one in (by_hand, by_a_client, own):
            one.end()
        assert "begun by this" in wait_until_told(setup, own).conversation.text
        by_another.end()
        assert "begun by another" in wait_until_told(setup, by_another).conversation.text
        for each in (session, another):
            each.ask(say("next"))
        ones = (by_hand, by_a_client, by_another, own)
        assert [len(one.tellings) for one in ones] == [0, 0, 1, 1]


def test_a_job_is_that_of_the_process_of_opencode(session: Session, setup: Setup, job: HeldJobs) -> None:
    one = job("mine")
    session.ask(one.start, say("begun"))
    wait_until_idle(setup, one)
    by = setup.spec_of(one.id)["by"]
    assert by == {
        "client": "opencode",
        "version": packages.versions()["opencode-ai"],
        "session": by["session"],
        "cwd": str(setup.project),
    }
    assert by["session"].startswith("process ")
    one.end()
    wait_until_told(setup, one)


def test_a_wait_is_answered_in_the_call_and_never_by_a_task(
    session: Session, setup: Setup, job: HeldJobs
) -> None:
    """With these settings a client that knows tasks would get one at once."""
    one = job("waited")
    session.submit(one.start, call("wait_for_job", job_ids=[one.name], timeout_s=40), say("I know"))
    one.end_once_waited_for()
    asked = setup.model.wait_for_news('"exit_code":0')[-1]
    assert asked.step.text == "I know"
    session.ask(say("next"))
    assert times_told(setup.model.asked[-1], one) == 0
    assert tasks_in(setup.tap) == []
    assert not {"tasks", "extensions"} & declared(setup.tap)
    keep("task", "in a turn", "no task: its waits are answered in the call")


def test_a_run_without_a_user_ends_with_its_turn(setup: Setup, job: HeldJobs) -> None:
    """`opencode run` is not held up by a job that it leaves behind. It would put an argument into quotes: stdin."""
    one = job("leftbehind")
    (program,) = packages.program("opencode")
    command = f"printf %s {shlex.quote(prompt(one.start, say('that was all')))} | {program} run"
    done = run_to_its_end(["/bin/sh", "-c", command], setup.project, PATIENCE_S, setup.environment)
    assert done.returncode == 0, done.stdout
    assert "that was all" in done.stdout
    one.end()
    assert one.tellings == []
    keep("plugin", "after `opencode run`", "not told: the session is over")


@needs("tmux")
def test_an_idle_session_in_a_terminal_wakes(setup: Setup, job: HeldJobs) -> None:
    one = job("terminal")
    with chats.opencode(setup) as chat:
        chat.submit(one.start, say("begun"))
        one.wait_until_begun()
        wait_until_idle(setup, one)
        one.end()
        assert "begun" in wait_until_told(setup, one).conversation.text
