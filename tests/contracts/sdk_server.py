"""A server of our tools on the official SDK, to compare with: python -m tests.contracts.sdk_server"""

import os
from collections.abc import Callable
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
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    CompleteResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceResult,
    Tool,
)
from pydantic import BaseModel

from bgjob.api import Jobs, open_jobs
from bgjob.mcp.caller import Caller
from bgjob.mcp.server import SERVER
from bgjob.mcp.service import Service
from bgjob.mcp.tools import TOOLS
from bgjob.protocol.jsonrpc import Message, RpcError
from bgjob.protocol.request import Client, Request
from tests.support.tools import call_tool, ignored

AN_HOUR = CacheHint(ttl_ms=3_600_000, scope="public")
NOT_KEPT = CacheHint(ttl_ms=0, scope="private")


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

    forward = forwarding_to(Service(jobs))
    return Server(
        SERVER.name,
        version=SERVER.version,
        title=SERVER.title,
        instructions=SERVER.instructions,
        cache_hints={
            "tools/list": AN_HOUR,
            "server/discover": AN_HOUR,
            "resources/templates/list": AN_HOUR,
            "resources/list": NOT_KEPT,
            "resources/read": NOT_KEPT,
        },
        on_list_tools=list_tools,
        on_call_tool=call,
        on_list_resources=forward("resources/list", ListResourcesResult),
        on_list_resource_templates=forward("resources/templates/list", ListResourceTemplatesResult),
        on_read_resource=forward("resources/read", ReadResourceResult),
        on_subscribe_resource=nothing,
        on_unsubscribe_resource=nothing,
        on_subscriptions_listen=nothing,
        on_completion=forward("completion/complete", CompleteResult),
    )


def forwarding_to(service: Service) -> Callable[[str, type[BaseModel]], Any]:
    """Handlers of the SDK that perform what our own server performs."""

    def forward(method: str, result: type[BaseModel]) -> Any:
        async def handle(context: ServerRequestContext, params: Any) -> BaseModel:
            given = params.model_dump(by_alias=True, exclude_none=True) if params else {}
            request = Request(1, method, given, str(context.protocol_version), Client(), SERVER)
            answer = service.perform(request, Caller(request, ignored))
            if "error" in answer:
                error = answer["error"]
                raise MCPError(error["code"], error["message"], error.get("data"))
            return result.model_validate(answer["result"])

        return handle

    return forward


async def nothing(_context: ServerRequestContext, _params: Any) -> Any:
    return None


async def serve() -> None:
    server = server_for(open_jobs(os.environ))
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(serve)
