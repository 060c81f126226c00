"""What a client wants to be told, and the notifications that tell it.

A client of the handshake subscribes to one resource at a time, for as long as it is connected. Of the newer
revisions, a client sends one request that stays open: `subscriptions/listen`. (Patterns, Subscriptions.)
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from bgjob.protocol import jsonrpc
from bgjob.protocol.jsonrpc import INVALID_PARAMS, Message, RpcError
from bgjob.protocol.request import Request
from bgjob.protocol.revisions import SUBSCRIPTION_KEY

MOST_RESOURCES = 1000


class Wanted(NamedTuple):
    """The filter of a subscription, as far as the server serves it."""

    uris: tuple[str, ...] = ()
    list_changed: bool = False

    @classmethod
    def of(cls, request: Request) -> "Wanted":
        asked = request.params.get("notifications")
        if not isinstance(asked, dict):
            raise RpcError(INVALID_PARAMS, "subscriptions/listen needs notifications, an object.")
        uris = asked.get("resourceSubscriptions") or []
        if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
            raise RpcError(INVALID_PARAMS, "resourceSubscriptions must be a list of URIs.")
        if len(uris) > MOST_RESOURCES:
            raise RpcError(INVALID_PARAMS, f"resourceSubscriptions may have {MOST_RESOURCES} URIs at most.")
        return cls(tuple(dict.fromkeys(uris)), asked.get("resourcesListChanged") is True)

    def honoured(self) -> dict[str, Any]:
        uris = {"resourceSubscriptions": list(self.uris)} if self.uris else {}
        return {**uris, "resourcesListChanged": True} if self.list_changed else uris


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
