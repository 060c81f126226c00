"""A server as it is shown to a person: without what may be a secret of it, i.e. arguments, variables, most of a URL."""

import os
import re
import shlex
from collections.abc import Sequence
from urllib.parse import urlsplit

from bgjob.clients.command import without_env
from bgjob.clients.table import Entry, command_of, url_of

A_URL = "a URL that cannot be shown"


def shown_entry(entry: Entry) -> str:
    """As the end of a sentence about the server."""
    url = url_of(entry)
    return f"is at {shown_url(url)}" if url else f"runs {shown_program(command_of(entry))}"


def shown_program(command: Sequence[str]) -> str:
    """The program alone; behind `env NAME=VALUE`, the one that env runs."""
    own = [word for word in without_env(command)[:1] if not word.startswith("-")]
    (program,) = own or command[:1] or [""]
    if os.path.exists(program):
        return shlex.quote(program)
    # perhaps a whole command line, which should have been a list of words
    name, *more = re.split(r"[\s=]", program, maxsplit=1)
    return f"{shlex.quote(name)}{'…' if more else ''}"


def shown_url(url: str) -> str:
    """Scheme, host and port: a name, a password, a path or a query may open the door to any reader."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return A_URL
    if not (host and host.isprintable()):
        return A_URL
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")
