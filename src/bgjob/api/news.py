"""One line about jobs of a client that ended since it last called: once for each, nearly free if there is none."""

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from bgjob.core.job import JOB_ID, Event
from bgjob.home import event_log, jobdir
from bgjob.home.event_log import Cursor
from bgjob.store import event_reader

MOST_NAMED = 3
REMEMBERED = 1_000
SHOWN_CHARACTERS = 8  # of an id


class End(NamedTuple):
    event: Event
    before: Cursor
    """The place in the log of events right before it."""


class News:
    """For one client, of the jobs that it started."""

    def __init__(self, events: str) -> None:
        self._events = events
        self._place, self._size = Cursor(0, 0), 0
        # What each job is called: of those whose end the client has not been told.
        self._started: dict[str, str] = {}
        # Of other jobs too: a job may end before the answer that says it was started.
        self._ended: dict[str, End] = {}
        self._mutex = threading.Lock()
        # Events that cannot be read now are read from the first one, later.
        with contextlib.suppress(OSError):
            self._place = event_log.end(events)
            self._size = self._place.byte

    def add(self, job_id: str, called: str, *, restarts: bool = False) -> None:
        """The client has started this job. restarts: in place of another one that is called the same."""
        with self._mutex:
            self._read()
            if restarts:
                self._forget(each for each in self._named(called) if self._was_restarted(each))
            self._started[job_id] = called
            _trim(self._started)

    def line(self, told: Iterable[str], asked: Iterable[str]) -> str | None:
        """Without jobs whose end this answer has told, and for now without those that the call asked about.

        Both are ids, or what a caller writes for an id.
        """
        with self._mutex:
            self._read()
            self._forget(self._meant(told))
            withheld = set(self._meant(asked))
            untold = (self._ended.keys() & self._started.keys()) - withheld
            ended = [job_id for job_id in self._ended if job_id in untold] if untold else []
            sentences = [self._sentence(job_id) for job_id in ended[-MOST_NAMED:]]
            self._forget(ended)
        return _line(sentences, len(ended)) if ended else None

    def first_untold(self) -> str | None:
        """A cursor right before the first end of a job of this client that it has not been told."""
        with self._mutex:
            self._read()
            places = [end.before for job_id, end in self._ended.items() if job_id in self._started]
            return str(min(places)) if places else None

    def _read(self) -> None:
        """All ends since the last time. If the events cannot be read, job_events says so."""
        with contextlib.suppress(OSError):
            if self._is_quiet():
                return
            segment = self._place.segment
            for line in event_reader.lines(self._events, self._place):
                before, self._place = self._place, line.behind
                if line.kind == "ended" and (event := line.event):
                    self._ended[line.job_id] = End(event, before)
            if self._place.segment != segment:
                self._size = self._place.byte
            _trim(self._ended)

    def _is_quiet(self) -> bool:
        before = self._size
        try:
            self._size = os.lstat(f"{self._events}/{self._place.segment}").st_size
        except FileNotFoundError:
            return event_log.end(self._events) == self._place
        return before == self._size < event_log.SEGMENT_BYTES

    def _meant(self, words: Iterable[str]) -> Iterator[str]:
        """Ids, of words that may be an id, its beginning or a name."""
        for word in words:
            if JOB_ID.fullmatch(word):
                yield word
            else:
                yield from self._named(word)
                yield from [job_id for job_id in self._started if job_id.startswith(word)]

    def _named(self, name: str) -> list[str]:
        return [job_id for job_id, called in self._started.items() if called == name]

    def _was_restarted(self, job_id: str) -> bool:
        """Killed for the new job: its end may not be in the log yet. Any other end of it is worth telling."""
        return job_id not in self._ended or self._ended[job_id].event.get("cause") == "killed"

    def _forget(self, job_ids: Iterable[str]) -> None:
        for job_id in list(job_ids):
            self._started.pop(job_id, None)
            self._ended.pop(job_id, None)

    def _sentence(self, job_id: str) -> str:
        how = jobdir.how_ended(self._ended[job_id].event)
        return f"{self._started[job_id]} ({job_id[:SHOWN_CHARACTERS]}) {how}"


def _line(sentences: list[str], count: int) -> str:
    before = [f"and {count - len(sentences)} more before"] if count > len(sentences) else []
    return f"{', '.join(sentences + before)}."


def _trim(remembered: dict[str, Any]) -> None:
    for surplus in list(remembered)[: max(0, len(remembered) - REMEMBERED)]:
        del remembered[surplus]
