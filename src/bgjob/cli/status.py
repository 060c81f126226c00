"""bgjob status: everything that is known of jobs."""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping

from bgjob.api.context import open_context
from bgjob.api.prompt import SHIM_PATIENCE_S
from bgjob.api.results import JobStatus
from bgjob.api.status import job_status
from bgjob.cli import streams
from bgjob.cli.chosen import add_jobs, jobs_meant
from bgjob.link.control import Patience


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print each job as one JSON object, in a line of its own"
    )
    add_jobs(parser)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context = open_context(environ, many=False)
    jobs = jobs_meant(context, options.ids)
    patience = Patience(SHIM_PATIENCE_S, len(jobs))
    for count, job in enumerate(jobs):
        if count and not options.json:
            streams.say("")
        status = job_status(context, job.id, detail=True, with_log=True, deadline=patience.until())
        for line in _lines(status, options, environ):
            streams.say(line)
    return 0


def _lines(status: JobStatus, options: argparse.Namespace, environ: Mapping[str, str]) -> Iterator[str]:
    if options.json:
        from bgjob.api.status_json import status_as_json
        from bgjob.cli.as_json import as_line

        return iter([as_line(status_as_json(status))])
    from bgjob.cli.colours import painter
    from bgjob.cli.status_lines import status_lines

    return status_lines(status, time.time(), painter(sys.stdout, environ))
