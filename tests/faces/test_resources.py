"""Jobs as resources: listed, read by URI and by range, and completed, in every revision."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from anyio.from_thread import BlockingPortal
from mcp_types import ResourceTemplateReference, TextResourceContents

from bgjob.api import Jobs
from bgjob.mcp import resources
from tests.support.eras import ERAS, Era, ask
from tests.support.homes import end_all_jobs
from tests.support.raw_client import Message, RawClient
from tests.support.server import StartServer
from tests.support.stores import ended_job, job_with

OF_NO_JOB = "00000000-0000-4000-8000-000000000000"
ONE_JOB = "bgjob://jobs/{id}/{view}"
NO_RESOURCES = (
    "",
    "bgjob:",
    "file:///etc/passwd",
    "bgjob://job",
    "bgjob://jobs/x",
    "bgjob://jobs/x/y/z",
    f"bgjob://jobs/{OF_NO_JOB}/output",
    f"bgjob://jobs/{OF_NO_JOB}/log",
    "bgjob://jobs/nothing/stdout",
    "bgjob://jobs/..%2F..%2Fetc/stdout",
    "bgjob://jobs/%ff/stdout",
    "bgjob://jobs/%/stdout",
    "bgjob://jobs//stdout",
    "bgjob://jobs#here",
)
NO_RANGES = {
    "stdout?lines=0": "a whole number from 1 to 1000",
    "stdout?lines=many": "a whole number from 1 to 1000",
    "output?max_tokens=1": "a whole number of at least 50",
    "stderr?since=yesterday": "not a cursor",
    "stdout?tail=3": "stdout takes since, lines, max_tokens",
    "status?lines=3": "status takes no arguments",
    "screen?lines=3": "screen takes max_tokens",
}
NO_COMPLETIONS: tuple[tuple[Message, Message], ...] = (
    ({"type": "ref/prompt", "name": "review"}, {"name": "id", "value": ""}),
    ({"type": "ref/resource", "uri": "file:///{path}"}, {"name": "path", "value": ""}),
    ({"type": "ref/resource", "uri": ONE_JOB}, {"name": "colour", "value": ""}),
    ({"type": "ref/resource", "uri": ONE_JOB}, {"name": "id"}),
    ({"type": "ref/resource", "uri": ONE_JOB}, {}),
    ({}, {"name": "id", "value": ""}),
)


@pytest.fixture
def client(home: Path) -> Iterator[RawClient]:
    with RawClient(home) as client:
        client.shake_hands()
        yield client


@pytest.fixture(scope="module")
def common_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("common") / "home"
    yield home
    end_all_jobs(home)


@pytest.fixture(scope="module")
def common_client(common_home: Path) -> Iterator[RawClient]:
    """For tests that look at their own jobs alone."""
    with RawClient(common_home) as client:
        client.shake_hands()
        yield client


def run(client: RawClient, command: str, **options: Any) -> str:
    """The id of a job that has ended."""
    answer = client.call("execute_command", {"command": command, "wait_s": 40, **options})
    assert answer["structuredContent"]["status"] != "running"
    return str(answer["structuredContent"]["job_id"])


def read(client: RawClient, uri: str, era: Era = "handshake") -> Message:
    answer = ask(client, era, "resources/read", uri=uri)
    (content,) = answer["result"]["contents"]
    assert content["uri"] == uri
    return dict(content)


def error(client: RawClient, uri: str, era: Era = "handshake") -> Message:
    return dict(ask(client, era, "resources/read", uri=uri)["error"])


class TestTheList:
    def test_it_has_the_jobs_newest_first_and_the_list_of_jobs(self, client: RawClient) -> None:
        older, newer = run(client, "echo one; exit 7", name="tests"), client.execute("exec cat")
        result = client.ask("resources/list")["result"]
        jobs, of_newer, of_older = result["resources"]
        assert jobs["uri"] == "bgjob://jobs"
        assert jobs["mimeType"] == "application/json"
        assert of_newer["uri"] == f"bgjob://jobs/{newer}/output"
        assert of_newer["name"] == "exec cat"
        assert of_newer["description"].startswith("running")
        assert of_older["uri"] == f"bgjob://jobs/{older}/output"
        assert of_older["name"] == "tests"
        assert of_older["description"].startswith("failed, exit code 7")
        assert of_older["mimeType"] == "text/plain"
        assert of_older["size"] == len("one\n")
        assert of_older["annotations"]["lastModified"].endswith("Z")
        assert "nextCursor" not in result
        newest = ask(client, "stateless", "resources/list")["result"]
        assert newest["resources"] == result["resources"]
        assert newest["ttlMs"] == 0

    def test_it_comes_in_pages_of_fifty_jobs(self, client: RawClient, jobs: Jobs) -> None:
        made = [ended_job(jobs.store, created_at=1e9 + number) for number in range(60)]
        first = client.ask("resources/list")["result"]
        second = client.ask("resources/list", {"cursor": first["nextCursor"]})["result"]
        assert len(first["resources"]) == 51
        assert "nextCursor" not in second
        listed = [resource["uri"] for resource in first["resources"][1:] + second["resources"]]
        assert listed == [f"bgjob://jobs/{job_id}/output" for job_id in reversed(made)]

    def test_a_cursor_that_is_none_is_refused(self, common_client: RawClient) -> None:
        for cursor in ("", "17", "0" * 16, 17, ["a"]):
            answer = common_client.ask("resources/list", {"cursor": cursor})["error"]
            assert answer["code"] == -32602
            assert "cursor" in answer["message"]

    def test_it_opens_no_log_and_asks_no_shim(self, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
        """Clients ask for it at every start."""
        job_id = jobs.execute("echo $$; cat").id

        def opened(*_: object) -> None:
            raise AssertionError("too much for a list")

        for name in ("api.snapshot.LogReader", "api.prompt.ask_shim", "api.processes.processes_of"):
            monkeypatch.setattr(f"bgjob.{name}", opened)
        listed = resources.listing(jobs, None)["resources"]
        assert [resource["uri"] for resource in listed[1:]] == [f"bgjob://jobs/{job_id}/output"]

    def test_nothing_in_a_name_is_hidden(self, client: RawClient, home: Path) -> None:
        job_with(home, name="a\u202eb")
        assert "\u202e" not in json.dumps(client.ask("resources/list"), ensure_ascii=False)

    @pytest.mark.parametrize("era", ERAS)
    def test_templates_tell_of_views_and_ranges(self, common_client: RawClient, era: Era) -> None:
        templates = ask(common_client, era, "resources/templates/list")["result"]["resourceTemplates"]
        assert [template["uriTemplate"] for template in templates] == [
            ONE_JOB,
            "bgjob://jobs/{id}/stdout{?since,lines,max_tokens}",
            "bgjob://jobs/{id}/stderr{?since,lines,max_tokens}",
            "bgjob://jobs/{id}/output{?since,lines,max_tokens}",
            "bgjob://jobs{?cursor}",
        ]
        assert all(template["name"] and template["description"] for template in templates)


class TestReading:
    @pytest.fixture
    def client(self, common_client: RawClient) -> RawClient:
        return common_client

    @pytest.mark.parametrize("era", ERAS)
    def test_the_views_of_a_job(self, client: RawClient, era: Era) -> None:
        job_id = run(client, r"printf '\033[31mred\033[0m\n'; sleep 0.05; echo bad >&2; exit 3")
        assert read(client, f"bgjob://jobs/{job_id}/stdout", era)["text"] == "red\n"
        assert read(client, f"bgjob://jobs/{job_id}/stderr", era)["text"] == "bad\n"
        both = client.call("get_job_output", {"job_id": job_id, "view": "interleaved"})["structuredContent"]
        output = read(client, f"bgjob://jobs/{job_id}/output", era)
        assert output["text"] == both["interleaved"]
        assert output["mimeType"] == "text/plain"
        assert output["_meta"] == {"bgjob/cursor": both["cursor"]}

    def test_the_status_is_what_the_tool_tells(self, client: RawClient) -> None:
        job_id = run(client, "exit 3", name="three")
        content = read(client, f"bgjob://jobs/{job_id}/status")
        told = client.call("get_job_status", {"job_id": "three"})["structuredContent"]
        told.pop("news", None)
        assert content["mimeType"] == "application/json"
        assert json.loads(content["text"]) == told

    def test_the_screen_of_a_terminal(self, client: RawClient) -> None:
        job_id = run(client, r"printf 'one\rtwo\n'", pty=True)
        assert read(client, f"bgjob://jobs/{job_id}/screen")["text"] == "two"
        of_none = run(client, "true")
        assert "pty=true" in error(client, f"bgjob://jobs/{of_none}/screen")["message"]

    def test_the_list_of_jobs(self, client: RawClient) -> None:
        job_id = run(client, "true")
        content = read(client, "bgjob://jobs")
        assert content["mimeType"] == "application/json"
        assert json.loads(content["text"])["jobs"][0]["job_id"] == job_id

    def test_by_range(self, client: RawClient) -> None:
        job_id = run(client, "seq 100; seq 3 >&2")
        uri = f"bgjob://jobs/{job_id}/stdout"
        last = read(client, f"{uri}?lines=2")
        assert last["text"] == "99\n100\n"
        assert read(client, f"{uri}?since={last['_meta']['bgjob/cursor']}")["text"] == ""
        assert read(client, f"{uri}?since=0-4")["text"] == "1\n2\n"
        assert len(read(client, f"{uri}?max_tokens=50")["text"]) < 400
        assert read(client, f"bgjob://jobs/{job_id}/stderr?lines=1&max_tokens=50")["text"] == "3\n"

    def test_a_read_never_floods_a_context(self, client: RawClient) -> None:
        job_id = run(client, "seq 1000000 | tee /dev/stderr")
        for view in ("stdout", "stderr", "output"):
            text = read(client, f"bgjob://jobs/{job_id}/{view}")["text"]
            assert 16_000 < len(text) < 33_000

    def test_a_job_by_its_name_and_by_the_beginning_of_its_id(self, client: RawClient) -> None:
        for name in ("a b/c", "100%", "ü?#&=+", "..", "%41"):
            job_id = run(client, 'printf %s "$NAME"', name=name, env={"NAME": name})
            assert read(client, f"bgjob://jobs/{quote(name, safe='')}/stdout")["text"] == name
            assert read(client, f"BGJOB://Jobs/{job_id[:8]}/stdout")["text"] == name

    def test_what_there_is_not(self, client: RawClient) -> None:
        for uri, era in itertools.product(NO_RESOURCES, ERAS):
            told = error(client, uri, era)
            assert told["code"] == (-32602 if era == "stateless" else -32002), uri
            assert told["data"] == {"uri": uri}
            assert "resources/list" in told["message"]

    def test_ranges_that_there_are_not(self, client: RawClient) -> None:
        job_id = run(client, "true")
        for (uri, accepted), era in itertools.product(NO_RANGES.items(), ERAS):
            told = error(client, f"bgjob://jobs/{job_id}/{uri}", era)
            assert told["code"] == -32602, uri
            assert accepted in told["message"]

    def test_an_ambiguous_beginning_is_told(self, client: RawClient, common_home: Path) -> None:
        for last in "12":
            job_with(common_home, id=OF_NO_JOB[:-1] + last)
        told = error(client, f"bgjob://jobs/{OF_NO_JOB[:8]}/stdout")
        assert told["code"] == -32602
        assert "Give more of the id" in told["message"]

    def test_a_uri_must_be_text(self, client: RawClient) -> None:
        assert client.ask("resources/read", {"uri": 17})["error"]["code"] == -32602
        assert client.ask("resources/read")["error"]["code"] == -32602


class TestCompletion:
    def complete(self, client: RawClient, era: Era, name: str, value: str, uri: str = ONE_JOB) -> Message:
        answer = ask(
            client,
            era,
            "completion/complete",
            ref={"type": "ref/resource", "uri": uri},
            argument={"name": name, "value": value},
        )
        return dict(answer["result"]["completion"])

    def test_ids_and_names_newest_first(self, client: RawClient) -> None:
        older, newer = run(client, "true", name="dev"), run(client, "true", name="dev server")
        for era in ERAS:
            found = self.complete(client, era, "id", "")
            assert found == {"values": ["dev server", newer, "dev", older], "total": 4, "hasMore": False}
            assert self.complete(client, era, "id", "dev ")["values"] == ["dev server"]
            assert self.complete(client, era, "id", older[:6])["values"] == [older]
            assert self.complete(client, era, "id", "nothing")["values"] == []

    def test_of_many_a_hundred(self, client: RawClient, jobs: Jobs) -> None:
        made = [ended_job(jobs.store, created_at=1e9 + number) for number in range(120)]
        found = self.complete(client, "handshake", "id", "")
        assert found == {"values": made[:-101:-1], "total": 120, "hasMore": True}

    def test_views(self, common_client: RawClient) -> None:
        assert self.complete(common_client, "handshake", "view", "st")["values"] == [
            "stdout",
            "stderr",
            "status",
        ]

    def test_numbers_have_no_completion(self, common_client: RawClient) -> None:
        uri = "bgjob://jobs/{id}/stdout{?since,lines,max_tokens}"
        assert self.complete(common_client, "handshake", "lines", "1", uri)["values"] == []

    def test_of_what_there_is_not(self, common_client: RawClient) -> None:
        for (ref, argument), era in itertools.product(NO_COMPLETIONS, ERAS):
            answer = ask(common_client, era, "completion/complete", ref=ref, argument=argument)
            assert answer["error"]["code"] == -32602, (ref, argument)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_lists_reads_and_completes(
    start_server: StartServer, portal: BlockingPortal, mode: str
) -> None:
    server = start_server(mode)
    job_id, client = server.execute("echo it", wait_s=40), server.client
    listed = portal.call(client.list_resources).resources
    assert [str(resource.uri) for resource in listed] == ["bgjob://jobs", f"bgjob://jobs/{job_id}/output"]
    assert len(portal.call(client.list_resource_templates).resource_templates) == 5
    (content,) = portal.call(client.read_resource, f"bgjob://jobs/{job_id}/stdout").contents
    assert isinstance(content, TextResourceContents)
    assert content.text == "it\n"
    reference = ResourceTemplateReference(type="ref/resource", uri=ONE_JOB)
    completed = portal.call(client.complete, reference, {"name": "id", "value": job_id[:4]})
    assert completed.completion.values == [job_id]
    assert client.server_capabilities.resources is not None
    assert client.server_capabilities.resources.subscribe
    assert client.server_capabilities.completions is not None
