"""Searching what jobs printed: one, several or all of them, those that have ended too."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial

from bgjob.api.context import Context
from bgjob.api.output import STREAMS
from bgjob.api.results import Found, Match
from bgjob.api.snapshot import Snapshot
from bgjob.core.errors import InvalidArgument, JobNotFound, StoreUnusable
from bgjob.core.job import Job
from bgjob.core.patterns import compile_pattern
from bgjob.home.log_format import STDERR
from bgjob.output import log_search
from bgjob.output.text import plain_line

PATIENCE_S = 30.0


def search_output(
    context: Context,
    pattern: str,
    *,
    job_ids: Sequence[str] | None = None,
    literal: bool = False,
    stream: str | None = None,
    context_lines: int = 0,
    after: str | None = None,
    before: str | None = None,
    limit: int = 20,
    oldest_first: bool = False,
) -> Found:
    """Lines that match, newest job first and newest line first (or the other way round)."""
    search = partial(
        log_search.search,
        pattern=compile_pattern(pattern, literal=literal),
        newest_first=not oldest_first,
        streams=STREAMS[stream],
        context_lines=context_lines,
        out_of_time=_after_s(PATIENCE_S),
        after_us=_microseconds("after", after),
        before_us=_microseconds("before", before),
    )
    matches: list[Match] = []
    count, searched, complete = 0, 0, True
    for snapshot in _snapshots(context, job_ids, oldest_first):
        room = limit - len(matches)
        try:
            with snapshot.readable():
                found = search(snapshot.log, limit=max(1, room))
        except StoreUnusable:
            if job_ids is not None:
                raise
            complete = False  # in a search of all jobs, a log that cannot be read does not hide the others
            continue
        matches += [_match(snapshot.job, line) for line in found.matches[:room]]
        count += found.count or 0
        searched += 1
        complete = complete and found.complete
    return Found(_that_fit(matches, context.settings.max_response_bytes), count, searched, complete)


def _after_s(seconds: float) -> Callable[[], bool]:
    deadline = time.monotonic() + seconds
    return lambda: time.monotonic() > deadline


def _that_fit(matches: list[Match], most_bytes: int) -> list[Match]:
    """Into one answer: at least the first, and not many of the very long ones."""
    sizes = itertools.accumulate(_size(match) for match in matches)
    return matches[: max(1, sum(size <= most_bytes for size in sizes))]


def _snapshots(context: Context, job_ids: Sequence[str] | None, oldest_first: bool) -> Iterator[Snapshot]:
    if job_ids is not None:
        yield from [Snapshot(context, job_id) for job_id in dict.fromkeys(job_ids)]
        return
    ids = [job_id for _, job_id in context.store.ids()]
    for job_id in reversed(ids) if oldest_first else ids:
        with contextlib.suppress(JobNotFound):
            yield Snapshot(context, job_id)


def _size(match: Match) -> int:
    return sum(len(line.encode()) for line in [match.line, *match.before, *match.after])


def _match(job: Job, line: log_search.Match) -> Match:
    return Match(
        job,
        f"{line.offset}-{line.end}",
        "stderr" if line.stream == STDERR else "stdout",
        line.time_us / 1e6,
        plain_line(line.line),
        [plain_line(each) for each in line.before],
        [plain_line(each) for each in line.after],
    )


def _microseconds(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(
            f"{name}={text[:40]!r} is not a time. Accepted: ISO 8601, e.g. 2026-07-28T12:30:00Z."
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6)
