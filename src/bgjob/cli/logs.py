"""bgjob logs: what a job printed."""

import argparse
import sys
from collections.abc import Mapping

from bgjob.api.context import open_context
from bgjob.api.output import follow_output
from bgjob.api.status import job_status
from bgjob.cli import streams
from bgjob.cli.chosen import add_job, job_meant
from bgjob.cli.outcome import last_words, result
from bgjob.cli.streams import JobStream
from bgjob.core.job import Running
from bgjob.home.log_format import STDERR


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="go on until the job ends; then exit as it did: with its exit code, 128 + its signal, else 1",
    )
    parser.add_argument(
        "--raw",
        action="store_true",
        help="to a terminal too its bytes as they are (default there: colours pass, what steers it is made visible)",
    )
    add_job(parser)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context = open_context(environ, many=False)
    job_id = job_meant(context, options.id).id
    stdout, stderr = (JobStream(stream, raw=options.raw) for stream in (sys.stdout, sys.stderr))
    try:
        for chunk in follow_output(context, job_id, options.follow):
            if chunk.dropped_bytes:
                streams.note(f"[bgjob: {chunk.dropped_bytes} bytes dropped here]")
            (stderr if chunk.stream == STDERR else stdout).write(chunk.data)
    finally:  # after a ctrl-c too, the terminal has its own colours again
        stdout.finish()
        stderr.finish()
    job = job_status(context, job_id).job
    if isinstance(job.state, Running) or result(job.state) == 0:
        return 0
    if options.follow or sys.stderr.isatty():
        below = "\n" if sys.stderr.isatty() and (stdout.is_within_a_line or stderr.is_within_a_line) else ""
        streams.note(f"{below}[bgjob: {last_words(job)}]")
    return result(job.state) if options.follow else 0
