"""One line about jobs that ended since a client last looked: once for each, nearly free if there is none."""

import contextlib
import os
import threading
import time
from collections.abc import Collection, Iterable

from bgjob.core.job import Event
from bgjob.home import event_log, jobdir, queue_dir
from bgjob.home.event_log import Cursor
from bgjob.store import event_reader

MOST_NAMED = 3
REMEMBERED = 1_000
ROUNDED_S = 0.01


class News:
    """For one client, from the moment in which this object was made."""

    def __init__(self, events: str) -> None:
        self._events, self._began_s = events, queue_dir.now_s()
        self._place, self._size = Cursor(0, 0), 0
        self._told: dict[str, None] = {}
        self._mutex = threading.Lock()
        with contextlib.suppress(
            OSError
        ):  # events that cannot be read now are read from the first one, later
            self._place = event_log.end(events)
            self._size = self._place.byte

    def line(self, told: Collection[str]) -> str | None:
        """About all jobs that ended, without those that the client knows of or is being `told` of."""
        with self._mutex:
            self._remember(told)
            ended: dict[str, Event] = {}
            with contextlib.suppress(OSError):  # job_events says that they cannot be read
                ended = {} if self._is_quiet() else self._ended()
            self._remember(ended)
        return _line(ended) if ended else None

    def _is_quiet(self) -> bool:
        before = self._size
        try:
            self._size = os.lstat(f"{self._events}/{self._place.segment}").st_size
        except FileNotFoundError:
            return event_log.end(self._events) == self._place
        return before == self._size < event_log.SEGMENT_BYTES

    def _ended(self) -> dict[str, Event]:
        """Without jobs that had ended before, and whose end is only now told: their shim was killed."""
        ended: dict[str, Event] = {}
        began_at = time.time() - (queue_dir.now_s() - self._began_s) - ROUNDED_S
        segment = self._place.segment
        for line in event_reader.lines(self._events, self._place):
            self._place = line.behind
            if line.kind != "ended" or line.job_id in self._told:
                continue
            if (event := line.event) and event["at"] >= began_at:
                ended[line.job_id] = event
        if self._place.segment != segment:
            self._size = self._place.byte
        return ended

    def _remember(self, job_ids: Iterable[str]) -> None:
        self._told.update(dict.fromkeys(job_ids))
        for surplus in list(self._told)[: max(0, len(self._told) - REMEMBERED)]:
            del self._told[surplus]


def _line(ended: dict[str, Event]) -> str:
    named = [_sentence(event) for event in list(ended.values())[-MOST_NAMED:]]
    others = f", and {len(ended) - MOST_NAMED} before" if len(ended) > MOST_NAMED else ""
    jobs = "1 job" if len(ended) == 1 else f"{len(ended)} jobs"
    return f"{jobs} ended since you last looked: {', '.join(named)}{others}. job_events tells more."


def _sentence(event: Event) -> str:
    name, job_id = event.get("name"), event["job_id"]
    return f"{f'{name} ({job_id})' if name else job_id} {jobdir.how_ended(event)}"
