"""Performs the requests of clients on the api."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from bgjob.api import Cancellation, Jobs
from bgjob.api.session import reporting
from bgjob.core.scopes import Scope, scopes_of_start
from bgjob.mcp import tasks
from bgjob.mcp.caller import Caller, Channel
from bgjob.mcp.news_line import news_fields
from bgjob.mcp.registry import Tool
from bgjob.mcp.stderr import report
from bgjob.mcp.target_schema import tool_with_targets
from bgjob.mcp.tools import TOOLS
from bgjob.protocol.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, Message, RpcError
from bgjob.protocol.request import Request
from bgjob.protocol.tasks import HANDSHAKE_SUPPORT, Task, knows_tasks, wants_task

if TYPE_CHECKING:
    from bgjob.mcp.subscriptions import Subscriptions

Result = Mapping[str, Any]

BLOCKING = ("subscriptions/listen", "tasks/update", "tasks/cancel", "tasks/result")
SCOPES: Mapping[str, Scope] = {"tasks/update": "run"}
"""What a request needs the right for, beside tools; of all others: to read."""


class Service:
    """For one client, or for many that have the same rights."""

    def __init__(
        self,
        jobs: Jobs,
        *,
        scopes: Collection[str] | None = None,
        channel: Channel | None = None,
    ) -> None:
        """`scopes`: the rights of its clients; None: all. `channel`: to the one client, at any time."""
        self._jobs, self._scopes, self._channel = jobs, scopes, channel
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
            "tasks/get": self._get_task,
            "tasks/update": self._update_task,
            "tasks/cancel": self._cancel_task,
            "tasks/result": self._task_result,
        }

    def blocks(self, request: Request) -> bool:
        """True: it may take long, and wants a thread of its own."""
        if request.method in BLOCKING or _asks_other_machines(request):
            return True
        tool = _tool_of(request)
        return tool is not None and tool.blocks

    def perform(self, request: Request, caller: Caller) -> Message:
        """The answer. An error is an answer too: this raises nothing."""
        try:
            with reporting(caller.claims):
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
        return next((needed for needed in _scopes_for(request) if needed not in self._scopes), None)

    def _list_tools(self, request: Request, _caller: Caller) -> Result:
        targets = self._jobs.context.targets
        listing = [tool_with_targets(tool, targets) for tool in TOOLS.listing(self._scopes)]
        return {"tools": list(map(_with_task_support, listing)) if request.has_handshake_tasks else listing}

    def _call_tool(self, request: Request, caller: Caller) -> Result:
        tool, given = TOOLS.find(request.text("name")), request.mapping("arguments")
        is_wanted = wants_task(request)
        if is_wanted and not tool.may_be_task:
            raise RpcError(METHOD_NOT_FOUND, f"{tool.name} cannot be called as a task.")
        if tool.may_be_task and (is_wanted or knows_tasks(request)):
            settings = self._jobs.context.settings
            caller.most_s = 0.0 if is_wanted else min(settings.task_after_s, settings.max_wait_s)
            caller.keeps_to_time = is_wanted
        result = self._called(tool, given, caller)
        if not is_wanted:
            return result.created() if isinstance(result, Task) else result
        task = result if isinstance(result, Task) else tasks.ended_at_once(self._jobs, result)
        return {"task": task.of_handshake()}

    def _called(self, tool: Tool[Jobs], given: Result, caller: Caller) -> Result | Task:
        return TOOLS.call(self._jobs, tool, given, caller, partial(news_fields, self._jobs, caller))

    # -- tasks --------------------------------------------------------------------------------------

    def _get_task(self, request: Request, _caller: Caller) -> Result:
        task = _seen_task(self._jobs, request)
        return task.detailed() if request.is_stateless else task.of_handshake()

    def _update_task(self, request: Request, _caller: Caller) -> Result:
        tasks.update(self._jobs, request)
        return {}

    def _cancel_task(self, request: Request, _caller: Caller) -> Result:
        tasks.cancel(self._jobs, request, self._scopes)
        return {} if request.is_stateless else _seen_task(self._jobs, request).of_handshake()

    def _task_result(self, request: Request, caller: Caller) -> Result:
        return tasks.awaited_result(self._jobs, request, caller)

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


def _seen_task(jobs: Jobs, request: Request) -> Task:
    return tasks.seen(jobs, tasks.found(jobs, request), request)


def _with_task_support(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**tool, **HANDSHAKE_SUPPORT} if TOOLS.tools[tool["name"]].may_be_task else tool


def _asks_other_machines(request: Request) -> bool:
    return request.method == "resources/read" and "targets" in str(request.params.get("uri")).lower()


def _scopes_for(request: Request) -> Sequence[Scope]:
    tool, arguments = _tool_of(request), request.params.get("arguments")
    if tool is None:
        return (SCOPES.get(request.method, "read"),)
    if tool.name == "execute_command" and isinstance(arguments, dict):
        return scopes_of_start(arguments)
    return (tool.kind.scope,)


def _tool_of(request: Request) -> Tool[Jobs] | None:
    """None: it calls no tool, or none that there is."""
    return TOOLS.tools.get(str(request.params.get("name"))) if request.method == "tools/call" else None
