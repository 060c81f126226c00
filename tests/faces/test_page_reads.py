"""What the page reads of jobs, of what happened and of the store: the same as tools and command line tell."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bgjob import __version__
from tests.support.homes import end_all_jobs
from tests.support.http_server import HttpServer
from tests.support.page_client import PageClient

A_JOB = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    home = tmp_path_factory.mktemp("page") / "home"
    with HttpServer(home, MCP_BG_MAX_JOBS="50") as server:
        yield server
    end_all_jobs(home)


@pytest.fixture(scope="module")
def client(server: HttpServer) -> PageClient:
    return PageClient(server)


def run(server: HttpServer, command: str, **options: Any) -> str:
    """The id of a job that has ended."""
    job_id = server.execute(command, **options)
    server.call("wait_for_job", job_ids=[job_id])
    return job_id


class TestAJob:
    def test_it_is_told_as_the_command_line_tells_it(self, server: HttpServer, client: PageClient) -> None:
        job_id = run(server, "echo out; echo err >&2; exit 3", name="three")
        told = client.read("/api/job", job=job_id)
        words = ("job_id", "name", "status", "cause", "exit_code", "output_bytes")
        assert {word: told[word] for word in words} == {
            "job_id": job_id, "name": "three", "status": "failed", "cause": "exited", "exit_code": 3, "output_bytes": 8,
        }  # fmt: skip
        assert told["created"] <= told["started"] <= told["ended"] <= time.time()

    def test_its_hidden_characters_are_shown(self, server: HttpServer, client: PageClient) -> None:
        job_id = run(server, "echo 'a\u202eb\x1b[31m'")
        assert client.read("/api/job", job=job_id)["command"] == "echo 'a\ufffdb\ufffd[31m'"

    def test_there_is_none_of_this_id(self, client: PageClient) -> None:
        answer = client.get("/api/job", job=A_JOB)
        assert (answer.status, "not found" in answer.json["error"]) == (404, True)

    def test_a_request_must_name_one(self, client: PageClient) -> None:
        answer = client.get("/api/job")
        assert (answer.status, answer.json) == (400, {"error": "job must be a text."})


class TestWhatHappened:
    def test_marks_of_a_span_are_in_words(self, server: HttpServer, client: PageClient) -> None:
        before = time.time()
        job_id = run(server, "exit 4")
        found = client.read("/api/events", **{"from": before, "to": time.time()})
        own = [(kind, words) for _, kind, each, words in found["events"] if each == job_id]
        assert [kind for kind, _ in own] == ["started", "ended"]
        assert own[1][1].startswith("failed with exit code 4 after ")
        assert found["more"] is False
        assert all(before <= at <= time.time() for at, *_ in found["events"])

    def test_another_span_has_none_of_them(self, server: HttpServer, client: PageClient) -> None:
        run(server, "true")
        assert client.read("/api/events", **{"from": 1, "to": 2}) == {"events": [], "more": False}

    def test_of_very_many_the_newest_are_told(self, tmp_path: Path) -> None:
        first = "from bgjob.web.page import reads; reads.MOST_EVENTS = 3"
        with HttpServer(tmp_path / "home", first=first) as server:
            jobs = [run(server, "true") for _ in range(3)]
            found = PageClient(server).read("/api/events", **{"from": 0, "to": 2**40})
        assert [job_id for _, _, job_id, _ in found["events"]] == [jobs[1], jobs[2], jobs[2]]
        assert found["more"] is True


class TestTheStore:
    def test_settings_room_rights_and_the_form_of_a_start(
        self, server: HttpServer, client: PageClient
    ) -> None:
        run(server, "head -c 100000 /dev/zero")
        store = client.read("/api/store")
        assert (store["version"], store["home"]) == (__version__, str(server.home))
        assert store["scopes"] == ["kill", "read", "run"]
        assert store["settings"]["max_jobs"] == 50
        assert store["bytes"] > 100_000
        assert store["free_bytes"] > 0
        assert store["start"]["required"] == ["command"]
        assert "pty" in store["start"]["properties"]
