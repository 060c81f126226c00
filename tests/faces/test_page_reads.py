"""What the page reads of jobs, of what happened and of the store: the same as tools and command line tell."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bgjob import __version__
from bgjob.core.options import TARGET
from bgjob.home import event_log
from bgjob.store.store import Store
from tests.support.homes import end_all_jobs
from tests.support.http_server import HttpServer
from tests.support.page_login import PageLogin

A_JOB = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    home = tmp_path_factory.mktemp("page") / "home"
    with HttpServer(home, MCP_BG_MAX_JOBS="50") as server:
        yield server
    end_all_jobs(home)


@pytest.fixture(scope="module")
def client(server: HttpServer) -> PageLogin:
    return PageLogin(server)


def run(server: HttpServer, command: str, **options: Any) -> str:
    """The id of a job that has ended."""
    job_id = server.execute(command, **options)
    server.call("wait_for_job", job_ids=[job_id])
    return job_id


def read(client: PageLogin, path: str, **query: object) -> Any:
    """What a request is answered that must not fail."""
    answer = client.get(path, **query)
    assert answer.status == 200, answer
    return answer.json


class TestAJob:
    def test_it_is_told_as_the_command_line_tells_it(self, server: HttpServer, client: PageLogin) -> None:
        job_id = run(server, "echo out; echo err >&2; exit 3", name="three")
        told = read(client, "/api/job", job=job_id)
        words = ("job_id", "name", "status", "cause", "exit_code", "output_bytes")
        assert {word: told[word] for word in words} == {
            "job_id": job_id, "name": "three", "status": "failed", "cause": "exited", "exit_code": 3, "output_bytes": 8,
        }  # fmt: skip
        assert told["created"] <= told["started"] <= told["ended"] <= time.time()

    def test_its_hidden_characters_are_shown(self, server: HttpServer, client: PageLogin) -> None:
        job_id = run(server, "echo 'a\u202eb\x1b[31m'")
        assert read(client, "/api/job", job=job_id)["command"] == "echo 'a\ufffdb\ufffd[31m'"

    def test_there_is_none_of_this_id(self, client: PageLogin) -> None:
        answer = client.get("/api/job", job=A_JOB)
        assert (answer.status, "not found" in answer.json["error"]) == (404, True)

    def test_a_request_must_name_one(self, client: PageLogin) -> None:
        answer = client.get("/api/job")
        assert (answer.status, answer.json) == (400, {"error": "job must be a text."})


class TestWhatHappened:
    def test_marks_of_a_span_are_in_words(self, server: HttpServer, client: PageLogin) -> None:
        before = time.time()
        job_id = run(server, "exit 4")
        found = read(client, "/api/events", **{"from": before, "to": time.time()})
        own = [(kind, words) for _, kind, each, words in found["events"] if each == job_id]
        assert [kind for kind, _ in own] == ["started", "ended"]
        assert own[1][1].startswith("failed with exit code 4 after ")
        assert found["more"] is False
        assert all(before <= at <= time.time() for at, *_ in found["events"])

    def test_another_span_has_none_of_them(self, server: HttpServer, client: PageLogin) -> None:
        run(server, "true")
        assert read(client, "/api/events", **{"from": 1, "to": 2}) == {"events": [], "more": False}

    def test_an_end_that_is_told_late_hides_no_other_event(
        self, server: HttpServer, client: PageLogin
    ) -> None:
        before = time.time()
        job_id = run(server, "true")
        late = {"at": before - 3600, "kind": "ended", "job_id": A_JOB, "cause": "exited", "exit_code": 0}
        event_log.append_line(Store(str(server.home)).events, json.dumps(late).encode())
        found = read(client, "/api/events", **{"from": before, "to": time.time()})["events"]
        assert [kind for _, kind, each, _ in found if each == job_id] == ["started", "ended"]
        assert A_JOB not in [each for _, _, each, _ in found]

    def test_of_very_many_the_newest_are_told(self, tmp_path: Path) -> None:
        first = "from bgjob.web.page import reads; reads.MOST_EVENTS = 3"
        with HttpServer(tmp_path / "home", first=first) as server:
            jobs = [run(server, "true") for _ in range(3)]
            found = read(PageLogin(server), "/api/events", **{"from": 0, "to": 2**40})
        assert [job_id for _, _, job_id, _ in found["events"]] == [jobs[1], jobs[2], jobs[2]]
        assert found["more"] is True


class TestTheStore:
    def test_settings_room_rights_and_the_form_of_a_start(
        self, server: HttpServer, client: PageLogin
    ) -> None:
        run(server, "head -c 100000 /dev/zero")
        store = read(client, "/api/store")
        assert (store["version"], store["home"]) == (__version__, str(server.home))
        assert store["scopes"] == ["kill", "read", "run"]
        assert store["settings"]["max_jobs"] == 50
        assert store["cpus"] >= 1
        assert store["memory_bytes"] > 1 << 28
        assert store["bytes"] > 100_000
        assert store["free_bytes"] > 0
        assert store["start"]["required"] == ["command"]
        assert "pty" in store["start"]["properties"]
        assert "target" not in store["start"]["properties"]
        assert "memory" in store["options"]
        assert not set(TARGET) & store["options"].keys()

    def test_the_form_of_a_start_names_targets_where_there_are_some(self, tmp_path: Path) -> None:
        (tmp_path / "bgjob").mkdir()
        (tmp_path / "bgjob/targets.toml").write_text('[gpu]\nkind = "ssh"\nhost = "gpu"\n')
        with HttpServer(tmp_path / "home", XDG_CONFIG_HOME=str(tmp_path)) as server:
            store = read(PageLogin(server), "/api/store")
        assert store["start"]["properties"]["target"]["enum"] == ["gpu"]
        assert set(TARGET) < store["options"].keys()


class TestLines:
    def test_the_last_lines_and_those_before_them(self, server: HttpServer, client: PageLogin) -> None:
        job_id = run(server, "seq 1000")
        last = read(client, "/api/lines", job=job_id, before=2**53, count=2)
        assert [line["text"] for line in last["lines"]] == ["999", "1000"]
        assert (last["end"], last["more"], last["dropped"]) == (3893, True, [])
        before = read(client, "/api/lines", job=job_id, before=last["lines"][0]["at"], count=1)
        assert [line["text"] for line in before["lines"]] == ["998"]
        after = read(client, "/api/lines", job=job_id, after=before["lines"][0]["at"], count=3)
        assert [line["text"] for line in after["lines"]] == ["998", "999", "1000"]
        assert after["more"] is False

    def test_a_line_says_what_is_so_of_it(self, server: HttpServer, client: PageLogin) -> None:
        before = time.time()
        job_id = run(
            server, "printf 'bad \\377 byte\\r\\n'; head -c 5000 /dev/zero | tr '\\0' x; printf no >&2"
        )
        lines = read(client, "/api/lines", job=job_id, after=0)["lines"]
        first, long, unfinished = sorted(lines, key=lambda line: line["stream"], reverse=True)
        assert before <= first.pop("time") <= time.time()
        assert first == {
            "at": first["at"],
            "end": first["at"] + 12,
            "stream": "stdout",
            "text": "bad \ufffd byte",
        }
        assert (long["size"], len(long["text"]), long["open"]) == (5000, 4096, True)
        assert (unfinished["stream"], unfinished["text"], unfinished["open"]) == ("stderr", "no", True)

    def test_dropped_bytes_are_told(self, server: HttpServer, client: PageLogin) -> None:
        job_id = run(server, "seq 100000", options={"output": 10_000})
        found = read(client, "/api/lines", job=job_id, after=0, count=1000)
        [gap] = found["dropped"]
        assert gap["stream"] == "stdout"
        kept = [line for line in found["lines"] if line["at"] > gap["at"]]
        assert kept[0]["at"] == gap["at"] + gap["bytes"]

    def test_what_matches_is_marked_as_the_search_sees_it(
        self, server: HttpServer, client: PageLogin
    ) -> None:
        job_id = run(server, r"printf '\033[31mError\033[0m: no error\nfine\n'")
        lines = read(client, "/api/lines", job=job_id, after=0, pattern="error", ignore_case=1)["lines"]
        assert [line.get("marks") for line in lines] == [["", "Error", ": no ", "error", ""], None]
        lines = read(client, "/api/lines", job=job_id, after=0, pattern="^.")["lines"]
        assert [line["marks"] for line in lines] == [["", "E", "rror: no error"], ["", "f", "ine"]]

    @pytest.mark.parametrize(
        "query", [{}, {"before": 1, "after": 1}, {"after": -1}, {"after": "x"}, {"after": 0, "count": 0}]
    )
    def test_a_place_is_one_number(
        self, server: HttpServer, client: PageLogin, query: dict[str, object]
    ) -> None:
        answer = client.get("/api/lines", job=run(server, "true"), **query)
        assert answer.status == 400
        assert set(answer.json) == {"error"}


class TestSearching:
    def test_all_matches_are_counted_in_parts_of_the_log(self, server: HttpServer, client: PageLogin) -> None:
        job_id = run(server, "seq 1000")
        found = read(client, "/api/search", job=job_id, pattern="^99", after=0, parts=10, limit=2)
        assert (found["count"], found["before"], found["complete"], found["more"]) == (11, 0, True, True)
        assert found["parts"] == [1, 0, 0, 0, 0, 0, 0, 0, 0, 10]
        lines = read(client, "/api/lines", job=job_id, after=found["matches"][1]["at"], count=1)["lines"]
        assert lines[0]["text"] == "990"

    @pytest.mark.parametrize("parts", [0, 4])
    def test_the_nearest_on_either_side_of_a_place(
        self, server: HttpServer, client: PageLogin, parts: int
    ) -> None:
        job_id = run(server, "seq 1000 1999")
        query = {"job": job_id, "pattern": "5$", "parts": parts, "limit": 2}
        before, after = (read(client, "/api/search", **query, **{side: 2500}) for side in ("before", "after"))
        assert [match["at"] for match in before["matches"]] == [2475, 2425]
        assert [match["at"] for match in after["matches"]] == [2525, 2575]
        assert (before["count"], before["before"]) == ((100, 50) if parts else (None, None))

    def test_a_line_that_begins_before_the_place_is_not_behind_it(
        self, server: HttpServer, client: PageLogin
    ) -> None:
        job_id = run(server, "echo needle needle; echo needle")
        found = read(client, "/api/search", job=job_id, pattern="needle", after=1, limit=9)
        assert found["matches"] == [{"at": 14, "end": 21}]
        assert read(client, "/api/search", job=job_id, pattern="dle n", before=5)["matches"] == [
            {"at": 0, "end": 14}
        ]

    def test_a_pattern_that_is_none_is_refused_in_words(self, server: HttpServer, client: PageLogin) -> None:
        answer = client.get("/api/search", job=run(server, "true"), pattern="(", after=0)
        assert (answer.status, "missing )" in answer.json["error"]) == (400, True)

    def test_a_search_without_time_says_so(self, tmp_path: Path) -> None:
        first = "from bgjob.api import lines; lines.PATIENCE_S = -1"
        with HttpServer(tmp_path / "home", first=first) as server:
            job_id = run(server, "seq 9")
            found = read(PageLogin(server), "/api/search", job=job_id, pattern="9", after=0, parts=3)
        assert (found["complete"], found["count"], found["parts"]) == (False, 0, [0, 0, 0])


class TestDownloading:
    def test_it_is_the_output_as_it_was_printed(self, server: HttpServer, client: PageLogin) -> None:
        job_id = run(server, r"printf 'a\033[31m\377'; printf 'e\r\n' >&2; seq 100000", name='../x"y; z')
        both = client.get("/api/download", job=job_id)
        numbers = b"".join(b"%d\n" % number for number in range(1, 100_001))
        assert both.body.replace(b"e\r\n", b"", 1) == b"a\x1b[31m\xff" + numbers
        assert both.headers["content-disposition"] == f'attachment; filename="x_y_z-{job_id[:8]}.log"'
        assert both.headers["content-type"] == "application/octet-stream"
        assert both.headers["x-content-type-options"] == "nosniff"
        stderr = client.get("/api/download", job=job_id, stream="stderr")
        assert (stderr.body, stderr.headers["content-disposition"][-12:-1]) == (b"e\r\n", ".stderr.log")

    def test_of_a_running_job_it_is_what_is_there_now(self, server: HttpServer, client: PageLogin) -> None:
        job_id = server.execute("echo so far; exec cat", stdin="open")
        server.call("wait_for_job", job_ids=[job_id], pattern="far")
        assert client.get("/api/download", job=job_id).body == b"so far\n"
        server.call("kill_job", job_id=job_id)

    def test_there_are_two_streams(self, server: HttpServer, client: PageLogin) -> None:
        answer = client.get("/api/download", job=run(server, "true"), stream="stdin")
        assert answer.json == {"error": "stream must be stdout or stderr, or none for both."}
