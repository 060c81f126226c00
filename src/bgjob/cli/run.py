"""bgjob run: start a job."""

import argparse
import os
import shlex
from collections.abc import Mapping

from bgjob.api.context import open_context
from bgjob.api.find import find_typed
from bgjob.api.spec import absolute
from bgjob.api.start import start_job
from bgjob.cli import streams
from bgjob.cli.arguments import pair, variable
from bgjob.cli.ourselves import ourselves
from bgjob.core.options import LIMIT_OPTIONS, checked


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "bgjob run [OPTION ...] [--] CMD [ARGUMENT ...]"
    parser.add_argument("--name", help="a name to find it by")
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


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    streams.check_stdout()  # a job whose id cannot be printed is better not started
    command = options.command[0] if len(options.command) == 1 else shlex.join(options.command)
    context = open_context(environ, many=False)
    job = start_job(
        context,
        command,
        cwd=absolute(os.path.expanduser(options.cwd or ".")),
        env=dict(options.env),
        name=options.name,
        timeout_s=options.timeout,
        queue=options.queue,
        after=[find_typed(context, each).id for each in options.after or ()],
        options={
            "after_policy": "any" if options.after_any else None,
            "delay_s": options.delay,
            "priority": options.priority,
            "group": options.group,
            "restart": options.restart,
            "max_restarts": options.max_restarts,
            "backoff_s": options.backoff,
            "notify": options.notify,
            **checked(dict(options.limit), LIMIT_OPTIONS),
        },
        watch=options.watch,
        by=ourselves(),
    )
    streams.tell(job.id, done=f"job {job.id} was started")
    return 0
