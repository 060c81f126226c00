"""Searching what jobs printed: one, several or all of them, those that have ended too."""

import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from bgjob.api.output import STREAMS, Reading
from bgjob.api.results import Found, Match
from bgjob.core.errors import InvalidArgument, JobNotFound, StoreUnusable
from bgjob.core.job import Job
from bgjob.core.patterns import compile_pattern
from bgjob.home.log_format import STDERR
from bgjob.output import log_search
from bgjob.output.text import plain_line

PATIENCE_S = 30.0


class Searching(Reading):
    def search(
        self,
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
    ) -> Found:
        """Lines that match, newest job first and newest line first (or the other way round)."""
        compiled = compile_pattern(pattern, literal=literal, ignore_case=ignore_case)
        after_us, before_us = _microseconds("after", after), _microseconds("before", before)
        deadline = time.monotonic() + PATIENCE_S
        matches: list[Match] = []
        count, searched, complete = 0, 0, True
        for job in self._searched_jobs(job_ids, oldest_first):
            try:
                with self._readable(job):
                    found = log_search.search(
                        self._log(job),
                        compiled,
                        limit=max(1, limit - len(matches)),
                        newest_first=not oldest_first,
                        streams=STREAMS[stream],
                        context_lines=context_lines,
                        out_of_time=lambda: time.monotonic() > deadline,
                        after_us=after_us,
                        before_us=before_us,
                    )
            except StoreUnusable:
                if job_ids is not None:
                    raise
                complete = False  # of all jobs: one whose log cannot be read does not hide the others
                continue
            room = limit - len(matches)
            matches += [_match(job, line) for line in found.matches[:room]]
            count += found.count or 0
            searched += 1
            complete = complete and found.complete
        return Found(self._that_fit(matches), count, searched, complete)

    def _that_fit(self, matches: list[Match]) -> list[Match]:
        """Into one answer: at least the first, and not many of the very long ones."""
        sizes = itertools.accumulate(_size(match) for match in matches)
        fitting = sum(size <= self._settings.max_response_bytes for size in sizes)
        return matches[: max(1, fitting)]

    def _searched_jobs(self, job_ids: Sequence[str] | None, oldest_first: bool) -> Iterator[Job]:
        if job_ids is not None:
            yield from [self._store.load(job_id) for job_id in dict.fromkeys(job_ids)]
            return
        ids = [job_id for _, job_id in self._store.ids()]
        for job_id in reversed(ids) if oldest_first else ids:
            with contextlib.suppress(JobNotFound):
                yield self._store.load(job_id)


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
