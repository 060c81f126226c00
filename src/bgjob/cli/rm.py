"""bgjob rm: remove ended jobs with their output."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from bgjob.api.context import Context, open_context
from bgjob.api.kill_many import at_once
from bgjob.api.remove import Removed, remove_job
from bgjob.cli.amounts import size
from bgjob.cli.chosen import add_steered_jobs, jobs_meant
from bgjob.cli.done import Report
from bgjob.core.errors import BgjobError
from bgjob.core.job import Job, Queued, Running

Removing = tuple[Job, Removed | BgjobError]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--force", action="store_true", help="kill those that run, then remove them")
    parser.add_argument("--json", action="store_true", help="one JSON object for each job")
    add_steered_jobs(parser)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context = open_context(environ, many=False)
    jobs = jobs_meant(context, options.ids, steered=Running)
    report = Report(len(jobs), as_json=options.json)
    remove = partial(_remove, context, kill=options.force)
    for job, done in _ended_at_once(jobs, remove) if options.force else map(remove, jobs):
        if isinstance(done, BgjobError):
            report.failed(done)
        else:
            record = {"status": "removed", "freed_bytes": done.freed_bytes}
            report.done(job, f"removed ({size(done.freed_bytes)}B freed)", record)
    return report.exit_code()


def _ended_at_once(jobs: Sequence[Job], remove: Callable[[Job], Removing]) -> Iterator[Removing]:
    """Those that wait in the queue come first, as nothing is to start because another ends."""
    yield from (remove(job) for job in jobs if isinstance(job.state, Queued))
    yield from at_once([job for job in jobs if not isinstance(job.state, Queued)], remove)


def _remove(context: Context, job: Job, *, kill: bool) -> Removing:
    try:
        return job, remove_job(context, job.id, kill=kill)
    except BgjobError as error:
        return job, error
