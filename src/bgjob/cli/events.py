"""bgjob events: what happened to jobs."""

import argparse
import time
from collections.abc import Mapping

from bgjob.api.context import open_context
from bgjob.api.events import job_events
from bgjob.api.find import find_typed
from bgjob.api.results import JobEvent
from bgjob.cli import streams
from bgjob.output.tty_text import one_line

FOLLOW_S = 30.0
EVENT_TOKENS = 20_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--follow", action="store_true", help="go on, as it happens")
    parser.add_argument("--since", metavar="CURSOR", help="what came after it (default: the newest events)")
    parser.add_argument("ids", nargs="*", metavar="ID", help="of these jobs (default: of all)")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context, since = open_context(environ, many=False), options.since
    job_ids = [find_typed(context, each).id for each in options.ids] or None
    while True:
        # The first look does not wait: it shows the newest events, from which on the others are followed.
        timeout_s = FOLLOW_S if options.follow and since else 0
        found = job_events(context, since, job_ids=job_ids, timeout_s=timeout_s, max_tokens=EVENT_TOKENS)
        for event in found.events:
            streams.say(_event_row(event))
        since = found.cursor
        if not (found.more or options.follow):
            streams.note(f"(bgjob events --since {since} shows what comes next)")
            return 0


def _printable(text: str) -> str:
    return one_line(" ".join(text.split()))


def _event_row(event: JobEvent) -> str:
    when = time.strftime("%F %T", time.localtime(event.at))
    details = " ".join(_printable(f"{word}={value}") for word, value in event.details.items())
    job_id, name, kind = _printable(event.job_id[:8]), _printable(event.name or "-"), _printable(event.kind)
    return f"{when}  {job_id}  {name:12.12}  {kind:10}  {details}".rstrip()
