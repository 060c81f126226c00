"""Prints the output of jobs, as far as there is any or until they have ended; then how they ended."""

import sys
from collections.abc import Sequence

from bgjob.api.context import Context
from bgjob.api.follow import Begin, follow_jobs, places_of
from bgjob.api.snapshot import with_unrecorded_end
from bgjob.cli.log_printer import Printer
from bgjob.cli.outcome import end_line, result
from bgjob.core.job import Job, Running


def print_output(
    context: Context, jobs: Sequence[Job], printer: Printer, begin: Begin | None = None, *, follow: bool
) -> int:
    """The exit code: with `follow` that of the job, of several the first that is not 0."""
    places = {job.id: places_of(context, job.id, begin or Begin()) for job in jobs}
    codes = dict.fromkeys(places, 0)
    try:
        for job_id, chunk in follow_jobs(context, places, wait=follow):
            if chunk:
                printer.put(job_id, chunk)
            else:
                printer.finish(job_id)
                job = with_unrecorded_end(context, job_id) if follow else context.store.load(job_id)
                codes[job_id] = _tell_end(job, printer, follow=follow)
    finally:  # after a ctrl-c too
        printer.close()
    return next(filter(None, codes.values()), 0)


def _tell_end(job: Job, printer: Printer, *, follow: bool) -> int:
    if isinstance(job.state, Running):
        return 0
    code = result(job.state)
    if follow or (code and sys.stderr.isatty()):
        printer.note(job.id, end_line(job))
    return code if follow else 0
