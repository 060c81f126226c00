"""Events at the faces: the line `news` of any answer, and the command line."""

import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from anyio.from_thread import BlockingPortal

from bgjob.api import JobEvent, Jobs
from bgjob.api.news_gate import NewsGate
from bgjob.cli.events import event_row
from bgjob.home import event_log, sessions
from tests.support.gate import Gate
from tests.support.server import Server, StartServer, ToolError
from tests.support.telling import listens
from tests.support.tools import Result, call_tool, listed, text_of
from tests.support.waiting import wait_until

DOCUMENT = Path(__file__).parents[2] / "docs" / "events.md"
BGJOB = str(Path(sys.executable).with_name("bgjob"))
OF_NOBODY = "00000000-0000-4000-8000-000000000000"
MAX_QUIET_S = 500e-6  # to read 900 events takes several times as long
SESSION = "a session"
US = {"session": SESSION}
Ended = Callable[[str], None]


@pytest.fixture
def ended(jobs: Jobs) -> Ended:
    """Wait until the end of a job is told: its outcome is there a moment before."""

    def wait(job_id: str) -> None:
        assert jobs.events("0.0", job_ids=[job_id], kinds=["ended"], timeout_s=30).events

    return wait


class TestNews:
    """A client hears of the ends of jobs that it started, in the answers to its other calls."""

    def test_any_answer_tells_once_which_jobs_ended(self, start_server: StartServer, ended: Ended) -> None:
        server = start_server()
        named = server.execute("exit 3", name="tests")
        ended(named)
        assert server.call("execute_command", command="cat")["news"] == (
            f'"tests" ({named[:8]}) failed with exit code 3.'
        )
        unnamed = server.execute("exec   true # a command\nof two lines, and more than 40 characters")
        ended(unnamed)
        assert server.call("list_jobs", status="running")["news"] == (
            f'"exec true # a command of two lines, and…" ({unnamed[:8]}) completed.'
        )
        assert "news" not in server.call("list_jobs", status="running")

    def test_jobs_of_other_clients_are_no_news(self, start_server: StartServer, ended: Ended) -> None:
        ours, other = start_server(), start_server()
        job_id = other.execute("exit 3", name="tests")
        ended(job_id)
        assert "news" not in ours.call("list_jobs", status="running")
        assert "tests" in other.call("list_jobs", status="running")["news"]

    def test_a_job_that_another_client_started_is_ours_once_it_is_reused(
        self, start_server: StartServer, jobs: Jobs
    ) -> None:
        ours, other = start_server(), start_server()
        job_id = other.execute("cat", name="dev server")
        assert ours.execute("cat", name="dev server", if_running="reuse") == job_id
        jobs.kill(job_id)
        jobs.events("0.0", job_ids=[job_id], kinds=["ended"], timeout_s=30)
        assert ours.call("list_jobs", status="running")["news"] == f'"dev server" ({job_id[:8]}) was killed.'

    def test_the_job_of_a_call_is_no_news_in_its_answer(
        self, start_server: StartServer, ended: Ended
    ) -> None:
        server = start_server()
        job_id = server.execute("exit 3", name="tests")
        ended(job_id)
        for asked in ({"job_ids": [job_id]}, {"job_ids": [job_id], "limit": 1}):
            assert "news" not in server.call("search_job_output", pattern="x", **asked)
        assert "tests" in server.call("search_job_output", pattern="x")["news"]

    def test_a_job_that_ends_at_once_is_news_in_the_next_answer(self, jobs: Jobs, ended: Ended) -> None:
        assert jobs.news(SESSION) is None
        job = jobs.execute("exit 3", name="tests", by=US)
        ended(job.id)
        for _ in range(2):
            assert jobs.news(SESSION, asked=[job.id]) is None  # not in the answer of its own start
        assert jobs.news(SESSION) == f'"tests" ({job.id[:8]}) failed with exit code 3.'
        assert jobs.news(SESSION) is None

    @pytest.mark.parametrize("written", ["tests", "ID8"])
    def test_a_job_may_be_asked_for_by_its_name_or_the_beginning_of_its_id(
        self, jobs: Jobs, ended: Ended, written: str
    ) -> None:
        job = jobs.execute("exit 3", name="tests", by=US)
        ended(job.id)
        word = written.replace("ID8", job.id[:8])
        assert jobs.news(SESSION, asked=[word]) is None
        assert jobs.news(SESSION, told=[word]) is None
        assert jobs.news(SESSION) is None

    def test_the_end_of_a_job_that_the_call_restarted_is_no_news(
        self, start_server: StartServer, jobs: Jobs
    ) -> None:
        server = start_server()
        first = server.execute("cat", name="dev server")
        again = server.call("execute_command", command="cat", name="dev server", if_running="restart")
        assert "news" not in again
        assert jobs.events("0.0", job_ids=[first], kinds=["ended"], timeout_s=30).events
        assert "news" not in server.call("list_jobs", status="running")

    def test_a_job_that_had_failed_before_it_was_restarted_is_news(
        self, start_server: StartServer, ended: Ended
    ) -> None:
        server = start_server()
        first = server.execute("exit 3", name="dev server")
        ended(first)
        again = server.call("execute_command", command="cat", name="dev server", if_running="restart")
        assert again["news"] == f'"dev server" ({first[:8]}) failed with exit code 3.'

    def test_a_queued_job_that_can_no_longer_start_is_told_by_its_name(
        self, start_server: StartServer, ended: Ended
    ) -> None:
        server = start_server()
        first = server.execute("read x; exit 3")
        after = server.execute("true", name="deploy", after=[first])
        answers = [server.call("interact_with_job", job_id=first, input="go")]
        ended(after)
        answers.append(server.call("list_jobs", status="running"))
        news = " ".join(answer.get("news", "") for answer in answers)
        assert news.count(f'"deploy" ({after[:8]}) did not start') == 1

    def test_it_is_in_the_text_as_in_the_structure(
        self, start_server: StartServer, jobs: Jobs, portal: BlockingPortal
    ) -> None:
        server = start_server()
        jobs.kill(server.execute("cat"))
        result = portal.call(lambda: server.client.call_tool("list_jobs", {"status": "running"}))
        assert result.structured_content is not None
        assert "was killed." in result.structured_content["news"]
        assert json.loads(getattr(result.content[0], "text", "")) == result.structured_content

    @pytest.mark.parametrize(
        ("tool", "arguments"),
        [
            ("get_job_status", {"job_id": "ID"}),
            ("wait_for_job", {"job_ids": ["ID"]}),
            ("kill_job", {"job_id": "ID"}),
            ("job_events", {}),
            ("list_jobs", {}),
        ],
    )
    def test_what_an_answer_itself_says_is_no_news(
        self, start_server: StartServer, jobs: Jobs, tool: str, arguments: dict[str, Any]
    ) -> None:
        server = start_server()
        job_id = server.execute("cat")
        jobs.kill(job_id)
        given = json.loads(json.dumps(arguments).replace("ID", job_id))
        assert "news" not in server.call(tool, **given)
        assert "news" not in server.call("get_job_output", job_id=job_id)

    def test_a_command_that_was_waited_for_is_no_news(self, start_server: StartServer) -> None:
        server = start_server()
        job_id = server.call("execute_command", command="exit 3", wait_s=20)["job_id"]
        assert "news" not in server.call("get_job_output", job_id=job_id)

    def test_of_many_the_last_three_are_named(self, start_server: StartServer, jobs: Jobs) -> None:
        server = start_server()
        job_ids = [server.execute(f"read x; exit {number}") for number in range(5)]
        for job_id in job_ids:
            jobs.kill(job_id)
            jobs.events("0.0", job_ids=[job_id], kinds=["ended"], timeout_s=30)
        news = server.call("list_jobs", status="running")["news"]
        assert news.endswith("was killed, and 2 more before.")
        assert [job_id[:8] in news for job_id in job_ids] == [False, False, True, True, True]
        assert "news" not in server.call("list_jobs", status="running")

    def test_what_ended_before_the_server_started_is_no_news(
        self, start_server: StartServer, ended: Ended
    ) -> None:
        ended(start_server().execute("true"))
        assert "news" not in start_server().call("list_jobs", status="running")

    def test_it_goes_on_where_the_log_does(
        self, jobs: Jobs, ended: Ended, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert jobs.news(SESSION) is None
        monkeypatch.setattr(event_log, "SEGMENT_BYTES", 2000)
        for number in range(100):
            event_log.append(jobs.events_directory, "limit_near", OF_NOBODY, number=number)
        assert jobs.news(SESSION) is None
        job = jobs.execute("exit 3", name="tests", by=US)
        ended(job.id)
        assert event_log.newest(jobs.events_directory) > 1
        assert jobs.news(SESSION) == f'"tests" ({job.id[:8]}) failed with exit code 3.'
        assert jobs.news(SESSION) is None

    def test_it_can_be_turned_off(self, start_server: StartServer, jobs: Jobs) -> None:
        server = start_server(MCP_BG_NEWS="off")
        jobs.kill(server.execute("cat"))
        assert "news" not in server.call("list_jobs", status="running")

    def test_it_costs_next_to_nothing_when_there_is_none(self, jobs: Jobs, ended: Ended) -> None:
        """Though other clients have many jobs that ended, and this one has many that run."""
        for _ in range(900):
            event_log.append(jobs.events_directory, "ended", str(uuid4()), cause="killed")
            sessions.expect(jobs.home, SESSION, str(uuid4()))
        job_id = jobs.execute("true").id
        ended(job_id)
        assert jobs.news(SESSION) is None
        costs = []
        for _ in range(2000):
            began = time.perf_counter()
            assert jobs.news(SESSION, asked=[job_id]) is None
            costs.append(time.perf_counter() - began)
        assert statistics.median(costs) < MAX_QUIET_S


BRACKETS = b"[" * 100_000 + b"\n"
SPOILT: dict[str, Callable[[Path], object]] = {
    "brackets without end": lambda events: (events / "1").write_bytes(BRACKETS),
    "brackets in an event": lambda events: (events / "1").write_bytes(
        b'{"at": 1.0, "kind": "ended", "job_id": "00000000-0000-4000-8000-000000000000", "a": '
        + BRACKETS[:50_000]
        + b"}\n"
    ),
    "a file with a number beyond all others": lambda events: (events / str(10**23)).touch(),
    "a directory": lambda events: (events / "9").mkdir(),
    "a FIFO": lambda events: os.mkfifo(events / "9"),
    "60 MB without a newline": lambda events: (events / "1").write_bytes(b"x" * (60 << 20)),
}
UNREADABLE: dict[str, Callable[[Path], object]] = {
    "a file in its place": Path.touch,
    "a symlink to itself": lambda events: events.symlink_to(events.name),
    "mode 000": lambda events: events.mkdir(0),
}


@contextlib.contextmanager
def instead(directory: Path, make: Callable[[Path], object]) -> Iterator[None]:
    """Something else in its place, for a while."""
    aside = directory.with_name("aside")
    directory.rename(aside)
    make(directory)
    try:
        yield
    finally:
        directory.rmdir() if directory.is_dir() else directory.unlink()
        aside.rename(directory)


class Client:
    """The tools of a server, with its news."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs, self._session = jobs, str(uuid4())

    def call(self, tool: str, **arguments: Any) -> Result:
        return call_tool(self._jobs, tool, arguments, self._session)

    def succeed(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = self.call(tool, **arguments)
        assert not result["isError"], result
        return dict(result["structuredContent"])

    def use_all(self) -> str:
        """Each tool that knows nothing of events answers as always; the job that was started."""
        answer = self.succeed("execute_command", command="echo hi", wait_s=30)
        assert (answer["status"], answer["stdout"]) == ("completed", "hi\n")
        self.use_those_that_look(job_id := str(answer["job_id"]))
        return job_id

    def use_those_that_look(self, job_id: str) -> None:
        assert self.succeed("get_job_status", job_id=job_id)["exit_code"] == 0
        assert self.succeed("get_job_output", job_id=job_id)["stdout"] == "hi\n"
        assert job_id in [job["job_id"] for job in self.succeed("list_jobs")["jobs"]]
        assert self.succeed("kill_job", job_id=job_id)["status"] == "already_terminated"


class TestSpoilt:
    """What lies in the log of events never makes a failure of a call that worked."""

    @pytest.mark.parametrize("what", SPOILT)
    def test_every_tool_works_whatever_lies_in_the_log(self, jobs: Jobs, home: Path, what: str) -> None:
        client = Client(jobs)
        SPOILT[what](home / "events")
        job_id = client.use_all()
        found = client.succeed("job_events", job_ids=[job_id], kinds=["ended"], since="0.0", timeout_s=30)
        assert [event["exit_code"] for event in found["events"]] == [0]
        assert client.succeed("job_events")["events"][-1]["job_id"] == job_id

    @pytest.mark.parametrize("what", UNREADABLE)
    def test_a_log_that_cannot_be_read_is_said_to_whoever_asks_for_it_and_to_nobody_else(
        self, jobs: Jobs, home: Path, what: str
    ) -> None:
        if what == "mode 000" and os.geteuid() == 0:
            pytest.skip("root reads everything")
        client = Client(jobs)
        job_id = client.use_all()
        with instead(home / "events", UNREADABLE[what]):
            client.use_those_that_look(job_id)
            Client(jobs).use_those_that_look(job_id)  # nor is it in the way of news that begin now
            refused = client.call("job_events")
            started = client.call("execute_command", command="true", wait_s=30)
        assert refused["isError"]
        assert "The events of the job store" in text_of(refused)
        assert "cannot be read" in text_of(refused)
        if what != "mode 000":  # a home that is not whole is said to be so before anything is run
            assert "events is no directory, or a link to one" in text_of(started)
            assert [job["job_id"] for job in client.succeed("list_jobs")["jobs"]] == [job_id]
        assert client.use_all()

    def test_an_error_of_ours_in_the_news_is_logged_and_the_answer_stands(
        self, jobs: Jobs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail(*_: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(NewsGate, "is_open", fail)
        Client(jobs).use_all()
        assert "Internal error in the line of news" in capsys.readouterr().err


class TestTheTool:
    def test_a_call_that_is_called_off_ends_in_the_server_too(
        self, start_server: StartServer, portal: BlockingPortal
    ) -> None:
        server = start_server()
        call = portal.start_task_soon(lambda: server.client.call_tool("job_events", {"timeout_s": 40}))
        wait_until(lambda: listens(server.pid))  # provably in flight
        began = time.monotonic()
        assert call.cancel()
        wait_until(lambda: not listens(server.pid))
        assert time.monotonic() - began < 20
        assert server.call("list_jobs")["jobs"] == []

    def test_kinds_may_be_asked_for_and_the_schema_has_them_all(self, server: Server) -> None:
        job_id = server.call("execute_command", command="true", wait_s=20)["job_id"]
        found = server.call("job_events", since="0.0", job_ids=[job_id], kinds=["ended"], timeout_s=20)
        assert [event["kind"] for event in found["events"]] == ["ended"]
        kinds = listed("job_events")["inputSchema"]["properties"]["kinds"]["items"]["enum"]
        documented = re.findall(
            r"^\| (`.*?) \|", DOCUMENT.read_text().partition("## The audit trail")[0], re.MULTILINE
        )
        assert sorted(kinds) == sorted(re.findall(r"`(\w+)`", " ".join(documented)))
        with pytest.raises(ToolError, match=r"kinds\.0=\"finished\": give one of started, matched, "):
            server.call("job_events", kinds=["finished"])

    def test_no_kinds_are_all_kinds(self, server: Server) -> None:
        job_id = server.call("execute_command", command="true", wait_s=20)["job_id"]
        found = server.call("job_events", since="0.0", job_ids=[job_id], kinds=[], timeout_s=20)
        assert found["events"]

    def test_a_wait_that_was_cut_says_so(self, start_server: StartServer) -> None:
        server = start_server(MCP_BG_MAX_WAIT="0.2")
        assert server.call("job_events", timeout_s=100)["waited_s"] == 0.2
        assert "waited_s" not in server.call("job_events", timeout_s=0.1)
        assert "waited_s" not in server.call("job_events")

    def test_the_schema_says_what_an_event_has(self) -> None:
        answer = listed("job_events")["outputSchema"]["properties"]
        assert answer["events"]["items"]["required"] == ["time", "kind", "job_id"]
        assert {"name", "command"} < answer["events"]["items"]["properties"].keys()
        assert "gone_bytes" in answer

    def test_an_event_of_an_unknown_kind_is_told_as_it_is(self, jobs: Jobs) -> None:
        from bgjob.mcp.listings import Told

        job = jobs.execute("cat", name="n")
        event_log.append(jobs.events_directory, "something_new", job.id, colour="blue", depth=3)
        told = Told.of(jobs.events("0.0", kinds=["something_new"]))
        (event,) = cast("list[dict[str, Any]]", told.events)
        assert (event["kind"], event["colour"], event["depth"], event["name"]) == (
            "something_new",
            "blue",
            3,
            "n",
        )
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["time"])


class TestTheCommandLine:
    def run(self, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BGJOB, *arguments],
            env={**os.environ, "BGJOB_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def test_events_are_rows_newest_last_and_the_cursor_goes_to_stderr(
        self, jobs: Jobs, home: Path, ended: Ended
    ) -> None:
        job = jobs.execute("exit 4", name="tests")
        ended(job.id)
        shown = self.run(home, "events")
        started, over = shown.stdout.splitlines()
        assert re.fullmatch(
            rf"\d{{4}}-\d\d-\d\d [\d:]{{8}}  {job.id[:8]}  tests +started \(pid \d+\)", started
        )
        assert re.search(r"tests +failed with exit code 4 after \d+\.\d s$", over)
        cursor = re.search(r"--since (\S+) ", shown.stderr)
        assert cursor is not None
        assert self.run(home, "events", "--since", cursor[1]).stdout == ""

    def test_only_those_of_some_jobs(self, jobs: Jobs, home: Path, ended: Ended) -> None:
        ended(jobs.execute("true", name="one").id)
        ended(jobs.execute("true", name="two").id)
        assert {row.split()[3] for row in self.run(home, "events", "two").stdout.splitlines()} == {"two"}
        assert "Job three not found" in self.run(home, "events", "three").stderr

    def test_followed_they_come_as_they_happen(self, jobs: Jobs, home: Path, gate: Gate) -> None:
        environment = {**os.environ, "BGJOB_HOME": str(home)}
        with subprocess.Popen(
            [BGJOB, "events", "-f"], env=environment, stdout=subprocess.PIPE, text=True
        ) as follower:
            assert follower.stdout is not None
            jobs.execute(f"{gate.pause}; exit 9")
            assert "started" in follower.stdout.readline()
            gate.wait_until_reached()
            gate.open()
            assert "failed with exit code 9" in follower.stdout.readline()
            follower.terminate()

    def test_a_run_may_have_watches(self, jobs: Jobs, home: Path) -> None:
        started = self.run(home, "run", "--watch", "need.e", "--watch", "x$", "--", "echo a needle; read x")
        found = jobs.events("0.0", kinds=["matched"], timeout_s=30).events
        assert [(event.job_id, event.details["pattern"]) for event in found] == [
            (started.stdout.strip(), "need.e")
        ]
        assert "watch: pattern '(' is not valid" in self.run(home, "run", "--watch", "(", "--", "true").stderr

    def test_nothing_of_an_event_reaches_the_terminal_as_more_than_text(self) -> None:
        event = JobEvent(
            0.0, "\x1b[2Jend\u202e", "\x1b]52;c;\x07", "na\x9bme", None, {"\x1bc": "a\x1b[31mb", "w": 1}
        )
        assert event_row(event).isprintable()

    def test_a_bad_cursor_is_an_error_in_words(self, home: Path) -> None:
        refused = self.run(home, "events", "--since", "soon")
        assert refused.returncode == 2
        assert "'soon' is no time. Accepted: 10s, 30m, 8h, 2d, " in refused.stderr
        refused = self.run(home, "events", "--since", "12-34")
        assert refused.returncode == 1
        assert "--since='12-34' is not a cursor of events" in refused.stderr
