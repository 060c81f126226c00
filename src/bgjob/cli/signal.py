"""bgjob signal, bgjob pause, bgjob resume: one signal to every process of a job, and no more."""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence

from bgjob.api.connect import SHIM_PATIENCE_S
from bgjob.api.context import Context, open_context
from bgjob.api.kill_many import AT_ONCE, at_once
from bgjob.api.pause import Pause, pause_job, resume_job, what_goes_on
from bgjob.api.results import Kill
from bgjob.api.signal import HasEnded, signal_job, signal_number
from bgjob.cli import streams
from bgjob.cli.chosen import add_steered_jobs, jobs_meant
from bgjob.cli.done import Report, processes_word
from bgjob.core.errors import BgjobError
from bgjob.core.job import Job, Running
from bgjob.link.control import Patience
from bgjob.system.processes import signal_name

EPILOG = """\
While a job is paused, its timeout and its limit of silence go on, and it keeps its slot. It can be killed as ever.
"""
Done = Kill | Pause
Act = Callable[[Context, str, float], Done]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    if parser.prog.endswith(" signal"):
        parser.add_argument("signal", metavar="SIGNAL", help="such as HUP, USR1, INT, or a number")
    parser.add_argument("--json", action="store_true", help="one JSON object for each job")
    add_steered_jobs(parser)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context, act = open_context(environ, many=False), _act(options)
    jobs = jobs_meant(context, options.ids, steered=Running)
    report = Report(len(jobs), as_json=options.json)
    done = _all_done(context, jobs, act)
    for job in jobs:
        try:
            _tell(report, job, done[job.id], options)
        except BgjobError as error:
            report.failed(error)
    return report.exit_code()


def _all_done(context: Context, jobs: Sequence[Job], act: Act) -> dict[str, Done | BgjobError]:
    """What became of each job. However many shims are silent, all are waited for as long as one."""
    patience = Patience(SHIM_PATIENCE_S, math.ceil(len(jobs) / AT_ONCE))

    def attempt(job: Job) -> tuple[str, Done | BgjobError]:
        try:
            return job.id, act(context, job.id, patience.until())
        except BgjobError as error:
            return job.id, error

    return dict(at_once(jobs, attempt))


def _act(options: argparse.Namespace) -> Act:
    if options.verb != "signal":
        return pause_job if options.verb == "pause" else resume_job
    number = signal_number(options.signal)
    return lambda context, job_id, deadline: signal_job(context, job_id, number, deadline)


def _tell(report: Report, job: Job, done: Done | BgjobError, options: argparse.Namespace) -> None:
    if isinstance(done, BgjobError):
        raise done
    if done.status in ("already_terminated", "not_found"):
        raise HasEnded(job.id)
    record = {"status": done.status, "processes": done.processes}
    if isinstance(done, Kill):
        name = signal_name(signal_number(options.signal))
        report.done(job, f"{name} to {processes_word(done.processes)}", {**record, "signal": name})
    elif done.status == "not_paused":
        report.done(job, "was not paused", record)
    else:
        report.done(job, f"{done.status} ({processes_word(done.processes)})", record)
        if done.status == "paused" and (going := what_goes_on(job)):
            streams.note(f"({job.id[:8]}: what still counts while it is paused: {', '.join(going)})")
