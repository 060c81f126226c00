"""bgjob restart, bgjob rerun: a job again, as a new job."""

import argparse
from collections.abc import Mapping

from bgjob.api.context import open_context
from bgjob.api.rerun import Rerun, rerun_job, restart_job
from bgjob.cli import streams
from bgjob.cli.chosen import add_jobs, jobs_meant
from bgjob.cli.ourselves import ourselves
from bgjob.cli.words import in_our_words
from bgjob.core.errors import BgjobError
from bgjob.core.job import Running
from bgjob.output.tty_text import one_line

EPILOG = """\
The new job has the command, directory, limits and options of the old one; its id is printed. It has the
environment of the old one if that still runs, else yours.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    if parser.prog.endswith(" restart"):
        parser.add_argument(
            "--grace", type=float, default=5.0, metavar="S", help="seconds between SIGTERM and SIGKILL"
        )
    add_jobs(parser)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    streams.check_stdout()  # a job whose id cannot be printed is better not started
    context, by, exit_code = open_context(environ, many=False), ourselves(), 0
    is_restart = options.verb == "restart"
    for job in jobs_meant(context, options.ids, steered=Running if is_restart else None):
        try:
            if is_restart:
                done = restart_job(context, job.id, by=by, grace_s=options.grace)
            else:
                done = rerun_job(context, job.id, by=by)
            _tell(done)
        except BgjobError as error:
            streams.complain(in_our_words(error))
            exit_code = 1
    return exit_code


def _tell(done: Rerun) -> None:
    streams.tell(done.job.id, done=f"job {done.job.id} was started")
    if not done.has_environment:
        streams.note("(its environment is not kept: started with yours)")
    if done.place:
        streams.note(f"({one_line(done.place.reason)})")
