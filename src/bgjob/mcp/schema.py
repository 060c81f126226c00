"""Schemas as a model should see them, and complaints about arguments in words that it can act on."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

Schema = dict[str, Any]

SHOWN_CHARACTERS = 80
MOST_COMPLAINTS = 5
# an optional argument is off unless given; that an argument is unknown, the server says when it is given
GOES_WITHOUT_SAYING: list[tuple[str, object]] = [
    ("default", None),
    ("default", False),
    ("additionalProperties", False),
]
PLAIN_WORDS = {"boolean": "true or false", "object": "an object", "string": "text"}
UNLISTED = "unlisted"
"""Marks a field that the schema of an answer does not mention: each mention costs every caller tokens."""


def compact(schema: Schema) -> Schema:
    """The same schema without pydantic's noise: titles, references, nulls, the docstrings of our classes."""
    root = {key: value for key, value in schema.items() if key not in ("$defs", "description")}
    return _compact(root, schema.get("$defs", {}))


def listed(schema: Schema) -> Schema:
    """A compact schema without what is marked as unlisted."""
    if "properties" not in schema:
        return schema | {key: listed(schema[key]) for key in ("items",) if isinstance(schema.get(key), dict)}
    properties = {name: listed(each) for name, each in schema["properties"].items() if UNLISTED not in each}
    required = [name for name in schema.get("required", ()) if name in properties]
    return schema | {"properties": properties} | ({"required": required} if "required" in schema else {})


def _compact(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    essence = _resolved(_without_null(_resolved(schema, definitions)), definitions)
    essence = {key: essence[key] for key in ("type", *essence) if key in essence}
    return {
        key: _compact_part(key, value, definitions)
        for key, value in essence.items()
        if key != "title" and (key, value) not in GOES_WITHOUT_SAYING
    }


def _compact_part(key: str, value: Any, definitions: Mapping[str, Schema]) -> Any:
    match key, value:
        case "properties", dict():
            return {name: _compact(each, definitions) for name, each in value.items()}
        case "items" | "additionalProperties", dict():
            return _compact(value, definitions)
        case "anyOf", list():
            return [_compact(each, definitions) for each in value]
        case _:
            return value


def _resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    if "$ref" not in schema:
        return schema
    target = definitions[schema["$ref"].rsplit("/", 1)[-1]]
    essence = {key: value for key, value in target.items() if key != "description"} | schema
    return {key: value for key, value in essence.items() if key != "$ref"}


def _without_null(schema: Schema) -> Schema:
    """An optional argument is one that is not required; that it may also be null is not mentioned."""
    choices: list[Schema] = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) != 1:
        return schema
    return choices[0] | {key: value for key, value in schema.items() if key != "anyOf"}


def complaints(tool: str, schema: Schema, problems: ValidationError) -> Iterator[str]:
    """One line per problem: which argument, what was given, what is accepted. Of very many, the first."""
    properties = schema.get("properties", {})
    seen = {problem["loc"]: problem for problem in problems.errors(include_url=False)}
    for problem in list(seen.values())[:MOST_COMPLAINTS]:
        yield _complaint(tool, properties, problem)
    if len(seen) > MOST_COMPLAINTS:
        yield f"And {len(seen) - MOST_COMPLAINTS} more problems like these."


def _complaint(tool: str, properties: Mapping[str, Schema], problem: ErrorDetails) -> str:
    place = shown(".".join(str(step) for step in problem["loc"])) or '""'
    argument, *inside = map(str, problem["loc"])
    if problem["type"] == "extra_forbidden":
        taker, taken = (argument, properties[argument]["properties"]) if inside else (tool, properties)
        return f"Unknown argument {place}: {taker} takes {', '.join(taken) or 'no arguments'}."
    accepted = in_words(_inside(properties[argument], inside))
    if problem["type"] == "missing":
        return f"Missing argument {place}: give {accepted}."
    return f"Invalid argument {place}={shown_json(problem['input'])}: give {accepted}."


def _inside(schema: Schema, steps: Sequence[str]) -> Schema:
    """The schema of a member of an object or of an item of a list; else, as far as the schema goes."""
    for step in steps:
        match schema:
            case {"properties": dict(members)} if step in members:
                schema = members[step]
            case {"additionalProperties": dict(values)} | {"items": dict(values)}:
                schema = values
            case _:
                break
    return schema


def in_words(schema: Schema) -> str:
    """What a schema accepts, as one would say it."""
    match schema:
        case {"enum": words}:
            accepted = f"one of {', '.join(map(str, words))}"
        case {"type": "integer"}:
            accepted = f"a whole number{_range(schema)}"
        case {"type": "number"}:
            accepted = f"a number{_range(schema)}"
        case {"type": "array", "items": items}:
            accepted = f"a list, each item {in_words(items)}"
        case {"type": "object", "additionalProperties": dict(values)}:
            accepted = f"an object, each value {in_words(values)}"
        case {"type": "object", "properties": names}:
            accepted = f"an object with {', '.join(names)}"
        case {"anyOf": choices}:
            accepted = " or ".join(in_words(choice) for choice in choices)
        case _:
            accepted = PLAIN_WORDS.get(schema.get("type", ""), "a JSON value")
    return f"{accepted} (default {shown_json(schema['default'])})" if "default" in schema else accepted


def _range(schema: Schema) -> str:
    match schema:
        case {"minimum": low, "maximum": high}:
            return f" from {low} to {high}"
        case {"minimum": low}:
            return f" of at least {low}"
        case {"maximum": high}:
            return f" of at most {high}"
        case {"exclusiveMinimum": low}:
            return f" above {low}"
        case _:
            return ""


def shown(text: str) -> str:
    """A caller's text as it may be repeated to it: whole when sane, never kilobytes of it."""
    if len(text) <= SHOWN_CHARACTERS:
        return text
    return f"{text[:SHOWN_CHARACTERS]}... ({len(text)} characters)"


def shown_json(value: object) -> str:
    return shown(json.dumps(value, ensure_ascii=False, default=repr))
