"""JSON-RPC 2.0 messages: read from bytes, and written. (Specification: Overview, Messages.)"""

import json
from collections.abc import Mapping
from typing import Any

Message = dict[str, Any]
RequestId = str | int

# Overview, Error Codes
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_REVISION = -32020, -32021, -32022
NO_RESOURCE_BEFORE_2026 = -32002

LONGEST_NUMBER = 4000
REPEATED_CHARACTERS = 200
"""Of what a client sent, in an error."""
UNREADABLE = (
    "This line cannot be read as JSON. Send one JSON-RPC 2.0 object a line, as UTF-8, not nested too deep."
)

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class RpcError(Exception):
    """What a client did wrong, as the protocol tells it."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


def response(request_id: RequestId, result: Mapping[str, Any]) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error(request_id: RequestId | None, problem: RpcError) -> Message:
    """An id that could not be read is null."""
    told = {"code": problem.code, "message": problem.message}
    if problem.data is not None:
        told["data"] = problem.data
    return {"jsonrpc": "2.0", "id": request_id, "error": told}


def notification(method: str, params: Mapping[str, Any]) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def encoded(message: object) -> bytes:
    """One line, without its end. Text that is not Unicode cannot be sent: it is replaced."""
    return _encode(message).encode(errors="replace")


def decoded(line: bytes) -> Any:
    """RpcError: this is not JSON. What only JavaScript takes for JSON is mended, since its sender waits."""
    try:
        return _mended(line, json.loads(line.decode("utf-8-sig", "replace")))
    except RecursionError:
        raise RpcError(PARSE_ERROR, UNREADABLE) from None
    except ValueError:
        return _with_long_numbers(line)


def _mended(line: bytes, message: Any) -> Any:
    """Half an emoji, `\\ud83d` alone, is a string to JavaScript, and no Unicode."""
    if b"\\ud" not in line and b"\\uD" not in line:
        return message
    return json.loads(encoded(message))


def _with_long_numbers(line: bytes) -> Any:
    """Python reads no number of thousands of digits: such a number is as good as infinite."""
    try:
        return json.loads(line.decode("utf-8-sig", "replace"), parse_int=_whole)
    except (ValueError, RecursionError):
        raise RpcError(PARSE_ERROR, UNREADABLE) from None


def _whole(digits: str) -> float:
    return int(digits) if len(digits) < LONGEST_NUMBER else float(digits)


def usable_id(message: Mapping[str, Any]) -> RequestId | None:
    """The id of a message, if it is of a kind that an id may have: text or a whole number."""
    given = message.get("id")
    return given if isinstance(given, str | int) and not isinstance(given, bool) else None
