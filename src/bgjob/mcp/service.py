"""Performs the requests of clients on the api."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from bgjob.api import Jobs
from bgjob.mcp.caller import Caller
from bgjob.mcp.news_line import NewsLine
from bgjob.mcp.stderr import report
from bgjob.mcp.tools import TOOLS
from bgjob.protocol.jsonrpc import INTERNAL_ERROR, Message, RpcError
from bgjob.protocol.request import Request

Result = Mapping[str, Any]


class Service:
    """For one client, or for many that have the same rights."""

    def __init__(
        self,
        jobs: Jobs,
        *,
        scopes: Collection[str] | None = None,
        news: NewsLine | None = None,
        notify: Callable[[Message], None] | None = None,
    ) -> None:
        """`scopes`: the rights of its clients; None: all. `notify`: sends to the one client at any time."""
        self._jobs, self._scopes, self._news, self._notify = jobs, scopes, news, notify
        self._handlers: Mapping[str, Callable[[Request, Caller], Result]] = {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
        }

    def blocks(self, request: Request) -> bool:
        """True: it may take long, and wants a thread of its own."""
        if request.method != "tools/call":
            return False
        tool = TOOLS.tools.get(str(request.params.get("name")))
        return tool is not None and tool.blocks

    def perform(self, request: Request, caller: Caller) -> Message:
        """The answer. An error is an answer too: this raises nothing."""
        try:
            return request.result(self._handlers[request.method](request, caller))
        except RpcError as problem:
            return request.error(problem)
        except Exception:  # noqa: BLE001
            report(f"Internal error in {request.method}")
            return request.error(
                RpcError(INTERNAL_ERROR, "Internal error; the server's log has the details.")
            )

    def close(self) -> None:
        """Ends what would go on until the client ends it."""

    def missing_scope(self, request: Request) -> str | None:
        """The right that the request needs and its client does not have."""
        if self._scopes is None or request.method == "tools/list":
            return None
        tool = TOOLS.tools.get(str(request.params.get("name"))) if request.method == "tools/call" else None
        needed = tool.kind.scope if tool else "read"
        return None if needed in self._scopes else needed

    def _list_tools(self, _request: Request, _caller: Caller) -> Result:
        return {"tools": TOOLS.listing(self._scopes)}

    def _call_tool(self, request: Request, caller: Caller) -> Result:
        tool, given = TOOLS.find(request.params.get("name")), request.mapping("arguments")
        if self._news is None:
            return TOOLS.call(self._jobs, tool, given, caller)
        return TOOLS.call(self._jobs, tool, self._news.completed(tool.name, given), caller, self._news.fields)
