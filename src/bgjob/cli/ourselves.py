"""Who we are, as the record of a job says who started it."""

import contextlib
import os

from bgjob import __version__
from bgjob.system.own_user import own_user


def ourselves() -> dict[str, str]:
    by = {"client": "bgjob", "version": __version__}
    if terminal := own_terminal():
        by["tty"] = terminal
    with contextlib.suppress(OSError):  # deleted
        by["cwd"] = os.getcwd()
    return by


def own_terminal() -> str | None:
    for descriptor in (2, 1, 0):
        with contextlib.suppress(OSError):
            return os.ttyname(descriptor)
    return None


def own_name() -> str:
    """Who we are, as others are told: the user and the terminal."""
    user, terminal = own_user(), own_terminal()
    return f"{user} at {terminal.removeprefix('/dev/')}" if terminal else user
