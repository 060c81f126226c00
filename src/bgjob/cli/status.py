"""bgjob status: everything that is known of jobs."""

import argparse
import sys
import time
from collections.abc import Mapping

from bgjob.api.context import open_context
from bgjob.api.status import job_status
from bgjob.cli import streams
from bgjob.cli.chosen import add_jobs, jobs_meant


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print each job as one JSON object, in a line of its own"
    )
    add_jobs(parser)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context = open_context(environ, many=False)
    for count, job in enumerate(jobs_meant(context, options.ids)):
        status = job_status(context, job.id, detail=True, with_log=True)
        if options.json:
            from bgjob.cli.status_json import json_text, status_as_json

            streams.say(json_text(status_as_json(status)))
            continue
        from bgjob.cli.colours import painter
        from bgjob.cli.status_lines import status_lines

        for line in ([""] if count else []) + list(
            status_lines(status, time.time(), painter(sys.stdout, environ))
        ):
            streams.say(line)
    return 0
