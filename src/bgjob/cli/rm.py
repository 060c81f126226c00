"""bgjob rm: remove ended jobs with their output."""

import argparse
from collections.abc import Mapping

from bgjob.api.context import open_context
from bgjob.api.remove import remove_job
from bgjob.cli.amounts import size
from bgjob.cli.chosen import add_steered_jobs, jobs_meant
from bgjob.cli.done import Report
from bgjob.core.errors import BgjobError
from bgjob.core.job import Running


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--force", action="store_true", help="kill those that run, then remove them")
    parser.add_argument("--json", action="store_true", help="one JSON object for each job")
    add_steered_jobs(parser)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context = open_context(environ, many=False)
    jobs = jobs_meant(context, options.ids, steered=Running)
    report = Report(len(jobs), as_json=options.json)
    for job in jobs:
        try:
            done = remove_job(context, job.id, kill=options.force)
        except BgjobError as error:
            report.failed(error)
        else:
            record = {"status": "removed", "freed_bytes": done.freed_bytes}
            report.done(job, f"removed ({size(done.freed_bytes)}B freed)", record)
    return report.exit_code()
