"""bgjob run: start a job, and perhaps stay with it."""

import argparse
import contextlib
import os
import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bgjob.api.context import Context, open_context
from bgjob.api.find import find_typed
from bgjob.api.spec import SHELLS, absolute
from bgjob.api.start import start_job
from bgjob.cli import streams
from bgjob.cli.arguments import condition, pair, variable
from bgjob.cli.as_json import as_line, job_as_json
from bgjob.cli.ourselves import ourselves
from bgjob.cli.outcome import as_own_failure
from bgjob.cli.streams import JobStream
from bgjob.core.errors import BgjobError
from bgjob.core.job import SHORT_ID_CHARACTERS, Job
from bgjob.core.options import LIMIT_OPTIONS, checked
from bgjob.terminal.size import drawable

if TYPE_CHECKING:
    from bgjob.api.conditions import Conditions

WRONG_USAGE = 2
EPILOG = """\
CMD is one quoted text for the shell, or a program and its arguments. What begins with - behind its first word
is its own: bgjob run -f grep -r x . needs no --.

The id of the job is printed, but not with -f and -i, which show the job itself. Exit code: 0 the job was
started. With -f, --wait and -i that of the job; 124 it timed out, 128 + n signal n ended it, 125 it was lost or
could not be started, or bgjob itself failed. With --until: 0 it came true; if the job ended before, its exit
code, or 1 where that is 0. ctrl-c ends only the waiting, with 130: the job goes on."""


class NoTerminal(BgjobError):
    def __init__(self) -> None:
        super().__init__(
            "-i needs a terminal on stdin and on stdout. Nothing was run.",
            "Without one, bgjob run -f follows the job, and bgjob send types into it.",
        )


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
        help="wait until it is so: port=5173, pattern=RE, silence=3s or input; of several, the first",
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
    if problem := _misuse(options):
        streams.complain(problem)
        return WRONG_USAGE
    if options.follow or options.wait or options.interactive or options.until:
        return as_own_failure(lambda: _run(options, environ))
    return _run(options, environ)


def _misuse(options: argparse.Namespace) -> str | None:
    kinds = [kind for kind, _ in options.until or ()]
    if len(set(kinds)) < len(kinds):
        return "--until has two conditions of one kind. Give each kind once."
    if options.json and (options.follow or options.interactive):
        return "--json does not go with -f and -i, which print the output of the job."
    if options.pty and options.stdin == "null":
        return "--stdin null does not go with --pty: the stdin of a job on a terminal is the terminal."
    return None


def _run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    streams.check_stdout()  # a job whose id cannot be printed is better not started
    if options.interactive and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise NoTerminal
    context, awaited = open_context(environ, many=False), _awaited(options)
    job = _start(context, options)
    if options.interactive:
        from bgjob.cli.attach import enter

        return enter(context, job)
    try:
        return _stay(context, job, awaited, options)
    except KeyboardInterrupt:
        below = "\n" if sys.stderr.isatty() else ""  # below the ^C
        streams.note(f"{below}[the job goes on; bgjob kill {job.id[:SHORT_ID_CHARACTERS]} ends it]")
        raise


def _awaited(options: argparse.Namespace) -> "Conditions | None":
    """None: there is nothing to wait for. A pattern that is none is told before anything is started."""
    if not options.wait and not options.until:
        return None
    from bgjob.api.wait import conditions_of

    return conditions_of(**dict(options.until or ()))


def _stay(context: Context, job: Job, awaited: "Conditions | None", options: argparse.Namespace) -> int:
    if options.follow:
        return _follow(context, job)
    if awaited is None or not options.json:
        line = as_line(job_as_json(job)) if options.json else job.id
        streams.tell(line, done=f"job {job.id} was started")
    return 0 if awaited is None else _wait(context, job, awaited, as_json=options.json)


def _follow(context: Context, job: Job) -> int:
    from bgjob.cli.follow import print_output
    from bgjob.cli.log_printer import BytesPrinter

    stdout, stderr = (JobStream(each, raw=False, pty=job.spec.pty) for each in (sys.stdout, sys.stderr))
    return print_output(context, [job], BytesPrinter(stdout, stderr, streams.note), follow=True)


def _wait(context: Context, job: Job, awaited: "Conditions", *, as_json: bool) -> int:
    from bgjob.cli.wait import code_of, wait_until, waited_as_json, what_came

    (waited,) = wait_until(context, [job.id], awaited)
    if as_json:
        streams.say(as_line(waited_as_json(waited)))
    else:
        streams.note(f"[{what_came(waited)}]")
    return code_of(waited)


def _terminal_size() -> tuple[int, int]:
    """Rows and columns of the terminal in which the person sits, or those of terminals of old."""
    for descriptor in (1, 0, 2):
        with contextlib.suppress(OSError):
            columns, rows = os.get_terminal_size(descriptor)
            if rows and columns:
                return drawable(rows, columns)
    return 24, 80


def _start(context: Context, options: argparse.Namespace) -> Job:
    command = options.command[0] if len(options.command) == 1 else shlex.join(options.command)
    rows, columns = _terminal_size()
    return start_job(
        context,
        command,
        cwd=absolute(os.path.expanduser(options.cwd or ".")),
        env=dict(options.env),
        name=options.name,
        timeout_s=options.timeout,
        shell=options.shell,
        pty=options.pty,
        rows=rows,
        cols=columns,
        stdin=options.stdin,
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
