"""`bgjob hook`: a client's model is told once of each end, in the client's form, and never blocked by an error."""

import contextlib
import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from bgjob.api import Jobs, Typed
from bgjob.cli.hook import EVENTS
from bgjob.home import sessions, waits
from bgjob.watch.ends import duration
from bgjob.watch.notice import notice_of
from tests.support.escapes import ESCAPES, as_text
from tests.support.gate import Gate
from tests.support.hooks import BGJOB, FORMS, PATIENT, Hooks, asking, is_claimed, is_silent, own_process
from tests.support.server import StartServer
from tests.support.shims import kill_both
from tests.support.stores import ended_job, job_with
from tests.support.waiting import PATIENCE_S, wait_until

SESSION = "CLAUDE_CODE_SESSION_ID"
DOCUMENT = Path(__file__).parents[2] / "docs" / "hooks.md"
Ended = Callable[[str], object]


@pytest.fixture
def session() -> str:
    return str(uuid4())


@pytest.fixture
def claude(home: Path, session: str) -> Hooks:
    return Hooks(home, "claude", session)


class Starter:
    """Starts jobs of a session, as its server does."""

    def __init__(self, jobs: Jobs, ended: Ended) -> None:
        self._jobs, self._ended = jobs, ended

    def over(self, session: str, command: str = "exit 3", name: str | None = "tests") -> str:
        """One that has ended."""
        job_id = self._jobs.execute(command, name=name, by={"session": session}).id
        self._ended(job_id)
        return job_id


@pytest.fixture
def start(jobs: Jobs, ended: Ended) -> Starter:
    return Starter(jobs, ended)


