"""What is served at which path.

POST /mcp       MCP                                            a token
GET  /healthz   {"status": "ok"}: the server answers           open
GET  /metrics   for Prometheus, if the server was told to      a token with the scope read
GET  /, /page/  the page: its files                            open
     /api/      what the page asks                             a login: bgjob.web.page.guard
"""

import asyncio
from collections.abc import Collection

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from bgjob.web.access import Access, check_scope
from bgjob.web.mcp_endpoint import McpEndpoint
from bgjob.web.metrics import CONTENT_TYPE, Meters, store_lines
from bgjob.web.page.guard import is_of_page
from bgjob.web.page.site import Page
from bgjob.web.services import Services
from bgjob.web.tokens import Tokens


class App:
    def __init__(self, services: Services, tokens: Tokens, names: Collection[str], *, metrics: bool) -> None:
        """`names`: by which the server may be called, besides those of this machine."""
        self._services, self._meters = services, Meters()
        self._mcp = McpEndpoint(services, tokens, self._meters)
        names = frozenset(map(str.lower, names))
        router = Router(self._routes(metrics=metrics), redirect_slashes=False)
        self._by_token = Access(router, tokens, self._meters, names)
        self.page = Page(services, self._meters, names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """No login opens what needs a token, and no token the page."""
        guarded = self.page.guard if is_of_page(scope["path"]) else self._by_token
        await guarded(scope, receive, send)

    def stop(self) -> None:
        """Streams and waits end now."""
        self._mcp.stop()
        self.page.stop()

    def _routes(self, *, metrics: bool) -> list[Route]:
        measured = [Route("/metrics", self._metrics)] if metrics else []
        return [Route("/mcp", self._mcp, methods=["POST"]), Route("/healthz", _health), *measured]

    async def _metrics(self, request: Request) -> PlainTextResponse:
        check_scope(request.state.token, "read")
        of_store = await asyncio.to_thread(lambda: list(store_lines(self._services.jobs)))
        text = "\n".join([*of_store, *self._meters.lines(), ""])
        return PlainTextResponse(text, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})


async def _health(_request: Request) -> JSONResponse:
    return JSONResponse({"status": "ok"}, headers={"Cache-Control": "no-store"})
