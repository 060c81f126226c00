"""The MCP face with real clients: both eras of the protocol at once, many calls at once, calls that are called off."""

import contextlib
import itertools
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

from bgjob.api import Jobs
from bgjob.system.own_package import full_version
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.server import Server, ToolError

READS = {"read_only_hint": True, "open_world_hint": False}
ACTS = {"read_only_hint": False, "destructive_hint": True}
ANNOTATIONS = {
    "execute_command": ACTS | {"idempotent_hint": False, "open_world_hint": True},
    "wait_for_job": READS,
    "get_job_status": READS,
    "get_job_output": READS,
    "tail_job_output": READS,
    "search_job_output": READS,
    "job_events": READS,
    "list_jobs": READS,
    "interact_with_job": ACTS | {"idempotent_hint": False, "open_world_hint": True},
    "kill_job": ACTS | {"idempotent_hint": True, "open_world_hint": False},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("mcp") / "home"
    yield home
    end_all_jobs(home)


@pytest.fixture(scope="module")
def modern(portal: BlockingPortal, home: Path) -> Iterator[Server]:
    with contextlib.closing(Server(portal, home, {"MCP_BG_MAX_JOBS": "100"}, "auto")) as server:
        yield server


@pytest.fixture(scope="module")
def legacy(portal: BlockingPortal, home: Path) -> Iterator[Server]:
    with contextlib.closing(Server(portal, home, {"MCP_BG_MAX_JOBS": "100"}, "legacy")) as server:
        yield server


@pytest.fixture(params=["modern", "legacy"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


class TestBothEras:
    def test_each_client_speaks_its_own(self, modern: Server, legacy: Server) -> None:
        assert modern.client.protocol_version == "2026-07-28"
        assert legacy.client.protocol_version == "2025-11-25"

    def test_they_share_the_jobs(self, modern: Server, legacy: Server) -> None:
        job_id = modern.execute("cat")
        legacy.talk(job_id, "from the past", "from the past\n")
        assert legacy.call("kill_job", job_id=job_id)["status"] == "killed"
        assert modern.status(job_id)["status"] == "killed"

    def test_they_see_the_same_tools(self, modern: Server, legacy: Server, portal: BlockingPortal) -> None:
        assert portal.call(modern.client.list_tools).tools == portal.call(legacy.client.list_tools).tools

    def test_the_server_says_who_it_is_and_how_to_use_it(self, server: Server) -> None:
        info = server.client.server_info
        assert info is not None
        assert (info.name, info.version) == ("bgjob", full_version())
        assert "execute_command" in (server.client.instructions or "")
        assert server.client.server_capabilities.tools is not None

    def test_discovery_answers_the_new_version_and_may_be_kept_for_an_hour(self, modern: Server) -> None:
        found = modern.client.session.discover_result
        assert found is not None
        assert "2026-07-28" in found.supported_versions
        assert (found.ttl_ms, found.cache_scope) == (3_600_000, "public")

    def test_the_list_of_tools_may_be_kept_for_an_hour(self, modern: Server, portal: BlockingPortal) -> None:
        listing = portal.call(modern.client.list_tools)
        assert (listing.ttl_ms, listing.cache_scope) == (3_600_000, "public")


def test_each_tool_says_what_it_does_to_the_world(modern: Server, portal: BlockingPortal) -> None:
    tools = {tool.name: tool.annotations for tool in portal.call(modern.client.list_tools).tools}
    told = {name: said.model_dump(exclude_none=True) if said else {} for name, said in tools.items()}
    assert told == ANNOTATIONS


class TestAnswers:
    def test_structured_content_is_the_json_of_the_text_for_every_tool(
        self, server: Server, portal: BlockingPortal
    ) -> None:
        job_id = server.execute("printf 'café ☃ \"quoted\"\\n'; cat")
        calls: dict[str, dict[str, Any]] = {
            "execute_command": {"command": "true"},
            "get_job_status": {"job_id": job_id},
            "interact_with_job": {"job_id": job_id, "input": "héllo\\"},
            "get_job_output": {"job_id": job_id},
            "tail_job_output": {"job_id": job_id},
            "search_job_output": {"pattern": "quoted"},
            "job_events": {"job_ids": [job_id]},
            "list_jobs": {},
            "kill_job": {"job_id": job_id},
            "wait_for_job": {"job_ids": [job_id]},
        }
        assert calls.keys() == ANNOTATIONS.keys()
        for tool, arguments in calls.items():
            result = result_of(portal, server, tool, arguments)
            assert not result.is_error
            assert result.structured_content
            assert json.loads(text_of(result)) == result.structured_content

    def test_an_error_has_text_and_nothing_structured(self, server: Server, portal: BlockingPortal) -> None:
        result = result_of(portal, server, "get_job_status", {"job_id": "none"})
        assert result.is_error
        assert result.structured_content is None
        assert text_of(result).startswith("Job none not found")

    def test_an_unknown_tool_is_an_error_that_names_the_known_ones(self, server: Server) -> None:
        with pytest.raises(MCPError, match=r"Unknown tool: start_job.*execute_command.*kill_job"):
            server.call("start_job", command="true")


def result_of(portal: BlockingPortal, server: Server, tool: str, arguments: dict[str, Any]) -> CallToolResult:
    return portal.call(lambda: server.client.call_tool(tool, arguments))


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.parametrize("days", [24, 25, 3650])
def test_a_timeout_that_is_far_away_leaves_the_job_alone(modern: Server, jobs: Jobs, days: int) -> None:
    """25 days are more milliseconds than the kernel takes in one wait."""
    job_id = modern.execute("exit 3", timeout_s=days * 86_400)
    for _ in jobs.follow(job_id, wait=True):
        pass
    assert modern.status(job_id)["exit_code"] == 3


class TestManyCalls:
    def test_twenty_at_once_each_get_their_own_answer(self, server: Server) -> None:
        words = [f"word {number}" for number in range(20)]

        def talk(word: str) -> str:
            job_id = server.execute("cat", name=word)
            barrier.wait(30)
            server.talk(job_id, word, f"{word}\n")
            name = server.status(job_id)["name"]
            server.call("kill_job", job_id=job_id)
            return str(name)

        barrier = threading.Barrier(len(words))
        with ThreadPoolExecutor(len(words)) as pool:
            assert list(pool.map(talk, words)) == words

    def test_a_call_that_is_called_off_harms_nobody(
        self, server: Server, portal: BlockingPortal, gate: Gate, tmp_path: Path, jobs: Jobs
    ) -> None:
        """The client no longer wants to know; what the call does is done all the same."""
        asked = Gate(tmp_path / "asked")
        job_id = server.execute(f"trap '{asked.reach}' TERM; {gate.reach}; while :; do sleep 0.01; done")
        gate.wait_until_reached()
        kill = {"job_id": job_id, "grace_s": 3}
        call = portal.start_task_soon(lambda: server.client.call_tool("kill_job", kill))
        asked.wait_until_reached()  # provably in flight
        assert call.cancel()
        assert server.status(job_id)["status"] in ("running", "killed")
        for _ in jobs.follow(job_id, wait=True):
            pass
        assert server.status(job_id)["signal"] == "SIGKILL"


def test_a_wait_tells_its_progress_every_second(portal: BlockingPortal, server: Server) -> None:
    """So that a host which counts progress as a sign of life does not give up."""
    told: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    job_id = server.execute("echo compiling; sleep 1000", name="build")
    server.wait_until_printed(job_id, "compiling")
    arguments = {"job_ids": [job_id], "timeout_s": 3.5}
    portal.call(lambda: server.client.call_tool("wait_for_job", arguments, progress_callback=note))
    times = [0.0, *(passed for passed, _ in told)]
    assert len(told) >= 2
    assert all(later - earlier >= 1 for earlier, later in itertools.pairwise(times))
    assert {message for _, message in told} == {"build: compiling"}


@pytest.mark.parametrize("cursor", ["garbage", "-1", "1.389", "0", "ID", "1700000000000000-ID-x"])
def test_a_cursor_that_list_jobs_did_not_give_is_refused(server: Server, cursor: str) -> None:
    job_id = server.execute("true")
    given = cursor.replace("ID", job_id)
    with pytest.raises(ToolError, match=f"cursor='{given}' is not a cursor of a list"):
        server.call("list_jobs", cursor=given)
