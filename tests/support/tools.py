"""The tools, called as the server calls them, without a server."""

from collections.abc import Callable, Mapping
from typing import Any

from bgjob.api import Jobs, News
from bgjob.mcp.caller import Caller
from bgjob.mcp.news_line import NewsLine
from bgjob.mcp.server import SERVER
from bgjob.mcp.tools import TOOLS
from bgjob.protocol.jsonrpc import Message
from bgjob.protocol.request import Client, Request
from bgjob.protocol.revisions import NEWEST_HANDSHAKE

Result = Mapping[str, Any]


def call_tool(
    jobs: Jobs,
    tool: str,
    arguments: Mapping[str, Any],
    news: News | None = None,
    send: Callable[[Message], None] | None = None,
) -> Result:
    """`send`: is given the progress. RpcError: there is no such tool."""
    caller = new_caller(send)
    try:
        annotate = NewsLine(news).fields if news else None
        return TOOLS.call(jobs, TOOLS.find(tool), arguments, caller, annotate)
    finally:
        caller.close()


def new_caller(send: Callable[[Message], None] | None = None) -> Caller:
    params = {"_meta": {"progressToken": 1}}
    return Caller(Request(1, "tools/call", params, NEWEST_HANDSHAKE, Client(), SERVER), send or ignored)


def ignored(_message: Message) -> None:
    pass


def text_of(result: Result) -> str:
    (content,) = result["content"]
    return str(content["text"])


def listed(tool: str) -> Result:
    """The tool as clients see it."""
    return next(each for each in TOOLS.listing() if each["name"] == tool)
