"""The terms a job runs under, from what a caller or a setting says: limits, restarts, its place in the queue.

One table tells which there are, what each accepts, and under which key of the spec it is kept.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bgjob.core.config import parse_size
from bgjob.core.errors import InvalidArgument

MOST_SECONDS = 315_360_000.0  # ten years
MOST_PRIORITY = 1000
DEFAULT_RESTARTS, DEFAULT_BACKOFF_S = 5, 1.0


@dataclass(frozen=True)
class Term:
    accepted: str
    parse: Callable[[object], Any]
    """The value, or ValueError."""


def _size(value: object) -> int:
    if isinstance(value, str):
        return parse_size(value)
    return _whole(1024, 1 << 50)(value)


def _whole(low: int, high: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        number = float(value)  # type: ignore[arg-type]
        if isinstance(value, bool) or number != int(number) or not low <= number <= high:
            raise ValueError
        return int(number)

    return parse


def _seconds(low: float) -> Callable[[object], float]:
    def parse(value: object) -> float:
        number = float(value)  # type: ignore[arg-type]
        if isinstance(value, bool) or not low <= number <= MOST_SECONDS:
            raise ValueError
        return number

    return parse


def _word(*words: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError
        return value

    return parse


def _switch(value: object) -> int:
    """off: the tree is watched instead, as where no control group can be made."""
    words: dict[object, int] = {"on": 1, True: 1, "off": 0, False: 0}
    if value not in words:
        raise ValueError
    return words[value]


def _label(value: object) -> str:
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= 64
        or not value.replace("-", "").replace("_", "").isalnum()
    ):
        raise ValueError
    return value


SIZE = "a size such as 512MB or 2GB, or bytes, from 1KB"
LIMITS: Mapping[str, tuple[str, Term]] = {
    "memory": ("memory_bytes", Term(SIZE, _size)),
    "cpu_s": ("cpu_s", Term("seconds of CPU time, at least 1", _seconds(1.0))),
    "processes": ("processes", Term("a whole number from 1 to 1000000", _whole(1, 1_000_000))),
    "open_files": ("open_files", Term("a whole number from 8 to 1000000", _whole(8, 1_000_000))),
    "file_size": ("file_bytes", Term(SIZE, _size)),
    "silence_s": ("silence_s", Term("seconds without output, at least 0.1", _seconds(0.1))),
    "cgroup": ("cgroup", Term("on or off", _switch)),
}
OUTPUT: Mapping[str, Term] = {
    "output": Term(SIZE, _size),
    "on_output": Term("drop_oldest or stop", _word("drop_oldest", "stop")),
}
RESTART: Mapping[str, Term] = {
    "restart": Term("no, on-failure or always", _word("no", "on-failure", "always")),
    "max_restarts": Term("a whole number from 0 to 1000000", _whole(0, 1_000_000)),
    "backoff_s": Term("seconds from 0.01", _seconds(0.01)),
}
QUEUE: Mapping[str, Term] = {
    "after_policy": Term("success or any", _word("success", "any")),
    "delay_s": Term("seconds from 0", _seconds(0.0)),
    "priority": Term(
        f"a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}", _whole(-MOST_PRIORITY, MOST_PRIORITY)
    ),
    "group": Term("a name of letters, digits, - and _, at most 64", _label),
}
LIMIT_TERMS: Mapping[str, Term] = {**{name: term for name, (_, term) in LIMITS.items()}, **OUTPUT}
TERMS: Mapping[str, Term] = {**LIMIT_TERMS, **RESTART, **QUEUE}


def checked(options: Mapping[str, object], of: Mapping[str, Term] = TERMS) -> dict[str, Any]:
    """The values of these terms. What is not given, or null, has none."""
    return {name: _value(name, value, of) for name, value in options.items() if value is not None}


def _value(name: str, value: object, of: Mapping[str, Term]) -> Any:
    if name not in of:
        raise InvalidArgument(f"Unknown option {name[:40]!r}. Accepted: {', '.join(of)}.")
    try:
        return of[name].parse(value)
    except (ValueError, TypeError, OverflowError):
        raise InvalidArgument(
            f"={repr(value)[:60]} is not valid. Accepted: {of[name].accepted}.", argument=name
        ) from None


def limits_of(terms: Mapping[str, Any]) -> dict[str, float]:
    """As the spec keeps them."""
    return {kept_as: terms[name] for name, (kept_as, _) in LIMITS.items() if name in terms}


def limits_shown(limits: Mapping[str, float], stops_at_output: int | None) -> dict[str, float | str]:
    """As the caller gave them, of what the spec keeps."""
    shown: dict[str, float | str] = {
        name: limits[kept_as] for name, (kept_as, _) in LIMITS.items() if kept_as in limits
    }
    if "cgroup" in shown:
        shown["cgroup"] = "on" if shown["cgroup"] else "off"
    return shown if stops_at_output is None else {**shown, "output": stops_at_output, "on_output": "stop"}


def restart_of(terms: Mapping[str, Any]) -> dict[str, Any]:
    """As the spec keeps it."""
    if terms.get("restart", "no") == "no":
        return {}
    return {
        "policy": terms["restart"],
        "max": terms.get("max_restarts", DEFAULT_RESTARTS),
        "backoff_s": terms.get("backoff_s", DEFAULT_BACKOFF_S),
    }
