"""What a client wants to be told, and the notifications that tell it.

A client of the handshake subscribes to one resource at a time, for as long as it is connected. Of the newer
revisions, a client sends one request that stays open: `subscriptions/listen`. (Patterns, Subscriptions.)
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from bgjob.protocol import jsonrpc
from bgjob.protocol.jsonrpc import INVALID_PARAMS, Message, RpcError
from bgjob.protocol.methods import TASKS_EXTENSION
from bgjob.protocol.request import Request
from bgjob.protocol.revisions import SUBSCRIPTION_KEY

MOST_RESOURCES = 1000
MOST_TASKS = 100


class Wanted(NamedTuple):
    """The filter of a subscription, as far as the server serves it."""

    uris: tuple[str, ...] = ()
    list_changed: bool = False
    task_ids: tuple[str, ...] = ()

    @classmethod
    def of(cls, request: Request) -> "Wanted":
        asked = request.params.get("notifications")
        if not isinstance(asked, dict):
            raise RpcError(INVALID_PARAMS, "subscriptions/listen needs notifications, an object.")
        uris = _texts(asked, "resourceSubscriptions", "URIs", MOST_RESOURCES)
        task_ids = _texts(asked, "taskIds", "ids", MOST_TASKS)
        if task_ids:
            request.require_extension(TASKS_EXTENSION)
        return cls(uris, asked.get("resourcesListChanged") is True, task_ids)

    def honoured(self) -> dict[str, Any]:
        known = {
            "resourceSubscriptions": list(self.uris),
            "resourcesListChanged": self.list_changed,
            "taskIds": list(self.task_ids),
        }
        return {name: value for name, value in known.items() if value}


def _texts(asked: Mapping[str, Any], name: str, what: str, most: int) -> tuple[str, ...]:
    texts = asked.get(name) or []
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise RpcError(INVALID_PARAMS, f"{name} must be a list of {what}.")
    if len(texts) > most:
        raise RpcError(INVALID_PARAMS, f"{name} may have {most} {what} at most.")
    return tuple(dict.fromkeys(texts))


def acknowledgement(request: Request, wanted: Wanted) -> Message:
    """The first message of a subscription."""
    return _tagged("notifications/subscriptions/acknowledged", {"notifications": wanted.honoured()}, request)


def resource_updated(uri: str, request: Request | None = None) -> Message:
    """`request`: the one that stays open; without it, to a client of the handshake."""
    return _tagged("notifications/resources/updated", {"uri": uri}, request)


def list_changed(request: Request) -> Message:
    return _tagged("notifications/resources/list_changed", {}, request)


def closing_result(request: Request) -> dict[str, Any]:
    """The server ends the subscription. (Graceful Closure.)"""
    return {"_meta": {SUBSCRIPTION_KEY: request.id}}


def _tagged(method: str, params: Mapping[str, Any], request: Request | None) -> Message:
    tag = {"_meta": {SUBSCRIPTION_KEY: request.id}} if request else {}
    return jsonrpc.notification(method, {**tag, **params})
