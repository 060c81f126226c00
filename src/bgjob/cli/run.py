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
from bgjob.api.job_json import job_as_json
from bgjob.api.spec import absolute
from bgjob.api.start import start_job
from bgjob.cli import streams
from bgjob.cli.as_json import as_line
from bgjob.cli.ourselves import ourselves
from bgjob.cli.outcome import as_own_failure
from bgjob.cli.run_options import EPILOG, add_arguments, split
from bgjob.cli.streams import JobStream
from bgjob.core.errors import BgjobError
from bgjob.core.job import SHORT_ID_CHARACTERS, Job
from bgjob.core.options import LIMIT_OPTIONS, checked
from bgjob.terminal.size import drawable

if TYPE_CHECKING:
    from bgjob.api.conditions import Conditions

WRONG_USAGE = 2
__all__ = ["EPILOG", "add_arguments", "run", "split"]


class NoTerminal(BgjobError):
    def __init__(self) -> None:
        super().__init__(
            "-i needs a terminal on stdin and on stdout. Nothing was run.",
            "Without one, bgjob run -f follows the job, and bgjob send types into it.",
        )


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


def _asked_of_target(options: argparse.Namespace) -> dict[str, object]:
    asked = {
        "cpus": options.cpus,
        "gpus": options.gpus,
        "memory": options.memory,
        "time_limit": options.time_limit,
        "labels": dict(options.label) or None,
        "session": options.session,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _start(context: Context, options: argparse.Namespace) -> Job:
    command = options.command[0] if len(options.command) == 1 else shlex.join(options.command)
    rows, columns = _terminal_size()
    return start_job(
        context,
        command,
        cwd=options.cwd if options.target else absolute(os.path.expanduser(options.cwd or ".")),
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
            **_asked_of_target(options),
        },
        target=options.target,
        watch=options.watch,
        by=ourselves(),
    )
