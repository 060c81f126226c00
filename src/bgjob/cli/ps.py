"""bgjob ps: a list of jobs, with what matters first."""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from typing import get_args

from bgjob.api.context import Context, open_context
from bgjob.api.filter import job_filter
from bgjob.api.survey import Survey, survey
from bgjob.cli import streams
from bgjob.cli.arguments import count
from bgjob.cli.colours import painter
from bgjob.cli.columns import lines
from bgjob.core.job import StatusWord

EPILOG = """\
First the jobs that wait for you, each with what it asks; then those that run, wait in the queue, have ended. CPU is
the average since the start, of one processor. On a narrow terminal columns are left out, and long names are cut: a
cut name can be typed back. In a pipe every line has every column, and names are whole.

  bgjob ps --filter cwd=.                    those that were started here, or below
  bgjob ps --filter by=claude --status failed
  bgjob ps -q --filter name=test | xargs bgjob kill
"""
LIMIT = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--status", choices=get_args(StatusWord), help="only these")
    parser.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="WORD",
        help="only jobs that have it in their id, name, command, cwd or starter; or FIELD=TEXT, e.g. name=web, by=cli, "
        "cwd=., status=failed, target=gpu; may be repeated, then all must fit",
    )
    parser.add_argument("--target", help="only jobs of this target; local: of this machine")
    parser.add_argument(
        "--limit", type=count, default=LIMIT, metavar="N",
        help=f"at most so many ended jobs, and as many queued ones (default: {LIMIT})",
    )  # fmt: skip
    parser.add_argument("-a", "--all", action="store_true", help="all of them")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("-q", "--quiet", action="store_true", help="print whole ids and nothing else")
    form.add_argument("--json", action="store_true", help="print one JSON object: jobs, in this order")
    form.add_argument(
        "-w", "--watch", action="store_true", help="repaint it as things change, until ctrl-c or q"
    )


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context = open_context(environ, many=False)
    if options.watch:
        from bgjob.cli.repaint import repaint

        repaint(lambda room: _shown(options, environ, _found(context, options), room), environ)
        return 0
    found = _found(context, options)
    for line in _printed(options, environ, found):
        streams.say(line)
    if found.more and not options.json:
        streams.note(f"(older ones not shown; --limit {options.limit * 5} shows more, --all every one)")
    return 0


def _found(context: Context, options: argparse.Namespace) -> Survey:
    most = None if options.all else options.limit
    words = [*options.filter, *([f"target={options.target}"] if options.target else [])]
    return survey(context, job_filter(words), options.status, most)


def _printed(options: argparse.Namespace, environ: Mapping[str, str], found: Survey) -> Iterator[str]:
    if options.json:
        from bgjob.api.status_json import listed_as_json
        from bgjob.cli.as_json import as_line

        yield as_line({"jobs": list(map(listed_as_json, found)), "more": found.more})
    elif options.quiet:
        yield from (status.job.id for status in found)
    else:
        yield from _shown(options, environ, found, streams.columns())


def _shown(
    options: argparse.Namespace, environ: Mapping[str, str], found: Survey, room: int | None
) -> Iterator[str]:
    jobs = list(found)
    if jobs or room is None:
        yield from lines(jobs, time.time(), room, painter(sys.stdout, environ))
    else:
        asked = options.filter or options.status or options.target
        yield "No job fits." if asked else "No jobs yet. bgjob run -- COMMAND starts one."
