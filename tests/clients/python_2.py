"""The Python SDK 2.x: either era."""

import contextlib
import os
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import ResourceUpdatedNotification

from tests.clients.conversation import Answer, Told, converse, target

Updates = MemoryObjectReceiveStream[str]


class Newer:
    def __init__(
        self, client: Client, updates: Updates, open_until_the_end: contextlib.AsyncExitStack
    ) -> None:
        self._client, self._updates, self._open = client, updates, open_until_the_end
        self.protocol = client.protocol_version
        self.has_resources = client.server_capabilities.resources is not None

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self._client.list_tools()).tools]

    async def call(self, tool: str, given: Answer, on_progress: Told | None = None) -> Answer:
        async def note(progress: float, total: float | None, message: str | None) -> None:
            if on_progress:
                await on_progress()

        result = await self._client.call_tool(tool, given, progress_callback=note)
        assert not result.is_error, result.content
        return dict(result.structured_content or {})

    async def resources(self) -> list[str]:
        return [str(each.uri) for each in (await self._client.list_resources()).resources]

    async def read(self, uri: str) -> str:
        return str(getattr((await self._client.read_resource(uri)).contents[0], "text", ""))

    async def watch(self, uri: str) -> Callable[[], Awaitable[str]] | None:
        offered = self._client.server_capabilities.resources
        if not offered or not offered.subscribe:
            return None
        return await (self._listen(uri) if target()["era"] == "stateless" else self._subscribe(uri))

    async def _listen(self, uri: str) -> Callable[[], Awaitable[str]]:
        events = await self._open.enter_async_context(self._client.listen(resource_subscriptions=[uri]))

        async def next_update() -> str:
            event = await anext(aiter(events))
            return event.uri if isinstance(event, ResourceUpdated) else repr(event)

        return next_update

    async def _subscribe(self, uri: str) -> Callable[[], Awaitable[str]]:
        with warnings.catch_warnings(action="ignore", category=MCPDeprecationWarning):
            await self._client.subscribe_resource(uri)
        return self._updates.receive


async def main() -> None:
    told, updates = anyio.create_memory_object_stream[str](100)

    async def note(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            await told.send(str(message.params.uri))

    mode = "auto" if target()["era"] == "stateless" else "legacy"
    async with contextlib.AsyncExitStack() as stack:
        client = Client(await server(stack), mode=mode, message_handler=note)
        await converse(Newer(await stack.enter_async_context(client), updates, stack))


async def server(stack: contextlib.AsyncExitStack) -> Any:
    if command := target().get("command"):
        return StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    headers = {"Authorization": f"Bearer {target()['token']}"}
    http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=120))
    return streamable_http_client(target()["url"], http_client=http)


if __name__ == "__main__":
    anyio.run(main)
