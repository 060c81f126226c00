"""Arguments are accepted as pydantic accepts them, which many servers use: the same values, the same refusals.

Where the two differ, DIFFERENCES says why.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from bgjob.mcp.arguments import Schema, checked, tidied
from bgjob.mcp.tools import TOOLS

LAX = ConfigDict(extra="forbid", coerce_numbers_to_str=True, allow_inf_nan=False)
BOUNDS = {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt"}
SCALARS: dict[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool}

ACCEPTS: Mapping[str, Schema] = TOOLS.schemas["accepts"]


# -- the judge ------------------------------------------------------------------------------------------


def model_of(name: str, schema: Schema) -> type[BaseModel]:
    required = schema.get("required", ())
    fields: dict[str, Any] = {
        key: (hint_of(f"{name}_{key}", each) if key in required else hint_of(f"{name}_{key}", each) | None,
              ... if key in required else None)
        for key, each in schema.get("properties", {}).items()
    }  # fmt: skip
    model: type[BaseModel] = create_model(name, __config__=LAX, **fields)
    return model


def hint_of(name: str, schema: Schema) -> Any:
    bounds = {BOUNDS[key]: value for key, value in schema.items() if key in BOUNDS}
    match schema:
        case {"anyOf": [first, second]}:
            return hint_of(name, first) | hint_of(name, second)
        case {"enum": words}:
            return Literal[tuple(words)]
        case {"type": "array", "items": items}:
            return list[hint_of(name, items)]  # type: ignore[misc]
        case {"type": "object", "properties": _}:
            return model_of(name, schema)
        case {"type": "object", "additionalProperties": dict(values)}:
            return dict[str, hint_of(name, values)]  # type: ignore[misc]
        case {"type": "object"}:
            return dict[str, Any]
        case {"type": kind}:
            return Annotated[SCALARS[kind], Field(**bounds)]
        case _:
            return Any


MODELS = {name: model_of(name, schema) for name, schema in ACCEPTS.items()}
REFUSED = "refused"


def by_pydantic(tool: str, arguments: dict[str, Any]) -> Any:
    try:
        return MODELS[tool].model_validate(arguments).model_dump(exclude_unset=True)
    except ValidationError:
        return REFUSED


def by_us(tool: str, arguments: dict[str, Any]) -> Any:
    values, problems = checked(arguments, ACCEPTS[tool])
    return REFUSED if problems else values


# -- where they differ ----------------------------------------------------------------------------------

LONG = "8" * 4200
DIFFERENCES = {LONG: "pydantic reads numbers of up to 4,300 digits, and we of up to 4,000, as in JSON"}

# -- what is given --------------------------------------------------------------------------------------

WORDS = ["", "50", " 7 ", "-1", "+3", "007", "1.0", "1.", ".5", "1e3", "1_000", "1__0", "_1", "1_", "0x10", "nan",
         "inf", "-Infinity", "true", "True", "NO", "off", "y", "t", "2", "٣", "\u00a05", "new", "any", "[", "{",
         '["a"]', '{"a": 1}', "null", "9" * 500, "9" * 5000, "1.50", "1.0e0"]  # fmt: skip
NUMBERS = [0, 1, 2, -1, 0.0, 1.0, -0.0, 1.5, 24, 65535, 65536, 2**53, 2**63, 2**64, 10**30, 10**400, 1e16, 1e22, 1e300,
           1e-7, math.inf, -math.inf, math.nan]  # fmt: skip
SCALAR = st.one_of(
    st.none(), st.booleans(), st.sampled_from(WORDS), st.sampled_from(NUMBERS), st.integers(), st.floats(),
    st.text(max_size=6)
)  # fmt: skip
ANYTHING = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    tool = draw(st.sampled_from(sorted(ACCEPTS)))
    properties = ACCEPTS[tool].get("properties", {})
    names = draw(st.lists(st.sampled_from([*properties, "stray"]), max_size=5, unique=True))
    return tool, {name: draw(fitting(properties.get(name, {}))) for name in names}


def fitting(schema: Schema) -> st.SearchStrategy[Any]:
    """Often of the right shape, so that what is inside is looked at too."""
    match schema:
        case {"enum": words}:
            return st.sampled_from(words) | ANYTHING
        case {"type": "array", "items": items}:
            return st.lists(fitting(items), max_size=3) | ANYTHING
        case {"type": "object", "properties": members}:
            inside = st.fixed_dictionaries(
                {}, optional={name: fitting(each) for name, each in members.items()}
            )
            return inside | ANYTHING
        case {"type": "object"} | {"anyOf": _}:
            return st.dictionaries(st.text(max_size=4), ANYTHING, max_size=3) | ANYTHING
        case _:
            return ANYTHING


@given(calls())
@settings(max_examples=500)
@example(("wait_for_job", {"job_ids": ["a"], "for_input": []}))
@example(("wait_for_job", {"job_ids": ["a"], "for_input": {}}))
@example(("tail_job_output", {"job_id": "a", "lines": "1__0"}))
@example(("tail_job_output", {"job_id": "a", "lines": "1_"}))
def test_arguments_are_taken_as_pydantic_takes_them(call: tuple[str, dict[str, Any]]) -> None:
    tool, arguments = call
    tidy = tidied(arguments, ACCEPTS[tool])
    ours = by_us(tool, tidy)
    assert plainly(ours) == plainly(by_pydantic(tool, tidy))


def plainly(value: Any) -> Any:
    """A number has its type; NaN, in what takes anything, is itself; the order does not matter."""
    if isinstance(value, dict):
        return {name: plainly(each) for name, each in value.items()}
    return [plainly(each) for each in value] if isinstance(value, list) else repr(value)


@pytest.mark.parametrize("value", [*WORDS, *NUMBERS, True, False, [], {}], ids=lambda value: repr(value)[:30])
@pytest.mark.parametrize(
    ("tool", "argument"),
    [
        ("tail_job_output", "lines"),
        ("execute_command", "rows"),
        ("kill_job", "grace_s"),
        ("wait_for_job", "for_input"),
        ("kill_job", "signal"),
        ("list_jobs", "status"),
    ],
)
def test_each_odd_value_is_taken_as_pydantic_takes_it(tool: str, argument: str, value: Any) -> None:
    others = {name: ["x"] if name == "job_ids" else "x" for name in ACCEPTS[tool].get("required", ())}
    arguments = {**others, argument: value}
    ours, theirs = plainly(by_us(tool, arguments)), plainly(by_pydantic(tool, arguments))
    assert ours == theirs


@pytest.mark.parametrize("value", DIFFERENCES)
def test_what_is_said_to_differ_does_differ(value: str) -> None:
    arguments = {"command": "x", "rows": value}
    assert by_us("execute_command", arguments) != by_pydantic("execute_command", arguments)
