"""What an open page is told of all jobs: by the stream of a real server, to a client that is no browser."""

import asyncio
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.api import Jobs
from bgjob.store.quota import StoreSize
from bgjob.store.store import Store
from bgjob.web.page import live
from bgjob.web.page.live import SharedLive
from bgjob.web.server import STOPPING_S
from tests.faces.page_server import home, logged_in, login, server
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.http_server import HttpServer
from tests.support.page_login import PageLogin
from tests.support.page_stream import PageStream
from tests.support.stores import ended_job
from tests.support.waiting import wait_until

__all__ = ["home", "login", "server"]
HURRIED = "from bgjob.web import replies; replies.KEEP_ALIVE_S = 0.2"
MANY = 300


@pytest.fixture
def page(login: PageLogin) -> Iterator[PageStream]:
    with PageStream(login) as page:
        yield page


class TestRows:
    def test_a_job_is_in_its_row_from_its_start_to_its_end(
        self, page: PageStream, jobs: Jobs, gate: Gate
    ) -> None:
        assert page.wait_for("list")["whole"]
        before = time.time()
        job_id = jobs.execute(f"{gate.pause}; exit 3", name="build", timeout_s=500.0).id
        row = page.wait_for_row(job_id, lambda row: "started" in row)
        assert (row["name"], row["status"], row["group"]) == ("build", "running", "running")
        assert (row["timeout_s"], row["stdin"], row["cwd"]) == (500.0, True, str(Path.cwd()))
        assert before <= row["created"] <= row["started"] <= time.time()
        assert not row.keys() & {"pty", "ended", "exit_code", "prompt", "held", "left", "restarts", "of"}
        gate.wait_until_reached()
        gate.open()
        row = page.wait_for_row(job_id, lambda row: row["status"] != "running")
        assert (row["status"], row["group"], row["cause"]) == ("failed", "ended", "exited")
        assert (row["exit_code"], row["outcome"]) == (3, "failed with exit code 3")
        assert row["started"] <= row["ended"]

    def test_an_exit_code_of_zero_is_told(self, page: PageStream, jobs: Jobs) -> None:
        row = page.wait_for_row(jobs.execute("true").id, lambda row: row["group"] == "ended")
        assert (row["status"], row["exit_code"]) == ("completed", 0)

    def test_a_question_is_told_with_its_prompt(self, page: PageStream, jobs: Jobs) -> None:
        job_id = jobs.execute("printf 'Go on? '; read answer", pty=True).id
        row = page.wait_for_row(job_id, lambda row: row["group"] == "asking")
        assert (row["prompt"], row["phase"], row["pty"]) == ("Go on?", "waiting", True)

    def test_a_queued_job_says_why(self, page: PageStream, jobs: Jobs) -> None:
        job_id = jobs.execute("true", queue=True, options={"delay_s": 1000}).id
        row = page.wait_for_row(job_id, lambda row: "reason" in row)
        assert (row["status"], row["group"]) == ("queued", "queued")
        assert "it is to start in" in row["reason"]

    def test_processes_that_were_left_running_are_counted(self, page: PageStream, jobs: Jobs) -> None:
        job_id = jobs.execute("sleep 1000 & exit 3").id
        row = page.wait_for_row(job_id, lambda row: "left" in row)
        assert (row["left"], row["group"], row["status"]) == (1, "running", "failed")

    def test_nothing_hidden_is_in_a_row(self, page: PageStream, jobs: Jobs) -> None:
        job_id = jobs.execute("printf 'evil \\033]0;x\\007\u202e? '; read x; : \x1b[31m\u202e", pty=True).id
        row = page.wait_for_row(job_id, lambda row: "prompt" in row)
        assert not {"\x1b", "\u202e", "\x07"} & set(row["command"] + row["prompt"])
        assert "evil" in row["prompt"]

    def test_a_removed_job_is_told(self, page: PageStream, jobs: Jobs, login: PageLogin) -> None:
        job_id = jobs.execute("true").id
        page.wait_for_row(job_id, lambda row: row["group"] == "ended")
        assert login.post("/api/remove", {"jobs": [job_id]}).json == {"jobs": {job_id: "removed"}}
        assert page.wait_for("list", lambda data: data["removed"])["removed"] == [job_id]


