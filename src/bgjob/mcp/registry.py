"""Tools, declared: a signature, a sentence for the model, and one call.

    @TOOLS.tool(READS)
    def tail_job_output(jobs: Jobs, job_id: JobId, lines: Lines = 50) -> Read:
        '''The last lines a job printed.'''
        return Read.of(jobs.read_tail(job_id, lines), job_id)

The first parameter is the api, the others are the arguments of the tool. All that the client sees is derived
from this: compact schemas, answers as structured content and as the same JSON in text, errors in words that a
model can act on. Characters that cannot be seen are made visible, but in a field that is marked OUTPUT.
"""

import inspect
import json
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from functools import cache, partial
from typing import Any, Generic, TypeVar, get_type_hints

import anyio
import anyio.from_thread
import anyio.to_thread
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from bgjob.api import Cancellation
from bgjob.core.errors import BgjobError
from bgjob.mcp.answer_text import as_text
from bgjob.mcp.arguments import renamed, unpacked
from bgjob.mcp.schema import Schema, compact, complaints, listed, shown
from bgjob.output.cleaner import without_hidden

log = logging.getLogger(__name__)

Api = TypeVar("Api")
Function = TypeVar("Function", bound=Callable[..., Any])

# As forgiving as models are sloppy: "50" is a number, and 3000 is a text where env wants one.
LAX = ConfigDict(extra="forbid", coerce_numbers_to_str=True, allow_inf_nan=False)

THREADS = 1000
ERROR_END_CHARACTERS = 1000
CALLER, OPTIONS = "caller", "options"

OUTPUT = "output"
"""Marks a field with a job's output: the api has cleaned it, or the caller wants it raw."""
LONG = "long"
"""Marks another field that may be long. Both come after the short ones: clients cut the end of an answer."""

Annotate = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, str]]
"""Given the arguments and the answer of a call: fields to add to the answer."""
Progress = Callable[[float, float | None, str | None], Coroutine[Any, Any, None]]


class Caller:
    """The client of a call that may take long: it is told of the progress, and can cancel."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self.cancellation = Cancellation()

    def tell(self, total_s: float | None) -> Callable[[float, str], None]:
        """From the thread of the call."""

        def tell(passed_s: float, message: str) -> None:
            if self._progress:
                with suppress(RuntimeError, CancelledError):  # the client has cancelled
                    anyio.from_thread.run(self._progress, passed_s, total_s, without_hidden(message))

        return tell


@dataclass(frozen=True)
class Entry(Generic[Api]):
    """One tool: what the client sees of it, and how it is called."""

    tool: Tool
    arguments: type[BaseModel]
    function: Callable[..., Any]
    blocks: bool
    options: Collection[str]
    accepts: Schema
    """The schema of the arguments, with those that the client does not see."""

    @property
    def wants_caller(self) -> bool:
        return CALLER in inspect.signature(self.function).parameters

    def answer(
        self,
        api: Api,
        given: Mapping[str, Any],
        caller: Caller | None = None,
        annotate: Annotate | None = None,
    ) -> CallToolResult:
        """An error is an answer too: this raises nothing, and the server goes on."""
        try:
            arguments = self.arguments.model_validate(self.tidied(given))
        except ValidationError as problems:
            return failure("\n".join(complaints(self.tool.name, self.accepts, problems)))
        try:
            extra = {CALLER: caller} if self.wants_caller else {}
            answer = plain(self.function(api, **vars(arguments), **extra))
            return success(answer | plain(annotate(given, answer)) if annotate else answer)
        except BgjobError as problem:
            return failure(str(problem))
        except Exception:
            log.exception("Internal error in %s", self.tool.name)
            return failure(f"Internal error in {self.tool.name}; the server's log on stderr has the details.")

    def answer_and_close(
        self, api: Api, given: Mapping[str, Any], caller: Caller | None, annotate: Annotate | None = None
    ) -> CallToolResult:
        """Runs in a thread, which goes on after the client has cancelled."""
        try:
            return self.answer(api, given, caller, annotate)
        finally:
            if caller:
                caller.cancellation.close()

    def tidied(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Many clients send null for an optional argument; and models put an option beside the arguments."""
        required, properties = self.accepts.get("required", ()), self.accepts.get("properties", {})
        named = renamed(given, properties)
        tidy = {
            name: unpacked(value, properties.get(name, {}))
            for name, value in named.items()
            if value is not None or name in required
        }
        strays = {name: tidy.pop(name) for name in self.options if name in tidy}
        inside = tidy.get(OPTIONS) or {}
        return {**tidy, OPTIONS: {**strays, **inside}} if strays and isinstance(inside, dict) else tidy


