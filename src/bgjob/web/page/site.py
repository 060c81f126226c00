"""The page as a whole: its paths."""

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from bgjob.core.errors import InvalidArgument
from bgjob.web.page import endpoint, files
from bgjob.web.page.actions import Actions
from bgjob.web.page.guard import LOGIN_PATH, check_request, cookie, is_of_page
from bgjob.web.page.live import SharedLive
from bgjob.web.page.logins import Logins
from bgjob.web.page.reads import Reads
from bgjob.web.page.streams import Streams
from bgjob.web.services import Services

USED_KEY = "This address was used already, or is too old. bgjob page gives you a new one."


class Page:
    def __init__(self, services: Services) -> None:
        context = services.jobs.context
        self.logins = Logins(services.jobs.home)
        self._reads = Reads(context)
        self._live = SharedLive(context)
        self._actions = Actions(services.jobs, self._live)
        self._streams = Streams(context, self._live, self.logins)

    def stop(self) -> None:
        """Streams end now."""
        self._streams.stop()

    def check(self, scope: Scope) -> bool:
        """Whether a request is of the page. Refused: it may not ask."""
        if is_of_page(scope["path"]):
            scope["state"]["login"] = check_request(scope, self.logins)
        return is_of_page(scope["path"]) or files.is_file(scope["path"])

    def routes(self) -> list[Route]:
        return [
            *files.routes(),
            *self._reads.routes(),
            Route(LOGIN_PATH, self._log_in, methods=["POST"]),
            Route("/api/logout", self._log_out, methods=["POST"]),
            *self._streams.routes(),
            *self._actions.routes(),
        ]

    async def _log_in(self, request: Request) -> Response:
        given = await endpoint.json_body(request)
        try:
            key = endpoint.Asked(given, request.state.login).text("key")
        except InvalidArgument as problem:
            return endpoint.failure(problem)
        login = await asyncio.to_thread(self.logins.exchange, key)
        if login is None:
            return JSONResponse({"error": USED_KEY}, 401)
        return Response(status_code=204, headers={"Set-Cookie": cookie(request.scope, login)})

    async def _log_out(self, request: Request) -> Response:
        await asyncio.to_thread(self.logins.remove, request.state.login)
        return Response(status_code=204, headers={"Set-Cookie": cookie(request.scope, "", valid_s=0)})
