"""The revisions of the protocol. (Specification: Versioning and Compatibility.)"""

from collections.abc import Mapping
from typing import Any

from bgjob.protocol.jsonrpc import REPEATED_CHARACTERS, UNSUPPORTED_REVISION, RpcError

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""A client begins with `initialize`, and the connection remembers it. The specification calls them legacy."""
STATELESS = ("2026-07-28",)
"""Each request carries all that there is to know. The specification calls them modern."""
SUPPORTED = (*reversed(STATELESS), *reversed(HANDSHAKE))

NEWEST_HANDSHAKE = HANDSHAKE[-1]
WITHOUT_HEADER = "2025-03-26"
"""What a request over HTTP is of that does not say it. (Streamable HTTP, Protocol Version Header.)"""
WITH_BATCHES = "2025-03-26"
"""The one revision in which a message may be a list of messages."""

WITH_TASKS = "2025-11-25"
"""The one revision with a handshake that has tasks."""

# Overview, _meta
PREFIX = "io.modelcontextprotocol/"
REVISION_KEY = PREFIX + "protocolVersion"
CLIENT_KEY = PREFIX + "clientInfo"
CAPABILITIES_KEY = PREFIX + "clientCapabilities"
SERVER_KEY = PREFIX + "serverInfo"
SUBSCRIPTION_KEY = PREFIX + "subscriptionId"


def meta_of(params: object) -> Mapping[str, Any]:
    """Empty if there is none."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def opens_as_of_handshake(method: object, meta: Mapping[str, Any], header: str | None) -> bool:
    """Versioning, Compatibility Matrix. `header`: the revision that HTTP names, if it names one."""
    return REVISION_KEY not in meta and (method == "initialize" or header is None or header in HANDSHAKE)


def unsupported(revision: str) -> RpcError:
    """Protocol Version Negotiation: it names the same revisions as server/discover."""
    told = {"supported": list(STATELESS), "requested": revision[:REPEATED_CHARACTERS]}
    return RpcError(UNSUPPORTED_REVISION, "Unsupported protocol version", told)


def negotiated(asked: str) -> str:
    """The revision of a connection: the one that its client asked for, or the newest we have."""
    return asked if asked in HANDSHAKE else NEWEST_HANDSHAKE
