"""The SDK's own client over HTTP, of both kinds of revisions."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import CallToolResult

from tests.support.homes import end_all_jobs
from tests.support.http_server import HttpServer

MODES = ("legacy", "auto", "2026-07-28")
Connect = Callable[..., Client]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    home = tmp_path_factory.mktemp("clients") / "home"
    with HttpServer(home, MCP_BG_MAX_JOBS="100") as server:
        yield server
    end_all_jobs(home)


@pytest.fixture
def connect(serving: HttpServer, portal: BlockingPortal) -> Iterator[Connect]:
    with ExitStack() as opened:

        def connect(mode: str, token: str | None = None) -> Client:
            headers = {"Authorization": f"Bearer {token or serving.token}"}
            http = opened.enter_context(portal.wrap_async_context_manager(create_mcp_http_client(headers)))
            transport = streamable_http_client(serving.address, http_client=http)
            return opened.enter_context(portal.wrap_async_context_manager(Client(transport, mode=mode)))

        yield connect


def call(portal: BlockingPortal, client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = portal.call(lambda: client.call_tool(tool, arguments))
    assert not result.is_error, result.content
    return dict(result.structured_content or {})


@pytest.mark.parametrize("mode", MODES)
def test_a_session(portal: BlockingPortal, connect: Connect, mode: str) -> None:
    client = connect(mode)
    tools = portal.call(client.list_tools).tools
    assert len(tools) == 10
    job_id = call(portal, client, "execute_command", command="read line; echo got $line")["job_id"]
    call(portal, client, "interact_with_job", job_id=job_id, input="this")
    (waited,) = call(portal, client, "wait_for_job", job_ids=[job_id])["jobs"]
    assert (waited["status"], waited["stdout"]) == ("completed", "got this\n")
    assert call(portal, client, "kill_job", job_id=job_id)["status"] == "already_terminated"


@pytest.mark.parametrize("mode", MODES)
def test_progress_comes_while_a_call_waits(
    portal: BlockingPortal, connect: Connect, mode: str, tmp_path: Path
) -> None:
    """The job ends when the client has been told of its progress."""
    client, told = connect(mode), tmp_path / "told"

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.touch()

    async def run() -> CallToolResult:
        arguments = {"command": f"until [ -e {told} ]; do sleep 0.02; done", "wait_s": 45}
        return await client.call_tool("execute_command", arguments, progress_callback=on_progress)

    assert dict(portal.call(run).structured_content or {})["status"] == "completed"


@pytest.mark.parametrize("mode", MODES)
def test_a_token_that_may_only_read_sees_only_the_tools_that_read(
    serving: HttpServer, portal: BlockingPortal, connect: Connect, mode: str
) -> None:
    client = connect(mode, serving.add_token(f"reader-{mode}", "--scope", "read"))
    names = {tool.name for tool in portal.call(client.list_tools).tools}
    assert "list_jobs" in names
    assert names & {"execute_command", "interact_with_job", "kill_job"} == set()
    assert "jobs" in call(portal, client, "list_jobs")
