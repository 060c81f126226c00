"""The tools, called as the server calls them, without a server."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from bgjob.api import Jobs
from bgjob.mcp.caller import Caller
from bgjob.mcp.news_line import news_fields
from bgjob.mcp.server import SERVER
from bgjob.mcp.tools import TOOLS
from bgjob.protocol.jsonrpc import Message
from bgjob.protocol.request import Client, Request
from bgjob.protocol.revisions import NEWEST_HANDSHAKE
from bgjob.protocol.tasks import Task

Result = Mapping[str, Any]


def call_tool(
    jobs: Jobs,
    tool: str,
    arguments: Mapping[str, Any],
    session: str | None = None,
    send: Callable[[Message], None] | None = None,
) -> Result:
    """`session`: of the caller. `send`: is given the progress. RpcError: there is no such tool."""
    caller = new_caller(send, session)
    try:
        result = TOOLS.call(jobs, TOOLS.find(tool), arguments, caller, partial(news_fields, jobs, caller))
        assert not isinstance(result, Task)
        return result
    finally:
        caller.close()


def new_caller(send: Callable[[Message], None] | None = None, session: str | None = None) -> Caller:
    request = Request(1, "tools/call", {"_meta": {"progressToken": 1}}, NEWEST_HANDSHAKE, Client(), SERVER)
    return Caller(request, send or ignored, known={"session": session} if session else {})


def ignored(_message: Message) -> None:
    pass


def text_of(result: Result) -> str:
    (content,) = result["content"]
    return str(content["text"])


def listed(tool: str) -> Result:
    """The tool as clients see it."""
    return next(each for each in TOOLS.listing() if each["name"] == tool)
