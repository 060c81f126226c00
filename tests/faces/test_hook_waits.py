"""Hooks that wait: PostToolUse of Claude Code, which wakes an idle session, and `wait` of opencode."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from bgjob.api import Jobs
from bgjob.home import sessions
from tests.support.gate import Gate
from tests.support.hooks import ATTENDED, BGJOB, Hooks, is_held, is_silent, own_process
from tests.support.process_table import parent_of, wait_until_gone
from tests.support.server import StartServer
from tests.support.shims import kill_both
from tests.support.telling import listens
from tests.support.waiting import PATIENCE_S, wait_until

SESSION = "CLAUDE_CODE_SESSION_ID"
Ended = Callable[[str], object]
RUN_BY_SHELL = 'import subprocess, sys; subprocess.run(["/bin/sh", "-c", sys.argv[1]])'
Hook = subprocess.Popen[bytes]


@pytest.fixture
def session() -> str:
    return str(uuid4())


@pytest.fixture
def claude(home: Path, session: str) -> Hooks:
    return Hooks(home, "claude", session, **ATTENDED)


class Waiting:
    """Starts hooks that provably wait, and ends those that still do when the test is over."""

    def __init__(self) -> None:
        self._started: list[Hook] = []

    def __call__(self, hooks: Hooks, event: str = "PostToolUse", **given: Any) -> Hook:
        hook = hooks.start(event, **given)
        self._started.append(hook)
        wait_until(lambda: hook.poll() is not None or listens(hook.pid))
        assert hook.poll() is None, hook.communicate()
        return hook

    def close(self) -> None:
        for hook in self._started:
            hook.kill()
            hook.communicate()


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    started = Waiting()
    yield started
    started.close()


def told(hook: Hook) -> tuple[int, str]:
    """(exit code, stderr) of a hook that ends by itself."""
    stdout, stderr = hook.communicate(timeout=PATIENCE_S)
    assert stdout == b""
    return hook.returncode, stderr.decode()


def answer(job_id: str, status: str = "running") -> dict[str, Any]:
    return {"job_id": job_id, "status": status, "cursor": "0"}


def as_text(*answers: object) -> list[dict[str, str]]:
    return [{"type": "text", "text": json.dumps(each)} for each in answers]


RESPONSES: dict[str, Callable[[str], object]] = {
    "text": lambda job_id: json.dumps(answer(job_id)),
    "an object": answer,
    "content": lambda job_id: as_text(answer(job_id)),
    "a result": lambda job_id: {"content": as_text(answer(job_id)), "structuredContent": answer(job_id)},
    "a wait": lambda job_id: json.dumps({"jobs": [answer(job_id), answer(str(uuid4()), "completed")]}),
    "a queued one": lambda job_id: json.dumps(answer(job_id, "queued")),
}
NOTHING_TO_WAIT_FOR: dict[str, Callable[[str], object]] = {
    "it has ended": lambda job_id: json.dumps(answer(job_id, "completed")),
    "another job": lambda _: json.dumps(answer(str(uuid4()))),
    "a task": lambda job_id: {"resultType": "task", "taskId": job_id, "status": "working", "job_id": job_id},
    "a task in words": lambda job_id: f'MCP tool "bgjob/execute_command" started server-side task {job_id}.',
    "an error": lambda _: as_text("Job limit reached"),
    "no text": lambda _: 17,
    "nothing": lambda _: None,
    "brackets": lambda _: "[" * 100_000,
}


class TestPostToolUse:
    @pytest.mark.parametrize("what", RESPONSES)
    def test_it_waits_for_the_job_of_the_answer_and_wakes_the_session(
        self, jobs: Jobs, claude: Hooks, session: str, gate: Gate, waiting: Waiting, what: str
    ) -> None:
        job_id = jobs.execute(f"{gate.pause}; echo oh no; exit 3", name="tests", by={"session": session}).id
        gate.wait_until_reached()
        hook = waiting(claude, tool_response=RESPONSES[what](job_id))
        gate.open()
        code, text = told(hook)
        assert code == 2
        assert text.startswith(f'bgjob: job "tests" ({job_id[:8]}) failed with exit code 3 after ')
        assert '"oh no"' in text
        assert is_silent(claude.run("UserPromptSubmit"))

    @pytest.mark.parametrize("what", NOTHING_TO_WAIT_FOR)
    def test_it_does_not_wait_where_no_job_of_the_answer_runs(
        self, jobs: Jobs, claude: Hooks, session: str, what: str
    ) -> None:
        job_id = jobs.execute("sleep 1000", by={"session": session}).id
        assert is_silent(claude.run("PostToolUse", tool_response=NOTHING_TO_WAIT_FOR[what](job_id)))

    @pytest.mark.parametrize(
        "environment",
        [
            {"CLAUDE_CODE_SESSION_ATTENDED": "0", "CLAUDE_CODE_ENTRYPOINT": "cli"},
            {"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"},
            {},
        ],
    )
    def test_it_does_not_wait_in_a_client_that_nobody_attends(
        self, jobs: Jobs, home: Path, session: str, environment: dict[str, str]
    ) -> None:
        """There the client would wait for the hook, and the call with it."""
        job_id = jobs.execute("sleep 1000", by={"session": session}).id
        hooks = Hooks(home, "claude", session, **environment)
        assert is_silent(hooks.run("PostToolUse", tool_response=json.dumps(answer(job_id))))

    def test_an_older_client_says_by_another_variable_that_it_is_attended(
        self, jobs: Jobs, home: Path, session: str, waiting: Waiting
    ) -> None:
        job_id = jobs.execute("sleep 1000", by={"session": session}).id
        hooks = Hooks(home, "claude", session, CLAUDE_CODE_ENTRYPOINT="cli")
        hook = waiting(hooks, tool_response=json.dumps(answer(job_id)))
        jobs.kill(job_id)
        assert "was killed" in told(hook)[1]

    def test_ends_at_once_are_one_message(
        self, jobs: Jobs, claude: Hooks, session: str, gate: Gate, ended: Ended, waiting: Waiting
    ) -> None:
        """The hooks of the others find nothing left to tell."""
        ours = {"by": {"session": session}}
        first = jobs.execute(f"{gate.pause}; exit 1", **ours).id  # type: ignore[arg-type]
        gate.wait_until_reached()
        hook = waiting(claude, tool_response=json.dumps(answer(first)))
        hook.send_signal(signal.SIGSTOP)
        others = [jobs.execute("exit 2", **ours).id for _ in range(2)]  # type: ignore[arg-type]
        gate.open()
        for job_id in (first, *others):
            ended(job_id)
        hook.send_signal(signal.SIGCONT)
        code, text = told(hook)
        assert (code, len(text.splitlines())) == (2, 3)
        for job_id in others:
            assert is_silent(claude.run("PostToolUse", tool_response=json.dumps(answer(job_id))))

    def test_of_several_hooks_that_wait_one_tells_each_end(
        self, jobs: Jobs, claude: Hooks, session: str, gate: Gate, waiting: Waiting
    ) -> None:
        job_id = jobs.execute(f"{gate.pause}; exit 3", by={"session": session}).id
        gate.wait_until_reached()
        hooks = [waiting(claude, tool_response=json.dumps(answer(job_id))) for _ in range(4)]
        gate.open()
        assert sorted(told(hook)[0] for hook in hooks) == [0, 0, 0, 2]

    def test_a_job_that_a_call_waits_for_is_told_by_the_call(
        self,
        start_server: StartServer,
        home: Path,
        claude: Hooks,
        session: str,
        gate: Gate,
        waiting: Waiting,
    ) -> None:
        """execute_command left it running, and wait_for_job waits for it: so does the hook of the first call."""
        server = start_server(**{SESSION: session})
        for _ in range(10):
            job_id = server.execute(f"{gate.pause}; exit 3")
            gate.wait_until_reached()
            hook = waiting(claude, tool_response=json.dumps(answer(job_id)))
            with ThreadPoolExecutor(1) as pool:
                call = pool.submit(server.call, "wait_for_job", job_ids=[job_id], timeout_s=PATIENCE_S)
                wait_until(lambda job=job_id: is_held(str(home), session, job))  # type: ignore[misc]
                gate.open()
                assert call.result()["jobs"][0]["exit_code"] == 3
            assert told(hook) == (0, "")

    def test_a_call_whose_time_was_up_leaves_it_to_the_hook(
        self, start_server: StartServer, claude: Hooks, session: str, gate: Gate, waiting: Waiting
    ) -> None:
        server = start_server(**{SESSION: session})
        job_id = server.execute(f"{gate.pause}; exit 3")
        gate.wait_until_reached()
        hook = waiting(claude, tool_response=json.dumps(answer(job_id)))
        server.call("wait_for_job", job_ids=[job_id], timeout_s=0.1)
        server.kill()
        gate.open()
        assert told(hook)[0] == 2

    def test_a_lost_job_is_noticed_too(
        self, jobs: Jobs, claude: Hooks, session: str, gate: Gate, waiting: Waiting
    ) -> None:
        job_id = jobs.execute(gate.pause, by={"session": session}).id
        gate.wait_until_reached()
        hook = waiting(claude, tool_response=json.dumps(answer(job_id)))
        kill_both(jobs, job_id)
        code, text = told(hook)
        assert (code, "was lost" in text) == (2, True)

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_client_that_ends_it_hears_nothing_and_the_end_stays_untold(
        self, jobs: Jobs, claude: Hooks, session: str, waiting: Waiting, number: signal.Signals
    ) -> None:
        job_id = jobs.execute("sleep 1000", by={"session": session}).id
        hook = waiting(claude, tool_response=json.dumps(answer(job_id)))
        hook.send_signal(number)
        assert told(hook) == (0, "")
        jobs.kill(job_id)
        assert job_id[:8] in claude.context()

    def test_it_ends_with_its_client_though_the_shell_between_them_lives(
        self, jobs: Jobs, claude: Hooks, session: str, tmp_path: Path
    ) -> None:
        """A shell that waits for the hook: not every /bin/sh becomes its last command."""
        job_id = jobs.execute("sleep 1000", by={"session": session}).id
        given = tmp_path / "given"
        given.write_bytes(claude.given("PostToolUse", tool_response=json.dumps(answer(job_id))))
        script = f"{BGJOB} hook claude < {given} & echo $!; wait; exit 0"
        client = subprocess.Popen(
            [sys.executable, "-c", RUN_BY_SHELL, script], env=claude.environment, stdout=subprocess.PIPE
        )
        assert client.stdout
        pid = int(client.stdout.readline())
        wait_until(lambda: listens(pid))
        assert parent_of(parent_of(pid)) == client.pid
        client.kill()
        client.wait()
        client.stdout.close()
        wait_until_gone(pid)
        assert sessions.expected(jobs.home, session) == [job_id]

    def test_it_ends_with_its_client(self, jobs: Jobs, claude: Hooks, session: str, tmp_path: Path) -> None:
        job_id = jobs.execute("sleep 1000", by={"session": session}).id
        given = tmp_path / "given"
        given.write_bytes(claude.given("PostToolUse", tool_response=json.dumps(answer(job_id))))
        client = subprocess.Popen(
            ["/bin/sh", "-c", f"{BGJOB} hook claude < {given} & echo $!; wait"],
            env=claude.environment,
            stdout=subprocess.PIPE,
        )
        assert client.stdout
        pid = int(client.stdout.readline())
        wait_until(lambda: listens(pid))
        client.kill()
        client.wait()
        client.stdout.close()
        wait_until_gone(pid)
        assert sessions.expected(jobs.home, session) == [job_id]


class TestOpencode:
    def test_it_waits_for_any_job_of_the_client_and_prints_the_text(
        self, jobs: Jobs, home: Path, gate: Gate, waiting: Waiting
    ) -> None:
        """Also for one that begins meanwhile."""
        jobs.execute("sleep 1000", by={"session": own_process()})
        hook = waiting(Hooks(home, "opencode"), "wait")
        job_id = jobs.execute(f"{gate.pause}; exit 3", name="later", by={"session": own_process()}).id
        gate.wait_until_reached()
        gate.open()
        stdout, stderr = hook.communicate(timeout=PATIENCE_S)
        assert (hook.returncode, stderr) == (0, b"")
        assert stdout.decode().startswith(f'bgjob: job "later" ({job_id[:8]}) failed with exit code 3 after ')

    def test_it_waits_for_the_jobs_that_it_is_given(
        self, jobs: Jobs, home: Path, gate: Gate, ended: Ended, waiting: Waiting
    ) -> None:
        ours = jobs.execute(f"{gate.pause}; exit 3", by={"session": own_process()}).id
        gate.wait_until_reached()
        hook = waiting(Hooks(home, "opencode"), "wait", job_ids=[ours])
        other = jobs.execute("true", by={"session": own_process()}).id
        ended(other)
        gate.open()
        stdout, _ = hook.communicate(timeout=PATIENCE_S)
        assert (ours[:8] in stdout.decode(), other[:8] in stdout.decode()) == (True, False)
        assert other[:8].encode() in Hooks(home, "opencode").run("session.idle").stdout

    def test_it_does_not_wait_without_a_job(self, jobs: Jobs, home: Path, ended: Ended) -> None:
        ended(jobs.execute("true", by={"session": "another"}).id)
        assert is_silent(Hooks(home, "opencode").run("wait"))
