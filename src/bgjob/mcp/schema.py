"""The schemas of a tool, derived from its signature and from the class of its answer.

At run time nothing is derived: tools.json has what `derived` returns, and a test derives it again. A dict in
an annotation has keywords for the schema: `Annotated[int, {"minimum": 1, "description": "Page size"}]`.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from bgjob.mcp.answers import Answer
from bgjob.mcp.registry import CALLER, UNLISTED, Registry, Tool
from bgjob.protocol.tasks import Task

Schema = dict[str, Any]

SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean"}
NO_DEFAULT = inspect.Parameter.empty


def derived(tools: Registry[Any]) -> dict[str, Any]:
    """What tools.json has: the list that clients get, and what each tool accepts."""
    return {
        "listed": [_listing(tool) for tool in tools.tools.values()],
        "accepts": {name: _accepted(tool.function) for name, tool in tools.tools.items()},
    }


def _listing(tool: Tool[Any]) -> Schema:
    hints = get_type_hints(tool.function, include_extras=True)
    return {
        "name": tool.name,
        "title": tool.title,
        "description": " ".join((inspect.getdoc(tool.function) or "").split()),
        "inputSchema": _listed(_accepted(tool.function)),
        "outputSchema": _listed(_schema(hints["return"])),
        "annotations": tool.annotations,
    }


def _listed(schema: Schema) -> Schema:
    """Without what is marked as unlisted: each mention costs every caller tokens."""
    schema = {key: _listed(value) if key == "items" else value for key, value in schema.items()}
    if "properties" not in schema:
        return schema
    shown = {name: _listed(each) for name, each in schema["properties"].items() if UNLISTED not in each}
    required = [name for name in schema.get("required", ()) if name in shown]
    return schema | {"properties": shown} | ({"required": required} if "required" in schema else {})


def _accepted(function: Callable[..., Any]) -> Schema:
    hints = get_type_hints(function, include_extras=True)
    _, *parameters = inspect.signature(function).parameters.values()
    members = [(each.name, hints[each.name], each.default) for each in parameters if each.name != CALLER]
    return _object(members)


def _schema(hint: Any) -> Schema:
    if get_origin(hint) is Annotated:
        plain, *extras = get_args(hint)
        keywords = [extra for extra in extras if isinstance(extra, Mapping)]
        return {key: value for part in (_schema(plain), *keywords) for key, value in part.items()}
    if get_origin(hint) is NotRequired:
        return _schema(get_args(hint)[0])
    if hint in SCALARS:
        return {"type": SCALARS[hint]}
    if hint is Any:
        return {}
    if is_typeddict(hint):
        return _of_typed_dict(hint)
    if isinstance(hint, type) and issubclass(hint, Answer):
        return _of_answer(hint)
    return _generic(get_origin(hint), get_args(hint))


def _generic(origin: Any, inner: tuple[Any, ...]) -> Schema:
    if origin is Literal:
        return {"type": "string", "enum": list(inner)}
    if origin in (list, Sequence):
        return {"type": "array", "items": _schema(inner[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _schema(inner[1]) or True}
    if origin in (UnionType, Union):
        choices = [_schema(each) for each in inner if each not in (NoneType, Task)]
        return choices[0] if len(choices) == 1 else {"anyOf": choices}
    raise TypeError(f"no schema is known for {origin} of {inner}")


def _of_typed_dict(hint: Any) -> Schema:
    hints, required = get_type_hints(hint, include_extras=True), hint.__required_keys__
    return _object((name, each, NO_DEFAULT if name in required else None) for name, each in hints.items())


def _of_answer(answer: type[Answer]) -> Schema:
    hints = get_type_hints(answer, include_extras=True)
    names = [name for base in reversed(answer.__mro__) for name in inspect.get_annotations(base)]
    return _object(
        (name, hints[name], getattr(answer, name, NO_DEFAULT))
        for name in dict.fromkeys(names)
        if get_origin(hints[name]) is not ClassVar
    )


def _object(members: Iterator[tuple[str, Any, Any]] | Sequence[tuple[str, Any, Any]]) -> Schema:
    """That an optional member may be null, and that it is off unless given, goes without saying."""
    members = list(members)
    properties = {name: _with_default(_schema(hint), default) for name, hint, default in members}
    required = [name for name, _, default in members if default is NO_DEFAULT]
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def _with_default(schema: Schema, default: Any) -> Schema:
    if default is NO_DEFAULT or not default:
        return schema
    return schema | {"default": default}
