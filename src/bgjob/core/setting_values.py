"""Values of settings: from the text of an environment variable, or as the config file has them.

A parser raises ValueError; its message, where it has one, says more than what is accepted. Lists and tables of the
config file are taken as they are: a comma in an item of a list separates nothing.
"""

import re
from collections.abc import Mapping

from bgjob.core.errors import InvalidArgument
from bgjob.core.late_pattern import late_pattern
from bgjob.core.patterns import WholePattern, compile_whole
from bgjob.core.values import whole


def command(value: object) -> str | None:
    text = _text(value)
    if text and (not text.strip() or "\0" in text):
        raise ValueError
    return text or None


def path(value: object) -> str:
    text = _text(value)
    if not text.strip() or "\0" in text:
        raise ValueError
    return text


def pairs(value: object) -> Mapping[str, str]:
    """A table, or name=value with commas between them."""
    if isinstance(value, Mapping):
        return {name: _number_or_text(each) for name, each in value.items()}
    pieces = [piece.partition("=") for piece in _text(value).split(",")] if value else []
    if not all(equals and name.strip() and each.strip() for name, equals, each in pieces):
        raise ValueError("write name=value, with commas between")
    return {name.strip(): each.strip() for name, _, each in pieces}


def groups(value: object) -> Mapping[str, int]:
    return {name: whole(1, 1000)(each) for name, each in pairs(value).items()}


def globs(value: object) -> tuple[str, ...]:
    found = tuple(filter(None, (piece.strip() for piece in _items(value))))
    if not found or any(set("=, \t\n\0") & set(glob) for glob in found):
        raise ValueError
    return () if found == ("none",) else found


def patterns(value: object) -> tuple[WholePattern, ...]:
    if value == "":
        return ()
    pieces = [piece for piece in _items(value) if piece.strip()]
    if not pieces:
        raise ValueError(f"this value holds no pattern; {_how_to_allow_all(value)} to allow every command")
    compiled = _list_item if isinstance(value, list) else _piece_of_text
    return tuple(compiled(piece.lstrip()) for piece in pieces)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _number_or_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("each value is a number or a text")
    return str(value)


def _items(value: object) -> list[str]:
    return [_text(item) for item in value] if isinstance(value, list) else _text(value).split(",")


def _how_to_allow_all(value: object) -> str:
    """An empty list could be meant to allow nothing."""
    return "leave it out" if isinstance(value, list) else "leave it empty"


def _list_item(piece: str) -> WholePattern:
    try:
        return compile_whole(_with_word_end(piece))
    except InvalidArgument as problem:
        raise ValueError(str(problem)) from None


def _piece_of_text(piece: str) -> WholePattern:
    try:
        _check_braces(piece)
        return compile_whole(_with_word_end(piece))
    except InvalidArgument as problem:
        raise ValueError(
            rf"{problem} Every comma separates two patterns: for a comma inside one write \x2c, and for a{{1,2}} "
            "write aa?"
        ) from None


_ESCAPE_OR_CLASS = late_pattern(r"\\.|\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)


def _check_braces(piece: str) -> None:
    """A split `a{1,2}` leaves `a{1`, which RE2 takes for plain text: the author did not mean that."""
    outside = _ESCAPE_OR_CLASS.sub("", piece)
    if outside.count("{") != outside.count("}"):
        raise InvalidArgument(
            rf"pattern {piece!r} is not valid: unbalanced brace (a literal one is written \{{ or \}})."
        )


def _with_word_end(piece: str) -> str:
    """The reference strips patterns, so `^git ` matches `git` but also `github`: we keep the first only."""
    bare = piece.rstrip()
    return piece if bare == piece or bare.endswith("\\") else rf"{bare}(?:\s|$)"
