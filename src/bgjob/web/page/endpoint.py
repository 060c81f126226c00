"""One request of the page: what it asks, the right that it needs, its answer as JSON."""

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bgjob.core import errors
from bgjob.core.errors import BgjobError, InvalidArgument
from bgjob.core.scopes import SCOPES, Scope
from bgjob.mcp.stderr import report
from bgjob.web.access import Refused
from bgjob.web.body import read_body
from bgjob.web.page.logins import Login
from bgjob.web.page.words import in_page_words

THREADS = 16
NUMBER_MOST = 2**53
STATUS = {
    errors.JobNotFound: 404,
    errors.NotAllowed: 403,
    errors.InvalidArgument: 400,
    errors.InvalidCommand: 400,
    errors.StoreUnusable: 503,
}
"""All other errors are of a job, or a machine, whose state does not allow it: 409."""

_pool = ThreadPoolExecutor(THREADS, "page")


class Asked:
    """The query of a GET, or the JSON object of a POST. InvalidArgument: what was asked for is not so."""

    def __init__(self, given: Mapping[str, Any], login: Login) -> None:
        self.given, self.login = given, login

    def has(self, name: str) -> bool:
        return self.given.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        value = self.given.get(name, default)
        if not isinstance(value, str):
            raise InvalidArgument(" must be a text.", argument=name)
        return value

    def texts(self, name: str) -> list[str]:
        value = self.given.get(name)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise InvalidArgument(" must be a list of texts.", argument=name)
        return value

    def number(
        self, name: str, default: int | None = None, *, least: int = 0, most: int = NUMBER_MOST
    ) -> int:
        value = self.given.get(name, default)
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= len(str(most)):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise InvalidArgument(f" must be a whole number from {least} to {most}.", argument=name)
        return value

    def seconds(self, name: str, default: float | None = None) -> float:
        try:
            value = float(self.given.get(name, default))
        except (TypeError, ValueError):
            value = -1.0
        if not 0 <= value <= NUMBER_MOST:
            raise InvalidArgument(" must be seconds since the epoch.", argument=name)
        return value

    def flag(self, name: str) -> bool:
        return self.given.get(name) in (True, "1", "true")


def get(path: str, perform: Callable[[Asked], Any], scope: Scope = "read") -> Route:
    """`perform` runs in a thread: its answer is sent as JSON; a Response is sent as it is."""

    async def endpoint(request: Request) -> Response:
        return await _performed(perform, dict(request.query_params), request, scope)

    return Route(path, endpoint, methods=["GET"])


def post(path: str, perform: Callable[[Asked], Any], scope: Scope) -> Route:
    """Likewise; an answer of None has no body."""

    async def endpoint(request: Request) -> Response:
        return await _performed(perform, await json_body(request), request, scope)

    return Route(path, endpoint, methods=["POST"])


async def json_body(request: Request) -> Mapping[str, Any]:
    try:
        body = json.loads(await read_body(request.scope, request.receive))
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise Refused(400, "The body must be a JSON object.")
    return body


async def _performed(
    perform: Callable[[Asked], Any], given: Mapping[str, Any], request: Request, scope: Scope
) -> Response:
    login: Login = request.state.login
    if scope not in login.scopes:
        raise Refused(403, f"This login may not {SCOPES[scope]}.")
    try:
        answer = await asyncio.get_running_loop().run_in_executor(_pool, perform, Asked(given, login))
    except BgjobError as problem:
        return failure(problem)
    except Refused:
        raise
    except Exception:  # noqa: BLE001
        report(f"Internal error in {request.url.path}")
        return JSONResponse({"error": "Internal error; the server's log has the details."}, 500)
    if isinstance(answer, Response):
        return answer
    return Response(status_code=204) if answer is None else JSONResponse(answer)


def failure(problem: BgjobError) -> JSONResponse:
    status = next((code for kind, code in STATUS.items() if isinstance(problem, kind)), 409)
    return JSONResponse({"error": in_page_words(problem)}, status)
