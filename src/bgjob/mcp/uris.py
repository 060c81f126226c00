"""The URIs of resources: `bgjob://jobs`, and `bgjob://jobs/{id}/{view}`, with a range; and `bgjob://targets`.

(RFC 3986, RFC 6570.)
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import quote, unquote

from bgjob.mcp.arguments import checked
from bgjob.mcp.complaints import complaints
from bgjob.protocol.jsonrpc import INVALID_PARAMS, RpcError

LIST_URI, TARGETS_URI = "bgjob://jobs", "bgjob://targets"
View = Literal["jobs", "targets", "stdout", "stderr", "output", "screen", "status"]
LIST: View = "jobs"
TARGETS: View = "targets"
OUTPUT_VIEWS: tuple[View, ...] = ("stdout", "stderr", "output")
VIEWS: tuple[View, ...] = (*OUTPUT_VIEWS, "screen", "status")

_SINCE = {"since": {"type": "string"}}
_LINES = {"lines": {"type": "integer", "minimum": 1, "maximum": 1000}}
_MAX_TOKENS = {"max_tokens": {"type": "integer", "minimum": 50}}
RANGES: Mapping[View, Mapping[str, Any]] = {
    LIST: {"cursor": {"type": "string"}},
    TARGETS: {},
    **{view: {**_SINCE, **_LINES, **_MAX_TOKENS} for view in OUTPUT_VIEWS},
    "screen": _MAX_TOKENS,
    "status": {},
}
"""What the query of each view may have, as a schema of arguments."""

_URI = re.compile(
    r"(?ai)bgjob://(?:jobs(?:/(?P<job>[^/?#]+)/(?P<view>[a-z]+)|/?)|(?P<targets>targets)/?)(?:\?(?P<query>[^#]*))?"
)
_NO_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class ResourceUri(NamedTuple):
    job: str | None
    """Its id, the beginning of that, or its name; None: the list of jobs, or the targets."""
    view: View
    range: Mapping[str, Any]


def uri_of(job_id: str, view: View) -> str:
    return f"{LIST_URI}/{quote(job_id, safe='')}/{view}"


def parsed(uri: str) -> ResourceUri | None:
    """None: not a URI of ours. RpcError: its range is not acceptable."""
    found = _URI.fullmatch(uri)
    if found is None:
        return None
    view = cast("View", found["view"] or (TARGETS if found["targets"] else LIST))
    try:
        job = None if found["job"] is None else _decoded(found["job"])
        query = dict(_pairs(found["query"] or ""))
    except ValueError:
        return None
    is_there = view in VIEWS if found["job"] is not None else not found["view"]
    return ResourceUri(job, view, _range(view, query)) if is_there and job != "" else None


def _pairs(query: str) -> list[tuple[str, str]]:
    """A plus is a plus: templates expand a space to %20."""
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return [(_decoded(name), _decoded(value)) for name, _, value in pairs]


def _decoded(part: str) -> str:
    """ValueError: there is no such encoding, or what it encodes is no UTF-8."""
    if _NO_ESCAPE.search(part):
        raise ValueError(part)
    return unquote(part, errors="strict")


def _range(view: View, query: Mapping[str, str]) -> Mapping[str, Any]:
    schema = {"properties": RANGES[view]}
    given, problems = checked(query, schema)
    if problems:
        raise RpcError(INVALID_PARAMS, "\n".join(complaints(view, schema, problems)))
    return given
