"""What is new of the jobs that are followed: one call waits for all of them.

What was told once is not told again, until the job is followed anew: a near end that has lost an answer says
what it has.
"""

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from bgjob.agent.job_news import JobNews
from bgjob.api.context import Context
from bgjob.api.wait import Cancellation
from bgjob.home import event_log
from bgjob.home.event_log import Cursor
from bgjob.home.layout import is_directory
from bgjob.remote.codec import Message
from bgjob.store import event_reader
from bgjob.system.inotify import LOOK_EVERY_S, SAFETY_S, Inotify
from bgjob.system.waker import Waker

# The least that a job gets of an answer, if it has so much: small pieces would cost more than they tell.
SHARE_MIN_BYTES = 4096
MOST_EVENTS, EVENTS_MAX_BYTES = 500, 1 << 19
# Between two answers: a job that prints without pause fills one meanwhile.
BREATHER_S = 0.01


class News:
    def __init__(self, context: Context, *, delays_ends: bool = False) -> None:
        """`delays_ends`: see JobNews, for each job that is followed."""
        self._store, self._events = context.store, context.store.events
        self._followed: dict[str, JobNews] = {}
        # Jobs that are being started, and will be followed: what happens to them meanwhile is told.
        self._expected: set[str] = set()
        # Those of which something may be new, in the order in which they are looked at.
        self._to_look_at: dict[str, None] = {}
        # For each job, the number of the last look that was requested and has no answer yet.
        self._asked: dict[str, int] = {}
        self._all_looked_at = self._told_at = 0.0
        self._taking, self._calls = threading.Lock(), 0
        self._waker, self._inotify = Waker(), Inotify()
        # What another machine writes wakes nobody here.
        self._are_watched = self._inotify.is_available and not context.store.is_elsewhere
        self._delays_ends = delays_ends

    def expect(self, job_id: str) -> None:
        self._expected.add(job_id)

    def follow(self, job_id: str, have: Mapping[str, int]) -> None:
        """`have`: how many bytes are known of each file of its log."""
        self._expected.discard(job_id)
        self.unfollow(job_id)
        self._followed[job_id] = JobNews(self._store, job_id, dict(have), delays_end=self._delays_ends)
        self._to_look_at[job_id] = None
        self._waker.wake()

    def unfollow(self, job_id: str) -> None:
        if job := self._followed.pop(job_id, None):
            job.close()
            self._forget(job)

    def look(self, job_id: str, number: int) -> None:
        """Request all news up to now. The answer with this number under `looked` completes it."""
        # The job first: a look that another thread is taking meanwhile must not count as the one requested here.
        self._to_look_at[job_id] = None
        self._asked[job_id] = number
        self._waker.wake()

    def take(
        self, since: str | None, timeout_s: float, most_bytes: int, wait: Cancellation | None
    ) -> Message:
        """What is new, as soon as something is; else, when the time is up, that nothing is.

        One call at a time: a newer one ends it.
        """
        self._calls += 1
        call, deadline = self._calls, time.monotonic() + timeout_s
        self._waker.wake()
        with self._taking:
            for job in list(self._followed.values()):
                job.note_arrived()  # who asks on has the answer before
            cursor = event_log.end(self._events) if since is None else Cursor.parse(since)
            while True:
                self._find_changed()
                self._watch()
                events, cursor = self._new_events(cursor)
                asked = dict(self._asked)  # before the look that serves them
                jobs = self._new_of_jobs(most_bytes)
                looked = self._looked(asked)
                left_s = deadline - time.monotonic()
                is_over = jobs or events or looked or left_s <= 0 or call != self._calls
                if is_over or self._is_cancelled(left_s, wait):
                    self._told_at = time.monotonic()
                    return {"jobs": jobs, "events": events, "looked": looked, "cursor": str(cursor)}

    # -- being woken --------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Before the look: what changes after it wakes us. A silent job has no log yet; its directory tells
        when it has."""
        jobs = [job for job_id in list(self._to_look_at) if (job := self._followed.get(job_id))]
        wanted = [self._events, *(path for job in jobs for path in (job.directory, job.log_directory))]
        if any(not self._inotify.watch(path) and is_directory(path) for path in wanted):
            self._are_watched = False  # the system allows no more

    def _forget(self, job: JobNews) -> None:
        for path in (job.directory, job.log_directory):
            self._inotify.forget(path)

    def _is_cancelled(self, left_s: float, wait: Cancellation | None) -> bool:
        """Sleeps until something may be new."""
        also = [self._waker.fileno(), *([wait.signal.fileno()] if wait else [])]
        woken = self._inotify.wait(left_s if self._are_watched else min(left_s, LOOK_EVERY_S), also)
        self._waker.take()
        time.sleep(max(0.0, self._told_at + BREATHER_S - time.monotonic()))
        return wait is not None and wait.signal.fileno() in woken

    def _find_changed(self) -> None:
        """All of them now and then: the kernel tells nobody that a lock is free."""
        self._inotify.wait(0.0)
        changed = self._inotify.changed()
        is_due = time.monotonic() > self._all_looked_at + SAFETY_S
        if is_due:
            self._all_looked_at = time.monotonic()
        for job_id, job in list(self._followed.items()):
            if changed is None or is_due or not self._are_watched or changed & job.places:
                self._to_look_at[job_id] = None

    # -- jobs ---------------------------------------------------------------------------------------

    def _new_of_jobs(self, most_bytes: int) -> dict[str, Message]:
        """Each has its share; who has more to tell gets what others leave, and is the last the next time."""
        news: dict[str, Message] = {}
        left, jobs = most_bytes, list(self._to_look_at)
        while jobs and left > 0:
            share = max(left // len(jobs), SHARE_MIN_BYTES)
            for job_id in jobs:
                if left > 0 and (new := self._look_at(job_id, min(share, left))):
                    left -= _size(new)
                    _add(news.setdefault(job_id, {}), new)
            jobs = [job_id for job_id in jobs if job_id in self._to_look_at]
        return news

    def _looked(self, asked: Mapping[str, int]) -> dict[str, int]:
        """Return the looks that are complete. A job with more news than fits into one answer is looked at again."""
        done = {job_id: number for job_id, number in asked.items() if job_id not in self._to_look_at}
        for job_id, number in done.items():
            if self._asked.get(job_id) == number:
                del self._asked[job_id]
        return done

    def _look_at(self, job_id: str, most_bytes: int) -> Message:
        self._to_look_at.pop(job_id, None)
        job = self._followed.get(job_id)
        if job is None:
            return {}
        new = job.take(most_bytes)
        if job.is_over:
            self._forget(job)
        elif job.is_behind:
            self._to_look_at[job_id] = None
        return new

    # -- events -------------------------------------------------------------------------------------

    def _new_events(self, cursor: Cursor) -> tuple[list[Any], Cursor]:
        """Those of followed jobs, as the log has them; and the place behind them."""
        events: list[Any] = []
        size = 0
        if cursor == event_log.end(self._events):
            return events, cursor
        for line in event_reader.lines(self._events, cursor):
            cursor = line.behind
            if (line.job_id in self._followed or line.job_id in self._expected) and line.event:
                events.append(json.loads(line.text.encode("latin-1")))
                size += len(line.text)
            if len(events) >= MOST_EVENTS or size > EVENTS_MAX_BYTES:
                break
        return events, cursor


def _size(new: Message) -> int:
    files = sum(len(piece["data"]) for piece in new.get("files", ()))
    return files + sum(len(str(record)) for record in new.get("records", {}).values())


def _add(news: Message, new: Message) -> None:
    """Two looks at one job, in one answer."""
    news["files"] = [*news.get("files", ()), *new.get("files", ())]
    news["gone"] = [*news.get("gone", ()), *new.get("gone", ())]
    news["records"] = {**news.get("records", {}), **new.get("records", {})}
    news.update({word: new[word] for word in ("over", "lost", "missing", "unended") if word in new})
