"""The page as a whole: its paths."""

from collections.abc import Collection

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bgjob.api.audit import acting, note
from bgjob.core.errors import BgjobError
from bgjob.store.quota import StoreSize
from bgjob.web.access import Refused
from bgjob.web.metrics import Meters
from bgjob.web.page import endpoint, files
from bgjob.web.page.actions import Actions
from bgjob.web.page.guard import API, LOGIN_PATH, Guard, cookie
from bgjob.web.page.live import SharedLive
from bgjob.web.page.logins import LABEL_CHARACTERS, Logins, own_path
from bgjob.web.page.reads import Reads
from bgjob.web.page.streams import Streams
from bgjob.web.services import Services

USED_KEY = "This address was used already, or is too old. bgjob page gives you a new one."
KEY_BODY_BYTES = 1024
"""Of a body that is read before its sender is known."""


class Page:
    def __init__(self, services: Services, meters: Meters, names: Collection[str]) -> None:
        """`names`: as those of `check_host`."""
        context = services.jobs.context
        self.logins = Logins(services.jobs.home)
        size = StoreSize(context.store)
        live = SharedLive(context, size)
        self._streams = Streams(context, live, self.logins)
        self._parts = (self._streams, Actions(services.jobs, live), Reads(context, size))
        routes = [*files.routes(), *map(_without_head, self._routes())]
        self.guard = Guard(routes, self.logins, meters, names)

    def stop(self) -> None:
        """Streams end now."""
        self._streams.stop()

    def _routes(self) -> list[Route]:
        return [
            Route(LOGIN_PATH, self._log_in, methods=["POST"]),
            Route(f"{API}logout", self._log_out, methods=["POST"]),
            *(route for part in self._parts for route in part.routes()),
        ]

    async def _log_in(self, request: Request) -> Response:
        key = str((await endpoint.json_body(request, KEY_BODY_BYTES)).get("key"))
        try:
            login = await endpoint.in_thread(lambda: self.logins.exchange(key))
        except BgjobError as problem:
            return endpoint.failure(problem)
        except OSError as problem:
            raise Refused(503, f"Logging in failed: {problem.strerror}.") from None
        if login is None:
            raise Refused(401, USED_KEY)
        with acting({"client": "page", "login": own_path(login)[:LABEL_CHARACTERS]}):
            note(self.logins.home, "logged_in")
        answer = endpoint.json_response({"path": f"{API}{own_path(login)}/"})
        answer.headers["Set-Cookie"] = cookie(request.scope, login, own_path(login))
        return answer

    async def _log_out(self, request: Request) -> Response:
        login = request.state.login
        await endpoint.in_thread(lambda: self.logins.remove(login))
        return Response(status_code=204, headers={"Set-Cookie": cookie(request.scope, "", login.own, 0)})


def _without_head(route: Route) -> Route:
    """Starlette would perform a HEAD as a GET, also one that goes on for ever."""
    (route.methods or set()).discard("HEAD")
    return route
