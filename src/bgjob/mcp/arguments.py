"""Arguments as clients and models send them, made into what the schema says. What cannot be is told, all at once.

As forgiving as models are sloppy: "50" is a number, 3000 is a text where env wants one, null is an argument
that was not given. Some clients send lists and objects as JSON text, and models write one id where a list of
them is taken.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

Schema = Mapping[str, Any]
ONE, SEVERAL = "job_id", "job_ids"
YES = frozenset({"1", "on", "t", "true", "y", "yes"})
NO = frozenset({"0", "off", "f", "false", "n", "no"})
WHOLE = re.compile(r"\s*(?P<digits>[+-]?[0-9]+(_[0-9]+)*)(\.0+)?\s*")
LONGEST_NUMBER = 4000
"""Of a number in text. Of some more digits Python reads none."""
FLOAT_END = 2.0**63
"""From here on a float is no whole number that anybody meant."""


Place = tuple[str, ...]


class Problem(NamedTuple):
    place: Place
    """The argument, and then the member or the item of it."""
    kind: Literal["missing", "unknown", "invalid"]
    given: Any = None


def checked(given: Mapping[str, Any], schema: Schema) -> tuple[dict[str, Any], list[Problem]]:
    """The arguments as the schema wants them, and all that is wrong with them."""
    check = _Check()
    return check.members(given, schema, ()), check.problems


# -- what models mean --------------------------------------------------------------------------------


def tidied(given: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """Under the names that are taken, unpacked where they came as JSON text, without what is null."""
    required, properties = schema.get("required", ()), schema.get("properties", {})
    return {
        name: unpacked(value, properties.get(name, {}))
        for name, value in renamed(given, properties).items()
        if value is not None or name in required
    }


def renamed(given: Mapping[str, Any], properties: Mapping[str, Schema]) -> dict[str, Any]:
    """`job_id` where `job_ids` is taken, and `job_ids` of one where it is `job_id`."""
    match given:
        case {"job_id": one, **others} if SEVERAL in properties and SEVERAL not in given:
            return {SEVERAL: one, **others}
        case {"job_ids": [one], **others} | {"job_ids": str(one), **others} if (
            ONE in properties and SEVERAL not in properties and ONE not in given
        ):
            return {ONE: one, **others}
        case {"job_id": [one], **others} if ONE in properties:
            return {ONE: one, **others}
        case _:
            return dict(given)


def unpacked(value: Any, schema: Schema) -> Any:
    """A list or an object that came as JSON text; a list of one where it came alone."""
    if isinstance(value, str):
        value = _from_json(value, {"array": list, "object": dict}, _types(schema))
    is_alone = isinstance(value, str | int | float) and not isinstance(value, bool)
    return [value] if is_alone and schema.get("type") == "array" else value


def _types(schema: Schema) -> set[str]:
    choices = schema.get("anyOf", [schema])
    return {choice.get("type", "") for choice in choices}


def _from_json(text: str, classes: Mapping[str, type], accepted: set[str]) -> Any:
    wanted = tuple(classes[name] for name in accepted if name in classes)
    if wanted and text.lstrip()[:1] in ("[", "{"):
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
            return value if isinstance(value, wanted) else text
    return text


# -- what the schema says ----------------------------------------------------------------------------


class _Check:
    """Goes through what was given and collects the problems; a value with a problem is as it was given."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def members(self, given: Mapping[str, Any], schema: Schema, place: Place) -> dict[str, Any]:
        properties = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in given:
                self.problems.append(Problem((*place, name), "missing"))
        for name in given:
            if name not in properties:
                self.problems.append(Problem((*place, name), "unknown"))
        return {
            name: self._value(value, properties[name], (*place, name))
            for name, value in given.items()
            if name in properties
        }

    def _value(self, given: Any, schema: Schema, place: Place) -> Any:
        match schema:
            case {"anyOf": choices}:
                return self._one_of(given, choices, place)
            case {"enum": words}:
                return self._accept(given if given in words else None, given, place)
            case {"type": "object"}:
                return self._object(given, schema, place)
            case {"type": "array"}:
                return self._array(given, schema, place)
            case {"type": kind}:
                value = SCALARS[kind](given)
                return self._accept(value if _is_within(value, schema) else None, given, place)
            case _:
                return given

    def _accept(self, value: Any, given: Any, place: Place) -> Any:
        """`value` is None: what was given cannot be accepted."""
        if value is None:
            self.problems.append(Problem(place, "invalid", given))
        return given if value is None else value

    def _one_of(self, given: Any, choices: Sequence[Schema], place: Place) -> Any:
        """What it is already comes before what it could be made into."""
        is_of = {"object": dict, "array": list, "string": str}
        fitting = [each for each in choices if isinstance(given, is_of.get(each.get("type", ""), ()))]
        for choice in fitting or choices:
            attempt = _Check()
            value = attempt._value(given, choice, place)
            if not attempt.problems or fitting:
                self.problems += attempt.problems
                return value
        return self._accept(None, given, place)

    def _array(self, given: Any, schema: Schema, place: Place) -> Any:
        if not isinstance(given, list):
            return self._accept(None, given, place)
        items = schema.get("items", {})
        return [self._value(each, items, (*place, str(number))) for number, each in enumerate(given)]

    def _object(self, given: Any, schema: Schema, place: Place) -> Any:
        if not isinstance(given, dict):
            return self._accept(None, given, place)
        if "properties" in schema:
            return self.members(_without_nulls(given), schema, place)
        values = schema.get("additionalProperties")
        if not isinstance(values, dict):
            return given
        return {name: self._value(value, values, (*place, name)) for name, value in given.items()}


def _without_nulls(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _text(given: Any) -> str | None:
    if isinstance(given, str):
        return given
    return str(given) if isinstance(given, int | float) and not isinstance(given, bool) else None


def _whole(given: Any) -> int | None:
    if isinstance(given, int):
        return int(given)
    if isinstance(given, float):
        return int(given) if given.is_integer() and abs(given) < FLOAT_END else None
    if isinstance(given, str) and len(given) <= LONGEST_NUMBER and (read := WHOLE.fullmatch(given)):
        return int(read["digits"])
    return None


def _number(given: Any) -> float | None:
    if not isinstance(given, int | float | str) or (isinstance(given, str) and not given.strip().isascii()):
        return None
    with suppress(ValueError, OverflowError):
        number = float(given)
        return number if math.isfinite(number) else None
    return None


def _switch(given: Any) -> bool | None:
    if isinstance(given, str):
        return True if given.lower() in YES else False if given.lower() in NO else None
    return bool(given) if isinstance(given, int | float) and given in (0, 1) else None


SCALARS: Mapping[str, Callable[[Any], Any]] = {
    "string": _text,
    "integer": _whole,
    "number": _number,
    "boolean": _switch,
}


def _is_within(value: Any, schema: Schema) -> bool:
    if not isinstance(value, int | float):
        return True
    lowest, highest = schema.get("minimum", value), schema.get("maximum", value)
    return bool(lowest <= value <= highest and value > schema.get("exclusiveMinimum", -math.inf))
