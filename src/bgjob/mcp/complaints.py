"""What is wrong with arguments, in words that a model can act on."""

import json
from collections.abc import Iterator, Mapping, Sequence

from bgjob.mcp.arguments import Problem, Schema

SHOWN_CHARACTERS = 80
MOST_COMPLAINTS = 5
PLAIN_WORDS = {"boolean": "true or false", "object": "an object", "string": "text"}


def complaints(tool: str, schema: Schema, problems: Sequence[Problem]) -> Iterator[str]:
    """One line per problem: which argument, what was given, what is accepted. Of very many, the first."""
    properties = schema.get("properties", {})
    for problem in problems[:MOST_COMPLAINTS]:
        yield _complaint(tool, properties, problem)
    if len(problems) > MOST_COMPLAINTS:
        yield f"And {len(problems) - MOST_COMPLAINTS} more problems like these."


def _complaint(tool: str, properties: Mapping[str, Schema], problem: Problem) -> str:
    place = shown(".".join(problem.place)) or '""'
    argument, *inside = problem.place
    if problem.kind == "unknown":
        taker, taken = (argument, properties[argument]["properties"]) if inside else (tool, properties)
        return f"Unknown argument {place}: {taker} takes {', '.join(taken) or 'no arguments'}."
    accepted = in_words(_inside(properties[argument], inside))
    if problem.kind == "missing":
        return f"Missing argument {place}: give {accepted}."
    return f"Invalid argument {place}={shown_json(problem.given)}: give {accepted}."


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
    try:
        return shown(json.dumps(value, ensure_ascii=False, default=repr))
    except RecursionError:
        return "(nested too deep)"
