"""The Python SDK 1.x, handshake only. What it calls has other names in 2.x, so mypy, which knows 2.x, sees `Any`."""

import contextlib
import importlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import anyio

from tests.clients.conversation import Answer, Told, converse, target

mcp: Any = importlib.import_module("mcp")
types: Any = importlib.import_module("mcp.types")
stdio: Any = importlib.import_module("mcp.client.stdio")
http: Any = importlib.import_module("mcp.client.streamable_http")
httpx: Any = importlib.import_module("httpx")
PATIENCE = timedelta(seconds=120)


class Older:
    has_resources: bool
    protocol: str

    def __init__(self, session: Any, shook_hands: Any, updates: Any) -> None:
        self._session, self._updates = session, updates
        self._offered = shook_hands.capabilities.resources
        self.protocol, self.has_resources = shook_hands.protocolVersion, self._offered is not None

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self._session.list_tools()).tools]

    async def call(self, tool: str, given: Answer, on_progress: Told | None = None) -> Answer:
        async def note(*_: object) -> None:
            if on_progress:
                await on_progress()

        async with cancelled_too(self._session):
            result = await self._session.call_tool(tool, given, PATIENCE, progress_callback=note)
        assert not result.isError, result.content
        return dict(result.structuredContent)

    async def resources(self) -> list[str]:
        return [str(each.uri) for each in (await self._session.list_resources()).resources]

    async def read(self, uri: str) -> str:
        return str((await self._session.read_resource(uri)).contents[0].text)

    async def watch(self, uri: str) -> Callable[[], Awaitable[str]] | None:
        if not self._offered.subscribe:
            return None
        await self._session.subscribe_resource(uri)
        receive: Callable[[], Awaitable[str]] = self._updates.receive
        return receive


@contextlib.asynccontextmanager
async def cancelled_too(session: Any) -> AsyncIterator[None]:
    """This SDK leaves it to its user to tell the server of a request that is not wanted any more."""
    request_id = session._request_id  # of the next request
    try:
        yield
    except anyio.get_cancelled_exc_class():
        params = types.CancelledNotificationParams(requestId=request_id)
        with anyio.CancelScope(shield=True):
            await session.send_notification(
                types.ClientNotification(types.CancelledNotification(params=params))
            )
        raise


async def main() -> None:
    told, updates = anyio.create_memory_object_stream[str](100)

    async def note(message: Any) -> None:
        if isinstance(getattr(message, "root", None), types.ResourceUpdatedNotification):
            await told.send(str(message.root.params.uri))

    async with contextlib.AsyncExitStack() as stack:
        read, write = await streams(stack)
        session = await stack.enter_async_context(mcp.ClientSession(read, write, message_handler=note))
        await converse(Older(session, await session.initialize(), updates))


async def streams(stack: contextlib.AsyncExitStack) -> tuple[Any, Any]:
    if command := target().get("command"):
        given = mcp.StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
        read, write = await stack.enter_async_context(stdio.stdio_client(given))
        return read, write
    headers = {"Authorization": f"Bearer {target()['token']}"}
    client = await stack.enter_async_context(httpx.AsyncClient(headers=headers, timeout=120))
    connection = http.streamable_http_client(target()["url"], http_client=client)
    read, write, _ = await stack.enter_async_context(connection)
    return read, write


if __name__ == "__main__":
    anyio.run(main)
