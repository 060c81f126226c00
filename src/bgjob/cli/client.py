"""`bgjob client`: make bgjob known to an MCP client, by the client's own command where it has one."""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping

from bgjob.cli import client_check, client_remove, streams, verbs
from bgjob.cli.arguments import variable
from bgjob.cli.streams import say
from bgjob.clients.command import Server, check_that_it_stays, own_command
from bgjob.clients.hooks import HOOKS
from bgjob.clients.plugin import installed_plugin
from bgjob.clients.run import program_of, run_client
from bgjob.clients.settings_file import CannotEdit
from bgjob.clients.shown import shown_entry, shown_program
from bgjob.clients.table import CLIENTS, Client, Entry, command_of, configured, variables_of
from bgjob.core.errors import BgjobError, InvalidArgument

WRONG_USAGE = 2
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--name", default="bgjob", metavar="N", help="what the client calls it (default: bgjob)"
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        type=variable,
        metavar="NAME=VALUE",
        help="a setting or another variable for the server; may be repeated",
    )
    parser.add_argument("--print", action="store_true", help="only print what would be run, or put where")
    parser.add_argument(
        "--hooks", action="store_true", help="with add: the hooks too by which it tells the model of ends"
    )
    parser.add_argument(
        "action",
        choices=("add", "remove", "list", "check"),
        help="list shows which are installed, and have it; check starts it as each of them does",
    )
    parser.add_argument("client", nargs="?", choices=verbs.CLIENTS, help="which client (list, check: all)")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    if not NAME.fullmatch(options.name):
        raise InvalidArgument(
            f" {options.name!r} is not accepted.",
            "Use up to 64 letters, digits, - and _, the first no -.",
            argument="name",
        )
    words = [options.client] if options.client else list(CLIENTS)
    if options.action == "list":
        return _list(words, options.name, environ)
    if options.action == "check":
        return client_check.check(words, options.name, environ)
    if options.client is None:
        streams.complain(f"client {options.action} needs the client: one of {', '.join(CLIENTS)}.")
        return WRONG_USAGE
    if options.action == "remove":
        return client_remove.remove(options.client, options.name, environ, only_print=options.print)
    server = Server(options.name, own_command(sys.argv[0], sys.executable), dict(options.env))
    return _add_all(options.client, server, environ, options)


def _list(words: list[str], name: str, environ: Mapping[str, str]) -> int:
    rows = [("CLIENT", "PROGRAM", name.upper())]
    for word in words:
        found = configured(CLIENTS[word], name, environ)
        program = program_of(CLIENTS[word], environ) or "not found"
        rows.append((word, program, f"in {found[0]}" if found else "-"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _add_all(word: str, server: Server, environ: Mapping[str, str], options: argparse.Namespace) -> int:
    if options.hooks and word not in HOOKS:
        raise InvalidArgument(
            f" is not for {CLIENTS[word].title}: bgjob knows no hooks of it.",
            f"It can be used with {', '.join(HOOKS)}.",
            argument="hooks",
        )
    check_that_it_stays(server)
    if options.print:
        _say_what_to_do(CLIENTS[word], server, environ)
        if options.hooks:
            _say_which_hooks(word, server, environ)
        return 0
    if word == "claude" and (plugin := installed_plugin(environ)):
        say(f"Claude Code has bgjob already, with its hooks, by its plugin {plugin[0]}")
        return 0
    return _add(CLIENTS[word], server, environ) or (_add_hooks(word, server, environ) if options.hooks else 0)


def _add(client: Client, server: Server, environ: Mapping[str, str]) -> int:
    if found := configured(client, server.name, environ):
        _check_that_it_is_ours(client, server, *found)
        say(f"{client.title} has {server.name} already, in {found[0]}")
        return 0
    if not client.add:
        _say_what_to_do(client, server, environ)
        return 0
    if problem := run_client(client, client.add(server), environ) or _problem_afterwards(
        client, server, environ
    ):
        _say_what_to_do(client, server, environ)
        streams.complain(f"{problem} What to do by hand is printed above.")
        return 1
    where = f", in {now[0]}" if (now := configured(client, server.name, environ)) else ""
    streams.tell(f"{client.title} has {server.name} now{where}", done=f"{server.name} was added")
    return 0


def _add_hooks(word: str, server: Server, environ: Mapping[str, str]) -> int:
    hooks, title = HOOKS[word], CLIENTS[word].title
    try:
        is_new = hooks.add(server, environ)
    except CannotEdit as problem:
        _say_which_hooks(word, server, environ)
        streams.complain(f"{problem} What to add by hand is printed above.")
        return 1
    streams.tell(
        f"{title} has the hooks {'now' if is_new else 'already'}, in {hooks.path(environ)}",
        done="the hooks were added",
    )
    if is_new and hooks.then:
        say(hooks.then)
    return 0


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
    """Without arguments and the values of variables: they may be secrets."""
    if command_of(entry) != list(server.command):
        is_same_program = shown_program(command_of(entry)) == shown_program(server.command)
        return f"it {shown_entry(entry)}" + (" with other arguments" if is_same_program else "")
    return None if variables_of(entry) == dict(server.env) else "it has other variables"


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


def _say_which_hooks(word: str, server: Server, environ: Mapping[str, str]) -> None:
    hooks = HOOKS[word]
    say(
        f"{CLIENTS[word].title}: for its hooks put this into {hooks.path(environ)}\n\n{hooks.by_hand(server)}"
    )
    if hooks.then:
        say(f"\n{hooks.then}")
