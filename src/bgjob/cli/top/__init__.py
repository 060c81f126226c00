"""bgjob top: a live view of all jobs.

It draws what api.live has read, in threads of its own, and reads no job itself.

    loop     waits for keys, signals and news, and draws
    view     what a person looks at: which jobs, which of them is selected, what of its output
    actions  what each key does
    keys     keys as a terminal sends them, by name
    layout   where things are on the screen
    draw     from a view to the screen
    output   draws what the selected job prints
    rows     one job as a row: the text of each column, and its style
    pieces   several texts in one row
    text     text of jobs for curses
    screen   the terminal: taken, and given back however it ends
    signals  signals wake the loop
"""

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
        help="only jobs that fit: text, or name= cwd= by= status= target=; may be repeated",
    )
    parser.add_argument("--target", help="only jobs of this target; local: of this machine")
    parser.add_argument("--sort", choices=ORDERS, default="state", help="the order (default: state)")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    words = [*options.filter, *([f"target={options.target}"] if options.target else [])]
    arrangement = Arrangement(words, options.sort)
    from bgjob.cli.top.screen import NoScreen  # here: a wrong filter is told on any system
    from bgjob.cli.top.signals import EndedBySignal, end_by

    if not (os.isatty(0) and os.isatty(1)):
        raise NoScreen("needs a terminal")
    from bgjob.cli.top.loop import show_jobs

    try:
        show_jobs(open_context(environ, many=False), arrangement, environ)
    except EndedBySignal as ended:
        end_by(ended.number)
    return 0
