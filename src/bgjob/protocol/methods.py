"""The methods that a client may call, and in which revisions."""

from typing import Literal, NamedTuple

Era = Literal["handshake", "stateless"]

AN_HOUR_MS = 3_600_000


class Method(NamedTuple):
    era: Era | None = None
    """None: there is it in all revisions."""
    ttl_ms: int | None = None
    """How long a client may keep the result; None: it is not for keeping. (Server Features, Caching.)"""
    extension: str | None = None
    """What a client must have declared to call it. (Versioning, Extension Negotiation.)"""


TOOLS = {"tools/list": Method(ttl_ms=AN_HOUR_MS), "tools/call": Method()}
RESOURCES = {
    "resources/list": Method(ttl_ms=0),
    "resources/templates/list": Method(ttl_ms=AN_HOUR_MS),
    "resources/read": Method(ttl_ms=0),
    "resources/subscribe": Method("handshake"),
    "resources/unsubscribe": Method("handshake"),
    "subscriptions/listen": Method("stateless"),
}
COMPLETIONS = {"completion/complete": Method()}

# those that are answered by the protocol itself
LIFECYCLE = {
    "initialize": Method("handshake"),
    "ping": Method("handshake"),
    "server/discover": Method("stateless", ttl_ms=AN_HOUR_MS),
}
