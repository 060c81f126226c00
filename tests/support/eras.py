"""Requests of both kinds of revisions: after a handshake, and alone."""

from typing import Any, Literal

from tests.support.raw_client import Message, RawClient

Era = Literal["handshake", "stateless"]
ERAS: tuple[Era, ...] = ("handshake", "stateless")

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def alone(**params: Any) -> Message:
    return {**params, "_meta": ENVELOPE}


def ask(client: RawClient, era: Era, method: str, **params: Any) -> Message:
    """The whole answer, with its result or its error."""
    return client.ask(method, params if era == "handshake" else alone(**params))
