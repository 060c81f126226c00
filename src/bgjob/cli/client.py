"""`bgjob client`: make bgjob known to an MCP client, by the client's own command where it has one."""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping

from bgjob.cli import streams
from bgjob.cli.client_table import (
    CLIENTS,
    Client,
    Entry,
    Server,
    command_of,
    configured,
    variables_of,
)
from bgjob.cli.streams import say
from bgjob.core.errors import BgjobError, InvalidArgument

RUN_S = 120
WRONG_USAGE = 2
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
# where uvx and `pipx run` keep what they install for one run
PASSING = re.compile(r"/uv/(archive|environments)-v\d+/|/pipx/(\.cache/)?[0-9a-f]{15}/")


def act(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    if not NAME.fullmatch(options.name):
        raise InvalidArgument(
            f" {options.name!r} is not accepted.",
            "Use up to 64 letters, digits, - and _, the first no -.",
            argument="name",
        )
    if options.action == "list":
        return _list([options.client] if options.client else list(CLIENTS), options.name, environ)
    if options.client is None:
        streams.complain(f"client add needs the client: one of {', '.join(CLIENTS)}.")
        return WRONG_USAGE
    server = Server(options.name, own_command(sys.argv[0], sys.executable), dict(options.env))
    return _add(CLIENTS[options.client], server, environ, only_print=options.print)


def own_command(script: str, python: str) -> list[str]:
    """How a client starts this bgjob: by absolute paths, because a client has a PATH of its own."""
    for path in (os.path.abspath(script), os.path.join(os.path.dirname(python), "bgjob")):
        if os.path.basename(path) == "bgjob" and os.path.isfile(path) and os.access(path, os.X_OK):
            return [path, "mcp"]
    return [python, "-m", "bgjob", "mcp"]


def _list(words: list[str], name: str, environ: Mapping[str, str]) -> int:
    rows = [("CLIENT", "PROGRAM", name.upper())]
    for word in words:
        found = configured(CLIENTS[word], name, environ)
        program = shutil.which(CLIENTS[word].program, path=environ.get("PATH")) or "not found"
        rows.append((word, program, f"in {found[0]}" if found else "-"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _add(client: Client, server: Server, environ: Mapping[str, str], *, only_print: bool) -> int:
    _check_that_it_stays(server)
    if only_print:
        _say_what_to_do(client, server, environ)
        return 0
    if found := configured(client, server.name, environ):
        _check_that_it_is_ours(client, server, *found)
        say(f"{client.title} has {server.name} already, in {found[0]}")
        return 0
    if not client.add:
        _say_what_to_do(client, server, environ)
        return 0
    if problem := _run(client, server, environ):
        _say_what_to_do(client, server, environ)
        streams.complain(f"{problem} What to do by hand is printed above.")
        return 1
    where = f", in {now[0]}" if (now := configured(client, server.name, environ)) else ""
    streams.tell(f"{client.title} has {server.name} now{where}", done=f"{server.name} was added")
    return 0


def _check_that_it_stays(server: Server) -> None:
    if PASSING.search(server.command[0]):
        raise BgjobError(
            f"This bgjob is installed for this run only, in {server.command[0]}: a client would not find it for long.",
            "Install it, e.g. by uv tool install bgjob, and call again.",
        )


def _check_that_it_is_ours(client: Client, server: Server, path: str, entry: Entry) -> None:
    difference = _difference(entry, server)
    if not difference:
        return
    remove = f"by {client.remove} {server.name}" if client.remove else f"from {path}"
    raise BgjobError(
        f"{client.title} has another server called {server.name}, in {path}: {difference}.",
        f"Remove it {remove} and call again, or choose another --name.",
    )


def _difference(entry: Entry, server: Server) -> str | None:
    """Without the values of variables: they may be secrets."""
    if command_of(entry) != list(server.command):
        return f"it runs {shlex.join(command_of(entry))}"
    return None if variables_of(entry) == dict(server.env) else "it has other variables"


def _run(client: Client, server: Server, environ: Mapping[str, str]) -> str | None:
    """What went wrong, if anything."""
    assert client.add
    program = shutil.which(client.program, path=environ.get("PATH"))
    if program is None:
        return f"{client.title} is not installed: there is no {client.program} on PATH."
    try:
        done = _ended([program, *client.add(server)], environ.get("HOME", ""))
    except subprocess.TimeoutExpired:
        return f"{client.program} did not end within {RUN_S} seconds, and was killed."
    except OSError as problem:
        return f"{program} could not be run: {problem.strerror}."
    if done.returncode:
        return f"{client.program} failed with exit code {done.returncode}: {done.stdout.strip()[:1000]}"
    return _problem_afterwards(client, server, environ)


def _ended(command: list[str], home: str) -> subprocess.CompletedProcess[str]:
    """In the home: some clients change the files of a project that they are run in."""
    return subprocess.run(
        command,
        cwd=home if os.path.isdir(home) else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        timeout=RUN_S,
        check=False,
    )


def _problem_afterwards(client: Client, server: Server, environ: Mapping[str, str]) -> str | None:
    """An exit code of 0 is not enough: a client may have asked a question, and taken no answer for one."""
    found = configured(client, server.name, environ)
    if found and (difference := _difference(found[1], server)):
        return f"{client.program} added {server.name}, but {difference} in {found[0]}."
    if not found and client.tells_its_file:
        return f"{client.program} said nothing of an error, but {client.paths(environ)[-1]} has no {server.name}."
    return None


def _say_what_to_do(client: Client, server: Server, environ: Mapping[str, str]) -> None:
    say("\n".join(_what_to_do(client, server, environ)))


def _what_to_do(client: Client, server: Server, environ: Mapping[str, str]) -> Iterator[str]:
    if client.add:
        yield f"{client.title}: run"
        yield ""
        yield f"  {shlex.join([client.program, *client.add(server)])}"
        yield ""
    path = next(filter(os.path.exists, client.paths(environ)), client.paths(environ)[-1])
    yield f"{'or' if client.add else f'{client.title}:'} put this into {path}"
    yield ""
    yield client.configuration(server)
