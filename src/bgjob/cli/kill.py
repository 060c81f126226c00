"""bgjob kill: stop jobs and everything they started."""

import argparse
from collections.abc import Mapping

from bgjob.api.context import open_context
from bgjob.api.find import find_typed
from bgjob.api.kill import kill_job
from bgjob.cli import streams
from bgjob.core.job import Running


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--grace", type=float, default=5.0, metavar="S", help="seconds between the signal and SIGKILL"
    )
    parser.add_argument("--signal", default="TERM", metavar="NAME", help="the first signal (default: TERM)")
    parser.add_argument("id", metavar="ID", help="at least three characters of its id, or its name")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context = open_context(environ, many=False)
    job_id = find_typed(context, options.id, steered=Running).id
    done = kill_job(context, job_id, grace_s=options.grace, signal=options.signal)
    outcome = f"{done.status} ({done.processes} {'process' if done.processes == 1 else 'processes'})"
    streams.tell(outcome, done=outcome)
    return 0
