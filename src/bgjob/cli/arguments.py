"""Values of arguments, as argparse's `type`: the value, or an error that says what is accepted."""

import argparse
import os

from bgjob.core.values import duration


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


def seconds(text: str) -> float:
    try:
        return duration(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no duration. Accepted: seconds, or e.g. 30m, 8h, 2d"
        ) from None
