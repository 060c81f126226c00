"""An answer as text: JSON, with each member on a line of its own.

Clients show a model either the structured answer or this text, and some cut or drop a line that is too long.
So a long output takes no id, status or exit code with it. What is short stays on one line.
"""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

LINE_CHARACTERS = 200

_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def as_text(answer: Mapping[str, Any]) -> str:
    members = (f"{_as_json(name)}:{_lines(value)}" for name, value in answer.items())
    return "{" + ",\n".join(members) + "}"


def _lines(value: Any) -> str:
    """Objects in a list are on lines of their own, and their members too if they are long."""
    if not isinstance(value, list) or not value or not isinstance(value[0], Mapping):
        return _as_json(value)
    return "[\n" + ",\n".join(map(_item, value)) + "]"


def _item(item: Mapping[str, Any]) -> str:
    if isinstance(item, Lasting):
        return item.text
    line = _as_json(item)
    return line if len(line) <= LINE_CHARACTERS else as_text(item)


class Lasting(dict[str, Any]):
    """An item that is in many answers, and is made into text once."""

    @cached_property
    def text(self) -> str:
        return _item({**self})
