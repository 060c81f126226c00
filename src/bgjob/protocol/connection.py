"""One client: what it sends becomes answers, requests to perform, and cancellations."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from bgjob.protocol import jsonrpc
from bgjob.protocol.http import Headers, check_headers, revision_named
from bgjob.protocol.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REPEATED_CHARACTERS,
    Message,
    RequestId,
    RpcError,
    usable_id,
)
from bgjob.protocol.request import Client, Request
from bgjob.protocol.revisions import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    NEWEST_HANDSHAKE,
    REVISION_KEY,
    STATELESS,
    WITH_BATCHES,
    WITHOUT_HEADER,
    meta_of,
    opens_as_of_handshake,
    unsupported,
)
from bgjob.protocol.server import Server

NO_REQUEST = (
    "This cannot be read as a request. Send one JSON-RPC 2.0 object a line: a method, params that are an object, "
    "and an id that is text or a whole number."
)


class Response(NamedTuple):
    """A message to send. The protocol has answered by itself, or refused."""

    message: Message


class Cancelled(NamedTuple):
    """The client does not want the answer to this request any more. (Patterns, Cancellation.)"""

    request_id: RequestId


Received = Response | Request | Cancelled


class Connection:
    """Remembers what a client of the handshake said of itself. Requests of newer revisions do not look at it."""

    def __init__(self, server: Server, *, can_notify: bool) -> None:
        """`can_notify`: the server can send to the client at any time, not only while a request is open."""
        self._server = server
        self._can_notify = can_notify
        self._revision: str | None = None
        self._client = Client()

    def receive(self, message: object, headers: Headers | None = None) -> Iterator[Received]:
        """`message`: as decoded from JSON, whatever it is. `headers`: over HTTP."""
        if isinstance(message, list):
            yield from self._receive_batch(message, headers)
        elif received := self._receive_one(message, headers):
            yield received

    def _receive_batch(self, messages: list[object], headers: Headers | None) -> Iterator[Received]:
        """Only 2025-03-26 has batches. In the others each request of a batch is refused, so that none waits."""
        if not messages:
            yield _refused(messages)
        for each in messages:
            if self._revision == WITH_BATCHES and isinstance(each, dict):
                yield from self.receive(each, headers)
            elif not isinstance(each, dict) or _wants_an_answer(each):
                yield _refused(each)

    def _receive_one(self, message: object, headers: Headers | None) -> Received | None:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return None if _is_answer(message) else _refused(message)
        method = message.get("method")
        if not isinstance(method, str):
            return None if _is_answer(message) else _refused(message)
        if "id" not in message:
            return _notified(method, message.get("params"))
        request_id, params = usable_id(message), message.get("params", {})
        if request_id is None or not isinstance(params, dict | None):
            return _refused(message)
        try:
            return self._act(self._request(request_id, method, params or {}, headers))
        except RpcError as problem:
            return Response(jsonrpc.error(request_id, problem))

    def _request(
        self, request_id: RequestId, method: str, params: Mapping[str, Any], headers: Headers | None
    ) -> Request:
        """Versioning, Compatibility Matrix: how the request opens says which revision it is of."""
        meta = meta_of(params)
        header = None if headers is None else revision_named(headers)
        if opens_as_of_handshake(method, meta, header):
            revision = self._revision or header or (NEWEST_HANDSHAKE if headers is None else WITHOUT_HEADER)
            return Request(request_id, method, params, revision, self._client, self._server)
        _check_envelope(meta)
        revision = meta[REVISION_KEY]
        if headers is not None:
            check_headers(headers, method, params, revision)
        if not isinstance(revision, str):
            raise RpcError(INVALID_PARAMS, f"{REVISION_KEY} must be a text.")
        if revision not in STATELESS:
            raise unsupported(revision)
        client = Client.of(meta.get(CLIENT_KEY), meta[CAPABILITIES_KEY])
        return Request(request_id, method, params, revision, client, self._server)

    def _act(self, request: Request) -> Received:
        """Answers what the protocol itself can answer."""
        method = self._server.method(request.method)
        if method is None or method.era not in (None, "stateless" if request.is_stateless else "handshake"):
            raise RpcError(METHOD_NOT_FOUND, "Method not found", request.method[:REPEATED_CHARACTERS])
        if method.of_tasks and not (request.is_stateless or request.has_handshake_tasks):
            raise RpcError(METHOD_NOT_FOUND, "Method not found", request.method)
        if method.extension and request.is_stateless:
            request.require_extension(method.extension)
        match request.method:
            case "initialize":
                return Response(request.result(self._welcome(request.params)))
            case "ping":
                return Response(request.result({}))
            case "server/discover":
                return Response(request.result(self._server.discovery()))
            case _:
                return request

    def _welcome(self, params: Mapping[str, Any]) -> dict[str, Any]:
        welcome = self._server.welcome(params, can_notify=self._can_notify)
        self._revision = welcome["protocolVersion"]
        self._client = Client.of(params.get("clientInfo"), params.get("capabilities"))
        return welcome


def _check_envelope(meta: Mapping[str, Any]) -> None:
    """Overview, Per-request protocol fields."""
    missing = [key for key in (REVISION_KEY, CAPABILITIES_KEY) if key not in meta]
    if missing:
        raise RpcError(INVALID_PARAMS, f"_meta of params needs {' and '.join(missing)}.")
    if not isinstance(meta[CAPABILITIES_KEY], dict):
        raise RpcError(INVALID_PARAMS, f"{CAPABILITIES_KEY} must be an object.")


def _notified(method: str, params: object) -> Cancelled | None:
    if method != "notifications/cancelled" or not isinstance(params, dict):
        return None
    request_id = usable_id({"id": params.get("requestId")})
    return None if request_id is None else Cancelled(request_id)


def _refused(message: object) -> Response:
    request_id = usable_id(message) if isinstance(message, dict) else None
    return Response(jsonrpc.error(request_id, RpcError(INVALID_REQUEST, NO_REQUEST)))


def _is_answer(message: object) -> bool:
    """To a request of ours, of which there are none."""
    return isinstance(message, dict) and not message.keys().isdisjoint(("result", "error"))


def _wants_an_answer(message: Mapping[str, Any]) -> bool:
    return "id" in message and not _is_answer(message)
