"""What happened since a moment: to all jobs or some, now or when it does."""

import contextlib
import functools
import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from bgjob.api.news import News
from bgjob.api.output import BYTES_PER_TOKEN
from bgjob.api.results import Happened, Happenings
from bgjob.api.status import Looking
from bgjob.api.wait import TELL_EVERY_S, Cancellation, Tell
from bgjob.core.errors import InvalidArgument, JobNotFound, StoreUnusable
from bgjob.core.job import signal_name
from bgjob.home import event_log, watch_registry
from bgjob.home.event_log import Cursor
from bgjob.output.text import plain_line
from bgjob.store import event_reader
from bgjob.store.event_reader import Line
from bgjob.store.reconcile import Reconciler
from bgjob.system.inotify import Inotify

DEFAULT_TOKENS = 1500
MOST_JOBS = 100
ENVELOPE_BYTES = 120  # time, id and the words around them
CATCH_UP_S = 1.0
LOOK_EVERY_S = 1.0
OUTSIDE = ("at", "kind", "job_id", "name")

Wanted = Callable[[str, str], bool]
"""Of a kind and a job's id."""


class Telling(Looking):
    def events(
        self,
        since: str | None = None,
        *,
        job_ids: Sequence[str] | None = None,
        kinds: Collection[str] | None = None,
        timeout_s: float = 0.0,
        max_tokens: int | None = None,
        cancellation: Cancellation | None = None,
        tell: Tell | None = None,
    ) -> Happenings:
        """All events after a cursor, oldest first, as many as fit; without one the newest. Waits if there are none."""
        place = _parsed(since)
        wanted = self._filter(job_ids, kinds)
        budget = min((max_tokens or DEFAULT_TOKENS) * BYTES_PER_TOKEN, self._settings.max_response_bytes)
        began, timeout_s = time.monotonic(), min(timeout_s, self._settings.max_wait_s)
        with self._reading_events(), contextlib.closing(Inotify()) as notices:
            if timeout_s > 0:  # to look after a directory costs more than to read it
                notices.watch(self._store.events)  # first: what happens while we read wakes us
            looked_at, told_s = -LOOK_EVERY_S, 0.0
            while True:
                if time.monotonic() >= looked_at + LOOK_EVERY_S:
                    self._bring_up_to_date(job_ids or ())
                    looked_at = time.monotonic()
                found = self._found(place, wanted, budget)
                passed_s = time.monotonic() - began
                if found.events or passed_s >= timeout_s:
                    return found
                if tell and passed_s >= told_s + TELL_EVERY_S:
                    told_s = passed_s
                    tell(passed_s, "nothing has happened yet")
                place = Cursor.parse(found.cursor)
                if notices.wait(timeout_s - passed_s, [cancellation.signal.fileno()] if cancellation else []):
                    return found

    def news(self) -> News | None:
        """What ended behind the back of one client, from now on; None: it is not wanted."""
        return News(self._store.events) if self._settings.news else None

    @functools.cached_property
    def _history(self) -> Reconciler:
        return Reconciler(self._store)

    def _bring_up_to_date(self, job_ids: Sequence[str]) -> None:
        """What nobody has told is told; what nobody has looked at is looked at."""
        home = self._store.home
        self._store.check_there()
        if watch_registry.registered(home) and not watch_registry.has_watcher(home):
            from bgjob.watch import watcher  # most reads do not need it

            watcher.sweep(self._store, time.monotonic() + CATCH_UP_S)
            watch_registry.ensure_watcher(home, self._environment)
        self._history.reconcile(job_ids)

    @contextlib.contextmanager
    def _reading_events(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnusable(
                f"The events of the job store {self._store.home} cannot be read: {error}. "
                "No job is touched by that; list_jobs and get_job_status tell how each stands."
            ) from error

    def _filter(self, job_ids: Sequence[str] | None, kinds: Collection[str] | None) -> Wanted:
        if job_ids is not None and not 0 < len(job_ids) <= MOST_JOBS:
            raise InvalidArgument(
                f"job_ids has {len(job_ids)} ids. Give 1 to {MOST_JOBS}, or none for all jobs."
            )
        for job_id in job_ids or ():
            self._check_known(job_id)
        return lambda kind, job_id: (
            (job_ids is None or job_id in job_ids) and (kinds is None or kind in kinds)
        )

    def _check_known(self, job_id: str) -> None:
        """One that was cleaned up may have events yet."""
        try:
            self._store.load(job_id)
        except JobNotFound:
            with self._reading_events():
                if not event_reader.speaks_of(self._store.events, job_id):
                    raise

    # -- choosing -----------------------------------------------------------------------------------

    def _found(self, since: Cursor | None, wanted: Wanted, budget: int) -> Happenings:
        if since is None:
            return self._newest(wanted, budget)
        first = event_log.beginning(self._store.events)
        gone = max(0, (first.segment - max(since.segment, 1)) * event_log.SEGMENT_BYTES - since.byte)
        return self._oldest(event_reader.whole(self._store.events, since), wanted, budget, gone)

    def _oldest(self, place: Cursor, wanted: Wanted, budget: int, gone: int) -> Happenings:
        chosen: list[Happened] = []
        for line in event_reader.lines(self._store.events, place):
            if wanted(line.kind, line.job_id) and (happened := self._happened(line)):
                budget -= _cost(happened)
                if chosen and budget < 0:
                    return Happenings(chosen, str(place), more=True, gone_bytes=gone)
                chosen.append(happened)
            place = line.behind
        return Happenings(chosen, str(place), gone_bytes=gone)

    def _newest(self, wanted: Wanted, budget: int) -> Happenings:
        events, chosen, place = self._store.events, list[Happened](), None
        for line in event_reader.newest_first(events):
            place = place or line.behind
            if wanted(line.kind, line.job_id) and (happened := self._happened(line)):
                budget -= _cost(happened)
                if chosen and budget < 0:
                    break
                chosen.append(happened)
        first, place = event_log.beginning(events), place or event_log.end(events)
        heads = (head for some, _ in event_reader.heads(events, first, place) for head in some)
        left_out = max(0, sum(wanted(*head) for head in heads) - len(chosen))
        return Happenings(
            chosen[::-1], str(place), left_out=left_out, earlier=str(first) if left_out else None
        )

    def _happened(self, line: Line) -> Happened | None:
        event = line.event
        if event is None:
            return None
        details = {word: value for word, value in event.items() if word not in OUTSIDE and value is not None}
        return Happened(
            at=event["at"],
            kind=event["kind"],
            job_id=event["job_id"],
            name=event.get("name") or self._name(event["job_id"]),
            details=_readable(details),
        )

    def _name(self, job_id: str) -> str | None:
        with contextlib.suppress(JobNotFound):
            return self._store.load(job_id).spec.name
        return None


def _parsed(since: str | None) -> Cursor | None:
    try:
        return None if since is None else Cursor.parse(since)
    except ValueError:
        raise InvalidArgument(
            f"={(since or '')[:40]!r} is not a cursor of events.",
            "Pass one exactly as job_events gave it, or none for the newest events.",
            argument="since",
        ) from None


def _cost(happened: Happened) -> int:
    text = json.dumps([happened.name, happened.details], ensure_ascii=False)
    return ENVELOPE_BYTES + len(text.encode(errors="replace"))


def _readable(details: dict[str, Any]) -> dict[str, Any]:
    """As the other answers say it."""
    for word in ("line", "prompt"):
        if isinstance(details.get(word), str):
            details[word] = plain_line(details[word].encode("utf-8", "replace")).strip()
    if isinstance(details.get("signal"), int):
        details["signal"] = signal_name(details["signal"])
    if (details.get("cause"), details.get("limit")) == ("over_limit", "memory"):
        details["cause"] = "out_of_memory"
    return details
