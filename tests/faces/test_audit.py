"""The audit trail: who ended jobs and typed into them, who was refused, who came by which token or login."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Jobs, audit
from bgjob.api.attach import check_can_attach
from bgjob.api.context import open_context
from bgjob.core.errors import InvalidArgument, NotAllowed
from bgjob.home import event_log
from tests.faces.command_line import Cli
from tests.faces.page_server import logged_in
from tests.support.homes import end_all_jobs
from tests.support.http_server import HttpServer
from tests.support.page_login import PageLogin
from tests.support.page_stream import PageStream
from tests.support.server import StartServer, ToolError

SECRET = "hunter2"


def told(cli: Cli, *kinds: str) -> list[dict[str, Any]]:
    words = [word for kind in kinds for word in ("--kind", kind)]
    return [json.loads(line) for line in cli("events", *words, "--json").stdout.splitlines()]


class TestWhatAgentsDo:
    def test_kills_signals_and_typing_have_who_and_never_what_was_typed(
        self, start_server: StartServer, cli: Cli
    ) -> None:
        server = start_server()
        job_id = server.execute("cat", name="it")
        server.call("interact_with_job", job_id=job_id, input=SECRET, wait_s=0)
        server.call("kill_job", job_id=job_id, signal="USR1", only_signal=True)
        server.call("kill_job", job_id=job_id)
        found = told(cli, "kill_asked", "input_sent", "signal_sent")
        assert [each["kind"] for each in found] == ["input_sent", "signal_sent", "kill_asked"]
        for each in found:
            assert (each["job_id"], each["client"], each["uid"]) == (job_id, "claude-code", os.getuid())
            assert each["session"]
        assert found[0]["bytes"] == len(SECRET) + 1
        assert SECRET not in json.dumps(found)
        assert f"by uid {os.getuid()}, client claude-code" in cli("events", "--kind", "kill_asked").stdout

    def test_a_refusal_by_the_allow_list_is_told_without_the_command(
        self, start_server: StartServer, cli: Cli
    ) -> None:
        server = start_server(MCP_BG_ALLOWED_COMMANDS="^echo")
        for _ in range(3):
            with pytest.raises(ToolError):
                server.execute(f"env TOKEN={SECRET} make")
        (refused,) = told(cli, "refused")
        assert (refused["why"], refused["client"]) == ("policy", "claude-code")
        assert "job_id" not in refused
        assert SECRET not in json.dumps(refused)

    def test_a_person_who_may_not_enter_a_job_is_noted(self, jobs: Jobs, cli: Cli, home: Path) -> None:
        job = jobs.execute("cat")
        listed = {**os.environ, "BGJOB_HOME": str(home), "MCP_BG_ALLOWED_COMMANDS": "^echo"}
        with pytest.raises(NotAllowed):
            check_can_attach(open_context(listed, many=False), job, only_looks=False)
        (refused,) = told(cli, "refused")
        assert (refused["job_id"], refused["why"]) == (job.id, "policy")

    def test_what_is_not_asked_for_is_not_told(self, start_server: StartServer, cli: Cli, jobs: Jobs) -> None:
        server = start_server()
        job_id = server.execute("cat")
        server.call("kill_job", job_id=job_id)
        kinds = {event["kind"] for event in server.call("job_events", since="1.0")["events"]}
        assert kinds & audit.AUDIT_KINDS == set()
        assert "kill_asked" not in cli("events").stdout
        with pytest.raises(InvalidArgument, match="Ask for them separately"):
            jobs.events(kinds=["ended", "kill_asked"])

    def test_at_the_command_line_it_is_the_user(self, jobs: Jobs, cli: Cli) -> None:
        job = jobs.execute("cat")
        cli("kill", job.id)
        (killed,) = told(cli, "kill_asked")
        assert (killed["job_id"], killed["client"]) == (job.id, "bgjob")
        assert killed["user"]


class TestOverHttp:
    @pytest.fixture
    def http(self, home: Path) -> Iterator[HttpServer]:
        with HttpServer(home) as server:
            yield server
        end_all_jobs(home)

    def test_tokens_that_are_used_wrong_or_lack_a_right(self, http: HttpServer, cli: Cli) -> None:
        reader = http.add_token("reader", "--scope", "read")
        http.call("list_jobs", reader)
        assert http.post({}, token="wrong-" + SECRET).status == 401
        job_id = http.execute("cat")
        with pytest.raises(AssertionError):
            http.call("kill_job", reader, job_id=job_id)
        http.call("kill_job", job_id=job_id)
        refused = told(cli, "refused")
        assert [(each["why"], each.get("token")) for each in refused] == [
            ("login or token", None),
            ("scope", "reader"),
        ]
        assert ["uid" in each for each in refused] == [False, True], "who sent a wrong token is not known"
        assert "by an unknown user, client http" in cli("events", "--kind", "refused").stdout
        used = {each["token"] for each in told(cli, "token_used")}
        assert "reader" in used
        assert len(used) == 2
        (killed,) = told(cli, "kill_asked")
        assert killed["token"] in used - {"reader"}
        assert SECRET not in cli("events", "--kind", "refused", "--json").stdout


class TestAtThePage:
    @pytest.fixture
    def login(self, home: Path) -> Iterator[PageLogin]:
        with HttpServer(home, USER="ann") as server:
            yield logged_in(server)
        end_all_jobs(home)

    def test_a_login_and_what_it_does(self, login: PageLogin, cli: Cli, jobs: Jobs) -> None:
        (logged,) = told(cli, "logged_in")
        job = jobs.execute("cat", pty=True)
        assert login.post("/api/answer", {"job": job.id, "text": SECRET}).status == 200
        assert login.post("/api/kill", {"jobs": [job.id]}).status == 200
        typed, killed = told(cli, "input_sent", "kill_asked")
        for each in typed, killed:
            assert (each["job_id"], each["client"], each["login"]) == (job.id, "page", logged["login"])
        assert login.cookie[1].partition("=")[2] not in json.dumps([logged, typed, killed])
        assert SECRET not in json.dumps(typed)

    def test_a_login_that_lacks_a_right(self, login: PageLogin, cli: Cli, jobs: Jobs) -> None:
        job = jobs.execute("cat")
        looks = logged_in(login.server, "read")
        assert looks.post("/api/kill", {"jobs": [job.id]}).status == 403
        _, logged = told(cli, "logged_in")
        (refused,) = told(cli, "refused")
        assert (refused["client"], refused["login"]) == ("page", logged["login"])

    def test_what_is_typed_in_its_terminal(self, login: PageLogin, cli: Cli, jobs: Jobs) -> None:
        job = jobs.execute("cat", pty=True)
        with PageStream(login, job=job.id, view="terminal", viewer="v", size="24x80") as page:
            page.wait_for("screen")
            for key in SECRET:
                page.type(key.encode())
            page.type(b"\r")
            page.wait_for_output(f"{SECRET}\r\n{SECRET}".encode())
        (typed,), (logged,) = told(cli, "input_sent"), told(cli, "logged_in")
        assert (typed["job_id"], typed["client"], typed["login"]) == (job.id, "page", logged["login"])
        assert SECRET not in json.dumps(typed)


class TestBounds:
    def test_a_flood_of_refusals_is_counted_and_pushes_nothing_out(self, home: Path, jobs: Jobs) -> None:
        job = jobs.execute("cat")
        jobs.kill(job.id)
        for number in range(5000):
            with audit.acting({"client": f"attacker {number}" * 100}):
                audit.note(jobs.home, "refused", why="policy")
        lines = list(jobs.events(kinds=["refused", "kill_asked"], max_tokens=100_000).events)
        assert [each.job_id for each in lines if each.kind == "kill_asked"] == [job.id]
        assert len(lines) <= audit.MOST_REFUSALS + 2
        assert event_log.end(f"{home}/audit").byte < 64_000

    def test_what_is_repeated_is_counted_at_the_end(self, jobs: Jobs, cli: Cli) -> None:
        trail = audit._Trail()
        for _ in range(7):
            trail.note(jobs.home, "token_used", {"client": "http", "token": "t"}, audit.NO_JOB, {})
        trail.close()
        assert [each.get("repeated") for each in told(cli, "token_used")] == [None, 6]
