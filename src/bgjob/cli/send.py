"""bgjob send: type text or keys into a job."""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping

from bgjob.api.context import Context, open_context
from bgjob.api.feed import feed_job
from bgjob.api.find import find_typed
from bgjob.api.follow import follow_output
from bgjob.api.hold import note_typed
from bgjob.api.interact import Typed, check_all_taken, interact_with_job
from bgjob.api.output import Shown
from bgjob.api.results import Interaction
from bgjob.cli import streams
from bgjob.cli.arguments import seconds
from bgjob.cli.chosen import STEERED_HELP
from bgjob.cli.ourselves import own_name
from bgjob.cli.outcome import last_words
from bgjob.cli.streams import JobStream
from bgjob.core.errors import BgjobError
from bgjob.core.job import Job, Running
from bgjob.home.log_format import STDERR

STDIN = ["-"]
PIECE_BYTES = 1 << 16
EPILOG = """\
  bgjob send db 'select 1;'          a line; Enter is pressed behind it
  bgjob send db ''                   Enter alone
  bgjob send editor :wq --key enter  text, then keys: enter, tab, esc, up, pagedown, f1, ctrl-c, alt-x …
  bgjob send sort - --eof < names    bytes as they are, then the end of input

Several words of TEXT are joined by blanks; - alone stands for what stdin has. Text that begins with - is written
behind --. Exit code 1: it could not be typed, or not all of it.
"""


class CannotRead(BgjobError):
    pass


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "bgjob send [OPTION ...] ID [--] [TEXT ...]"
    parser.add_argument("-n", "--no-enter", action="store_true", help="do not press Enter behind the text")
    parser.add_argument(
        "--key", action="append", default=[], metavar="NAME", help="press it, after the text; may be repeated"
    )
    parser.add_argument("--eof", action="store_true", help="then end its input")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not print what it answers")
    parser.add_argument(
        "--wait", type=seconds, default=5.0, metavar="S", help="how long it may take to answer (default: 5)"
    )
    parser.add_argument("id", metavar="ID", help=STEERED_HELP)
    parser.set_defaults(usage_error=parser.error)


def split(parser: argparse.ArgumentParser, arguments: list[str]) -> tuple[list[str], list[str]]:
    """The options with the ID, and the text: argparse itself finds no text behind an option that follows the ID."""
    own, words, left = list[str](), list[str](), iter(arguments)
    for word in left:
        if word == "--":
            words += left
        elif not word.startswith("-") or word == "-":
            words.append(word)
        else:
            own.append(word)
            action = parser._option_string_actions.get(word)
            if action is not None and action.nargs is None:
                own += [value for value in [next(left, None)] if value is not None]
    return [*own, "--", *words[:1]], words[1:]


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    _check(options)
    context = open_context(environ, many=False)
    job = find_typed(context, options.id, steered=Running)
    done = _type(context, job, options)
    note_typed(context, job, own_name(), done.accepted_bytes)
    if not options.quiet:
        _show(context, done)
    check_all_taken(done, "Nothing more is typed; --wait gives it more time.")
    return 0


def _check(options: argparse.Namespace) -> None:
    if not (options.command or options.key or options.eof):
        options.usage_error("what is to be typed? Give a text, --key NAME, --eof, or - for what stdin has")
    if options.command == STDIN and options.key:
        options.usage_error("--key does not go with -: send the keys after it, by another bgjob send")


def _type(context: Context, job: Job, options: argparse.Namespace) -> Interaction:
    shown = Shown(view=None)
    if options.command == STDIN:
        return feed_job(context, job.id, _stdin(), close_stdin=options.eof, wait_s=options.wait, shown=shown)
    typed = Typed(
        text=" ".join(options.command) if options.command else None,
        keys=options.key,
        add_newline=False if options.no_enter else None,
        close_stdin=options.eof,
    )
    return interact_with_job(context, job.id, typed, wait_s=options.wait, shown=shown)


def _stdin() -> Iterator[bytes]:
    """Pieces as they come: a person at a terminal sends line by line."""
    try:
        yield from iter(lambda: os.read(sys.stdin.fileno(), PIECE_BYTES), b"")
    except OSError as error:
        raise CannotRead(f"Standard input cannot be read: {error.strerror}.") from error


def _answer(context: Context, done: Interaction) -> Iterator[tuple[bool, bytes]]:
    """(whether it was printed on stderr, bytes): the screen of a full-screen program, else what came since.

    On a terminal programs draw as they print: there it is the text, without what draws.
    """
    output = done.output
    if output.picture:
        yield False, f"{output.picture.text}\n".encode()
    elif done.job.spec.pty and not output.stdout_left_out_bytes:
        yield False, output.stdout.encode()
    else:
        for chunk in follow_output(context, done.job.id, False, str(done.at)):
            yield chunk.stream == STDERR, chunk.data


def _show(context: Context, done: Interaction) -> None:
    stdout, stderr = JobStream(sys.stdout, raw=False), JobStream(sys.stderr, raw=False)
    for is_error, data in _answer(context, done):
        (stderr if is_error else stdout).write(data)
    for stream, end_line in ((stdout, streams.say), (stderr, streams.note)):
        stream.finish()
        if stream.is_within_a_line:
            end_line("")
    if not isinstance(done.job.state, Running):
        streams.note(f"[bgjob: {last_words(done.job)}]")
