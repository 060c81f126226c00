"""One request of the page: what it asks, the right that it needs, its answer as JSON."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bgjob.api.audit import acting
from bgjob.core import errors
from bgjob.core.errors import BgjobError, InvalidArgument
from bgjob.core.scopes import SCOPES, Scope
from bgjob.mcp.workers import Workers
from bgjob.protocol.jsonrpc import RpcError, decoded, encoded
from bgjob.web.access import Refused
from bgjob.web.body import MOST_BYTES, read_body
from bgjob.web.page.logins import Login
from bgjob.web.page.words import in_page_words

NUMBER_MOST = 2**53
STATUS = {
    errors.JobNotFound: 404,
    errors.NotAllowed: 403,
    errors.InvalidArgument: 400,
    errors.InvalidCommand: 400,
    errors.StoreUnusable: 503,
}
"""All other errors are of a job, or a machine, whose state does not allow it: 409."""

Answer = TypeVar("Answer")
_workers = Workers()


class Asked:
    """The query of a GET, or the JSON object of a POST. InvalidArgument: what was asked for is not so."""

    def __init__(self, given: Mapping[str, Any], login: Login) -> None:
        self.given, self.login = given, login

    def has(self, name: str) -> bool:
        return self.given.get(name) is not None

    def text(self, name: str, default: str | None = None) -> str:
        value = self._value(name, default)
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
        value = self._value(name, default)
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= len(str(most)):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise InvalidArgument(f" must be a whole number from {least} to {most}.", argument=name)
        return value

    def seconds(self, name: str, default: float | None = None) -> float:
        try:
            value = float(self._value(name, default))
        except (TypeError, ValueError, OverflowError):
            value = -1.0
        if not 0 <= value <= NUMBER_MOST:
            raise InvalidArgument(" must be seconds since the epoch.", argument=name)
        return value

    def flag(self, name: str) -> bool:
        return self.given.get(name) in (True, "1", "true")

    def _value(self, name: str, default: object) -> Any:
        """What is null counts as not given."""
        return self.given[name] if self.has(name) else default


def get(path: str, perform: Callable[[Asked], Any], scope: Scope = "read") -> Route:
    """`perform` runs in a thread: its answer is sent as JSON; a Response is sent as it is."""

    async def endpoint(request: Request) -> Response:
        login = allowed(request, scope)
        return await _performed(partial(perform, Asked(dict(request.query_params), login)))

    return Route(path, endpoint, methods=["GET"])


def post(path: str, perform: Callable[[Asked], Any], scope: Scope) -> Route:
    """Likewise; an answer of None has no body."""

    async def endpoint(request: Request) -> Response:
        login = allowed(request, scope)
        asked = Asked(await json_body(request), login)

        def act() -> Any:
            with acting({"client": "page", "login": login.label}):
                return perform(asked)

        return await _performed(act)

    return Route(path, endpoint, methods=["POST"])


def allowed(request: Request, scope: Scope) -> Login:
    """The login of the request. Refused: it lacks this right."""
    login: Login = request.state.login
    check_scopes(login, [scope])
    return login


def check_scopes(login: Login, needed: Iterable[Scope]) -> None:
    for scope in needed:
        if scope not in login.scopes:
            raise Refused(403, f"This login may not {SCOPES[scope]}.")


async def json_body(request: Request, most_bytes: int = MOST_BYTES) -> Mapping[str, Any]:
    try:
        body = decoded(await read_body(request.scope, request.receive, most_bytes))
    except RpcError:
        body = None
    if not isinstance(body, dict):
        raise Refused(400, "The body must be a JSON object, as UTF-8, not nested too deep.")
    return body


async def _performed(perform: Callable[[], Any]) -> Response:
    try:
        answer = await in_thread(perform)
    except BgjobError as problem:
        return failure(problem)
    if isinstance(answer, Response):
        return answer
    return Response(status_code=204) if answer is None else json_response(answer)


async def in_thread(perform: Callable[[], Answer]) -> Answer:
    """In a thread of its own, for which a server that stops does not wait."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Answer] = loop.create_future()

    def work() -> None:
        try:
            deliver = partial(answer.set_result, perform())
        except BaseException as problem:  # noqa: BLE001  raised again where it is waited for
            deliver = partial(answer.set_exception, problem)
        with suppress(RuntimeError):  # the server has stopped
            loop.call_soon_threadsafe(lambda: None if answer.done() else deliver())

    _workers.start(work)
    return await answer


def failure(problem: BgjobError) -> Response:
    status = next((code for kind, code in STATUS.items() if isinstance(problem, kind)), 409)
    return json_response({"error": in_page_words(problem)}, status)


def json_response(answer: object, status: int = 200) -> Response:
    return Response(encoded(answer), status, media_type="application/json")
