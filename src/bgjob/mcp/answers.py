"""An answer of a tool as the client gets it: as structured content, and as the same JSON in text.

Characters that cannot be seen are made visible, but in output, which the api has cleaned or the caller wants raw.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, dataclass_transform

from bgjob.mcp.answer_text import as_text
from bgjob.output.cleaner import without_hidden

ERROR_END_CHARACTERS = 1000


@dataclass_transform(kw_only_default=True)
class Answer:
    """The base of all answers. The annotations of a class are its fields.

    A dataclass to the type checker. A real one would slow the server's start, and a Frozen, which checks its
    fields, a list of a thousand jobs.
    """

    OUTPUT: ClassVar[frozenset[str]] = frozenset({"stdout", "stderr", "interleaved"})
    """Fields with a job's output."""
    LONG: ClassVar[frozenset[str]] = frozenset({"screen"})
    """Other fields that may be long. Both come after the short ones: clients cut the end of an answer."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)

    @classmethod
    @cache
    def _order(cls) -> tuple[str, ...]:
        """Of the bases, the fields of the last come first; what may be long is last of all."""
        names = [name for base in reversed(cls.__mro__) for name in getattr(base, "__annotations__", ())]
        last = cls.OUTPUT | cls.LONG
        return tuple(sorted(dict.fromkeys(names), key=last.__contains__))

    def as_dict(self) -> dict[str, Any]:
        """Without fields that are None."""
        own, output = vars(self), self.OUTPUT
        return {
            name: value if name in output else plain(value)
            for name in self._order()
            if (value := own.get(name)) is not None
        }


def plain(answer: Any) -> Any:
    """Answers as dicts; texts with their hidden characters made visible."""
    if isinstance(answer, str):
        is_plain = answer.isascii() and answer.isprintable()
        return answer if is_plain else without_hidden(_sendable(answer))
    if isinstance(answer, int | float):
        return answer
    if isinstance(answer, Answer):
        return answer.as_dict()
    if isinstance(answer, Mapping):
        return {plain(str(key)): plain(value) for key, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [plain(item) for item in answer]
    return answer


def success(answer: dict[str, Any]) -> dict[str, Any]:
    text = as_text(answer)
    if not _is_sendable(text):
        text = _sendable(text)
        answer = json.loads(text)
    return {"content": [{"type": "text", "text": text}], "structuredContent": answer, "isError": False}


def failure(message: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": plain(_short(message))}], "isError": True}


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
