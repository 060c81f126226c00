"""bgjob grep: lines in what jobs printed."""

import argparse
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from bgjob.api.context import Context, open_context
from bgjob.api.filter import job_filter
from bgjob.api.find import find_typed
from bgjob.api.job_json import utc
from bgjob.api.results import Found, FoundInJob, Match
from bgjob.api.search import search_output
from bgjob.cli import streams
from bgjob.cli.arguments import count, count_or_none, moment
from bgjob.cli.as_json import as_line
from bgjob.cli.colours import Paint, painter
from bgjob.cli.labels import labels
from bgjob.cli.words import in_our_words
from bgjob.core.errors import BgjobError
from bgjob.core.job import Job
from bgjob.output.tty_text import one_line

FOUND, NOTHING_FOUND, FAILED = 0, 1, 2
MOST_BYTES = 256 << 20
DEFAULT_LIMIT = 1000
EPILOG = """\
PATTERN is a regular expression of RE2, matched line by line against the text as it is shown: without colours.
Jobs are searched newest first, those that have ended too; the lines of a job are in the order of its log.

Exit code: 0 lines were found; 1 none; 2 an error."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-i", "--ignore-case", action="store_true", help="upper and lower case are alike")
    parser.add_argument("-F", "--fixed-strings", action="store_true", help="PATTERN is text, as it stands")
    parser.add_argument(
        "-C", "--context", type=count_or_none, default=0, metavar="N", help="with N lines before and after"
    )
    parser.add_argument(
        "-n", "--limit", type=count, default=DEFAULT_LIMIT, metavar="N",
        help=f"the newest N lines that match (default: {DEFAULT_LIMIT})",
    )  # fmt: skip
    parser.add_argument(
        "--since", type=moment, metavar="WHEN", help="what came since: 8h, 30m, 2d ago, or a time"
    )
    stream = parser.add_mutually_exclusive_group()
    for word in ("stdout", "stderr"):
        stream.add_argument(f"--{word}", dest="stream", action="store_const", const=word, help=f"only {word}")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("-l", "--list", action="store_true", help="only which jobs have such lines")
    shape.add_argument("-c", "--count", action="store_true", help="only how many each job has")
    shape.add_argument("--json", action="store_true", help="a JSON object per line that matches")
    parser.add_argument(
        "--filter", action="append", default=[], metavar="WORD", help="only in jobs that fit, as in bgjob ps"
    )
    parser.add_argument("pattern", metavar="PATTERN")
    parser.add_argument("ids", nargs="*", metavar="ID", help="in these jobs (default: in all)")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    try:
        context = open_context(environ, many=False)
        job_ids = _job_ids(context, options)
        found = None if job_ids == [] else _search(context, job_ids, options)
    except BgjobError as error:  # 1 would say that there are no such lines
        streams.complain(in_our_words(error))
        return FAILED
    if found is None or not found.count:
        return NOTHING_FOUND
    _show(found, options, painter(sys.stdout, environ))
    _note_what_is_missing(found, options)
    return FOUND


def _job_ids(context: Context, options: argparse.Namespace) -> list[str] | None:
    """None: all jobs."""
    if not options.ids and not options.filter:
        return None
    fits = job_filter(options.filter)
    jobs = [find_typed(context, word) for word in options.ids]
    return [job.id for job in (jobs if options.ids else _all_jobs(context)) if fits(job)]


def _all_jobs(context: Context) -> Iterator[Job]:
    return (job for _, job in context.store.jobs())


def _search(context: Context, job_ids: Sequence[str] | None, options: argparse.Namespace) -> Found:
    return search_output(
        context,
        options.pattern,
        job_ids=job_ids,
        literal=options.fixed_strings,
        ignore_case=options.ignore_case,
        stream=options.stream,
        context_lines=options.context,
        after=None if options.since is None else time.strftime("%FT%TZ", time.gmtime(options.since)),
        limit=1 if options.list or options.count else options.limit,
        times=options.json,
        most_bytes=MOST_BYTES,
        patience_s=math.inf,
    )


def _show(found: Found, options: argparse.Namespace, paint: Paint) -> None:
    names = {id_: paint(name, "magenta") for id_, name in labels([job for job, _ in found.counts]).items()}
    if options.list or options.count:
        for job, number in found.counts:
            streams.say(f"{names[job.id]}: {number}" if options.count else names[job.id])
    elif options.json:
        for each in found.jobs:
            _say_json(each)
    else:
        between = paint("--", "dim") if options.context else None
        _say_matches(found, {} if len(options.ids) == 1 else names, between)


def _say_matches(found: Found, names: Mapping[str, str], between: str | None) -> None:
    is_first = True
    for each in found.jobs:
        for match in each.matches:
            if between and not is_first:
                streams.say(between)
            _say_match(match, names.get(each.job.id))
            is_first = False


def _say_match(match: Match, name: str | None) -> None:
    """As grep has it: a colon before what matches, a dash before what is around it."""
    for line, mark in (
        *((each, "-") for each in match.before),
        (match.line, ":"),
        *((each, "-") for each in match.after),
    ):
        streams.say((f"{name}{mark} " if name else "") + _shown(line))


def _shown(line: str) -> str:
    """On one line: of a screen that was drawn, a match may have several. A tab is no more than a blank here."""
    return "\t".join(map(one_line, line.replace("\n", " ").split("\t")))


def _say_json(found: FoundInJob) -> None:
    for match in found.matches:
        known = {
            "job_id": found.job.id,
            "name": found.job.spec.name,
            "stream": match.stream,
            "at": None if match.at is None else utc(match.at),
            "cursor": match.cursor,
            "line": match.line,
            "before": match.before or None,
            "after": match.after or None,
        }
        streams.say(as_line({word: value for word, value in known.items() if value is not None}))


def _note_what_is_missing(found: Found, options: argparse.Namespace) -> None:
    if not found.complete:
        streams.note("(the output of some jobs could not be read)")
    shown = sum(len(each.matches) for each in found.jobs)
    if shown < found.count and not (options.list or options.count):
        streams.note(f"({found.count - shown} older lines match too; -n {found.count} shows all)")
