"""What can be typed after `bgjob`."""

import argparse
import os
import sys
from typing import TYPE_CHECKING, NoReturn, get_args

from bgjob import __version__
from bgjob.cli import notify, serve, token
from bgjob.cli.streams import say
from bgjob.core.job import StatusWord
from bgjob.core.options import LIMIT_OPTIONS
from bgjob.output.tty_text import one_line

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

# here and not from clients.table: every command, and every server, imports this file
CLIENTS = ("claude", "codex", "gemini", "opencode", "cursor", "vscode")
EPILOG = """\
Jobs live on disk and outlive whatever started them; every command, and every MCP server, works on the
same ones. ID may be the beginning of an id, or a name. The exit code is 1 for an error, 2 for wrong usage,
74 where the output cannot be written; for logs -f it is that of the job.

  bgjob run --name tests -- pytest -x        start a job; its id is printed
  bgjob logs -f tests                        follow its output
  bgjob mcp                                  serve MCP on stdin and stdout
  bgjob client add claude --hooks            have an MCP client start that server
  bgjob serve                                serve MCP over HTTP, for many clients
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(one_line(message))  # the message may repeat an argument, which may come from anywhere

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        if file is sys.stdout:
            say(message.removesuffix("\n"))  # argparse itself ignores that it cannot print
        else:
            super()._print_message(message, file)


def parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="bgjob",
        description="Shell commands as durable background jobs.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"bgjob {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    _add_run(commands)
    _add_looking(commands)
    _add_steering(commands)
    mcp = commands.add_parser("mcp", help="serve MCP on stdin and stdout")
    mcp.set_defaults(verb="mcp")
    _add_client(commands)
    _add_hook(commands)
    serve.add_parser(commands)
    token.add_parser(commands, _variable)
    notify.add_parser(commands, _pair)
    return parser


def _add_run(commands: "argparse._SubParsersAction[_Parser]") -> None:
    run = commands.add_parser("run", help="start a job and print its id")
    run.add_argument("--name", help="a name to find it by")
    run.add_argument("--cwd", help="where it runs (default: here)")
    run.add_argument(
        "--env",
        action="append",
        default=[],
        type=_variable,
        metavar="NAME=VALUE",
        help="a variable for it; NAME alone hands on yours. For secrets: all users can see commands, not variables",
    )
    run.add_argument("--timeout", type=float, metavar="S", help="stop it after so many seconds")
    run.add_argument(
        "--limit",
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=VALUE",
        help=f"what it may use, e.g. memory=2GB; one of {', '.join(LIMIT_OPTIONS)}",
    )
    run.add_argument(
        "--watch",
        action="append",
        metavar="PATTERN",
        help="each line that matches is an event; may be repeated",
    )
    run.add_argument(
        "--notify",
        metavar="WAYS",
        help="how you are told of it: off, or some of desktop, bell, webhook; see bgjob notify",
    )
    _add_queue_and_restart(run)
    run.add_argument(
        "command", nargs="+", metavar="CMD", help="one quoted shell command, or a program and its arguments"
    )
    run.set_defaults(verb="run")


def _add_queue_and_restart(run: argparse.ArgumentParser) -> None:
    run.add_argument("--queue", action="store_true", help="wait for a free slot instead of failing")
    run.add_argument("--after", action="append", metavar="ID", help="start it when this job has succeeded")
    run.add_argument("--after-any", action="store_true", help="... or ended in any way")
    run.add_argument("--delay", type=float, metavar="S", help="not before so many seconds")
    run.add_argument(
        "--priority", type=int, metavar="N", help="in the queue: higher starts first (default: 0)"
    )
    run.add_argument(
        "--group", metavar="NAME", help="of MCP_BG_GROUPS, which limits how many of it run at once"
    )
    run.add_argument(
        "--restart", choices=("no", "on-failure", "always"), help="run it again when it ends (default: no)"
    )
    run.add_argument("--max-restarts", type=int, metavar="N", help="at most so often (default: 5)")
    run.add_argument(
        "--backoff", type=float, metavar="S", help="first pause; doubles up to 60 s (default: 1)"
    )


def _add_looking(commands: "argparse._SubParsersAction[_Parser]") -> None:
    ps = commands.add_parser("ps", help="list jobs, newest first")
    ps.add_argument("--status", choices=get_args(StatusWord))
    ps.add_argument("--limit", type=_count, default=20, metavar="N", help="at most so many (default: 20)")
    ps.set_defaults(verb="ps")

    logs = commands.add_parser("logs", help="print what a job printed")
    logs.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="go on until the job ends; then exit as it did: with its exit code, 128 + its signal, else 1",
    )
    logs.add_argument(
        "--raw",
        action="store_true",
        help="to a terminal too its bytes as they are (default there: colours pass, what steers it is made visible)",
    )
    logs.add_argument("id", metavar="ID")
    logs.set_defaults(verb="logs")

    events = commands.add_parser("events", help="what happened to jobs, newest last")
    events.add_argument("-f", "--follow", action="store_true", help="go on, as it happens")
    events.add_argument("--since", metavar="CURSOR", help="what came after it (default: the newest events)")
    events.add_argument("ids", nargs="*", metavar="ID", help="of these jobs (default: of all)")
    events.set_defaults(verb="events")


def _add_steering(commands: "argparse._SubParsersAction[_Parser]") -> None:
    priority = commands.add_parser("priority", help="move a job within the queue")
    priority.add_argument("id", metavar="ID")
    priority.add_argument("priority", type=int, metavar="N", help="higher starts first; 0 is the default")
    priority.set_defaults(verb="priority")

    kill = commands.add_parser("kill", help="stop a job and everything it started")
    kill.add_argument(
        "--grace", type=float, default=5.0, metavar="S", help="seconds between the signal and SIGKILL"
    )
    kill.add_argument("--signal", default="TERM", metavar="NAME", help="the first signal (default: TERM)")
    kill.add_argument("id", metavar="ID", help="at least three characters of its id, or its name")
    kill.set_defaults(verb="kill")


def _add_client(commands: "argparse._SubParsersAction[_Parser]") -> None:
    client = commands.add_parser("client", help="add bgjob to an MCP client, remove it, check it")
    client.add_argument(
        "--name", default="bgjob", metavar="N", help="what the client calls it (default: bgjob)"
    )
    client.add_argument(
        "--env",
        action="append",
        default=[],
        type=_variable,
        metavar="NAME=VALUE",
        help="a setting or another variable for the server; may be repeated",
    )
    client.add_argument("--print", action="store_true", help="only print what would be run, or put where")
    client.add_argument(
        "--hooks", action="store_true", help="with add: the hooks too by which it tells the model of ends"
    )
    client.add_argument(
        "action",
        choices=("add", "remove", "list", "check"),
        help="list shows which are installed, and have it; check starts it as each of them does",
    )
    client.add_argument("client", nargs="?", choices=CLIENTS, help="which client (list, check: all)")
    client.set_defaults(verb="client")


HOOK = """\
Run by a client, not by hand: it reads the client's JSON on stdin, and answers in the client's form with the
jobs of the session that have ended and that the model has not been told of. It waits only for PostToolUse of
Claude Code and for opencode. Whatever goes wrong, it prints nothing and exits with 0. docs/hooks.md has the
configuration of each client.

  claude     SessionStart, UserPromptSubmit, Stop, PostToolUse (asyncRewake)
  codex      SessionStart, UserPromptSubmit, Stop, PostToolUse
  gemini     SessionStart, BeforeAgent, AfterAgent, AfterTool
  opencode   session.idle, wait
"""


def _add_hook(commands: "argparse._SubParsersAction[_Parser]") -> None:
    hook = commands.add_parser(
        "hook",
        help="for the hooks of a client: tell its model which jobs have ended",
        description=HOOK,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    hook.add_argument(
        "client", choices=CLIENTS[:4], metavar="CLIENT", help="claude, codex, gemini or opencode"
    )
    hook.add_argument("event", nargs="?", metavar="EVENT", help="default: hook_event_name of the JSON")
    hook.set_defaults(verb="hook")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, e.g. memory=2GB")
    return name, value


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals and name not in os.environ:
        raise argparse.ArgumentTypeError(f"{name!r} is not in your environment: give NAME=VALUE")
    return name, value if equals else os.environ[name]


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number
