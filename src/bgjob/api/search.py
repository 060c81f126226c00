"""Searching what jobs printed: one, several or all of them, those that have ended too."""

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from bgjob.api.context import Context
from bgjob.api.find import ids_of
from bgjob.api.output import STREAMS
from bgjob.api.results import Found, FoundInJob, Match
from bgjob.api.snapshot import Snapshot
from bgjob.core.errors import InvalidArgument, JobNotFound, StoreUnusable
from bgjob.core.job import Job
from bgjob.core.patterns import compile_pattern
from bgjob.home.log_format import STDERR
from bgjob.output import log_search
from bgjob.output.text import plain_line

PATIENCE_S = 30.0
ENVELOPE_BYTES = 60  # of a match: its cursor, the time, and the names of fields


def search_output(
    context: Context,
    pattern: str,
    *,
    job_ids: Sequence[str] | None = None,
    literal: bool = False,
    ignore_case: bool = False,
    stream: str | None = None,
    context_lines: int = 0,
    after: str | None = None,
    before: str | None = None,
    limit: int = 20,
    oldest_first: bool = False,
    times: bool = False,
    most_bytes: int | None = None,
    patience_s: float = PATIENCE_S,
) -> Found:
    """The newest lines that match, or the oldest, by job. A window of time asks for the times of lines too.

    `most_bytes`: of the answer; None: as the setting says.
    """
    search = partial(
        log_search.search,
        pattern=compile_pattern(pattern, literal=literal, ignore_case=ignore_case),
        newest_first=not oldest_first,
        streams=STREAMS[stream],
        context_lines=context_lines,
        out_of_time=out_of_time_after(patience_s),
        after_us=_microseconds("after", after),
        before_us=_microseconds("before", before),
    )
    timed = times or after is not None or before is not None
    chosen: list[tuple[Job, Match]] = []
    counts: list[tuple[Job, int]] = []
    searched, complete = 0, True
    if job_ids is not None:
        job_ids = _some_ids(context, job_ids)
    for snapshot in _snapshots(context, job_ids, oldest_first):
        room = limit - len(chosen)
        try:
            with snapshot.readable():
                found = search(snapshot.log, limit=max(1, room))
        except StoreUnusable:
            if job_ids is not None:
                raise
            complete = False  # in a search of all jobs, a log that cannot be read does not hide the others
            continue
        chosen += [(snapshot.job, _match(line, timed)) for line in found.matches[:room]]
        counts += [(snapshot.job, found.count)] if found.count else []
        searched += 1
        complete = complete and found.complete
    fitting = _that_fit(chosen, most_bytes or context.settings.max_response_bytes)
    shown = len(fitting) if len(fitting) < len(chosen) else None
    total = sum(count for _, count in counts)
    return Found(_by_job(fitting, oldest_first), total, searched, complete, shown, counts)


def _some_ids(context: Context, job_ids: Sequence[str]) -> list[str]:
    if not job_ids:
        raise InvalidArgument("job_ids has 0 ids. Give at least 1, or none for all jobs.")
    return ids_of(context, job_ids)


def out_of_time_after(seconds: float) -> Callable[[], bool]:
    """From now on."""
    deadline = time.monotonic() + seconds
    return lambda: time.monotonic() > deadline


def _that_fit(chosen: list[tuple[Job, Match]], most_bytes: int) -> list[tuple[Job, Match]]:
    """Into one answer: at least the first, and not many of the very long ones."""
    sizes = itertools.accumulate(_size(match) for _, match in chosen)
    return chosen[: max(1, sum(size <= most_bytes for size in sizes))]


def _by_job(chosen: Iterable[tuple[Job, Match]], oldest_first: bool) -> list[FoundInJob]:
    """Newest job first, and the lines of each in the order of its log, whichever of them were chosen first."""
    grouped = itertools.groupby(chosen, key=lambda pair: pair[0])
    found = [(job, [match for _, match in pairs]) for job, pairs in grouped]
    if oldest_first:
        return [FoundInJob(job, matches) for job, matches in reversed(found)]
    return [FoundInJob(job, matches[::-1]) for job, matches in found]


def _snapshots(context: Context, job_ids: Sequence[str] | None, oldest_first: bool) -> Iterator[Snapshot]:
    """Of these jobs or of all, newest first or oldest first. JobNotFound: one of these does not exist."""
    places = {job_id: place for place, job_id in context.store.ids()}
    if job_ids is not None:
        by_place = sorted(job_ids, key=lambda job_id: places.get(job_id, ""))
        yield from [Snapshot(context, each) for each in (by_place if oldest_first else reversed(by_place))]
        return
    for job_id in reversed(places) if oldest_first else places:
        with contextlib.suppress(JobNotFound):
            yield Snapshot(context, job_id)


def _size(match: Match) -> int:
    text = json.dumps([match.line, match.before, match.after], ensure_ascii=False)
    return ENVELOPE_BYTES + len(text.encode(errors="replace"))


def _match(line: log_search.Match, timed: bool) -> Match:
    return Match(
        f"{'…' * line.starts_late}{plain_line(line.line)}{'…' * line.ends_early}",
        f"{line.offset}-{line.end}",
        "stderr" if line.stream == STDERR else "stdout",
        line.time_us / 1e6 if timed else None,
        [plain_line(each) for each in line.before],
        [plain_line(each) for each in line.after],
    )


def _microseconds(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(
            f"{name}={text[:40]!r} is not a time. Accepted: ISO 8601, e.g. 2026-07-28T12:30:00Z."
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6)
