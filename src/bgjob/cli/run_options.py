"""What can be typed after `bgjob run`: our own options, then the command of the job."""

import argparse

from bgjob.api.spec import SHELLS
from bgjob.cli.arguments import condition, pair, variable
from bgjob.core.options import LIMIT_OPTIONS

EPILOG = """\
CMD is one quoted text for the shell, or a program and its arguments. What begins with - behind its first word
is its own: bgjob run -f grep -r x . needs no --.

The id of the job is printed, but not with -f and -i, which show the job itself. Exit code: 0 the job was
started. With -f, --wait and -i that of the job; 124 it timed out, 128 + n signal n ended it, 125 it was lost or
could not be started, or bgjob itself failed. With --until: 0 it came true; if the job ended before, its exit
code, or 1 where that is 0. ctrl-c ends only the waiting, with 130: the job goes on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "bgjob run [OPTION ...] [--] CMD [ARGUMENT ...]"
    _add_how_to_stay(parser)
    parser.add_argument("--json", action="store_true", help="print the job as JSON in place of its id")
    parser.add_argument("--name", help="a name to find it by")
    parser.add_argument(
        "-t", "--pty", action="store_true", help="on a terminal of its own, of the size of this one"
    )
    parser.add_argument(
        "--stdin", choices=("open", "null"), help="open: can be typed into (default); null: is at its end"
    )
    parser.add_argument("--shell", metavar="NAME", help=f"one of {', '.join(SHELLS)} (default: bash)")
    parser.add_argument("--cwd", help="where it runs (default: here)")
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        type=variable,
        metavar="NAME=VALUE",
        help="a variable for it; NAME alone hands on yours. For secrets: all users can see commands, not variables",
    )
    parser.add_argument("--timeout", type=float, metavar="S", help="stop it after so many seconds")
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        type=pair,
        metavar="NAME=VALUE",
        help=f"what it may use, e.g. memory=2GB; one of {', '.join(LIMIT_OPTIONS)}",
    )
    parser.add_argument(
        "--watch",
        action="append",
        metavar="PATTERN",
        help="each line that matches is an event; may be repeated",
    )
    parser.add_argument(
        "--notify",
        metavar="WAYS",
        help="how you are told of it: off, or some of desktop, bell, webhook; see bgjob notify",
    )
    _add_queue_and_restart(parser)
    _add_target(parser)


def _add_how_to_stay(parser: argparse.ArgumentParser) -> None:
    stay = parser.add_mutually_exclusive_group()
    stay.add_argument("-f", "--follow", action="store_true", help="print its output, and exit as it does")
    stay.add_argument("--wait", action="store_true", help="wait for its end, and exit as it does")
    stay.add_argument(
        "-i",
        "--interactive",
        action="store_true",
        help="enter it at once, as bgjob attach does; -it on a terminal",
    )
    stay.add_argument(
        "--until",
        action="append",
        type=condition,
        metavar="WHAT",
        help="wait until it is so: port=5173, pattern=RE, stop-pattern=RE, silence=3s or input; of several, the first",
    )


def _add_queue_and_restart(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queue", action="store_true", help="wait for a free slot instead of failing")
    parser.add_argument("--after", action="append", metavar="ID", help="start it when this job has succeeded")
    parser.add_argument("--after-any", action="store_true", help="... or ended in any way")
    parser.add_argument("--delay", type=float, metavar="S", help="not before so many seconds")
    parser.add_argument(
        "--priority", type=int, metavar="N", help="in the queue: higher starts first (default: 0)"
    )
    parser.add_argument(
        "--group", metavar="NAME", help="of MCP_BG_GROUPS, which limits how many of it run at once"
    )
    parser.add_argument(
        "--restart", choices=("no", "on-failure", "always"), help="run it again when it ends (default: no)"
    )
    parser.add_argument("--max-restarts", type=int, metavar="N", help="at most so often (default: 5)")
    parser.add_argument(
        "--backoff", type=float, metavar="S", help="first pause; doubles up to 60 s (default: 1)"
    )


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target", help="run it on another machine or cluster, of those that bgjob targets shows"
    )
    parser.add_argument("--cpus", type=float, metavar="N", help="of a target with a queue: so many CPUs")
    parser.add_argument("--gpus", type=int, metavar="N", help="... so many GPUs")
    parser.add_argument(
        "--memory", metavar="SIZE", help="... so much memory, e.g. 16GB; of any other job its limit"
    )
    parser.add_argument("--time-limit", metavar="TIME", help="... for so long at most, e.g. 2h")
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        type=pair,
        metavar="NAME=VALUE",
        help="... on a node that has this label; may be repeated",
    )
    parser.add_argument(
        "--session", metavar="NAME", help="... in an allocation of this name, which is kept for the next job"
    )


def split(parser: argparse.ArgumentParser, arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own options, and the command: all from the first word on that is no option of ours."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "--":
        option, equals, _ = arguments[at].partition("=")
        action = parser._option_string_actions.get(option)
        takes_value = action is not None and action.nargs is None and action.const is None
        at += 2 if takes_value and not equals and option.startswith("--") else 1
    own, command = arguments[:at], arguments[at:]
    command = command[1:] if command[:1] == ["--"] else command
    if not command and not {"-h", "--help"} & set(own):
        parser.parse_args(own)  # it may have a better complaint
        parser.error("what is to be run? Give a command: one quoted text, or a program and its arguments")
    return own, command
