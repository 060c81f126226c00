"""Jobs that use too much, and what is told of them."""

import sys
from collections.abc import Callable
from typing import Any

from bgjob.api import Jobs, JobStatus
from bgjob.core.job import OverLimit, status_word
from bgjob.home import event_log
from bgjob.store import event_reader

Ended = Callable[[str], JobStatus]


HOG = f'''exec "{sys.executable}" -c "
held = [bytearray(8 << 20) for _ in range(64)]
import time; time.sleep(1000)"'''


BURN = "while :; do :; done"


MANY = "for i in $(seq 30); do sleep 1000 & done; wait"


BOMB = "if [ $1 -gt 0 ]; then sh $0 $(($1-1)) & sh $0 $(($1-1)) & fi; sleep 50 & wait"


GENERATIONS = 9  # 1500 processes if nobody ends it: enough to be a bomb, and no harm


def over(look: JobStatus) -> OverLimit:
    state = look.job.state
    assert isinstance(state, OverLimit), state
    assert status_word(state) == "killed"
    return state


def events_of(jobs: Jobs, job_id: str, kind: str) -> list[dict[str, Any]]:
    directory = jobs.events_directory
    events = [event for event, _ in event_reader.read(directory, event_log.beginning(directory))]
    return [event for event in events if event["job_id"] == job_id and event["kind"] == kind]
