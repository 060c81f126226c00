"""Completes the arguments of the templates: ids and names of jobs, views. (Utilities, Completion.)"""

from collections.abc import Iterator, Mapping
from typing import Any

from bgjob.api import Jobs
from bgjob.core.errors import BgjobError
from bgjob.mcp.resources import TEMPLATES
from bgjob.mcp.uris import VIEWS
from bgjob.output.cleaner import without_hidden
from bgjob.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, RpcError
from bgjob.protocol.request import Request

MOST_VALUES = 100
NAMED_JOBS = 1000
"""Names are looked for in so many of the newest jobs: to learn a name, a job has to be read."""


def complete(jobs: Jobs, request: Request) -> Mapping[str, Any]:
    name, value = _argument(request)
    try:
        values = list(_values(jobs, name, value))
    except BgjobError as problem:
        raise RpcError(INTERNAL_ERROR, str(problem)) from None
    has_more = len(values) > MOST_VALUES
    return {"completion": {"values": values[:MOST_VALUES], "total": len(values), "hasMore": has_more}}


def _argument(request: Request) -> tuple[str, str]:
    reference, argument = request.mapping("ref"), request.mapping("argument")
    templates = [template["uriTemplate"] for template in TEMPLATES]
    uri, name, value = reference.get("uri"), argument.get("name"), argument.get("value")
    if reference.get("type") != "ref/resource" or uri not in templates:
        raise RpcError(
            INVALID_PARAMS, f"ref must be of type ref/resource, its uri one of {', '.join(templates)}."
        )
    taken = _arguments_of(uri)
    if name not in taken or not isinstance(value, str):
        raise RpcError(
            INVALID_PARAMS, f"argument needs a name, one of {', '.join(taken)}, and a value, a text."
        )
    return name, value


def _arguments_of(template: str) -> list[str]:
    """What stands in its braces."""
    braces = (part.partition("}")[0] for part in template.split("{")[1:])
    return [name for inside in braces for name in inside.lstrip("?").split(",")]


def _values(jobs: Jobs, name: str, value: str) -> Iterator[str]:
    if name == "view":
        yield from (view for view in VIEWS if view.startswith(value))
    elif name == "id":
        words = (word for word in jobs.words(NAMED_JOBS) if word.startswith(value))
        yield from dict.fromkeys(word for word in words if without_hidden(word) == word)
