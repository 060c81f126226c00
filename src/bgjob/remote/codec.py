"""The wire between an agent and who has started it: a message is an object of JSON, on a line.

    {"id": 7, "verb": "start", "words": {…}}    a call          {"id": 7, "ok": …}      its answer
    {"cancel": 7}                               end it          {"id": 7, "error": …}   ... that it has failed
    {"to": 9, "data": "<base64>"}               to a stream     {"id": 9, "more": …}    from a stream
    {"to": 9, "end": true}                      its end         {"beat": 1}             both ways: still there

A long line is compressed: srun sends 1024 bytes and more in pieces, 44 ms apart. A line without its newline
is what a broken connection has left, and no message.
"""

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from bgjob.core import errors
from bgjob.core.errors import BgjobError

Message = dict[str, Any]
ONE_PIECE_BYTES = 1000
# Of what a compressed line holds: more is no message of ours.
MESSAGE_MAX_BYTES = 256 << 20
# Maximum size of a job's record: a larger one is neither sent nor accepted.
RECORD_MAX_BYTES = 1 << 18
FASTEST = 1
BEAT: Message = {"beat": 1}


def encode(message: Mapping[str, Any]) -> bytes:
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) >= ONE_PIECE_BYTES:
        data = base64.b64encode(zlib.compress(data, FASTEST))
    return data + b"\n"


def decode(
    line: bytes, most_bytes: int = MESSAGE_MAX_BYTES, parse: Callable[[bytes], Any] = json.loads
) -> Message:
    """ValueError: it is no message, or was cut."""
    if not line.endswith(b"\n"):
        raise ValueError("the line was cut")
    try:
        message = parse(line if line.startswith(b"{") else _inflated(line, most_bytes))
    except (zlib.error, RecursionError) as problem:
        raise ValueError(str(problem)) from None
    if not isinstance(message, dict):
        raise ValueError("it is no message")
    return message


def _inflated(line: bytes, most_bytes: int) -> bytes:
    inflater = zlib.decompressobj()
    data = inflater.decompress(base64.b64decode(line, validate=False), most_bytes)
    if not inflater.eof:
        raise ValueError("the line is damaged or too long")
    return data


def pack_bytes(data: bytes) -> str:
    return base64.b64encode(data).decode()


def unpack_bytes(text: str) -> bytes:
    return base64.b64decode(text)


# -- errors -------------------------------------------------------------------------------------------


def pack_error(error: BaseException) -> Message:
    state = {name: value for name, value in vars(error).items() if _is_plain(value)}
    return {"kind": type(error).__name__, "text": str(error) or type(error).__name__, "state": state}


def unpack_error(packed: Mapping[str, Any]) -> BgjobError:
    """The same error, made without its constructor, which wants other words than the message.

    `kind` of an error that is none of ours, e.g. NoShim, is an attribute of the BgjobError in its place.
    """
    kind, text = str(packed.get("kind")), str(packed.get("text"))
    state = packed.get("state")
    ours = getattr(errors, kind, None)
    if not (isinstance(ours, type) and issubclass(ours, BgjobError)):
        return _foreign(kind, text)
    error = ours.__new__(ours)
    Exception.__init__(error, text)
    vars(error).update({"what": text, "advice": "", **(state if isinstance(state, dict) else {})})
    return error


def _foreign(kind: str, text: str) -> BgjobError:
    error = BgjobError(text)
    vars(error)["kind"] = kind
    return error


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)
