"""Performs the requests of clients on the api."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from bgjob.api import Cancellation, Jobs
from bgjob.core.scopes import Scope
from bgjob.mcp.caller import Caller, Channel
from bgjob.mcp.news_line import NewsLine
from bgjob.mcp.registry import Tool
from bgjob.mcp.stderr import report
from bgjob.mcp.tools import TOOLS
from bgjob.protocol.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, Message, RpcError
from bgjob.protocol.request import Request

if TYPE_CHECKING:
    from bgjob.mcp.subscriptions import Subscriptions

Result = Mapping[str, Any]


class Service:
    """For one client, or for many that have the same rights."""

    def __init__(
        self,
        jobs: Jobs,
        *,
        scopes: Collection[str] | None = None,
        news: NewsLine | None = None,
        channel: Channel | None = None,
    ) -> None:
        """`scopes`: the rights of its clients; None: all. `channel`: to the one client, at any time."""
        self._jobs, self._scopes, self._news, self._channel = jobs, scopes, news, channel
        self._mutex = threading.Lock()
        self._listening: set[Cancellation] = set()
        self._is_closed = False
        self._subscriptions: Subscriptions | None = None
        self._handlers: Mapping[str, Callable[[Request, Caller], Result]] = {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "subscriptions/listen": self._listen,
            "completion/complete": self._complete,
        }

    def blocks(self, request: Request) -> bool:
        """True: it may take long, and wants a thread of its own."""
        if request.method == "subscriptions/listen":
            return True
        tool = _tool_of(request)
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
        """Ends what would go on until the client ends it: subscriptions."""
        with self._mutex:
            self._is_closed = True
            for cancellation in self._listening:
                cancellation.cancel()
        if self._subscriptions:
            self._subscriptions.close()

    def missing_scope(self, request: Request) -> Scope | None:
        """The right that the request needs and its client does not have."""
        if self._scopes is None or request.method == "tools/list":
            return None
        tool = _tool_of(request)
        needed: Scope = tool.kind.scope if tool else "read"
        return None if needed in self._scopes else needed

    def _list_tools(self, _request: Request, _caller: Caller) -> Result:
        return {"tools": TOOLS.listing(self._scopes)}

    def _call_tool(self, request: Request, caller: Caller) -> Result:
        tool, given = TOOLS.find(request.text("name")), request.mapping("arguments")
        if self._news is None:
            return TOOLS.call(self._jobs, tool, given, caller)
        return TOOLS.call(self._jobs, tool, self._news.completed(tool.name, given), caller, self._news.fields)

    # -- resources; imported late, since a client may never ask for them ------------------------------

    def _list_resources(self, request: Request, _caller: Caller) -> Result:
        from bgjob.mcp.resources import list_resources

        return list_resources(self._jobs, request)

    def _list_templates(self, _request: Request, _caller: Caller) -> Result:
        from bgjob.mcp.resources import TEMPLATES

        return {"resourceTemplates": TEMPLATES}

    def _read_resource(self, request: Request, _caller: Caller) -> Result:
        from bgjob.mcp.resources import read_resource

        return read_resource(self._jobs, request)

    def _subscribe(self, request: Request, _caller: Caller) -> Result:
        from bgjob.mcp.subscriptions import Subscriptions

        if self._channel is None:
            raise RpcError(METHOD_NOT_FOUND, "Method not found", request.method)
        self._subscriptions = self._subscriptions or Subscriptions(self._jobs, self._channel)
        self._subscriptions.subscribe(request)
        return {}

    def _unsubscribe(self, request: Request, _caller: Caller) -> Result:
        if self._subscriptions:
            self._subscriptions.unsubscribe(request)
        return {}

    def _listen(self, request: Request, caller: Caller) -> Result:
        from bgjob.mcp.subscriptions import listen

        wait = caller.cancellation
        with self._mutex:
            self._listening.add(wait)
            if self._is_closed:
                wait.cancel()
        try:
            return listen(self._jobs, request, caller)
        finally:
            with self._mutex:
                self._listening.discard(wait)

    def _complete(self, request: Request, _caller: Caller) -> Result:
        from bgjob.mcp.completions import complete

        return complete(self._jobs, request)


def _tool_of(request: Request) -> Tool[Jobs] | None:
    """None: it calls no tool, or none that there is."""
    return TOOLS.tools.get(str(request.params.get("name"))) if request.method == "tools/call" else None
