"""What happened since a moment: to all jobs or some, now or when it does."""

import contextlib
import functools
import json
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from bgjob import event_log, lookout
from bgjob.api.answers import Happened, Happenings
from bgjob.api.look import Looking
from bgjob.api.news import News
from bgjob.api.read import BYTES_PER_TOKEN
from bgjob.api.wait import TELL_EVERY_S, Cancellation, Tell
from bgjob.errors import InvalidArgument, JobNotFound
from bgjob.event_log import Cursor
from bgjob.history import History
from bgjob.job import Event, signal_name
from bgjob.notices import Notices
from bgjob.output_text import plain_line

DEFAULT_TOKENS = 1500
MOST_JOBS = 100
ENVELOPE_BYTES = 120  # time, id and the words around them
CATCH_UP_S = 1.0
LOOK_EVERY_S = 1.0
OUTSIDE = ("at", "kind", "job_id", "name")


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
        with contextlib.closing(Notices()) as notices:
            notices.watch(self._store.events)  # first: what happens while we read wakes us
            looked_at, told_s = -LOOK_EVERY_S, 0.0
            while True:
                if time.monotonic() >= looked_at + LOOK_EVERY_S:
                    self._bring_up_to_date()
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
    def _history(self) -> History:
        return History(self._store)

    def _bring_up_to_date(self) -> None:
        """What nobody has told is told; what nobody has looked at is looked at."""
        home = self._store.home
        self._store.check_there()
        if lookout.entered(home) and not lookout.is_kept(home):
            from bgjob import watcher  # most reads do not need it

            watcher.sweep(self._store, time.monotonic() + CATCH_UP_S)
            lookout.ensure_watcher(home, self._environment)
        with contextlib.suppress(OSError):  # no room for what we found: then the next to come tells it
            self._history.reconcile()

    def _filter(
        self, job_ids: Sequence[str] | None, kinds: Collection[str] | None
    ) -> Callable[[Event], bool]:
        if job_ids is not None and not 0 < len(job_ids) <= MOST_JOBS:
            raise InvalidArgument(
                f"job_ids has {len(job_ids)} ids. Give 1 to {MOST_JOBS}, or none for all jobs."
            )
        for job_id in job_ids or ():
            self._check_known(job_id)
        return lambda event: (
            (job_ids is None or event["job_id"] in job_ids) and (kinds is None or event["kind"] in kinds)
        )

    def _check_known(self, job_id: str) -> None:
        """One that was cleaned up may have events yet."""
        try:
            self._store.load(job_id)
        except JobNotFound:
            self._history.catch_up()
            if job_id not in self._history.known:
                raise

    # -- choosing -----------------------------------------------------------------------------------

    def _found(self, since: Cursor | None, wanted: Callable[[Event], bool], budget: int) -> Happenings:
        if since is None:
            return self._newest(wanted, budget)
        first = event_log.beginning(self._store.events)
        gone = max(0, (first.segment - max(since.segment, 1)) * event_log.SEGMENT_BYTES - since.byte)
        return self._oldest(event_log.whole(self._store.events, since), wanted, budget, gone)

    def _oldest(self, place: Cursor, wanted: Callable[[Event], bool], budget: int, gone: int) -> Happenings:
        chosen: list[Happened] = []
        for happened, cost, behind in self._after(place, wanted):
            budget -= cost
            if chosen and budget < 0:
                return Happenings(chosen, str(place), more=True, gone_bytes=gone)
            place = behind
            if happened:
                chosen.append(happened)
        return Happenings(chosen, str(place), gone_bytes=gone)

    def _newest(self, wanted: Callable[[Event], bool], budget: int) -> Happenings:
        place = first = event_log.beginning(self._store.events)
        chosen: deque[tuple[Happened, int]] = deque()
        left_out = 0
        for happened, cost, behind in self._after(first, wanted):
            place = behind
            if happened is None:
                continue
            budget -= cost
            chosen.append((happened, cost))
            while budget < 0 and len(chosen) > 1:
                budget += chosen.popleft()[1]
                left_out += 1
        earlier = str(first) if left_out else None
        return Happenings(
            [happened for happened, _ in chosen], str(place), left_out=left_out, earlier=earlier
        )

    def _after(
        self, place: Cursor, wanted: Callable[[Event], bool]
    ) -> Iterator[tuple[Happened | None, int, Cursor]]:
        for event, behind in event_log.read(self._store.events, place):
            happened = self._happened(event) if wanted(event) else None
            yield happened, _cost(happened) if happened else 0, behind

    def _happened(self, event: Event) -> Happened:
        details = {word: value for word, value in event.items() if word not in OUTSIDE and value is not None}
        return Happened(
            at=event.get("at", 0.0),
            kind=str(event["kind"]),
            job_id=str(event["job_id"]),
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
    return ENVELOPE_BYTES + len(json.dumps([happened.name, happened.details], ensure_ascii=False).encode())


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
