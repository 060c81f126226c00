"""bgjob events: what happened to jobs."""

import argparse
import time
from collections.abc import Mapping
from typing import get_args

from bgjob.api.audit import NO_JOB
from bgjob.api.context import Context, open_context
from bgjob.api.event_words import what_happened
from bgjob.api.events import cursor_at, job_events
from bgjob.api.find import find_typed
from bgjob.api.job_json import utc
from bgjob.api.results import EventPage, JobEvent
from bgjob.cli import streams
from bgjob.cli.arguments import count, moment_or_cursor
from bgjob.cli.as_json import as_line
from bgjob.core.job import SHORT_ID_CHARACTERS, AuditKind, EventKind
from bgjob.output.tty_text import cut, one_line, width

FOLLOW_S = 30.0
EVENT_TOKENS = 20_000
NAME_COLUMNS = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--follow", action="store_true", help="go on, as it happens")
    parser.add_argument("-n", "--lines", type=count, metavar="N", help="only the newest N")
    parser.add_argument(
        "--since",
        type=moment_or_cursor,
        metavar="WHEN",
        help="what came since: 8h, 30m, 2d ago, a time, or a cursor as it was printed (default: the newest events)",
    )
    parser.add_argument(
        "--kind", action="append", choices=(*get_args(EventKind), *get_args(AuditKind)), metavar="KIND",
        help=f"only these; may be repeated: {', '.join(get_args(EventKind))}; of the audit trail, which is shown only "
        f"on request: {', '.join(get_args(AuditKind))}",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="a JSON object per event")
    parser.add_argument("ids", nargs="*", metavar="ID", help="of these jobs (default: of all)")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context = open_context(environ, many=False)
    job_ids = [find_typed(context, each).id for each in options.ids] or None
    since = _cursor(context, options.since, options.kind)
    while True:
        # The first look does not wait: it shows what there is, from which on the others are followed.
        found = job_events(
            context,
            since,
            job_ids=job_ids,
            kinds=options.kind,
            timeout_s=FOLLOW_S if options.follow and since else 0,
            max_tokens=EVENT_TOKENS,
            newest=options.lines,
        )
        _show(found, as_json=options.json)
        since = found.cursor
        if not (found.more or options.follow):
            streams.note(f"(bgjob events --since {since} shows what comes next)")
            return 0


def _cursor(context: Context, since: float | str | None, kinds: list[str] | None) -> str | None:
    return cursor_at(context, since, kinds) if isinstance(since, float) else since


def _show(found: EventPage, *, as_json: bool) -> None:
    if found.gone_bytes:
        streams.note("(older ones are no longer kept)")
    if found.left_out:
        streams.note(
            f"({found.left_out} older ones not shown; bgjob events --since {found.earlier} shows all)"
        )
    for event in found.events:
        if as_json:
            streams.say(as_line(_as_json(event)))
        else:
            streams.say(event_row(event))


def _as_json(event: JobEvent) -> dict[str, object]:
    job_id = None if event.job_id == NO_JOB else event.job_id
    head = {"at": utc(event.at), "kind": event.kind, "job_id": job_id}
    known = {**head, "name": event.name, "command": event.command, **event.details}
    return {word: value for word, value in known.items() if value is not None}


def event_row(event: JobEvent) -> str:
    when = time.strftime("%F %T", time.localtime(event.at))
    name = cut(_printable(event.name or event.command or "-"), NAME_COLUMNS)
    blanks = " " * (NAME_COLUMNS - width(name))
    short_id = (
        "-" * SHORT_ID_CHARACTERS
        if event.job_id == NO_JOB
        else _printable(event.job_id[:SHORT_ID_CHARACTERS])
    )
    return f"{when}  {short_id}  {name}{blanks}  {_printable(what_happened(event))}".rstrip()


def _printable(text: str) -> str:
    return one_line(" ".join(text.split()))
