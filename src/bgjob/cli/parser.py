"""What can be typed after `bgjob`. Only the parser of the command that was typed is built."""

import argparse
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from bgjob import __version__
from bgjob.cli.streams import say
from bgjob.cli.verbs import GROUPS, VERBS
from bgjob.output.tty_text import one_line

if TYPE_CHECKING:
    from types import ModuleType

    from _typeshed import SupportsWrite

USAGE = "bgjob [-h] [--version] [COMMAND ...]"
EPILOG = """\
Jobs live on disk and outlive whatever started them; every command, and every MCP server, works on the same
ones. ID may be the beginning of an id, or a name; without one, most commands mean the newest job. In a
terminal, bgjob alone shows the state of things.

  bgjob run --name tests -- pytest -x        start a job; its id is printed
  bgjob logs -f tests                        follow its output
  bgjob run -it -- python3                   start one and enter it; ctrl-] leaves it running
  bgjob client add claude --hooks            have an MCP client start the MCP server, bgjob mcp
  bgjob COMMAND --help                       more of a command

Exit codes: 0; 1 an error; 2 wrong usage; 74 the output cannot be written; 130 ctrl-c. With run --wait, run -f,
run -it, attach, logs -f and wait that of the job: 124 timed out, 128 + n ended by signal n, 125 bgjob failed.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(one_line(message))  # the message may repeat an argument, which may come from anywhere

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        if file is sys.stdout:
            say(message.removesuffix("\n"))  # argparse itself ignores that it cannot print
        else:
            super()._print_message(message, file)


def parse(arguments: list[str]) -> tuple["ModuleType", argparse.Namespace]:
    """The file of the command, and its options. SystemExit: the help was shown, or what is wrong."""
    arguments = [*arguments[1:2], "--help", *arguments[2:]] if arguments[:1] == ["help"] else arguments
    if not arguments or arguments[0] not in VERBS:
        _refuse(arguments)
    module, parser = parser_of(arguments[0])
    split = getattr(module, "split", None)  # where what follows is another program's
    own, command = split(parser, arguments[1:]) if split else (arguments[1:], None)
    options = parser.parse_args(own, argparse.Namespace(verb=arguments[0], command=command))
    return module, options


def parser_of(verb: str) -> tuple["ModuleType", argparse.ArgumentParser]:
    file, what = VERBS[verb]
    module = import_module(f"bgjob.cli.{file}")
    parser = _Parser(
        prog=f"bgjob {verb}",
        description=getattr(module, "DESCRIPTION", f"{what[0].upper()}{what[1:]}."),
        epilog=getattr(module, "EPILOG", None),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return module, parser


def all_parsers() -> Iterator[tuple[str, "ModuleType", argparse.ArgumentParser]]:
    """Of every command, for what is made from them: the man page, and the table of completion."""
    for verb in VERBS:
        yield verb, *parser_of(verb)


def help_text() -> str:
    return "\n".join(
        ["usage: " + USAGE, "", "Shell commands as durable background jobs.", *_list(), "", EPILOG]
    )


def _list() -> Iterator[str]:
    wide = max(map(len, VERBS))
    for heading, verbs in GROUPS.items():
        yield from ("", f"{heading}:")
        yield from (f"  {verb:{wide}}  {what}" for verb, (_, what) in verbs.items())


def _refuse(arguments: list[str]) -> NoReturn:
    """No command was typed, or none that there is."""
    top = _Parser(prog="bgjob", usage=USAGE, add_help=False)
    top.add_argument("-h", "--help", action="store_true")
    top.add_argument("--version", action="version", version=f"bgjob {__version__}")
    options, others = top.parse_known_args(arguments[:1])
    if options.help or not arguments:
        say(help_text().removesuffix("\n"))
        raise SystemExit(0)
    top.error(f"{others[0]!r} is no command.{_did_you_mean(others[0])} bgjob --help shows them all.")


def _did_you_mean(word: str) -> str:
    from difflib import get_close_matches  # here: only a typo needs it

    close = get_close_matches(word.lower(), VERBS, n=1)
    return f" Did you mean {close[0]}?" if close else ""
