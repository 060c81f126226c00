"""/mcp: one message a POST, in every revision, without sessions. (Transports, Streamable HTTP.)

The checks after those of bgjob.web.access, in their order; the first that fails answers:

    406  Accept        does not allow both JSON and a stream of events
    415  Content-Type  is not JSON
    413  body          is too large
    408  body          does not come in time
    400  message       is no JSON, no request, a batch, or of a revision that there is not
    403  scope         the token lacks the right that the request needs
    400, 404           what the protocol says of a request of 2026-07-28; of an older one it is told with 200
"""

import time
from functools import partial

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from bgjob.api.audit import acting, note
from bgjob.core.errors import BgjobError
from bgjob.mcp.caller import Caller
from bgjob.mcp.server import SERVER, server_for
from bgjob.mcp.service import Service
from bgjob.mcp.stderr import warn
from bgjob.mcp.workers import Workers
from bgjob.protocol import jsonrpc
from bgjob.protocol.connection import Connection, Response
from bgjob.protocol.http import Headers, check_notification, is_of_handshake, status_of
from bgjob.protocol.jsonrpc import INVALID_REQUEST, PARSE_ERROR, Message, RpcError, decoded, encoded
from bgjob.protocol.request import Request
from bgjob.web.access import Refused, challenge, needed_scope, values
from bgjob.web.body import read_body
from bgjob.web.metrics import Meters, method_of, outcome_of
from bgjob.web.replies import CANCELLED, Replies, send_empty, send_json
from bgjob.web.services import Services
from bgjob.web.tokens import Token, Tokens

# what a client may keep depends on its token
HTTP_SERVER = SERVER._replace(cache_scope="private")
JSON, EVENTS = "application/json", "text/event-stream"
NO_JSON = "The body cannot be read as JSON. Send one JSON-RPC 2.0 object, as UTF-8, not nested too deep."
BATCH = "Batches are not accepted. Send each JSON-RPC message in a POST of its own."


class McpEndpoint:
    def __init__(self, services: Services, tokens: Tokens, meters: Meters) -> None:
        self._services, self._tokens, self._meters = services, tokens, meters
        self._server = server_for(services.jobs, HTTP_SERVER)
        self._workers = Workers()
        self._callers: set[Caller] = set()
        self._is_stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        check_media_types(scope)
        try:
            body = await read_body(scope, receive)
            await self._receive(message_in(body), scope, receive, send)
        except ClientDisconnect:
            pass
        except RpcError as problem:
            await send_json(send, encoded(jsonrpc.error(None, problem)), 400)

    def stop(self) -> None:
        """What would go on until its client ends it, ends; what waits for a job is answered now."""
        self._is_stopping = True
        for service in self._services:
            service.close()
        for caller in self._callers:
            caller.end_wait()

    async def _receive(self, message: object, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        check_notification(message, headers)
        connection = Connection(self._server, can_notify=False)
        match next(connection.receive(message, headers), None):
            case Response(answer):
                self._meters.answered(method_of(message), outcome_of(answer), time.monotonic())
                await send_json(send, encoded(answer), _status(answer, message, headers))
            case Request() as request:
                await self._perform(request, scope["state"]["token"], receive, send)
            case _:  # A notification. Whose request it cancels is not known: ids are a client's own.
                await send_empty(send, 202)

    async def _perform(self, request: Request, token: Token, receive: Receive, send: Send) -> None:
        began_at, service = time.monotonic(), self._service(token)
        if scope := service.missing_scope(request):
            self._meters.answered(request.method, "no_scope", began_at)
            with acting({"client": request.client.name or "", "token": token.name}):
                note(self._tokens.home, "refused", why="scope", needed=scope)
            await _send_lacking(request, scope, send)
            return
        replies = Replies(send, self._meters)
        caller = self._begun(service, request, replies, token)
        try:
            outcome = await replies.deliver(receive, lambda: token in self._tokens.all())
            self._meters.answered(request.method, outcome, began_at)
            if outcome != CANCELLED:
                caller.claims.reported()
        finally:
            caller.claims.give_up()
            caller.cancel()  # if it was not answered, its client is gone
            self._callers.discard(caller)

    def _begun(self, service: Service, request: Request, replies: Replies, token: Token) -> Caller:
        """In a thread: also what is quick reads from the disk."""
        caller = Caller(request, replies.put, replies.drain)
        self._callers.add(caller)
        if self._is_stopping:
            caller.end_wait()
        self._workers.start(partial(_work, service, request, caller, replies, token))
        return caller

    def _service(self, token: Token) -> Service:
        try:
            return self._services.of(token)
        except BgjobError as problem:
            warn(f"The token {token.name} cannot be used: {problem}")
            raise Refused(500, f"The rules of this token cannot be followed: {problem}") from None


def _work(service: Service, request: Request, caller: Caller, replies: Replies, token: Token) -> None:
    with acting({"token": token.name}):
        answer = service.perform(request, caller)
    caller.close()
    replies.put_last(answer, status_of(answer, is_stateless=request.is_stateless))


async def _send_lacking(request: Request, scope: str, send: Send) -> None:
    problem = RpcError(INVALID_REQUEST, needed_scope(scope))
    told = (b"www-authenticate", challenge(scope).encode())
    await send_json(send, encoded(request.error(problem)), 403, told)


def _status(answer: Message, message: object, headers: Headers) -> int:
    return status_of(answer, is_stateless=not is_of_handshake(message, headers))


def check_media_types(scope: Scope) -> None:
    """Sending Messages: a client takes both, and the server chooses."""
    accepted = [_media_type(piece) for text in values(scope, b"accept") for piece in text.split(",")]
    for needed in (JSON, EVENTS):
        kind = needed.partition("/")[0]
        if accepted and not {needed, f"{kind}/*", "*/*"} & set(accepted):
            raise Refused(406, f"The header Accept must list {JSON} and {EVENTS}.")
    if [_media_type(text) for text in values(scope, b"content-type")] != [JSON]:
        raise Refused(415, f"The header Content-Type must be {JSON}.")


def _media_type(text: str) -> str:
    return text.partition(";")[0].strip().lower()


def message_in(body: bytes) -> object:
    try:
        message = decoded(body)
    except RpcError:
        raise RpcError(PARSE_ERROR, NO_JSON) from None
    if isinstance(message, list):
        raise RpcError(INVALID_REQUEST, BATCH)
    return message


def headers_of(scope: Scope) -> Headers:
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
    return headers
