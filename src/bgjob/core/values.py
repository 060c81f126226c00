"""Values of settings and options, from text or numbers. A parser raises ValueError.

A number in text has ASCII digits only, and few enough that nothing overflows: no exponent, underscore, nan or
inf. White space around a number is accepted, as in the reference.
"""

import re
from collections.abc import Callable
from typing import NoReturn

from bgjob.core.late_pattern import late_pattern

KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4
DAY_S = 86_400
TEN_YEARS_S = 10 * 365 * DAY_S

_NUMBER = late_pattern(r"\s*(-?[0-9]{1,15}(?:\.[0-9]{1,9})?)\s*", re.ASCII)
_SIZE = late_pattern(r"\s*([0-9]{1,15})\s*(?:B|([KMG])(?:i?B)?)?\s*", re.IGNORECASE | re.ASCII)
_DURATION = late_pattern(r"(?:[0-9]{1,9}(?:\.[0-9]{1,3})?[smhdw])+", re.ASCII)
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": DAY_S, "w": 7 * DAY_S}
_UNIT_BYTES = {"": 1, "K": KIB, "M": MIB, "G": GIB}
_SWITCH: dict[object, bool] = {"on": True, "off": False, True: True, False: False}


def number(low: float, high: float) -> Callable[[object], float]:
    return lambda value: float(_within(low, _number(value), high))


def positive(high: float) -> Callable[[object], float]:
    return lambda value: number(0, high)(value) or _refuse()


def whole(low: int, high: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        found = _within(low, _number(value), high)
        return int(found) if found == int(found) else _refuse()

    return parse


def size(low: int, high: int) -> Callable[[object], int]:
    """Bytes, of a number or of a text such as 10MB."""

    def parse(value: object) -> int:
        if not isinstance(value, str):
            return whole(low, high)(value)
        digits, unit = _matched(_SIZE, value).groups(default="")
        return int(_within(low, int(digits) * _UNIT_BYTES[unit.upper()], high))

    return parse


def duration(value: object) -> float:
    """Seconds, of a number or of a text such as 10s, 30m, 8h, 2d or 1h30m."""
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        return number(0, TEN_YEARS_S)(value)
    parts = re.findall(r"([0-9.]+)([a-z])", value)
    return float(_within(0, sum(float(digits) * _UNIT_S[unit] for digits, unit in parts), TEN_YEARS_S))


def duration_words(seconds: float) -> str:
    """For a sentence: in its two largest units."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    return f"{minutes} min {int(seconds % 60)} s" if minutes < 60 else f"{hours} h {minutes % 60} min"


def or_none(parse: Callable[[object], float]) -> Callable[[object], float | None]:
    return lambda value: None if isinstance(value, str) and value.strip().lower() == "none" else parse(value)


def word(*words: str) -> Callable[[object], str]:
    return lambda value: value if isinstance(value, str) and value in words else _refuse()


def switch(value: object) -> bool:
    given = value.strip().lower() if isinstance(value, str) else value
    return _SWITCH[given] if given in _SWITCH else _refuse()


def label(value: object) -> str:
    """A name that may be a part of a file's name."""
    if not isinstance(value, str) or not 0 < len(value) <= 64:
        raise ValueError
    return value if value.replace("-", "").replace("_", "").isalnum() else _refuse()


def _number(value: object) -> float:
    if isinstance(value, str):
        return float(_matched(_NUMBER, value)[1])
    return _refuse() if isinstance(value, bool) or not isinstance(value, int | float) else value


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    return pattern.fullmatch(text) or _refuse()


def _within(low: float, value: float, high: float) -> float:
    return value if low <= value <= high else _refuse()


def _refuse() -> NoReturn:
    raise ValueError
