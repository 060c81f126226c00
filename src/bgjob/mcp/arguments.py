"""Arguments as clients and models send them, made into what the schema says. What cannot be is left as it is.

Some clients send lists and objects as JSON text, and models write one id where a list of them is taken.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

Schema = Mapping[str, Any]
ONE, SEVERAL = "job_id", "job_ids"


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
