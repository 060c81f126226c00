"""bgjob priority: move jobs within the queue."""

import argparse
from collections.abc import Mapping

from bgjob.api.context import open_context
from bgjob.api.queue import prioritize
from bgjob.cli.chosen import add_steered_jobs, jobs_meant
from bgjob.core.job import Queued


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_steered_jobs(parser)
    parser.add_argument("priority", type=int, metavar="N", help="higher starts first; 0 is the default")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context = open_context(environ, many=False)
    for job in jobs_meant(context, options.ids, steered=Queued):
        prioritize(context, job.id, options.priority)
    return 0
