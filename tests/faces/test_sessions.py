"""A session is told once of each end, by whatever answers first: across servers, restarts and calls that wait."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import pytest
from anyio.from_thread import BlockingPortal

from bgjob import __version__
from bgjob.api import Jobs, Typed
from bgjob.core.job import Exited
from bgjob.home import sessions, waits
from bgjob.mcp.news_line import news_fields
from tests.support.gate import Gate
from tests.support.hooks import Hooks, asking, is_claimed, is_held, is_untold
from tests.support.http_server import META, HttpServer, stateless
from tests.support.raw_client import HANDSHAKE, SERVE, RawClient
from tests.support.requires import linux_only
from tests.support.server import CLAUDE_CODE, Server, StartServer
from tests.support.shims import kill_both
from tests.support.tools import new_caller
from tests.support.waiting import PATIENCE_S, wait_until

SESSION = "CLAUDE_CODE_SESSION_ID"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
Ended = Callable[[str], object]


@pytest.fixture
def session() -> str:
    return str(uuid4())


@pytest.fixture
def ended(jobs: Jobs, ended: Ended) -> Ended:
    """Until the end is in the log of events too: there a server that has looked before learns of it."""

    def wait(job_id: str) -> None:
        ended(job_id)
        wait_until(lambda: not jobs.has_shim(job_id), "its shim has told the end")

    return wait


def news(server: Server) -> str | None:
    return server.call("list_jobs", status="queued").get("news")


@contextlib.contextmanager
def client_of(home: Path, session: str) -> Iterator[RawClient]:
    """One that calls itself Claude Code, whose sessions have a name."""
    with RawClient(home, **{SESSION: session}) as client:
        client.ask("initialize", {**HANDSHAKE, "clientInfo": {"name": "claude-code", "version": "1"}})
        client.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        yield client


class TestServers:
    def test_a_server_that_was_killed_leaves_its_news_to_the_next_one_of_the_session(
        self, start_server: StartServer, session: str, ended: Ended
    ) -> None:
        first = start_server(**{SESSION: session})
        job_id = first.execute("exit 3", name="tests")
        first.kill()
        ended(job_id)
        other, next_one = start_server(), start_server(**{SESSION: session})
        assert news(other) is None
        assert news(next_one) == f'"tests" ({job_id[:8]}) failed with exit code 3.'
        assert news(next_one) is None

    @pytest.mark.parametrize("tool", ["list_jobs", "get_job_status"])
    def test_an_end_that_a_killed_server_had_not_yet_written_is_told_by_the_next_one(
        self, home: Path, jobs: Jobs, session: str, ended: Ended, tool: str
    ) -> None:
        """As news, and by an answer about the job: the client does not read, so that it is not written."""
        job_id = jobs.execute("exit 3", name="tests", by={"session": session}).id
        ended(job_id)
        arguments = {"status": "queued"} if tool == "list_jobs" else {"job_id": job_id}
        with client_of(home, session) as client:
            for _ in range(50):  # far more than a pipe holds
                client.send("tools/list")
            client.send_call(tool, arguments)
            wait_until(lambda: is_claimed(str(home), session, job_id), "its answer is made")
            client.process.kill()
            client.process.wait()
            told = b"".join(client.stdout.readlines())
            assert b"exit code 3" not in told
            assert b'"exit_code":3' not in told
        with client_of(home, session) as client:
            answer = client.call("list_jobs", {"status": "queued"})["structuredContent"]
            assert answer["news"] == f'"tests" ({job_id[:8]}) failed with exit code 3.'
            wait_until(lambda: not is_untold(str(home), session, job_id), "it is noted")
            assert "news" not in client.call("list_jobs", {"status": "queued"})["structuredContent"]

    def test_of_two_servers_of_one_session_one_tells(
        self, start_server: StartServer, session: str, ended: Ended
    ) -> None:
        servers = [start_server(**{SESSION: session}) for _ in range(2)]
        ended(servers[0].execute("exit 3", name="tests"))
        told = [news(server) for server in servers * 2]
        assert [line is None for line in told] == [False, True, True, True]

    def test_another_client_below_claude_code_has_a_session_of_its_own(
        self, start_server: StartServer, session: str, ended: Ended
    ) -> None:
        """It has inherited the variable that names the session of Claude Code."""
        claude = start_server(**{SESSION: session})
        gemini = start_server(client="gemini-cli-mcp-client", **{SESSION: session})
        ended(claude.execute("exit 4", name="claudes"))
        ended(gemini.execute("exit 5", name="geminis"))
        for server, name in ((gemini, "geminis"), (claude, "claudes")):
            told = news(server) or ""
            assert [each for each in ("claudes", "geminis") if each in told] == [name]
            assert news(server) is None

    def test_nor_do_its_hooks_tell_of_the_jobs_of_claude_code(
        self, start_server: StartServer, home: Path, jobs: Jobs, session: str, ended: Ended
    ) -> None:
        ended(jobs.execute("exit 4", name="claudes", by={"session": session}).id)
        gemini = start_server(client="gemini-cli-mcp-client", **{SESSION: session})
        ended(gemini.execute("exit 5", name="geminis"))
        told = Hooks(home, "gemini", "a session").context()
        assert ("geminis" in told, "claudes" in told) == (True, False)
        assert "claudes" in Hooks(home, "claude", session).context()

    @pytest.mark.parametrize("client", ["claude", "codex"])
    def test_a_session_with_a_long_name_is_told_by_its_hooks(
        self, home: Path, session: str, ended: Ended, client: str
    ) -> None:
        """Named in the environment, or in each call. What a record has of a name is bounded."""
        named = {"claude": CLAUDE_CODE, "codex": "codex-mcp-client"}[client]
        long_name = session + "x" * 10_000
        meta = META | {CLIENT_INFO: {"name": named, "version": "1"}}
        environment = {SESSION: long_name if client == "claude" else ""}
        if client == "codex":
            meta |= {"sessionId": long_name}
        with RawClient(home, **environment) as server:
            call = {"name": "execute_command", "arguments": {"command": "exit 3"}, "_meta": meta}
            ended(server.ask("tools/call", call)["result"]["structuredContent"]["job_id"])
        assert "exit code 3" in Hooks(home, client, long_name).context()

    def test_a_job_that_nobody_saw_end_is_news_with_the_next_look(
        self,
        start_server: StartServer,
        jobs: Jobs,
        gate: Gate,
        new_gate: Callable[[str], Gate],
        ended: Ended,
    ) -> None:
        server, later = start_server(), new_gate("later")
        lost = server.execute(f"{gate.pause}", name="gone")
        gate.wait_until_reached()
        kill_both(jobs, lost)
        other = server.execute(
            later.pause, name="quick"
        )  # not over before this is answered, which would tell
        later.wait_until_reached()
        later.open()
        ended(other)
        told = news(server) or ""
        assert f'"quick" ({other[:8]}) completed' in told
        assert f'"gone" ({lost[:8]}) was lost' in told


PASS_ON = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"


@linux_only
class TestInAContainer:
    """docker run -i IMAGE bgjob mcp: the first process of the container is the server, its client or an init."""

    @pytest.fixture
    def container(self) -> tuple[str, ...]:
        """What runs a command as PID 1, and ends all that it has started with it."""
        command = ("unshare", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")
        if shutil.which("unshare") is None or subprocess.run([*command, "true"], check=False).returncode:
            pytest.skip("no PID namespace can be made here")
        return command

    @pytest.mark.parametrize(
        ("first", "is_session"), [(None, True), ("client", True), ("sh", False), ("init", False)]
    )
    def test_a_session_has_its_news(
        self,
        container: tuple[str, ...],
        home: Path,
        tmp_path: Path,
        jobs: Jobs,
        ended: Ended,
        first: str | None,
        is_session: bool,
    ) -> None:
        """`first`: what PID 1 is called; None: it is the server. `is_session`: and its process is the session."""
        above: tuple[str, ...] = ()
        if first:
            (tmp_path / first).symlink_to(Path(sys.executable).resolve())
            above = (str(tmp_path / first), "-c", PASS_ON)
        with RawClient(home, (*container, *above, *SERVE), **{SESSION: ""}) as client:
            client.shake_hands()
            job_id = client.execute("exit 4")
            ended(job_id)
            told = client.call("list_jobs", {"status": "queued"})["structuredContent"]["news"]
            assert f"({job_id[:8]}) failed with exit code 4." in told
            session = jobs.status(job_id).job.spec.by["session"]
            assert session.startswith("process 1 of ") == is_session


class TestWaiting:
    def test_while_a_call_waits_for_a_job_no_other_answer_tells_of_it(
        self, start_server: StartServer, session: str, jobs: Jobs, gate: Gate, ended: Ended
    ) -> None:
        server, other = start_server(**{SESSION: session}), start_server(**{SESSION: session})
        job_id = server.execute(f"{gate.pause}; exit 3")
        gate.wait_until_reached()
        fd = sessions.hold(jobs.home, session, job_id)  # as a call does that has not answered yet
        assert fd is not None
        gate.open()
        ended(job_id)
        assert news(other) is None
        os.close(fd)
        assert "exit code 3" in (news(other) or "")

    @pytest.mark.parametrize("tool", ["execute_command", "wait_for_job", "job_events"])
    def test_the_answer_of_a_call_that_waited_is_the_telling(
        self, start_server: StartServer, session: str, jobs: Jobs, gate: Gate, tool: str
    ) -> None:
        server, other = start_server(**{SESSION: session}), start_server(**{SESSION: session})
        command = f"{gate.pause}; exit 3"
        waiting = {"timeout_s": PATIENCE_S}
        with ThreadPoolExecutor(1) as pool:
            if tool == "execute_command":
                call = pool.submit(server.call, tool, command=command, wait_s=PATIENCE_S)
                gate.wait_until_reached()
                ((_, job_id),) = jobs.store.ids()
            else:
                job_id = server.execute(command)
                gate.wait_until_reached()
                asked = {"job_ids": [job_id]} | ({"kinds": ["ended"]} if tool == "job_events" else {})
                call = pool.submit(server.call, tool, **asked, **waiting)
            wait_until(lambda: is_held(jobs.home, session, job_id))
            gate.open()
            assert "3" in json.dumps(call.result())
        wait_until(lambda: not is_untold(jobs.home, session, job_id))
        assert (news(server), news(other)) == (None, None)

    def test_a_wait_whose_time_was_up_is_told_of_the_end_later(
        self, start_server: StartServer, gate: Gate, ended: Ended
    ) -> None:
        """Also of a job that another session has started."""
        ours, other = start_server(), start_server()
        job_id = other.execute(f"{gate.pause}; exit 3", name="theirs")
        gate.wait_until_reached()
        assert news(ours) is None
        ours.call("wait_for_job", job_ids=[job_id], timeout_s=0.1)
        gate.open()
        ended(job_id)
        for server in (ours, other):
            assert news(server) == f'"theirs" ({job_id[:8]}) failed with exit code 3.'

    def test_a_wait_that_was_cancelled_tells_nothing(
        self,
        start_server: StartServer,
        session: str,
        jobs: Jobs,
        gate: Gate,
        ended: Ended,
        portal: BlockingPortal,
    ) -> None:
        server = start_server(**{SESSION: session})
        job_id = server.execute(f"{gate.pause}; exit 3")
        gate.wait_until_reached()
        given = {"job_ids": [job_id], "timeout_s": 40}
        call = portal.start_task_soon(lambda: server.client.call_tool("wait_for_job", given))
        wait_until(lambda: is_held(jobs.home, session, job_id))
        assert call.cancel()
        wait_until(lambda: not is_held(jobs.home, session, job_id))
        gate.open()
        ended(job_id)
        assert "exit code 3" in (news(server) or "")

    def test_a_killed_job_is_told_by_the_answer_of_the_kill(
        self, start_server: StartServer, session: str, jobs: Jobs
    ) -> None:
        server = start_server(**{SESSION: session})
        job_id = server.execute("cat")
        server.call("kill_job", job_id=job_id)
        wait_until(lambda: not is_untold(jobs.home, session, job_id))

    def test_so_is_a_job_that_ends_by_what_was_typed(
        self, start_server: StartServer, session: str, jobs: Jobs
    ) -> None:
        server = start_server(**{SESSION: session})
        job_id = server.execute("read x; exit 3")
        answer = server.call("interact_with_job", job_id=job_id, input="x", wait_s=PATIENCE_S)
        assert answer["status"] == "failed"
        wait_until(lambda: not is_untold(jobs.home, session, job_id))


class TestVerbs:
    """What an answer tells is claimed before others may tell it: by the verb itself, not by its face."""

    VERBS: ClassVar[dict[str, Callable[[Jobs, str, str], object]]] = {
        "wait": lambda jobs, job_id, session: jobs.wait_for([job_id], session=session),
        "kill": lambda jobs, job_id, session: jobs.kill(job_id, session=session),
        "events": lambda jobs, job_id, session: jobs.events(
            kinds=["ended"], timeout_s=PATIENCE_S, session=session
        ),
    }

    @pytest.mark.parametrize("verb", VERBS)
    def test_a_verb_that_tells_of_an_end_claims_it(
        self, jobs: Jobs, session: str, ended: Ended, verb: str
    ) -> None:
        job_id = jobs.execute("exit 3", by={"session": session}).id
        ended(job_id)
        self.VERBS[verb](jobs, job_id, session)
        assert not is_untold(jobs.home, session, job_id)

    def test_so_does_one_that_types(self, jobs: Jobs, session: str) -> None:
        job_id = jobs.execute("read x", by={"session": session}).id
        done = jobs.interact(job_id, Typed("x"), wait_s=PATIENCE_S, session=session)
        assert isinstance(done.job.state, Exited)
        assert not is_untold(jobs.home, session, job_id)

    @pytest.mark.parametrize("verb", ["wait", "events"])
    def test_an_answer_that_nobody_will_read_claims_nothing(
        self, jobs: Jobs, session: str, ended: Ended, verb: str
    ) -> None:
        job_id = jobs.execute("exit 3", by={"session": session}).id
        ended(job_id)
        caller = new_caller()
        cancellation = caller.cancellation
        caller.cancel()
        if verb == "wait":
            jobs.wait_for([job_id], session=session, cancellation=cancellation)
        else:
            jobs.events(kinds=["ended"], timeout_s=PATIENCE_S, session=session, cancellation=cancellation)
        caller.close()
        assert is_untold(jobs.home, session, job_id)

    def test_so_does_its_line_of_news(self, jobs: Jobs, session: str, ended: Ended) -> None:
        ended(jobs.execute("exit 3", by={"session": session}).id)
        caller = new_caller(session=session)
        caller.cancel()
        assert news_fields(jobs, caller, {}, {}) == {}
        assert "exit code 3" in news_fields(jobs, new_caller(session=session), {}, {})["news"]


class TestEvents:
    """job_events without a cursor that waits: of what has happened before, only what this session must know."""

    @pytest.fixture
    def over(self, jobs: Jobs) -> Callable[[str], str]:
        """A job of that session whose end is in the log."""

        def start(session: str) -> str:
            job_id = jobs.execute("exit 3", by={"session": session}).id
            assert jobs.events("0.0", job_ids=[job_id], kinds=["ended"], timeout_s=PATIENCE_S).events
            return job_id

        return start

    def test_what_is_told_or_of_others_is_no_answer(
        self, jobs: Jobs, session: str, over: Callable[[str], str]
    ) -> None:
        ours = over(session)
        told, _, also_ours = over(session), over("another"), over(session)
        sessions.forget(jobs.home, session, told)
        answer = jobs.events(timeout_s=PATIENCE_S, session=session)
        assert [(each.kind, each.job_id) for each in answer.events] == [("ended", ours), ("ended", also_ours)]
        assert not jobs.events(answer.cursor).events

    def test_nor_is_what_a_task_will_tell(
        self, jobs: Jobs, home: Path, session: str, over: Callable[[str], str]
    ) -> None:
        job_id = over(session)
        waits.create(str(home), job_id, {"session": session, "job_ids": [job_id]})
        with asking(home, job_id):
            assert not jobs.events(timeout_s=0.1, session=session).events
        assert sessions.expected(jobs.home, session) == [job_id]


class TestOverHttp:
    def test_a_request_that_names_its_session_has_news(self, home: Path, ended: Ended) -> None:
        def call(
            server: HttpServer, tool: str, session: str | None, **arguments: object
        ) -> dict[str, object]:
            meta = META | ({"sessionId": session} if session else {})
            message, headers = stateless("tools/call", name=tool, arguments=arguments, _meta=meta)
            answer: dict[str, object] = server.post(message, *headers).json["result"]["structuredContent"]
            return answer

        with HttpServer(home) as first, HttpServer(home) as second:
            second.token = first.token
            job_id = str(call(first, "execute_command", "ours", command="exit 3", name="tests")["job_id"])
            ended(job_id)
            for session in (None, "theirs"):
                assert "news" not in call(second, "list_jobs", session, status="running")
            told = [call(each, "list_jobs", "ours", status="running") for each in (second, first)]
        assert [answer.get("news") for answer in told] == [
            f'"tests" ({job_id[:8]}) failed with exit code 3.',
            None,
        ]


def test_the_record_of_a_job_says_who_started_it(home: Path, jobs: Jobs, tmp_path: Path) -> None:
    started = subprocess.run(
        [Path(sys.executable).with_name("bgjob"), "run", "--", "true"],
        env={"BGJOB_HOME": str(home), "PATH": "/usr/bin:/bin", SESSION: "not the command line's"},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    by = jobs.status(started.stdout.strip()).job.spec.by
    assert by == {"client": "bgjob", "version": __version__, "cwd": str(tmp_path)}
    assert not (home / "sessions").exists()
