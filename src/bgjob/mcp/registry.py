"""Tools, declared: a signature, a sentence for the model, and one call.

    @TOOLS.tool("Tail a job's output", READS)
    def tail_job_output(jobs: Jobs, job_id: JobId, lines: Lines = 50) -> Read:
        '''The last lines a job printed.'''
        return Read.of(jobs.read_tail(job_id, lines), job_id)

The first parameter is the api, the others are the arguments of the tool. What the client sees is derived from
this ahead of time and shipped as tools.json: so a server starts without deriving anything.
"""

import json
import os
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from bgjob.api.audit import acting
from bgjob.core.errors import BgjobError, InvalidArgument
from bgjob.core.scopes import Scope
from bgjob.mcp.answers import failure, plain, success
from bgjob.mcp.arguments import Schema, checked, tidied
from bgjob.mcp.caller import Caller
from bgjob.mcp.complaints import complaints, shown
from bgjob.mcp.stderr import report
from bgjob.output.cleaner import without_hidden
from bgjob.protocol.jsonrpc import INVALID_PARAMS, RpcError
from bgjob.protocol.tasks import Task

Api = TypeVar("Api")
Function = TypeVar("Function", bound=Callable[..., Any])
Result = dict[str, Any]

CALLER, OPTIONS = "caller", "options"
UNLISTED = "unlisted"
"""A keyword of an argument or a field that the list of tools does not mention."""

Annotate = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, str]]
"""Given the arguments and the answer of a call: fields to add to the answer."""


class Kind(NamedTuple):
    """What a tool does to the world."""

    scope: Scope
    """The right that its caller needs."""
    annotations: Mapping[str, bool]


class Tool(NamedTuple, Generic[Api]):
    name: str
    title: str
    kind: Kind
    function: Callable[..., Any]
    blocks: bool
    """It may take long, and gets a thread; the others take less than the way to a thread."""
    wants_caller: bool
    options: Collection[str]
    """What its argument `options` may have, and what is taken for it when it stands beside."""
    may_be_task: bool
    """What it waits for may go on as a task."""

    @property
    def annotations(self) -> Mapping[str, bool]:
        return self.kind.annotations

    def call(
        self, api: Api, given: Mapping[str, Any], accepts: Schema, caller: Caller, annotate: Annotate | None
    ) -> Result | Task:
        """An error is an answer too: this raises nothing, and the server goes on."""
        try:
            with acting(caller.by):
                made = self.perform(api, given, accepts, caller)
            if isinstance(made, Task):
                return made
            answer = plain(made)
            return success(answer | plain(annotate(given, answer)) if annotate else answer)
        except BgjobError as problem:
            return failure(str(problem))
        except Exception:  # noqa: BLE001
            report(f"Internal error in {self.name}")
            return failure(f"Internal error in {self.name}; the server's log on stderr has the details.")

    def perform(self, api: Api, given: Mapping[str, Any], accepts: Schema, caller: Caller) -> Any:
        """What its function answers. InvalidArgument: these are no arguments of it."""
        arguments, problems = checked(self._tidied(given, accepts), accepts)
        if problems:
            raise InvalidArgument("\n".join(complaints(self.name, accepts, problems)))
        extra = {CALLER: caller} if self.wants_caller else {}
        return self.function(api, **arguments, **extra)

    def _tidied(self, given: Mapping[str, Any], accepts: Schema) -> dict[str, Any]:
        """Models put an option beside the arguments."""
        tidy = tidied(given, accepts)
        strays = {name: tidy.pop(name) for name in self.options if name in tidy}
        inside = tidy.get(OPTIONS) or {}
        return {**tidy, OPTIONS: {**strays, **inside}} if strays and isinstance(inside, dict) else tidy


class Registry(Generic[Api]):
    """All tools of a server, in the order of their declaration."""

    def __init__(self, schemas: str | Mapping[str, Any]) -> None:
        """`schemas`: what bgjob.mcp.schema derives from these tools, or the file beside this one that has it."""
        self._schemas = schemas
        self.tools: dict[str, Tool[Api]] = {}

    def tool(
        self,
        title: str,
        kind: Kind,
        *,
        blocks: bool = False,
        options: Collection[str] = (),
        may_be_task: bool = False,
    ) -> Callable[[Function], Function]:
        def declare(function: Function) -> Function:
            wants_caller = CALLER in function.__code__.co_varnames[: function.__code__.co_argcount]
            name = function.__name__
            self.tools[name] = Tool(name, title, kind, function, blocks, wants_caller, options, may_be_task)
            return function

        return declare

    @cached_property
    def schemas(self) -> Mapping[str, Any]:
        if not isinstance(self._schemas, str):
            return self._schemas
        with open(os.path.join(os.path.dirname(__file__), self._schemas), encoding="utf-8") as file:
            read: Mapping[str, Any] = json.load(file)
            return read

    def listing(self, scopes: Collection[str] | None = None) -> list[Mapping[str, Any]]:
        """`scopes`: only the tools that these rights allow."""
        return [
            tool
            for tool in self.schemas["listed"]
            if scopes is None or self.tools[tool["name"]].kind.scope in scopes
        ]

    def find(self, name: object) -> Tool[Api]:
        tool = self.tools.get(name) if isinstance(name, str) else None
        if tool is None:
            known = ", ".join(self.tools)
            raise RpcError(
                INVALID_PARAMS, f"Unknown tool: {without_hidden(shown(str(name)))}. There are: {known}"
            )
        return tool

    def call(
        self,
        api: Api,
        tool: Tool[Api],
        given: Mapping[str, Any],
        caller: Caller,
        annotate: Annotate | None = None,
    ) -> Result | Task:
        return tool.call(api, given, self.schemas["accepts"][tool.name], caller, annotate)

    def perform(self, api: Api, name: str, given: Mapping[str, Any], caller: Caller) -> Any:
        """For a face that has words of its own for an error: what a tool's function answers. BgjobError."""
        return self.tools[name].perform(api, given, self.schemas["accepts"][name], caller)
