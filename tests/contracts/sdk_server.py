"""A server of our tools on the official SDK, to compare with: python -m tests.contracts.sdk_server"""

import os
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, Tool

from bgjob.api import Jobs, open_jobs
from bgjob.mcp.server import SERVER
from bgjob.mcp.tools import TOOLS
from bgjob.protocol.jsonrpc import Message, RpcError
from tests.support.tools import call_tool

AN_HOUR = CacheHint(ttl_ms=3_600_000, scope="public")


def server_for(jobs: Jobs) -> Server[Any]:
    async def list_tools(_: ServerRequestContext, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[Tool.model_validate(tool) for tool in TOOLS.listing()])

    async def call(context: ServerRequestContext, params: CallToolRequestParams) -> CallToolResult:
        def tell(progress: Message) -> None:
            told = progress["params"]
            anyio.from_thread.run(context.session.report_progress, told["progress"], None, told["message"])

        work = partial(call_tool, jobs, params.name, params.arguments or {}, send=tell)
        try:
            result = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except RpcError as problem:
            raise MCPError(problem.code, problem.message) from None
        return CallToolResult.model_validate(result)

    return Server(
        SERVER.name,
        version=SERVER.version,
        title=SERVER.title,
        instructions=SERVER.instructions,
        cache_hints={"tools/list": AN_HOUR, "server/discover": AN_HOUR},
        on_list_tools=list_tools,
        on_call_tool=call,
    )


async def serve() -> None:
    server = server_for(open_jobs(os.environ))
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(serve)
