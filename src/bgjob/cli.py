"""The command line: parse, call the door, print. Starts fast: the MCP server is imported only to be run."""

import argparse
import contextlib
import gc
import os
import shlex
import sys
import time
from collections.abc import Sequence

from bgjob import __version__
from bgjob.api import Happened, Jobs, open_jobs
from bgjob.errors import BgjobError, JobNotFound
from bgjob.job import (
    Job,
    Lost,
    OverLimit,
    Queued,
    Running,
    cause_word,
    exit_code,
    signal_name,
    signal_number,
    status_word,
)
from bgjob.log_format import STDERR
from bgjob.terms import LIMIT_TERMS, checked

FOLLOW_S = 30.0
EVENT_TOKENS = 20_000
EPILOG = """\
Jobs live on disk and outlive whatever started them; every command, and every MCP server, works on the
same ones. ID may be the beginning of an id, or a name.

  bgjob run --name tests -- pytest -x        start a job; its id is printed
  bgjob logs -f tests                        follow its output
  bgjob mcp                                  serve MCP on stdin and stdout
"""


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(_default_command(sys.argv[1:] if arguments is None else list(arguments)))
    try:
        status = options.act(options)
        sys.stdout.flush()
        sys.exit(status)
    except BrokenPipeError:  # `bgjob logs x | head` ends quietly
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except JobNotFound as error:
        sys.exit(f"bgjob: Job {_printable(error.job_id)[:100]} not found. bgjob ps shows the ids that exist.")
    except BgjobError as error:
        sys.exit(f"bgjob: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def mcp_main() -> None:
    """The reference's command: client configurations written for it keep working."""
    main(["mcp", *sys.argv[1:]])


def _default_command(arguments: list[str]) -> list[str]:
    """One word is enough in a client's configuration: without a terminal we are the server."""
    if arguments:
        return arguments
    return ["--help"] if sys.stdin is not None and sys.stdin.isatty() else ["mcp"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
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
    mcp.set_defaults(act=_mcp)
    return parser


def _add_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    run = commands.add_parser("run", help="start a job and print its id")
    run.add_argument("--name", help="a name to find it by")
    run.add_argument("--cwd", help="where it runs (default: here)")
    run.add_argument("--timeout", type=float, metavar="S", help="stop it after so many seconds")
    run.add_argument(
        "--limit",
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=VALUE",
        help=f"what it may use, e.g. memory=2GB; one of {', '.join(LIMIT_TERMS)}",
    )
    run.add_argument(
        "--watch",
        action="append",
        metavar="PATTERN",
        help="each line that matches is an event; may be repeated",
    )
    _add_queue_and_restart(run)
    run.add_argument(
        "command", nargs="+", metavar="CMD", help="one quoted shell command, or a program and its arguments"
    )
    run.set_defaults(act=_run)


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


def _add_looking(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    ps = commands.add_parser("ps", help="list jobs, newest first")
    ps.add_argument("--status", choices=("running", "completed", "failed", "killed"))
    ps.add_argument("--limit", type=_count, default=20, metavar="N", help="at most so many (default: 20)")
    ps.set_defaults(act=_ps)

    logs = commands.add_parser("logs", help="print what a job printed")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the job ends")
    logs.add_argument("id", metavar="ID")
    logs.set_defaults(act=_logs)

    events = commands.add_parser("events", help="what happened to jobs, newest last")
    events.add_argument("-f", "--follow", action="store_true", help="go on, as it happens")
    events.add_argument("--since", metavar="CURSOR", help="what came after it (default: the newest events)")
    events.add_argument("ids", nargs="*", metavar="ID", help="of these jobs (default: of all)")
    events.set_defaults(act=_events)


def _add_steering(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    priority = commands.add_parser("priority", help="move a job within the queue")
    priority.add_argument("id", metavar="ID")
    priority.add_argument("priority", type=int, metavar="N", help="higher starts first; 0 is the default")
    priority.set_defaults(act=_priority)

    kill = commands.add_parser("kill", help="stop a job and everything it started")
    kill.add_argument(
        "--grace", type=float, default=5.0, metavar="S", help="seconds between the signal and SIGKILL"
    )
    kill.add_argument("--signal", default="TERM", metavar="NAME", help="the first signal (default: TERM)")
    kill.add_argument("id", metavar="ID")
    kill.set_defaults(act=_kill)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, e.g. memory=2GB")
    return name, value


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


def _jobs() -> Jobs:
    return open_jobs(os.environ, many=False)


def _run(options: argparse.Namespace) -> int:
    command = options.command[0] if len(options.command) == 1 else shlex.join(options.command)
    jobs = _jobs()
    job = jobs.execute(
        command,
        cwd=options.cwd or os.getcwd(),
        name=options.name,
        timeout_s=options.timeout,
        queue=options.queue,
        after=[jobs.find_typed(each).id for each in options.after or ()],
        terms={
            "after_policy": "any" if options.after_any else None,
            "delay_s": options.delay,
            "priority": options.priority,
            "group": options.group,
            "restart": options.restart,
            "max_restarts": options.max_restarts,
            "backoff_s": options.backoff,
            **checked(dict(options.limit), LIMIT_TERMS),
        },
        watch=options.watch,
    )
    print(job.id)
    return 0


def _ps(options: argparse.Namespace) -> int:
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    jobs, shown, cursor = _jobs(), 0, None
    print(f"{'ID':8}  {'STATUS':9}  {'END':>9}  {'AGE':>5}  {'NAME':12}  COMMAND")
    while shown < options.limit:
        page = jobs.list(options.status, options.limit - shown, cursor)
        for job in page.jobs:
            print(_row(job))
        shown, cursor = shown + len(page.jobs), page.next_cursor
        if cursor is None:
            break
    if cursor:
        print(f"(older ones not shown; --limit {options.limit * 5} shows more)", file=sys.stderr)
    return 0


def _row(job: Job) -> str:
    command, name = _printable(job.spec.command), _printable(job.spec.name or "-")
    age = _age(time.time() - job.spec.created_at)
    width = max(20, _columns() - 57)
    return (
        f"{job.id[:8]}  {status_word(job.state):9}  {_end(job):>9}  {age:>5}  {name:12.12}  "
        f"{command if len(command) <= width else command[: width - 1] + '…'}"
    )


def _end(job: Job) -> str:
    match job.state:
        case Queued():
            return "queued"
        case Running():
            return "-"
        case Lost():
            return "lost"
        case OverLimit(limit=limit):
            return limit
        case ended:
            code, number = exit_code(ended), signal_number(ended)
            if code is not None:
                return f"exit {code}"
            return signal_name(number) if number else str(cause_word(ended))


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"


def _columns() -> int:
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stdout.fileno()).columns
    return 200


def _logs(options: argparse.Namespace) -> int:
    jobs = _jobs()
    for chunk in jobs.follow(jobs.find_typed(options.id).id, options.follow):
        if chunk.dropped_bytes:
            print(f"[bgjob: {chunk.dropped_bytes} bytes dropped here]", file=sys.stderr, flush=True)
        out = (sys.stderr if chunk.stream == STDERR else sys.stdout).buffer
        out.write(chunk.data)
        out.flush()
    return 0


def _events(options: argparse.Namespace) -> int:
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    jobs, since = _jobs(), options.since
    job_ids = [_found(jobs, options, each) for each in options.ids] or None
    while True:
        found = jobs.events(
            since, job_ids=job_ids, timeout_s=FOLLOW_S if options.follow else 0, max_tokens=EVENT_TOKENS
        )
        for event in found.events:
            print(_event_row(event), flush=True)
        since = found.cursor
        if not (found.more or options.follow):
            print(f"(bgjob events --since {since} shows what comes next)", file=sys.stderr)
            return 0


def _found(jobs: Jobs, options: argparse.Namespace, prefix: str) -> str:
    options.id = prefix  # for the error, if there is no such job
    return jobs.find_typed(prefix).id


def _event_row(event: Happened) -> str:
    when = time.strftime("%F %T", time.localtime(event.at))
    details = " ".join(f"{word}={_printable(str(value))}" for word, value in event.details.items())
    return f"{when}  {event.job_id[:8]}  {_printable(event.name or '-'):12.12}  {event.kind:10}  {details}".rstrip()


def _kill(options: argparse.Namespace) -> int:
    jobs = _jobs()
    done = jobs.kill(jobs.find_typed(options.id).id, grace_s=options.grace, signal=options.signal)
    print(f"{done.status} ({done.processes} {'process' if done.processes == 1 else 'processes'})")
    return 0


def _priority(options: argparse.Namespace) -> int:
    jobs = _jobs()
    jobs.prioritize(jobs.find_typed(options.id).id, options.priority)
    return 0


def _mcp(_options: argparse.Namespace) -> int:
    gc.disable()  # the imports make only objects that stay: a tenth of the start goes into looking for garbage
    from bgjob.mcp.server import serve

    gc.freeze()
    gc.enable()
    serve(os.environ)
    return 0
