"""What is new of the jobs that are followed: one call waits for all of them.

What was told once is not told again, until the job is followed anew: a near end that has lost an answer says
what it has.
"""

import json
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from bgjob.agent.allocation import is_in_step
from bgjob.agent.job_news import JobNews
from bgjob.api.context import Context
from bgjob.api.wait import Cancellation
from bgjob.home import event_log
from bgjob.home.event_log import Cursor
from bgjob.home.layout import is_directory
from bgjob.remote.codec import Message
from bgjob.store import event_reader
from bgjob.system.inotify import LOOK_EVERY_S, Inotify
from bgjob.system.waker import Waker

# The least that a job gets of an answer, if it has so much: small pieces would cost more than they tell.
SHARE_MIN_BYTES = 4096
MOST_EVENTS = 500
# Between two answers: a job that prints without pause fills one meanwhile.
BREATHER_S = 0.01


class News:
    def __init__(self, context: Context) -> None:
        self._store, self._events = context.store, context.store.events
        self._followed: dict[str, JobNews] = {}
        # Jobs that are being started, and will be followed: what happens to them meanwhile is told.
        self._expected: set[str] = set()
        self._turn: deque[str] = deque()
        self._taking = threading.Lock()
        self._waker, self._inotify = Waker(), Inotify()
        self._are_watched = True
        self._told_at = 0.0
        # Within an allocation of Slurm, which ends with its job and would end us in mid-word.
        self._delays_ends = is_in_step(context.environment)

    def expect(self, job_id: str) -> None:
        self._expected.add(job_id)

    def follow(self, job_id: str, have: Mapping[str, int]) -> None:
        self._expected.discard(job_id)
        self.unfollow(job_id)
        self._followed[job_id] = JobNews(self._store, job_id, dict(have), delays_end=self._delays_ends)
        self._waker.wake()

    def unfollow(self, job_id: str) -> None:
        if job := self._followed.pop(job_id, None):
            job.close()
            self._inotify.forget(job.directory)
            self._inotify.forget(job.log_directory)

    def take(
        self, since: str | None, timeout_s: float, most_bytes: int, wait: Cancellation | None
    ) -> Message:
        """What is new, as soon as something is; else, when the time is up, that nothing is."""
        deadline = time.monotonic() + timeout_s
        with self._taking:
            for job in list(self._followed.values()):
                job.note_arrived()  # who asks on has the answer before
            cursor = event_log.end(self._events) if since is None else Cursor.parse(since)
            while True:
                self._watch()
                events, cursor = self._new_events(cursor)
                jobs = self._new_of_jobs(most_bytes)
                left_s = deadline - time.monotonic()
                if jobs or events or left_s <= 0 or self._is_cancelled(left_s, wait):
                    self._told_at = time.monotonic()
                    return {"jobs": jobs, "events": events, "cursor": str(cursor)}

    def _watch(self) -> None:
        """Before the look: what changes after it wakes us."""
        wanted = [self._events]
        for job in list(self._followed.values()):
            if not job.is_over:
                wanted += [job.directory, job.log_directory]
        # A silent job has no log yet: its directory tells when it has.
        unwatched = [each for each in wanted if not self._inotify.watch(each) and is_directory(each)]
        self._are_watched = not (unwatched or self._store.is_elsewhere)

    def _is_cancelled(self, left_s: float, wait: Cancellation | None) -> bool:
        """Sleeps until something may be new."""
        also = [self._waker.fileno(), *([wait.signal.fileno()] if wait else [])]
        woken = self._inotify.wait(left_s if self._are_watched else min(left_s, LOOK_EVERY_S), also)
        self._waker.take()
        if time.monotonic() < self._told_at + BREATHER_S:
            time.sleep(BREATHER_S)
        return wait is not None and wait.signal.fileno() in woken

    # -- jobs ---------------------------------------------------------------------------------------

    def _new_of_jobs(self, most_bytes: int) -> dict[str, Message]:
        """Each has its share; who has more to tell gets what others leave, in turn."""
        news: dict[str, Message] = {}
        hungry, left = self._in_turn(), most_bytes
        while hungry and left > 0:
            share = max(left // len(hungry), SHARE_MIN_BYTES)
            for job_id in hungry:
                job = self._followed.get(job_id)
                if job and left > 0 and (new := job.take(min(share, left))):
                    left -= sum(len(piece["data"]) for piece in new.get("files", ()))
                    _add(news.setdefault(job_id, {}), new)
            hungry = [each for each in hungry if (job := self._followed.get(each)) and job.is_behind]
        return news

    def _in_turn(self) -> list[str]:
        """The first one last the next time."""
        known = set(self._turn)
        followed = list(self._followed)
        self._turn.extend(job_id for job_id in followed if job_id not in known)
        self._turn.rotate(-1)
        there = set(followed)
        self._turn = deque(job_id for job_id in self._turn if job_id in there)
        return list(self._turn)

    # -- events -------------------------------------------------------------------------------------

    def _new_events(self, cursor: Cursor) -> tuple[list[Any], Cursor]:
        """Those of followed jobs, as the log has them; and the place behind them."""
        events: list[Any] = []
        if cursor == event_log.end(self._events):
            return events, cursor
        for line in event_reader.lines(self._events, cursor):
            cursor = line.behind
            if (line.job_id in self._followed or line.job_id in self._expected) and line.event:
                events.append(json.loads(line.text.encode("latin-1")))
            if len(events) >= MOST_EVENTS:
                break
        return events, cursor


def _add(news: Message, new: Message) -> None:
    """Two looks at one job, in one answer."""
    news["files"] = [*news.get("files", ()), *new.get("files", ())]
    news["gone"] = [*news.get("gone", ()), *new.get("gone", ())]
    news["records"] = {**news.get("records", {}), **new.get("records", {})}
    news.update({word: new[word] for word in ("over", "lost", "missing", "unended") if word in new})
