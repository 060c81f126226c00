"""All jobs of a store in numbers, for monitoring."""

from collections import Counter
from contextlib import suppress
from typing import NamedTuple

from bgjob.api.context import Context
from bgjob.api.snapshot import Snapshot
from bgjob.core.errors import JobNotFound, StoreUnusable
from bgjob.core.job import Ended, Job, StatusWord, status_word


class Totals(NamedTuple):
    jobs: Counter[StatusWord]
    output_bytes: int


def store_totals(context: Context) -> Totals:
    counted: Counter[StatusWord] = Counter()
    output_bytes = 0
    for _, job in context.store.jobs():
        counted[status_word(job.state)] += 1
        output_bytes += _printed_bytes(context, job)
    return Totals(counted, output_bytes)


def _printed_bytes(context: Context, job: Job) -> int:
    if isinstance(job.state, Ended):
        return job.state.output_bytes
    with suppress(JobNotFound, StoreUnusable):
        return Snapshot(context, job.id).read(lambda log: log.end)
    return 0
