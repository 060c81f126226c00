"""The parts of the documents that are made from the code: tools, options, settings and commands.

A part stands between two markers of its page: `<!-- NAME: generated … -->` and `<!-- /NAME -->`.
"""

import argparse
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bgjob.cli.parser import all_parsers
from bgjob.cli.verbs import VERBS
from bgjob.core.options import ALL_OPTIONS
from bgjob.mcp.tools import TOOLS

PROSE_COLUMNS = 110
FREE_TEXT = {"run": ["[--]", "CMD ..."], "send": ["[TEXT ... | -]"]}
"""What no parser of ours takes apart."""

Tool = Mapping[str, Any]


def with_section(page: str, name: str, text: str) -> str:
    """The page with this text between the markers of that name."""
    pattern = re.compile(rf"(<!-- {name}:.*?-->\n).*?(<!-- /{name} -->)", re.DOTALL)
    renewed, count = pattern.subn(lambda found: found[1] + text + found[2], page)
    assert count == 1, f"the page has no markers for {name}"
    return renewed


def tools_in_short() -> str:
    rows = ((f"`{tool['name']}`", first_clause(tool)) for tool in TOOLS.listing())
    return table(("tool", "what it does"), rows)


def tools_in_full() -> str:
    return "\n".join(map(tool_section, TOOLS.listing()))


def tool_section(tool: Tool) -> str:
    answer = wrapped(f"Answers: {fields(tool['outputSchema'])}.")
    return f"### `{tool['name']}`\n\n{wrapped(tool['description'])}\n{arguments(tool)}\n{answer}"


def arguments(tool: Tool) -> str:
    required = tool["inputSchema"].get("required", ())
    rows = (
        (f"`{name}`", "required" if name in required else default_of(schema), accepted(schema), about(schema))
        for name, schema in tool["inputSchema"]["properties"].items()
    )
    return table(("argument", "default", "accepted", "meaning"), rows)


def default_of(schema: Mapping[str, Any]) -> str:
    return f"`{json.dumps(schema['default']).strip(chr(34))}`" if "default" in schema else ""


def accepted(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    return " ".join([type_of(schema), *bounds(schema)])


def type_of(schema: Mapping[str, Any]) -> str:
    kinds = [each["type"] for each in schema.get("anyOf", [schema]) if each["type"] != "null"]
    items = f" of {schema['items']['type']}s" if "items" in schema else ""
    return " or ".join(kinds) + items


def bounds(schema: Mapping[str, Any]) -> Iterator[str]:
    if "minimum" in schema:
        yield f"from {schema['minimum']}"
    if "exclusiveMinimum" in schema:
        yield f"above {schema['exclusiveMinimum']}"
    if "maximum" in schema:
        yield f"to {schema['maximum']}"


def about(schema: Mapping[str, Any]) -> str:
    return str(schema.get("description", ""))


def fields(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    return ", ".join(
        f"`{name}`" + ("" if name in required else "?") + fields_of_items(each)
        for name, each in schema["properties"].items()
    )


def fields_of_items(schema: Mapping[str, Any]) -> str:
    return f" (each {fields(schema['items'])})" if "properties" in schema.get("items", {}) else ""


def first_clause(tool: Tool) -> str:
    return re.split(r"[.:;] ", tool["description"])[0]


def options() -> str:
    return table(
        ("option", "accepted"), ((f"`{name}`", option.accepted) for name, option in ALL_OPTIONS.items())
    )


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def wrapped(text: str) -> str:
    return textwrap.fill(text, PROSE_COLUMNS, break_long_words=False, break_on_hyphens=False) + "\n"


def commands() -> str:
    """Each command with its options, and below it what it does."""
    rows = (f"{usage(verb, parser)}\n{' ' * 10}{VERBS[verb][1]}" for verb, _, parser in all_parsers())
    return "\n".join(["```", *rows, "```", ""])


def usage(verb: str, parser: argparse.ArgumentParser) -> str:
    actions = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    words = [usage_of(action) for action in actions if action.help is not argparse.SUPPRESS]
    line = " ".join([f"bgjob {verb}", *words, *FREE_TEXT.get(verb, ())])
    unbroken = re.sub(r"\[[^]]*\]", lambda part: part[0].replace(" ", "\N{NO-BREAK SPACE}"), line)
    lines = textwrap.wrap(
        unbroken, PROSE_COLUMNS, subsequent_indent=" " * 10, break_on_hyphens=False, break_long_words=False
    )
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def usage_of(action: argparse.Action) -> str:
    value = str(action.metavar or "|".join(map(str, action.choices or ())) or action.dest.upper())
    if action.option_strings:
        takes_value = action.nargs != 0
        return f"[{' | '.join(action.option_strings)}{f' {value}' if takes_value else ''}]"
    if isinstance(action, argparse._SubParsersAction):
        value = "|".join(action.choices)
    shown = {"?": f"[{value}]", "*": f"[{value} ...]", "+": f"{value} ..."}
    return shown.get(str(action.nargs), value if action.required else f"[{value}]")