class Registry(Generic[Api]):
    """All tools of a server, in the order of their declaration."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry[Api]] = {}
        self._threads = anyio.CapacityLimiter(THREADS)

    def tool(
        self, annotations: ToolAnnotations, *, blocks: bool = False, options: Collection[str] = ()
    ) -> Callable[[Function], Function]:
        """Declares a tool. One that `blocks` gets a thread; the others take less than the way to a thread.

        `options` are what its argument of that name may have, and what is taken for it when it stands beside.
        """

        def declare(function: Function) -> Function:
            arguments, answer = _arguments_of(function), get_type_hints(function)["return"]
            accepts = compact(arguments.model_json_schema())
            tool = Tool(
                name=function.__name__,
                description=" ".join((inspect.getdoc(function) or "").split()),
                input_schema=listed(accepts),
                output_schema=listed(compact(TypeAdapter(answer).json_schema())),
                annotations=annotations,
            )
            self.entries[tool.name] = Entry(tool, arguments, function, blocks, options, accepts)
            return function

        return declare

    @property
    def listing(self) -> list[Tool]:
        return [entry.tool for entry in self.entries.values()]

    async def call(
        self,
        api: Api,
        name: str,
        given: Mapping[str, Any],
        progress: Progress | None = None,
        annotate: Annotate | None = None,
    ) -> CallToolResult:
        entry = self.entries.get(name)
        if entry is None:
            raise MCPError(
                INVALID_PARAMS,
                f"Unknown tool: {without_hidden(shown(name))}. There are: {', '.join(self.entries)}",
            )
        if not entry.blocks:
            return entry.answer(api, given, annotate=annotate)
        caller = Caller(progress) if entry.wants_caller else None
        try:  # the thread of a cancelled call is abandoned; a call that waits for a job is told, and ends
            return await anyio.to_thread.run_sync(
                partial(entry.answer_and_close, api, given, caller, annotate),
                abandon_on_cancel=True,
                limiter=self._threads,
            )
        finally:
            if caller:
                caller.cancellation.cancel()


def _arguments_of(function: Callable[..., Any]) -> type[BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    _, *parameters = inspect.signature(function).parameters.values()
    fields = {
        each.name: (hints[each.name], ... if each.default is each.empty else each.default)
        for each in parameters
        if each.name != CALLER
    }
    model: type[BaseModel] = create_model(function.__name__, __config__=LAX, **fields)  # type: ignore[call-overload]
    return model


def plain(answer: Any) -> Any:
    """Dataclasses as dicts, without keys that are None; texts with their hidden characters made visible."""
    if isinstance(answer, str):
        return without_hidden(_sendable(answer))
    if is_dataclass(answer) and not isinstance(answer, type):
        output, long = (_fields_marked(mark, type(answer)) for mark in (OUTPUT, LONG))
        fields = sorted(vars(answer).items(), key=lambda field: field[0] in output | long)
        return {key: value if key in output else plain(value) for key, value in fields if value is not None}
    if isinstance(answer, Mapping):
        return {plain(str(key)): plain(value) for key, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [plain(item) for item in answer]
    return answer


@cache
def _fields_marked(mark: str, answer: type) -> frozenset[str]:
    hints = get_type_hints(answer, include_extras=True)
    return frozenset(name for name, hint in hints.items() if mark in getattr(hint, "__metadata__", ()))


def success(answer: dict[str, Any]) -> CallToolResult:
    text = as_text(answer)
    if not _is_sendable(text):
        text = _sendable(text)
        answer = json.loads(text)
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=answer)


def failure(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=plain(_short(message)))], is_error=True)


def _short(message: str) -> str:
    """A message may repeat what the caller gave, whatever its size; what matters is at its two ends."""
    left_out = len(message) - 2 * ERROR_END_CHARACTERS
    if left_out <= 0:
        return message
    ends = message[:ERROR_END_CHARACTERS], message[-ERROR_END_CHARACTERS:]
    return f" ... ({left_out} characters left out) ... ".join(ends)


def _sendable(text: str) -> str:
    """With a replacement for lone surrogates, which stand for file names that are no UTF-8."""
    return text if _is_sendable(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _is_sendable(text: str) -> bool:
    """JSON cannot carry lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
