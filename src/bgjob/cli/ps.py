"""bgjob ps: a list of jobs."""

import argparse
import time
from collections.abc import Mapping
from typing import get_args

from bgjob.api.context import Context, open_context
from bgjob.api.results import Page
from bgjob.api.status import list_jobs
from bgjob.cli import streams
from bgjob.cli.arguments import count
from bgjob.cli.table import table
from bgjob.core.job import StatusWord


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--status", choices=get_args(StatusWord))
    parser.add_argument("--limit", type=count, default=20, metavar="N", help="at most so many (default: 20)")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    pages = _pages(open_context(environ, many=False), options.status, options.limit)
    for line in table(pages, time.time(), streams.columns()):
        streams.say(line)
    if pages[-1].next_cursor:
        streams.note(f"(older ones not shown; --limit {options.limit * 5} shows more)")
    return 0


def _pages(context: Context, wanted: StatusWord | None, limit: int) -> list[Page]:
    """Together `limit` jobs, or all: a page is bounded also by its size."""
    pages = [list_jobs(context, wanted, limit)]
    while (cursor := pages[-1].next_cursor) and (left := limit - sum(len(page.jobs) for page in pages)):
        pages.append(list_jobs(context, wanted, left, cursor))
    return pages
