"""bgjob token: who may use `bgjob serve`, and what for."""

import argparse
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bgjob.api.context import checked_settings, open_context
from bgjob.api.spec import absolute
from bgjob.cli import streams
from bgjob.cli.arguments import variable
from bgjob.core.errors import InvalidArgument
from bgjob.core.scopes import SCOPES
from bgjob.store.config_file import read_config_file

if TYPE_CHECKING:
    from bgjob.web.tokens import Rules, Token, Tokens

SCOPES_SHOWN = "  ".join(f"{scope}: {meaning}." for scope, meaning in SCOPES.items())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    add = actions.add_parser("add", help="make a token and print it, this once", epilog=SCOPES_SHOWN)
    add.add_argument("name", metavar="NAME", help="to list and remove it by")
    add.add_argument(
        "--scope", action="append", choices=SCOPES, help="what it may do; may be repeated (default: all)"
    )
    add.add_argument("--cwd", metavar="DIR", help="where its jobs run (default: where the server runs)")
    add.add_argument(
        "--env",
        action="append",
        default=[],
        type=variable,
        metavar="NAME=VALUE",
        help="a variable for its jobs, or a setting, e.g. MCP_BG_ALLOWED_COMMANDS; NAME alone hands on yours",
    )
    actions.add_parser("list", help="list the tokens: their names, never themselves")
    actions.add_parser("remove", help="make a token invalid, also for servers that run").add_argument(
        "name", metavar="NAME"
    )


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from bgjob.web.tokens import Tokens

    actions = {"add": _add, "list": _list, "remove": _remove}
    actions[options.action](Tokens(open_context(environ, many=False).store.home), options, environ)
    return 0


def _add(tokens: "Tokens", options: argparse.Namespace, environ: Mapping[str, str]) -> None:
    streams.check_stdout()
    plain = tokens.add(options.name, options.scope or list(SCOPES), _rules(options, environ))
    streams.tell(plain, done=f"token {options.name} was added")
    streams.note("(shown only this once)")


def _rules(options: argparse.Namespace, environ: Mapping[str, str]) -> "Rules":
    """Checked now: at the server a bad value would be found by a client."""
    from bgjob.web.tokens import Rules, environment_under

    cwd = absolute(os.path.expanduser(options.cwd)) if options.cwd else None
    if cwd and not os.path.isdir(cwd):
        raise InvalidArgument(f" {cwd} is no directory.", "Give one that exists.", argument="cwd")
    if "BGJOB_HOME" in dict(options.env):
        raise InvalidArgument(
            " cannot set BGJOB_HOME: all tokens of a store are for its jobs.", argument="env"
        )
    rules = Rules(cwd, tuple(options.env))
    checked_settings(environment_under(rules, environ), read_config_file(environ))
    return rules


def _list(tokens: "Tokens", _options: argparse.Namespace, _environ: Mapping[str, str]) -> None:
    for token in tokens.all():
        streams.say(_row(token))
    if not tokens.all():
        streams.note("(none; bgjob serve makes the first)")


def _row(token: "Token") -> str:
    made = time.strftime("%F %T", time.localtime(token.created_at))
    scopes = ",".join(scope for scope in SCOPES if scope in token.scopes)
    rules = [f"cwd={token.rules.cwd}"] if token.rules.cwd else []
    rules += [f"env={name}" for name, _ in token.rules.env]
    return f"{token.name:20}  {scopes:14}  {made}  {' '.join(rules)}".rstrip()


def _remove(tokens: "Tokens", options: argparse.Namespace, _environ: Mapping[str, str]) -> None:
    tokens.remove(options.name)
    streams.tell(f"{options.name} removed", done=f"token {options.name} was removed")
