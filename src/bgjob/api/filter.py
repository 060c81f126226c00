"""Which jobs a person asks for: all words must fit.

    text            is in its id, name, command, directory, or in who started it
    name=TEXT       likewise of its name alone; also id, command, cwd, by, session, group
    status=WORD     queued, running, completed, failed or killed
    target=NAME     of this target; local: of this machine

A path for cwd means that directory and all below it. Upper and lower case are alike.
"""

import os
from collections.abc import Callable, Sequence
from typing import get_args

from bgjob.core.errors import InvalidArgument
from bgjob.core.job import LOCAL, Job, StatusWord, status_word

Matches = Callable[[Job], bool]


def started_by(job: Job) -> str:
    """Who started the job, in a few words: the client, and the terminal or session it was in."""
    by = job.spec.by
    client = "cli" if by.get("client") == "bgjob" else by.get("client", "")
    session = by.get("session", "")
    named = "" if session.startswith("process ") else session[:8]  # of others the client's own process is it
    return " ".join(filter(None, (client, by.get("tty", "").removeprefix("/dev/") or named)))


FIELDS: dict[str, Callable[[Job], str]] = {
    "id": lambda job: job.id,
    "name": lambda job: job.spec.name or "",
    "command": lambda job: job.spec.command,
    "cwd": lambda job: job.spec.cwd,
    "by": started_by,
    "session": lambda job: job.spec.by.get("session", ""),
    "group": lambda job: job.spec.group or "",
}
ANYWHERE = ("id", "name", "command", "cwd", "by")


def job_filter(words: Sequence[str]) -> Matches:
    """InvalidArgument: a word names a field or a status that there is not."""
    tests = [_test(word) for word in words]
    return lambda job: all(test(job) for test in tests)


def _test(word: str) -> Matches:
    field, equals, value = word.partition("=")
    if equals and field == "status":
        if value not in get_args(StatusWord):
            known = ", ".join(get_args(StatusWord))
            raise InvalidArgument(f"={word!r} is no status. Accepted: {known}.", argument="filter")
        return lambda job: status_word(job.state) == value
    if equals and field == "target":
        return lambda job: (job.spec.target or LOCAL) == value
    if equals and field == "cwd" and value.startswith((".", "/", "~")):
        return _is_below(os.path.realpath(os.path.expanduser(value)))
    if equals and field in FIELDS:
        return lambda job: value.lower() in FIELDS[field](job).lower()
    return lambda job: any(word.lower() in FIELDS[each](job).lower() for each in ANYWHERE)


def _is_below(directory: str) -> Matches:
    return lambda job: f"{os.path.realpath(job.spec.cwd)}/".startswith(f"{directory.rstrip('/')}/")
