"""Values of arguments, as argparse's `type`: the value, or an error that says what is accepted."""

import argparse
import os
import re
import time

from bgjob.core.values import duration

TIMES = "10s, 30m, 8h, 2d, or a time such as 2026-07-28T12:30"


def pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, e.g. memory=2GB")
    return name, value


def variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals and name not in os.environ:
        raise argparse.ArgumentTypeError(f"{name!r} is not in your environment: give NAME=VALUE")
    return name, value if equals else os.environ[name]


def count(text: str) -> int:
    """From 1 on."""
    if not text.isdecimal() or (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number. Accepted: whole numbers from 1 on")
    return number


def count_or_none(text: str) -> int:
    """From 0 on."""
    return 0 if text == "0" else count(text)


def seconds(text: str) -> float:
    try:
        return duration(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no duration. Accepted: seconds, or e.g. 30m, 8h, 2d"
        ) from None


def moment(text: str) -> float:
    """Seconds since the epoch: so long ago, or at a time, which is local unless it says otherwise."""
    return _moment(text, TIMES)


def moment_or_cursor(text: str) -> float | str:
    """A cursor is what an answer or `bgjob events` gave: it stays as it is."""
    is_cursor = re.fullmatch(r"[0-9]+(?:[.-][0-9]+)?", text, re.ASCII)
    return text if is_cursor else _moment(text, f"{TIMES}, or a cursor")


def _moment(text: str, accepted: str) -> float:
    if re.fullmatch(r"[0-9.]+[a-z][0-9.a-z]*", text, re.ASCII):
        return time.time() - seconds(text)
    from datetime import datetime  # here: few commands need it

    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(f"{text!r} is no time. Accepted: {accepted}") from None


def port(text: str) -> int:
    """0: any."""
    if text == "any":
        return 0
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port. Accepted: 1 to 65535, or any")
    return int(text)


def condition(text: str) -> tuple[str, str | float | bool]:
    """What `run --until` waits for, by its name in the api."""
    kind, _, value = text.partition("=")
    if text == "input":
        return "for_input", True
    if kind in ("pattern", "stop-pattern") and value:
        return kind.replace("-", "_"), value
    if kind == "port" and value:
        return "port", port(value)
    if kind == "silence" and value:
        return "silence_s", seconds(value)
    raise argparse.ArgumentTypeError(
        f"{text!r} is no condition. Accepted: port=5173, pattern=RE, stop-pattern=RE, silence=3s, input"
    )
