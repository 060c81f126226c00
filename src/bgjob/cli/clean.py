"""bgjob clean: remove ended jobs that are older than they are to be kept."""

import argparse
from collections.abc import Mapping, Sequence

from bgjob.api.context import open_context
from bgjob.api.remove import Removed, clean, removable
from bgjob.cli import streams
from bgjob.cli.amounts import size
from bgjob.cli.arguments import seconds
from bgjob.cli.confirm import is_confirmed, row_of
from bgjob.cli.words import in_our_words
from bgjob.core.errors import CannotRemove

EPILOG = """\
Without an option it does what happens at starts now and then: jobs go that are older than MCP_BG_KEEP_DAYS, or
more than MCP_BG_KEEP_JOBS, here and where they were started. Jobs that run stay, and those that jobs in the
queue are to run after.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--older-than", type=seconds, metavar="AGE", help="all that ended longer ago, e.g. 12h or 2d"
    )
    which.add_argument("--all", action="store_true", help="all that have ended")
    parser.add_argument("-n", "--dry-run", action="store_true", help="only show what would be removed")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before --all removes")
    parser.add_argument("--json", action="store_true", help="as JSON: job_ids, freed_bytes")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context = open_context(environ, many=False)
    old = list(removable(context, older_than_s=options.older_than, every=options.all))
    found = [each for _, each in old]
    if options.dry_run:
        return _show(found, options)
    if not _is_wanted(found, options):
        streams.note("(nothing was removed)")
        return 1
    done = list(clean(context, old))
    for problem in (each for each in done if isinstance(each, CannotRemove)):
        streams.complain(in_our_words(problem))
    removed = [each for each in done if isinstance(each, Removed)]
    _tell(removed, options, "removed", "freed")
    return 0 if len(removed) == len(done) else 1


def _is_wanted(found: Sequence[Removed], options: argparse.Namespace) -> bool:
    is_asked = options.all and not options.yes
    return not is_asked or is_confirmed("remove", [each.job for each in found], "clean --all")


def _show(found: Sequence[Removed], options: argparse.Namespace) -> int:
    for each in found if not options.json else ():
        streams.say(f"{row_of(each.job)}  ({size(each.freed_bytes)}B)")
    _tell(found, options, "would be removed", "to be freed")
    return 0


def _tell(jobs: Sequence[Removed], options: argparse.Namespace, verb: str, freed: str) -> None:
    freed_bytes = sum(each.freed_bytes for each in jobs)
    summary = f"{len(jobs)} {'job' if len(jobs) == 1 else 'jobs'} {verb}, {size(freed_bytes)}B {freed}"
    if options.json:
        import json

        summary = json.dumps({"job_ids": [each.job.id for each in jobs], "freed_bytes": freed_bytes})
    streams.tell(summary, done=f"{len(jobs)} jobs {verb}")
