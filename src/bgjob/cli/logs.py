"""bgjob logs: what jobs printed."""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence

from bgjob.api.context import Context, open_context
from bgjob.api.follow import Begin
from bgjob.api.output import STREAMS
from bgjob.api.snapshot import Snapshot
from bgjob.cli import streams
from bgjob.cli.arguments import count_or_none, moment_or_cursor
from bgjob.cli.chosen import add_jobs, jobs_meant
from bgjob.cli.follow import print_output
from bgjob.cli.log_printer import BytesPrinter, LinesPrinter, Printer, Tell
from bgjob.cli.outcome import CODES, as_own_failure
from bgjob.cli.streams import JobStream
from bgjob.core.job import SHORT_ID_CHARACTERS, Job, Running
from bgjob.core.patterns import Pattern, compile_pattern

LINES_AT_THE_END = 1000
SCREEN_BYTES = 1 << 20
EPILOG = f"""\
Each stream of a job goes to the same one here. Of several jobs the lines go behind the name of theirs; then,
and with --timestamps or --grep, a line is printed when it is whole. With -f, the end of a job is told on stderr,
as [exit 2 after 1.0 s].

To a terminal colours pass, and what would steer it does not: it is made visible, or left out of the output of
a job that itself has a terminal. A job that draws the whole screen is shown as its screen looks now; where it
has left its screen, one line says that it was there. --raw prints the bytes as they are. Into a pipe or a
file they always are.

{CODES}
Without -f it is 0 whatever became of the job; of several jobs the first code that is not 0, in the
order in which they were typed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    way = parser.add_mutually_exclusive_group()
    way.add_argument("-f", "--follow", action="store_true", help="go on until the jobs end")
    way.add_argument(
        "-e",
        "--end",
        action="store_true",
        help=f"the last {LINES_AT_THE_END} lines; in a terminal in $PAGER (less), opened at the end",
    )
    parser.add_argument(
        "-n",
        "--lines",
        type=count_or_none,
        metavar="N",
        help="only the last N lines; with -f, then what comes",
    )
    parser.add_argument(
        "--since",
        type=moment_or_cursor,
        metavar="WHEN",
        help="what came since: 8h, 30m, 2d, 10s ago, a time (2026-07-28T12:30), or a cursor of an answer",
    )
    parser.add_argument("--grep", metavar="PATTERN", help="only lines that match (RE2, see bgjob grep)")
    parser.add_argument(
        "--timestamps", action="store_true", help="when each line came before it, in local time"
    )
    stream = parser.add_mutually_exclusive_group()
    for word in ("stdout", "stderr"):
        stream.add_argument(
            f"--{word}", dest="stream", action="store_const", const=word, help=f"only its {word}"
        )
    parser.add_argument("--raw", action="store_true", help="its bytes as they are, to a terminal too")
    add_jobs(parser)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    def act() -> int:
        context = open_context(environ, many=False)
        return _show(context, jobs_meant(context, options.ids), options, environ)

    return as_own_failure(act) if options.follow else act()


def _show(
    context: Context, jobs: Sequence[Job], options: argparse.Namespace, environ: Mapping[str, str]
) -> int:
    if _may_be_screen(jobs, options) and (screen := _screen(context, jobs[0])) is not None:
        return _show_screen(jobs[0], screen)
    pattern = None if options.grep is None else compile_pattern(options.grep)
    with _destination(jobs, options, environ) as (stdout, stderr, tell):
        if len(jobs) == 1 and not (options.timestamps or options.end or pattern):
            printer: Printer = BytesPrinter(stdout, stderr, tell)
        else:
            printer = LinesPrinter(
                jobs, stdout, stderr, tell, environ=environ, timestamps=options.timestamps, pattern=pattern
            )
        return print_output(context, jobs, printer, _begin(options, pattern), follow=options.follow)


def _begin(options: argparse.Namespace, pattern: Pattern | None) -> Begin:
    since, lines = options.since, options.lines
    return Begin(
        cursor=since if isinstance(since, str) else None,
        at=since if isinstance(since, float) else None,
        lines=LINES_AT_THE_END if options.end and lines is None else lines,
        pattern=pattern,
        streams=STREAMS[options.stream],
    )


@contextlib.contextmanager
def _destination(
    jobs: Sequence[Job], options: argparse.Namespace, environ: Mapping[str, str]
) -> Iterator[tuple[JobStream, JobStream, Tell]]:
    """Where stdout, stderr and notes go: a pager takes them all."""
    pty, command = jobs[0].spec.pty, _pager(environ) if options.end and sys.stdout.isatty() else None
    if command is None:
        stdout, stderr = (JobStream(each, raw=options.raw, pty=pty) for each in (sys.stdout, sys.stderr))
        yield stdout, stderr, streams.note
        return
    from bgjob.cli.pager import paged

    with paged(command) as stream:
        page = JobStream(stream, raw=False, pty=pty, is_terminal=True)
        yield page, page, lambda line: page.write(f"{line}\n".encode())


def _pager(environ: Mapping[str, str]) -> list[str] | None:
    from bgjob.cli.pager import pager_command  # here: subprocess takes its time to import

    return pager_command(environ)


# -- a program that draws the whole screen --------------------------------------------------------------


def _may_be_screen(jobs: Sequence[Job], options: argparse.Namespace) -> bool:
    """Where a person looks at all of one job."""
    asked = (options.follow, options.end, options.raw, options.timestamps, options.stream)
    given = (options.lines, options.since, options.grep)
    is_all = not any(asked) and all(each is None for each in given)
    return len(jobs) == 1 and jobs[0].spec.pty and is_all and sys.stdout.isatty()


def _screen(context: Context, job: Job) -> str | None:
    """None: the job's text tells more than its screen."""
    from bgjob.api.screen import has_full_screen, screen_of

    snapshot = Snapshot(context, job.id)
    if not has_full_screen(context, snapshot):
        return None
    picture = screen_of(context, snapshot, SCREEN_BYTES).picture
    return picture.text if picture else None


def _show_screen(job: Job, screen: str) -> int:
    lines = screen.encode("utf-8", "replace").splitlines()
    JobStream(sys.stdout, raw=False).write_lines(("", line) for line in lines)
    short_id = job.id[:SHORT_ID_CHARACTERS]
    now = f"; bgjob attach {short_id} enters it" if isinstance(job.state, Running) else " when it ended"
    streams.note(f"[its screen{now}; bgjob logs -n 100 {short_id} shows its text]")
    return 0