class TestForms:
    """What each client reads."""

    @pytest.mark.parametrize("client", FORMS)
    def test_what_ended_is_context_of_the_next_prompt_once(
        self, home: Path, start: Starter, client: str
    ) -> None:
        session = own_process() if client == "gemini" else "a session"
        job_id = start.over(session, "echo before; echo 'E   assert 1 == 2' >&2; exit 1")
        hooks = Hooks(home, client, "a session")
        assert re.fullmatch(
            rf"bgjob: job \"tests\" \({job_id[:8]}\) failed with exit code 1 after \d+\.\ds: "
            rf'"E   assert 1 == 2"\. tail_job_output\(job_id="{job_id[:8]}"\) shows more\.',
            hooks.context(),
        )
        assert hooks.context() == ""

    @pytest.mark.parametrize("client", FORMS)
    def test_so_it_is_at_the_start_of_a_session(self, home: Path, start: Starter, client: str) -> None:
        job_id = start.over(own_process() if client == "gemini" else "a session")
        told = Hooks(home, client, "a session").context("SessionStart", source="startup")
        assert f'"tests" ({job_id[:8]}) failed with exit code 3' in told

    @pytest.mark.parametrize(
        ("client", "decision"), [("claude", "block"), ("codex", "block"), ("gemini", "deny")]
    )
    def test_a_failure_has_the_model_go_on(
        self, home: Path, start: Starter, client: str, decision: str
    ) -> None:
        session = own_process() if client == "gemini" else "a session"
        hooks, stop = Hooks(home, client, "a session"), FORMS[client]["stop"]
        job_id = start.over(session)
        assert is_silent(hooks.run(stop, stop_hook_active=True))
        done = hooks.run(stop, stop_hook_active=False)
        answer = json.loads(done.stdout)
        assert (done.returncode, done.stderr, answer["decision"]) == (0, b"", decision)
        assert answer.keys() == {"decision", "reason"}
        assert answer["reason"].startswith(
            f'bgjob: job "tests" ({job_id[:8]}) failed with exit code 3 after '
        )
        assert is_silent(hooks.run(stop, stop_hook_active=False))

    @pytest.mark.parametrize("client", FORMS)
    def test_a_success_waits_for_the_next_prompt(self, home: Path, start: Starter, client: str) -> None:
        start.over(own_process() if client == "gemini" else "a session", "true")
        hooks = Hooks(home, client, "a session")
        assert is_silent(hooks.run(FORMS[client]["stop"], stop_hook_active=False))
        assert "completed" in hooks.context()

    def test_so_does_a_job_that_was_killed_because_that_was_asked_for(
        self, jobs: Jobs, claude: Hooks, session: str
    ) -> None:
        jobs.kill(jobs.execute("cat", by={"session": session}).id)
        assert is_silent(claude.run("Stop"))
        assert "was killed" in claude.context()

    def test_what_failed_is_told_together_with_what_did_not(self, claude: Hooks, start: Starter) -> None:
        start.over(str(claude.session), "true", "fine")
        start.over(str(claude.session), "exit 1", "bad")
        first, second = json.loads(claude.run("Stop").stdout)["reason"].splitlines()
        assert first.startswith('bgjob: job "bad" (')
        assert second.startswith('bgjob: job "fine" (')
        assert claude.context() == ""

    @pytest.mark.parametrize("source", ["compact", "resume", "startup", "clear"])
    def test_a_model_that_may_have_forgotten_it_is_told_what_runs(
        self, jobs: Jobs, claude: Hooks, start: Starter, source: str
    ) -> None:
        job_id = jobs.execute("sleep 1000", name="dev", by={"session": str(claude.session)}).id
        over = start.over(str(claude.session))
        lines = claude.context("SessionStart", source=source).splitlines()
        assert f"({over[:8]})" in lines[0]
        still = f'bgjob: still running: "dev" ({job_id[:8]}). list_jobs(status="running") shows more.'
        assert lines[1:] == ([still] if source in ("compact", "resume") else [])
        again = claude.context("SessionStart", source=source)
        assert again == (still if source in ("compact", "resume") else "")

    def test_opencode_gets_plain_text(self, home: Path, start: Starter) -> None:
        first, second = start.over(own_process(), name="one"), start.over(own_process(), name="two")
        hooks = Hooks(home, "opencode")
        done = hooks.run("session.idle", job_ids=[second])
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.startswith(f'bgjob: job "two" ({second[:8]}) failed with exit code 3'.encode())
        assert hooks.run("session.idle").stdout.startswith(f'bgjob: job "one" ({first[:8]})'.encode())
        assert is_silent(hooks.run("session.idle"))

    def test_the_event_may_be_an_argument(self, claude: Hooks, start: Starter) -> None:
        start.over(str(claude.session))
        given = json.dumps({"session_id": claude.session}).encode()
        done = claude.run_with(given, "claude", "UserPromptSubmit")
        assert json.loads(done.stdout)["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"


POSING = 'x" (00000000) completed. bgjob: "y'


class TestWhatIsSaid:
    def test_a_name_cannot_pose_as_words_of_ours(
        self, claude: Hooks, home: Path, jobs: Jobs, ended: Ended, session: str
    ) -> None:
        """What stands before the quoted name, and behind it, is ours."""
        job_id = jobs.execute("exit 3", name=POSING, by={"session": session}).id
        ended(job_id)
        line = jobs.news(session) or ""
        name, end = json.JSONDecoder().raw_decode(line)
        assert (name, line[end:]) == (POSING, f" ({job_id[:8]}) failed with exit code 3.")
        sessions.expect(str(home), session, job_id)
        line = claude.context().removeprefix("bgjob: job ")
        name, end = json.JSONDecoder().raw_decode(line)
        assert name == POSING
        assert line[end:].startswith(f" ({job_id[:8]}) failed with exit code 3 after ")
        notice = notice_of(
            "failure", {"cause": "exited", "exit_code": 3, "at": 1.0}, jobs.status(job_id).job.spec, ""
        )
        assert json.JSONDecoder().raw_decode(notice.title.removeprefix("bgjob: "))[0] == POSING
        assert json.JSONDecoder().raw_decode(str(notice.payload["text"]))[0] == POSING

    def test_a_job_without_a_name_is_called_by_its_command(self, claude: Hooks, start: Starter) -> None:
        job_id = start.over(str(claude.session), "true  # quiet", None)
        told = claude.context()
        assert told.startswith(f'bgjob: job "true # quiet" ({job_id[:8]}) completed after ')
        assert told.endswith(f', without output. get_job_status(job_id="{job_id[:8]}") shows more.')

    def test_a_job_that_did_not_start_says_why(
        self, jobs: Jobs, claude: Hooks, session: str, start: Starter
    ) -> None:
        failed = start.over("another session")
        job_id = jobs.execute("true", name="deploy", after=[failed], by={"session": session}).id
        told = claude.context()
        assert told.startswith(f'bgjob: job "deploy" ({job_id[:8]}) did not start: "')
        assert told.endswith(f'". get_job_status(job_id="{job_id[:8]}") shows more.')

    def test_a_lost_job_is_told_though_nobody_saw_its_end(
        self, jobs: Jobs, claude: Hooks, session: str, gate: Gate
    ) -> None:
        job_id = jobs.execute(gate.pause, name="gone", by={"session": session}).id
        gate.wait_until_reached()
        assert claude.context() == ""
        kill_both(jobs, job_id)
        reason = json.loads(claude.run("Stop").stdout)["reason"]
        assert reason.startswith(
            f'bgjob: job "gone" ({job_id[:8]}) was lost: "its shim and its guard were killed'
        )

    def test_five_are_named_and_failures_first(self, claude: Hooks, home: Path, jobs: Jobs) -> None:
        ids = [ended_job(jobs.store, name=f"job{number}") for number in range(7)]
        failed = ids[0]
        outcome = home / "jobs" / failed / "outcome.json"
        outcome.write_text(outcome.read_text().replace('"exit_code": 0', '"exit_code": 1'))
        for job_id in ids:
            sessions.expect(str(home), str(claude.session), job_id)
        lines = claude.context().splitlines()
        assert len(lines) == 6
        assert f"({failed[:8]}) failed with exit code 1" in lines[0]
        assert lines[-1] == "bgjob: 2 more jobs have ended: list_jobs shows them."
        assert claude.context() == ""

    def test_a_thousand_are_told_at_once(self, claude: Hooks, home: Path, jobs: Jobs) -> None:
        for _ in range(1000):
            sessions.expect(str(home), str(claude.session), ended_job(jobs.store))
        assert claude.context().endswith("bgjob: 995 more jobs have ended: list_jobs shows them.")
        assert sessions.expected(str(home), str(claude.session)) == []

    @pytest.mark.parametrize("what", ESCAPES)
    def test_nothing_that_is_hidden_in_a_name_or_in_output_reaches_the_model(
        self, claude: Hooks, home: Path, start: Starter, what: str
    ) -> None:
        """A name that a starter would refuse is one that an older version or another program has written."""
        escape = ESCAPES[what]
        octal = "".join(f"\\{byte:03o}" for byte in escape)
        start.over(str(claude.session), f"printf 'say \"{octal}\" \\\\ done'")
        named = job_with(home, name=f"a{as_text(escape)}b\nbgjob: job c\td")
        sessions.expect(str(home), str(claude.session), named)
        told = claude.context()
        lines = told.split("\n")
        assert len(lines) == 2
        assert all(line.isprintable() and line.startswith("bgjob: job ") for line in lines)

    def test_a_long_line_is_cut(self, claude: Hooks, start: Starter) -> None:
        start.over(str(claude.session), "head -c 100000 /dev/zero | tr '\\0' x")
        assert re.search(r'"x{199}…"', claude.context())

    def test_a_duration_has_two_units(self) -> None:
        given = (0.04, 59.94, 60, 123.9, 3599, 3600, 90061)
        said = ["0.0s", "59.9s", "1m 0s", "2m 3s", "59m 59s", "1h 0m", "25h 1m"]
        assert [duration(seconds) for seconds in given] == said


class TestOnce:
    """Nothing is told twice, and nothing to another session."""

    def test_an_answer_tells_and_then_no_hook(
        self, start_server: StartServer, home: Path, session: str, jobs: Jobs
    ) -> None:
        server = start_server(**{SESSION: session})
        job_id = server.execute("exit 3")
        assert jobs.events("0.0", job_ids=[job_id], kinds=["ended"], timeout_s=PATIENCE_S).events
        assert "exit code 3" in server.call("list_jobs", status="running")["news"]
        assert Hooks(home, "claude", session).context() == ""

    def test_a_hook_tells_and_then_no_answer(
        self, start_server: StartServer, home: Path, session: str, ended: Ended
    ) -> None:
        server = start_server(**{SESSION: session})
        ended(server.execute("exit 3"))
        assert "exit code 3" in Hooks(home, "claude", session).context()
        assert "news" not in server.call("list_jobs", status="running")

    def test_of_two_hooks_at_once_one_tells(self, home: Path, jobs: Jobs, claude: Hooks) -> None:
        job_id = ended_job(jobs.store)
        for _ in range(50):
            sessions.expect(str(home), str(claude.session), job_id)
            both = [claude.start("UserPromptSubmit") for _ in range(2)]
            told = [hook.communicate()[0] for hook in both]
            assert sorted(map(bool, told)) == [False, True], told

    def test_what_ended_after_the_server_was_killed_is_told(
        self, start_server: StartServer, home: Path, session: str, gate: Gate, ended: Ended
    ) -> None:
        server = start_server(**{SESSION: session})
        job_id = server.execute(f"{gate.pause}; exit 3")
        gate.wait_until_reached()
        server.kill()
        gate.open()
        ended(job_id)
        assert "exit code 3" in Hooks(home, "claude", session).context()

    @pytest.mark.parametrize("client", [*FORMS, "opencode"])
    def test_ends_of_other_sessions_are_not_told(self, home: Path, start: Starter, client: str) -> None:
        start.over("another session")
        hooks = Hooks(home, client, "a session", **{SESSION: "another session"} if client != "claude" else {})
        for event in (
            "SessionStart",
            "UserPromptSubmit",
            "BeforeAgent",
            "Stop",
            "AfterAgent",
            "session.idle",
        ):
            assert is_silent(hooks.run(event))

    def test_a_client_that_names_no_session_is_known_by_its_process(
        self, start_server: StartServer, home: Path, ended: Ended
    ) -> None:
        """The test is the client: it runs the server, and by a shell the hook."""
        ended(start_server(**{SESSION: ""}).execute("exit 3", name="tests"))
        hooks = Hooks(home, "gemini", "what the client calls it")
        done = subprocess.run(
            ["/bin/sh", "-c", f"{BGJOB} hook gemini; exit $?"],
            input=hooks.given("BeforeAgent"),
            env=hooks.environment,
            capture_output=True,
            check=True,
        )
        assert b"tests" in done.stdout

    def test_a_session_that_began_in_the_same_client_has_the_jobs_of_its_server(
        self, start_server: StartServer, home: Path, session: str, ended: Ended
    ) -> None:
        """After /clear the hooks of Claude Code have another session_id, and its server does not know."""
        ended(start_server(**{SESSION: session}).execute("exit 3"))
        assert "exit code 3" in Hooks(home, "claude", "a newer session").context(
            "SessionStart", source="clear"
        )

    def test_gemini_cli_is_told_after_clear_by_the_hook_of_its_next_prompt(
        self, home: Path, start: Starter
    ) -> None:
        """What its SessionStart says then does not get to the model: it would be told once, and to nobody."""
        job_id, hooks = start.over(own_process()), Hooks(home, "gemini", "a session")
        assert is_silent(hooks.run("SessionStart", source="clear"))
        assert job_id[:8] in hooks.context("BeforeAgent")

    def test_a_client_that_asks_for_the_end_by_itself_is_not_told_by_a_hook(
        self, home: Path, claude: Hooks, start: Starter
    ) -> None:
        """Its wait has become a task; a task that it has not asked for lately tells nothing."""
        job_id = start.over(str(claude.session))
        waits.create(str(home), job_id, {"session": claude.session, "job_ids": [job_id]})
        assert claude.context() == ""
        waits.note_asked(str(home), job_id)
        assert is_silent(claude.run("Stop"))
        os.utime(home / "waits" / job_id / "wait.json", (1, 1))
        assert job_id[:8] in claude.context()

    @pytest.mark.parametrize("client", FORMS)
    def test_a_failure_that_is_told_elsewhere_does_not_have_the_model_go_on_for_a_success(
        self, home: Path, start: Starter, client: str
    ) -> None:
        """A task that its client asks for tells the failure, or a call that waits."""
        session = own_process() if client == "gemini" else "a session"
        hooks, stop = Hooks(home, client, "a session"), FORMS[client]["stop"]
        start.over(session, "true", "good")
        failed = start.over(session)
        waits.create(str(home), failed, {"session": session, "job_ids": [failed]})
        with asking(home, failed):
            with_task = hooks.run(stop)
        os.utime(home / "waits" / failed / "wait.json", (1, 1))
        fd = sessions.hold(str(home), session, failed)
        assert fd is not None
        with_call = hooks.run(stop)
        os.close(fd)
        assert (is_silent(with_task), is_silent(with_call)) == (True, True)
        told = json.loads(hooks.run(stop).stdout)["reason"]
        assert ("tests" in told, "good" in told) == (True, True)

    def test_what_could_not_be_written_is_told_the_next_time(self, claude: Hooks, start: Starter) -> None:
        start.over(str(claude.session))
        for closed in (">&-", "> /dev/full"):
            done = subprocess.run(
                ["/bin/sh", "-c", f"{BGJOB} hook claude {closed}"],
                input=claude.given("UserPromptSubmit"),
                env=claude.environment,
                stderr=subprocess.PIPE,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, b"")
        assert "exit code 3" in claude.context()

    def test_what_a_killed_hook_had_not_yet_written_is_told_the_next_time(
        self, home: Path, claude: Hooks, start: Starter
    ) -> None:
        job_id = start.over(str(claude.session))
        reads, writes = os.pipe()
        os.set_blocking(writes, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writes, bytes(select.PIPE_BUF))
        os.set_blocking(writes, True)
        hook = subprocess.Popen(
            [BGJOB, "hook", "claude"], stdin=subprocess.PIPE, stdout=writes, env=claude.environment
        )
        os.close(writes)
        assert hook.stdin
        hook.stdin.write(claude.given("UserPromptSubmit"))
        hook.stdin.close()
        wait_until(lambda: is_claimed(str(home), str(claude.session), job_id), "it is about to write")
        assert claude.context() == ""
        hook.kill()
        hook.wait()
        os.close(reads)
        assert "exit code 3" in claude.context()
        assert claude.context() == ""


def spoil(home: Path, make: Callable[[Path], object]) -> None:
    (home / "sessions").rename(home / "aside")
    make(home / "sessions")


BAD_INPUT: dict[str, bytes] = {
    "nothing": b"",
    "half": b'{"session_id": "x',
    "a list": b"[]",
    "null": b"null",
    "a number": b"1",
    "no UTF-8": b'\xff\xfe{"\x00',
    "brackets without end": b"[" * 200_000,
    "no event": b'{"session_id": "SESSION"}',
    "an unknown event": b'{"hook_event_name": "Whatever", "session_id": "SESSION"}',
    "an event that is no word": b'{"hook_event_name": ["Stop"], "session_id": "SESSION"}',
    "a session that is no word": b'{"hook_event_name": "UserPromptSubmit", "session_id": {"a": 1}}',
    "no session": b'{"hook_event_name": "UserPromptSubmit"}',
    "a session with a slash": b'{"hook_event_name": "UserPromptSubmit", "session_id": "../../jobs"}',
    "a lone surrogate": b'{"hook_event_name": "UserPromptSubmit", "session_id": "\\ud800"}',
}
BAD_HOMES: dict[str, Callable[[Path], object]] = {
    "a file for sessions": lambda home: spoil(home, Path.touch),
    "a link for sessions": lambda home: spoil(home, lambda path: path.symlink_to("aside")),
    "a FIFO for sessions": lambda home: spoil(home, os.mkfifo),
    "no jobs": lambda home: (home / "jobs").rename(home / "no jobs"),
    "open to all": lambda home: home.chmod(0o777),
}


class TestItFailsOpen:
    """A hook that fails must not be in its client's way: exit code 2 would block it."""

    @pytest.fixture(autouse=True)
    def something_to_tell(self, start: Starter, session: str) -> None:
        start.over(session)

    @pytest.mark.parametrize("what", BAD_INPUT)
    def test_bad_input_is_ignored(self, claude: Hooks, what: str) -> None:
        given = BAD_INPUT[what].replace(b"SESSION", str(claude.session).encode())
        for client in ("claude", "codex", "gemini", "opencode"):
            assert is_silent(claude.run_with(given, client))
        assert "exit code 3" in claude.context()

    @pytest.mark.parametrize(
        "arguments", [(), ("cluade",), ("",), ("claude", "Whatever", "more"), ("cursor", "Stop")]
    )
    def test_so_are_bad_arguments(self, claude: Hooks, arguments: tuple[str, ...]) -> None:
        assert is_silent(claude.run_with(b"{}", *arguments))

    @pytest.mark.parametrize("what", BAD_HOMES)
    def test_so_is_a_home_that_cannot_be_used(self, claude: Hooks, home: Path, what: str) -> None:
        BAD_HOMES[what](home)
        try:
            for event in ("SessionStart", "UserPromptSubmit", "Stop"):
                assert is_silent(claude.run(event, source="compact"))
        finally:
            home.chmod(0o700)

    def test_there_need_be_no_home(self, tmp_path: Path, session: str) -> None:
        for home in (tmp_path / "nowhere", tmp_path / "a file"):
            (tmp_path / "a file").touch()
            assert is_silent(Hooks(home, "claude", session).run("UserPromptSubmit"))
        assert not (tmp_path / "nowhere").exists()

    def test_a_setting_that_servers_refuse_does_not_matter(self, home: Path, session: str) -> None:
        hooks = Hooks(home, "claude", session, MCP_BG_MAX_JOBS="many", MCP_BG_WORKING_DIR="/nowhere")
        assert "exit code 3" in hooks.context()

    def test_a_closed_stdin_is_an_empty_one(self, claude: Hooks) -> None:
        done = subprocess.run(
            ["/bin/sh", "-c", f"{BGJOB} hook claude <&-"],
            env=claude.environment,
            capture_output=True,
            check=False,
        )
        assert is_silent(done)


class TestPrompts:
    """A job that asks is told as well, once for each question."""

    ASKS = "printf 'Continue? [y/N] '; read x; printf '\\nReally? '; read x; exit 3"

    @pytest.fixture
    def claude(self, claude: Hooks) -> Hooks:
        claude.program = PATIENT
        return claude

    @pytest.fixture
    def asking(self, jobs: Jobs, session: str) -> Iterator[str]:
        """A job at its first prompt, as its event tells."""
        job_id = jobs.execute(self.ASKS, name="deploy", by={"session": session}).id
        assert jobs.events("0.0", job_ids=[job_id], kinds=["input"], timeout_s=30).events
        yield job_id
        jobs.kill(job_id, grace_s=0)

    def test_a_job_at_a_prompt_is_told_once_for_each_prompt(
        self, jobs: Jobs, claude: Hooks, asking: str
    ) -> None:
        begin, end = f'bgjob: job "deploy" ({asking[:8]}) waits for input: ', "Answer by interact_with_job("
        assert claude.context() == f'{begin}"Continue? [y/N]". {end}job_id="{asking[:8]}").'
        assert claude.context() == ""
        cursor = jobs.events("0.0").cursor
        jobs.interact(asking, Typed("y"))
        assert jobs.events(cursor, job_ids=[asking], kinds=["input"], timeout_s=30).events
        assert '"Really?"' in claude.context()
        assert claude.context() == ""

    @pytest.mark.parametrize("tool", ["get_job_status", "wait_for_job", "tail_job_output", "job_events"])
    def test_a_prompt_that_an_answer_has_told_is_not_told_again(
        self, start_server: StartServer, claude: Hooks, session: str, asking: str, tool: str
    ) -> None:
        server = start_server(**{SESSION: session})
        given: dict[str, object] = {"job_id": asking}
        if tool in ("wait_for_job", "job_events"):
            given = {"job_ids": [asking]}
        assert "Continue?" in json.dumps(server.call(tool, **given))
        assert claude.context() == ""

    def test_it_is_no_reason_to_go_on(self, claude: Hooks, asking: str) -> None:
        assert is_silent(claude.run("Stop"))
        assert asking[:8] in claude.context()

    def test_a_plugin_that_names_its_jobs_is_told_of_these(self, home: Path, jobs: Jobs) -> None:
        job_id = jobs.execute("printf 'Continue? '; read x", by={"session": own_process()}).id
        assert jobs.events("0.0", job_ids=[job_id], kinds=["input"], timeout_s=30).events
        opencode = Hooks(home, "opencode")
        opencode.program = PATIENT
        assert is_silent(opencode.run("session.idle", job_ids=[str(uuid4())]))
        assert b'"Continue?"' in opencode.run("session.idle", job_ids=[job_id]).stdout

    def test_other_sessions_are_not_told(self, home: Path, asking: str) -> None:
        assert asking
        assert Hooks(home, "claude", "another").context() == ""


LOADED = """
import json, os, sys
leave = os._exit
os._exit = lambda code: (print(json.dumps(sorted(sys.modules)), file=sys.stderr, flush=True), leave(code))
from bgjob.cli import main
main()
"""


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit", "Stop", "PostToolUse"])
def test_a_hook_with_nothing_to_tell_imports_little(
    jobs: Jobs, claude: Hooks, start: Starter, event: str
) -> None:
    """Most turns have nothing to tell, and each waits for its hooks."""
    start.over("another session")
    done = subprocess.run(
        [sys.executable, "-c", LOADED, "hook", "claude"],
        input=claude.given(event),
        env=claude.environment,
        capture_output=True,
        check=True,
    )
    assert done.stdout == b""
    loaded = set(json.loads(done.stderr))
    heavy = {
        "argparse",
        "asyncio",
        "dataclasses",
        "inspect",
        "re2",
        "pyte",
        "subprocess",
        "socket",
        "threading",
    }
    assert loaded & heavy == set()
    assert not any(
        name.startswith(("bgjob.api", "bgjob.store", "bgjob.mcp", "bgjob.link")) for name in loaded
    )
    assert len(loaded) < 100


CONFIGURATION = re.compile(r"(?ms)^```json\n(\{\n.*?)^```$")


def test_every_event_of_the_documented_configurations_is_answered() -> None:
    found = [json.loads(each)["hooks"] for each in CONFIGURATION.findall(DOCUMENT.read_text())]
    assert len(found) == len(FORMS)
    for hooks in found:
        commands = {event: group["hooks"][0]["command"] for event, (group,) in hooks.items()}
        (client,) = {command.removeprefix("BGJOB hook ") for command in commands.values()}
        assert commands.keys() <= EVENTS[client].keys()


def test_its_help_names_the_clients_and_their_events(home: Path) -> None:
    done = subprocess.run(
        [BGJOB, "hook", "--help"],
        env={**os.environ, "BGJOB_HOME": str(home)},
        capture_output=True,
        check=True,
    )
    for word in (b"claude", b"codex", b"gemini", b"opencode", b"PostToolUse", b"docs/hooks.md"):
        assert word in done.stdout
