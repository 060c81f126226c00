"""A request that the application performs, and the messages that answer it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from bgjob.protocol import jsonrpc
from bgjob.protocol.jsonrpc import MISSING_CAPABILITY, Message, RequestId, RpcError
from bgjob.protocol.revisions import PREFIX, SERVER_KEY, STATELESS, WITH_TASKS, meta_of
from bgjob.protocol.server import Server

Params = Mapping[str, Any]


class Client(NamedTuple):
    """What a client says of itself, in each request or in its handshake. Nothing of it is verified."""

    name: str | None = None
    version: str | None = None
    capabilities: Mapping[str, Any] = {}

    @classmethod
    def of(cls, info: object, capabilities: object) -> "Client":
        told = info if isinstance(info, dict) else {}
        name, version = (told.get(word) for word in ("name", "version"))
        return cls(
            name if isinstance(name, str) else None,
            version if isinstance(version, str) else None,
            capabilities if isinstance(capabilities, dict) else {},
        )

    @property
    def knows_tasks(self) -> bool:
        """Those of the handshake."""
        return isinstance(self.capabilities.get("tasks"), dict)


class Request(NamedTuple):
    id: RequestId
    method: str
    params: Params
    revision: str
    client: Client
    server: Server

    @property
    def is_stateless(self) -> bool:
        return self.revision in STATELESS

    @property
    def meta(self) -> Mapping[str, Any]:
        return meta_of(self.params)

    def text(self, name: str) -> str:
        """A parameter that must be there, and be text."""
        value = self.params.get(name)
        if not isinstance(value, str):
            raise RpcError(jsonrpc.INVALID_PARAMS, f"{self.method} needs {name}, a text.")
        return value

    def mapping(self, name: str) -> Mapping[str, Any]:
        """A parameter that is an object; empty if it was not given."""
        value = self.params.get(name)
        if value is not None and not isinstance(value, dict):
            raise RpcError(jsonrpc.INVALID_PARAMS, f"{name} of {self.method} must be an object.")
        return value or {}

    def result(self, result: Mapping[str, Any]) -> Message:
        return jsonrpc.response(self.id, self._sealed(result) if self.is_stateless else result)

    def error(self, problem: RpcError) -> Message:
        return jsonrpc.error(self.id, problem)

    def progress(self, passed: float, message: str | None, total: float | None = None) -> Message | None:
        """None: the client did not ask for progress. (Patterns, Progress.)"""
        token = self.meta.get("progressToken")
        if not isinstance(token, str | int) or isinstance(token, bool):
            return None
        told = {"progressToken": token, "progress": passed, "total": total, "message": message}
        known = {name: value for name, value in told.items() if value is not None}
        return jsonrpc.notification("notifications/progress", known)

    @property
    def has_handshake_tasks(self) -> bool:
        """The client and the server have told each other in the handshake that they know tasks."""
        return self.revision == WITH_TASKS and self.client.knows_tasks

    def has_extension(self, name: str) -> bool:
        declared = self.client.capabilities.get("extensions")
        return self.is_stateless and isinstance(declared, dict) and name in declared

    def require_extension(self, name: str) -> None:
        """Overview, _meta: a server relies on no capability that the client has not declared."""
        if not self.has_extension(name):
            needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {name: {}}}}
            what = name.removeprefix(PREFIX)
            raise RpcError(MISSING_CAPABILITY, f"{self.method} needs a client that declares {what}.", needed)

    def _sealed(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Overview, ResultType, and Per-response protocol fields; Server Features, Caching."""
        meta = {**result.get("_meta", {}), SERVER_KEY: self.server.info}
        sealed = {"resultType": "complete", **result, "_meta": meta}
        method = self.server.method(self.method)
        if method and method.ttl_ms is not None and sealed["resultType"] == "complete":
            scope = self.server.cache_scope if method.ttl_ms else "private"
            sealed |= {"ttlMs": method.ttl_ms, "cacheScope": scope}
        return sealed
