"""What a wait would have seen, had it been going on: silences and prompts that are over by now.

The end of a job, and what it printed, can be seen at any time. That a port was open for a while cannot.
"""

import contextlib
from itertools import pairwise

from bgjob.api.conditions import Conditions
from bgjob.api.context import Context
from bgjob.api.results import Came
from bgjob.api.snapshot import Snapshot
from bgjob.core.job import Job
from bgjob.home.log_format import RUN_RESOLUTION_US
from bgjob.output.log_reader import LogReader
from bgjob.store import event_reader

MICROSECONDS = 1_000_000


def missed(context: Context, snapshot: Snapshot, conditions: Conditions, since: float) -> Came | None:
    """What came true of a job after this moment, by the wall clock, and is no longer to be seen."""
    began = max(since, snapshot.job.run.started_at) if snapshot.job.run else since
    silence_s = conditions.silence_s
    if silence_s is not None and snapshot.read(lambda log: _was_silent(log, began, silence_s)):
        return Came("silence")
    return Came("input") if conditions.for_input and _has_asked(context, snapshot.job, began) else None


def _was_silent(log: LogReader, began: float, silence_s: float) -> bool:
    """Between two bytes that it printed: a silence that lasts can be seen."""
    began_us, silence_us = int(began * MICROSECONDS), silence_s * MICROSECONDS
    stamps = [
        at_us
        for segment in log.segments(0, log.end)
        for _, _, _, at_us in log.runs(segment).within(segment.start, segment.end)
        if at_us >= began_us
    ]
    # a run of bytes may go on for so long
    return any(
        after - before - RUN_RESOLUTION_US >= silence_us for before, after in pairwise([began_us, *stamps])
    )


def _has_asked(context: Context, job: Job, began: float) -> bool:
    with contextlib.suppress(OSError):
        for line in event_reader.newest_first(context.store.events):
            event = line.event
            if event is None:
                continue
            if event["at"] < began:
                return False
            if (event["kind"], event["job_id"]) == ("input", job.id):
                return True
    return False
