"""What the protocol asks of HTTP: headers that repeat the body, and status codes. (Transports, Streamable HTTP.)"""

from collections.abc import Mapping, Sequence
from typing import Any

from bgjob.protocol.jsonrpc import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_REVISION,
    Message,
    RpcError,
)
from bgjob.protocol.revisions import SUPPORTED, meta_of, opens_as_of_handshake, unsupported

Headers = Mapping[str, Sequence[str]]
"""All values of each header, by its name in small letters."""

REVISION, METHOD, NAME = "mcp-protocol-version", "mcp-method", "mcp-name"
# Standard Request Headers
NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}
STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_REVISION: 400,
    METHOD_NOT_FOUND: 404,
}
ENCODED_BEGIN, ENCODED_END = "=?base64?", "?="


def revision_named(headers: Headers) -> str | None:
    values = headers.get(REVISION, ())
    return values[0].strip() if values else None


def check_headers(headers: Headers, method: str, params: Mapping[str, Any], revision: object) -> None:
    """Server Validation: a proxy that reads the headers must not be told another thing than the server."""
    _check(headers, REVISION, revision)
    _check(headers, METHOD, method)
    named_by = NAMED_BY.get(method)
    if named_by and isinstance(params.get(named_by), str):
        _check(headers, NAME, params[named_by])


def _check(headers: Headers, name: str, expected: object) -> None:
    values = headers.get(name, ())
    if len(values) != 1 or decoded_value(values[0].strip()) != expected:
        found = ", ".join(values) or "missing"
        raise RpcError(
            HEADER_MISMATCH, f"The header {name} must be {expected!s}, as in the body; it is {found}."
        )


def decoded_value(value: str) -> str | None:
    """Value Encoding. None: this is no encoding of a text."""
    encoded = value.removeprefix(ENCODED_BEGIN)
    if encoded == value or not encoded.endswith(ENCODED_END):
        return value
    import base64
    import binascii

    inside = encoded.removesuffix(ENCODED_END)
    try:
        plain = base64.b64decode(inside, validate=True)
        return plain.decode() if base64.b64encode(plain).decode() == inside else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def is_of_handshake(message: object, headers: Headers) -> bool:
    """Versioning, Compatibility Matrix: how a message over HTTP opens says which revision it is of."""
    if not isinstance(message, dict):
        return True
    meta = meta_of(message.get("params"))
    return opens_as_of_handshake(message.get("method"), meta, revision_named(headers))


def check_notification(message: object, headers: Headers) -> None:
    """Protocol Version Header. Of requests, the answer is the connection's."""
    revision = revision_named(headers)
    if revision and revision not in SUPPORTED and isinstance(message, dict) and "id" not in message:
        raise unsupported(revision)


def status_of(answer: Message, *, is_stateless: bool) -> int:
    """Of the HTTP response. Before 2026-07-28 an error that answers a request is a response as any other."""
    code = answer.get("error", {}).get("code")
    return STATUS.get(code, 200) if is_stateless or answer.get("id") is None else 200
