"""bgjob kill: stop jobs and everything they started."""

import argparse
from collections.abc import Mapping, Sequence

from bgjob.api.context import Context, open_context
from bgjob.api.filter import job_filter
from bgjob.api.kill_many import Killing, kill_jobs, living_jobs
from bgjob.api.signal import signal_number
from bgjob.cli import streams
from bgjob.cli.chosen import add_steered_jobs, jobs_meant
from bgjob.cli.confirm import is_confirmed
from bgjob.cli.done import Report, processes_word
from bgjob.core.errors import BgjobError, JobNotFound
from bgjob.core.job import Job, Running

EPILOG = """\
Exit code 1: one of them could not be killed, or nothing was because you did not agree.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--grace", type=float, default=5.0, metavar="S", help="seconds between the signal and SIGKILL"
    )
    parser.add_argument("--signal", default="TERM", metavar="NAME", help="the first signal (default: TERM)")
    parser.add_argument("--all", action="store_true", help="all that run or wait in the queue")
    parser.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="WORD",
        help="of these, those that it fits: a text, or name=, cwd=, by=, command=, status=TEXT; may be repeated",
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before --all or --filter kills")
    parser.add_argument(
        "--give-up",
        action="store_true",
        help="kill nothing: record jobs as lost whose host will never answer again",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for each job")
    add_steered_jobs(parser, "*")
    parser.set_defaults(usage_error=parser.error)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    if bool(options.ids) == _is_by_rule(options):
        options.usage_error("what is to be killed? Give ids or names; or --all, --filter WORD or both")
    context = open_context(environ, many=False)
    signal_number(options.signal)  # an error is told before anything is asked
    jobs = _meant(context, options)
    if not jobs:
        streams.note("(no such job runs or waits)")
        return 0
    if not _is_wanted(jobs, options):
        streams.note("(nothing was killed)")
        return 1
    report = Report(len(options.ids) or 2, as_json=options.json)
    if options.give_up:
        return _give_up(context, jobs, report)
    for killing in kill_jobs(context, jobs, grace_s=options.grace, signal=options.signal):
        _tell(report, killing)
    return report.exit_code()


def _give_up(context: Context, jobs: Sequence[Job], report: Report) -> int:
    from bgjob.api.remote import give_up

    for job in jobs:
        try:
            report.done(
                give_up(context, job), "given up: recorded as lost", {"status": "failed", "cause": "lost"}
            )
        except BgjobError as error:
            report.failed(error)
    return report.exit_code()


def _is_by_rule(options: argparse.Namespace) -> bool:
    return bool(options.all or options.filter)


def _meant(context: Context, options: argparse.Namespace) -> list[Job]:
    if _is_by_rule(options):
        return living_jobs(context, job_filter(options.filter))
    return jobs_meant(context, options.ids, steered=Running)


def _is_wanted(jobs: Sequence[Job], options: argparse.Namespace) -> bool:
    is_asked = _is_by_rule(options) and not options.yes
    return not is_asked or is_confirmed("kill", jobs, "kill --all" if options.all else "kill --filter")


def _tell(report: Report, killing: Killing) -> None:
    job, done = killing
    if isinstance(done, BgjobError):
        report.failed(done)
    elif done.status == "not_found":
        report.failed(JobNotFound(job.id))
    else:
        how = f"{done.status} ({processes_word(done.processes)})" + (f". {done.hint}" if done.hint else "")
        report.done(job, how, {"status": done.status, "processes": done.processes})