class TestAPosition:
    def test_who_comes_back_with_it_is_told_what_has_changed(self, login: PageLogin, jobs: Jobs) -> None:
        old = jobs.execute("true").id
        with PageStream(login) as page:
            page.wait_for_row(old, lambda row: row["group"] == "ended")
            position = page.position
        new = jobs.execute("sleep 1000").id
        with PageStream(login, list=position) as page:
            page.wait_for_row(new)
            told = [data for kind, data in page.seen if kind == "list"]
            assert not any(data["whole"] for data in told)
            assert list(page.rows) == [new]

    def test_who_knows_all_is_told_so(self, login: PageLogin, jobs: Jobs) -> None:
        job_id = jobs.execute("true").id
        with PageStream(login) as page:
            page.wait_for_row(job_id, lambda row: row["group"] == "ended")
            position = page.position
        with PageStream(login, list=position) as page:
            told = page.wait_for("list")
            assert (told["whole"], told["rows"], told["complete"]) == (False, [], True)

    @pytest.mark.parametrize("position", ["x", "1.2", "..", "\u00b2.\u00b2", "9" * 5000])
    def test_one_that_is_none_is_that_of_another_server(self, login: PageLogin, position: str) -> None:
        with PageStream(login, list=position) as page:
            assert page.wait_for("list")["whole"]

    def test_another_server_sends_all_of_many_jobs(self, tmp_path: Path) -> None:
        store = Store(str(tmp_path / "home"))
        ids = {ended_job(store, name=f"job {number}") for number in range(MANY)}
        with HttpServer(tmp_path / "home") as server:
            login = logged_in(server)
            with PageStream(login) as page:
                page.wait_until(lambda: page.is_complete)
                assert page.rows.keys() == ids
                position = page.position
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            port = str(server.port)
            with HttpServer(server.home, "--port", port), PageStream(login, list=position) as page:
                assert page.wait_for("list")["whole"]
                page.wait_until(lambda: page.is_complete)
                assert page.rows.keys() == ids


class TestSamples:
    def test_of_a_running_job_cpu_and_memory_are_told(
        self, page: PageStream, login: PageLogin, jobs: Jobs
    ) -> None:
        job_id = jobs.execute("while :; do :; done").id
        told = page.wait_for("samples", lambda data: (data["jobs"].get(job_id) or [0])[0] or False)
        cpu_percent, memory_bytes = told["jobs"][job_id]
        assert 0 < cpu_percent < 1000
        assert memory_bytes > 1000
        assert abs(told["at"] - time.time()) < 60
        with PageStream(login) as other:
            samples = other.wait_for("history")[job_id]
            assert [told["at"], cpu_percent, memory_bytes] in samples
        with PageStream(login, sampled=told["at"]) as third:
            later = third.wait_for("history", lambda data: job_id in data)[job_id]
            assert later
            assert all(at > told["at"] for at, *_ in later)

    def test_an_ended_job_has_none(self, page: PageStream, jobs: Jobs) -> None:
        job_id = jobs.execute("sleep 1000").id
        page.wait_for("samples", lambda data: job_id in data["jobs"])
        jobs.kill(job_id, grace_s=0)
        page.wait_for("samples", lambda data: job_id not in data["jobs"])

    def test_the_disk_of_the_store_is_told(self, page: PageStream, jobs: Jobs) -> None:
        jobs.execute("true")
        told = page.wait_for("samples", lambda data: "store" in data)["store"]
        assert told["bytes"] >= 0
        assert told["free_bytes"] > 0


class TestItsEnd:
    def test_a_login_that_is_removed_ends_it(self, tmp_path: Path) -> None:
        with HttpServer(tmp_path / "home", first=HURRIED) as server:
            login = logged_in(server)
            with PageStream(login) as page:
                page.wait_for("list")
                assert login.post("/api/logout").status == 204
                assert {kind for kind, _ in page.events()} <= {"list", "samples", "history"}

    def test_a_server_that_stops_ends_it(self, tmp_path: Path) -> None:
        with HttpServer(tmp_path / "home") as server:
            job_id = server.execute("cat", pty=True)
            with PageStream(logged_in(server), job=job_id, view="terminal", viewer="v") as page:
                page.wait_for("screen")
                began = time.monotonic()
                assert server.stop() == 0
                assert time.monotonic() - began < STOPPING_S  # so long it would wait for a stream
                for _ in page.events():
                    pass  # until its end
        end_all_jobs(tmp_path / "home")

    def test_without_a_stream_nothing_is_read(
        self, jobs: Jobs, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live, "LINGER_S", 0.0)

        async def come_and_go() -> None:
            shared, told = SharedLive(jobs.context, StoreSize(jobs.store)), asyncio.Event()
            loop = asyncio.get_running_loop()

            def wake() -> None:
                loop.call_soon_threadsafe(told.set)

            first = shared.join(wake)
            await told.wait()
            assert threads() == {"live jobs", "page events", "page store"}
            shared.leave(wake)
            await asyncio.to_thread(wait_until, lambda: threads() == set())
            assert shared.join(wake) is not first
            shared.close()

        asyncio.run(come_and_go())
        wait_until(lambda: threads() == set())


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith(("live", "page"))}


@pytest.mark.parametrize(
    "query",
    [
        {"job": "x", "view": "picture"},
        {"job": "x", "view": "terminal", "size": "24"},
        {"job": "x", "view": "terminal", "size": "0x0"},
        {"job": "x", "view": "terminal", "size": "24x80x1"},
        {"job": "x", "at": "-1"},
        {"sampled": "soon"},
    ],
)
def test_what_is_asked_wrongly_is_said(login: PageLogin, query: dict[str, str]) -> None:
    answer = login.get("/api/stream", **query)
    assert answer.status == 400
    assert "must be" in answer.json["error"]
