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
    """What a client of a stateless revision must have declared to call it. (Versioning, Extension Negotiation.)"""
    of_tasks: bool = False
    """Of a handshake, only a client that knows its tasks may call it."""


TOOLS = {"tools/list": Method(ttl_ms=AN_HOUR_MS), "tools/call": Method()}
RESOURCES = {
    "resources/list": Method(ttl_ms=0),
    "resources/templates/list": Method(ttl_ms=AN_HOUR_MS),
    "resources/read": Method(ttl_ms=0),
    "resources/subscribe": Method("handshake"),
    "resources/unsubscribe": Method("handshake"),
    "subscriptions/listen": Method("stateless"),
}
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
TASKS = {
    "tasks/get": Method(extension=TASKS_EXTENSION, of_tasks=True),
    "tasks/cancel": Method(extension=TASKS_EXTENSION, of_tasks=True),
    "tasks/update": Method("stateless", extension=TASKS_EXTENSION),
    "tasks/result": Method("handshake", of_tasks=True),
}
COMPLETIONS = {"completion/complete": Method()}

# those that are answered by the protocol itself
LIFECYCLE = {
    "initialize": Method("handshake"),
    "ping": Method("handshake"),
    "server/discover": Method("stateless", ttl_ms=AN_HOUR_MS),
}
