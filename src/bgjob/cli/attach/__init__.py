"""bgjob attach: enter a job, by its terminal or by its stdin.

Whatever happens, the terminal is as before afterwards.

    loop            waits for keys, news of the job, the size of the terminal, an end
    terminal        a person's terminal on a job's terminal
    lines           a person's terminal on the stdin of a job without one
    detach_key      the key by which a person leaves
    terminal_guard  restores the terminal whatever happens
"""

import argparse
import os
from collections.abc import Mapping

from bgjob.api.context import Context, open_context
from bgjob.api.snapshot import with_unrecorded_end
from bgjob.cli import streams
from bgjob.cli.chosen import add_job, job_meant
from bgjob.cli.outcome import end_line, result
from bgjob.core.errors import InvalidArgument
from bgjob.core.job import Job, Running, called
from bgjob.output.tty_text import one_line

DETACH_KEY = "ctrl-]"
EPILOG = f"""\
A job on a terminal (run --pty, run -it, or an agent's pty=true) is shown as it stands, then live; keys go to it,
its size becomes that of your terminal. Several people can be attached: the last who typed decides the size.
From the first key on you hold the job: an agent that would type into it is told so, until you detach. The
job outlives all of it; {DETACH_KEY} detaches. A job without a terminal shows its last lines, and gets the lines that
you type; ctrl-d ends its input, ctrl-c interrupts it.

The exit code is 0 after a detach, and that of the job if it ends meanwhile.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-r", "--read-only", action="store_true", help="only look: no key reaches the job")
    parser.add_argument(
        "--detach-key",
        default=DETACH_KEY,
        metavar="KEY",
        help=f"ctrl and a character (default: {DETACH_KEY})",
    )
    add_job(parser)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context = open_context(environ, many=False)
    job = job_meant(context, options.id)
    return enter(context, job, read_only=options.read_only, detach_key=options.detach_key)


def enter(context: Context, job: Job, *, read_only: bool = False, detach_key: str = DETACH_KEY) -> int:
    """Until the person detaches, or the job ends: the exit code."""
    check_terminal()
    from bgjob.cli.attach.detach_key import DetachKey

    key = DetachKey(detach_key)
    if job.spec.pty:
        from bgjob.cli.attach.terminal import attach
    else:
        from bgjob.cli.attach.lines import attach
    return attach(context, job, key, read_only=read_only) or _told(context, job.id)


def check_terminal() -> None:
    """InvalidArgument: there is no person at a terminal."""
    if not (os.isatty(0) and os.isatty(1)):
        raise InvalidArgument(
            "Stdin and stdout must be a terminal.", "bgjob logs -f and bgjob send work without one."
        )


def _told(context: Context, job_id: str) -> int:
    """How it ended, or that it goes on; then its exit code."""
    job = with_unrecorded_end(context, job_id)
    if isinstance(job.state, Running):
        streams.note(f"[detached from {one_line(called(job.spec))} ({job.id[:8]}), which runs on]")
        return 0
    streams.note(f"[{end_line(job)}]")
    return result(job.state)
