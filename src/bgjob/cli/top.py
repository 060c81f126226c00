"""bgjob top: a live view of all jobs."""

import argparse
import os
from collections.abc import Mapping

from bgjob.api.arrangement import ORDERS, Arrangement
from bgjob.api.context import open_context

DESCRIPTION = """\
A live view of all jobs: who waits for you, what runs, what is queued, what ended; and what the selected job
prints. ? shows the keys."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="WORD",
        help="only jobs that fit: text, or name= cwd= by= status=; may be repeated",
    )
    parser.add_argument("--sort", choices=ORDERS, default="state", help="the order (default: state)")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    arrangement = Arrangement(options.filter, options.sort)
    from bgjob.cli.top_screen import NoScreen  # here: a wrong filter is told on any system
    from bgjob.cli.top_signals import EndedBySignal, end_by

    if not (os.isatty(0) and os.isatty(1)):
        raise NoScreen("needs a terminal")
    from bgjob.cli.top_loop import show_jobs

    try:
        show_jobs(open_context(environ, many=False), arrangement, environ)
    except EndedBySignal as ended:
        end_by(ended.number)
    return 0
