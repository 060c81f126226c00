"""What happened since a moment: to all jobs or some, now or when it does."""

import contextlib
import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from bgjob.api.context import Context, ensure_watcher
from bgjob.api.news import News
from bgjob.api.output import BYTES_PER_TOKEN
from bgjob.api.results import EventPage, JobEvent
from bgjob.api.wait import TELL_EVERY_S, Cancellation, Tell
from bgjob.core.errors import InvalidArgument, JobNotFound, StoreUnusable
from bgjob.home import event_log, watch_registry
from bgjob.home.event_log import Cursor
from bgjob.output.text import plain_line
from bgjob.store import event_reader
from bgjob.store.event_reader import Line
from bgjob.system.inotify import Inotify
from bgjob.system.processes import signal_name

DEFAULT_TOKENS = 1500
MOST_JOBS = 100
ENVELOPE_BYTES = 120  # time, id and the words around them
CATCH_UP_S = 1.0
CATCH_UP_EVERY_S = 1.0
OUTSIDE = ("at", "kind", "job_id", "name")

Wanted = Callable[[str, str], bool]
"""Of a kind and a job's id."""


def job_events(
    context: Context,
    since: str | None = None,
    *,
    job_ids: Sequence[str] | None = None,
    kinds: Collection[str] | None = None,
    timeout_s: float = 0.0,
    max_tokens: int | None = None,
    cancellation: Cancellation | None = None,
    tell: Tell | None = None,
) -> EventPage:
    """Events after a cursor, oldest first, as many as fit; without one the newest. If none, it waits."""
    settings, place = context.settings, _parsed(since)
    wanted = _filter(context, job_ids, kinds)
    budget = min((max_tokens or DEFAULT_TOKENS) * BYTES_PER_TOKEN, settings.max_response_bytes)
    began, timeout_s = time.monotonic(), min(timeout_s, settings.max_wait_s)
    with _readable(context), contextlib.closing(Inotify()) as inotify:
        if timeout_s > 0:  # to watch a directory costs more than to read it
            inotify.watch(context.store.events)  # first: what happens while we read wakes us
        caught_up_at, told_s = -CATCH_UP_EVERY_S, 0.0
        while True:
            if time.monotonic() >= caught_up_at + CATCH_UP_EVERY_S:
                _catch_up(context, job_ids or ())
                caught_up_at = time.monotonic()
            found = _found(context, place, wanted, budget)
            passed_s = time.monotonic() - began
            if found.events or passed_s >= timeout_s:
                return found
            if tell and passed_s >= told_s + TELL_EVERY_S:
                told_s = passed_s
                tell(passed_s, "nothing has happened yet")
            place = Cursor.parse(found.cursor)
            if inotify.wait(timeout_s - passed_s, [cancellation.signal.fileno()] if cancellation else []):
                return found


def news(context: Context) -> News | None:
    """Of jobs that end from now on, for one client; None: the setting turns it off."""
    return News(context.store.events) if context.settings.news else None


def _catch_up(context: Context, job_ids: Sequence[str]) -> None:
    """Ends that no process told are told; without a watcher, watched output is looked at here."""
    store = context.store
    store.check_home_exists()
    if watch_registry.registered(store.home) and not watch_registry.has_watcher(store.home):
        from bgjob.watch import watcher  # most reads do not need it

        watcher.sweep(store, time.monotonic() + CATCH_UP_S)
        ensure_watcher(context)
    context.reconciler.reconcile(job_ids)


@contextlib.contextmanager
def _readable(context: Context) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnusable(
            f"The events of the job store {context.store.home} cannot be read: {error}. "
            "No job is touched by that; list_jobs and get_job_status tell how each stands."
        ) from error


# -- choosing ---------------------------------------------------------------------------------------


def _filter(context: Context, job_ids: Sequence[str] | None, kinds: Collection[str] | None) -> Wanted:
    if job_ids is not None and not 0 < len(job_ids) <= MOST_JOBS:
        raise InvalidArgument(f"job_ids has {len(job_ids)} ids. Give 1 to {MOST_JOBS}, or none for all jobs.")
    for job_id in job_ids or ():
        _check_known(context, job_id)
    return lambda kind, job_id: (job_ids is None or job_id in job_ids) and (kinds is None or kind in kinds)


def _check_known(context: Context, job_id: str) -> None:
    """JobNotFound: there is no such job, and no event of one that was cleaned up."""
    try:
        context.store.load(job_id)
    except JobNotFound:
        with _readable(context):
            if not event_reader.has_event_of(context.store.events, job_id):
                raise


def _found(context: Context, since: Cursor | None, wanted: Wanted, budget: int) -> EventPage:
    if since is None:
        return _newest(context, wanted, budget)
    events = context.store.events
    first = event_log.beginning(events)
    gone = max(0, (first.segment - max(since.segment, 1)) * event_log.SEGMENT_BYTES - since.byte)
    return _oldest(context, event_reader.place_between_events(events, since), wanted, budget, gone)


def _oldest(context: Context, place: Cursor, wanted: Wanted, budget: int, gone: int) -> EventPage:
    chosen: list[JobEvent] = []
    for line in event_reader.lines(context.store.events, place):
        if wanted(line.kind, line.job_id) and (happened := _happened(context, line)):
            budget -= _cost(happened)
            if chosen and budget < 0:
                return EventPage(chosen, str(place), more=True, gone_bytes=gone)
            chosen.append(happened)
        place = line.behind
    return EventPage(chosen, str(place), gone_bytes=gone)


def _newest(context: Context, wanted: Wanted, budget: int) -> EventPage:
    events, chosen, place = context.store.events, list[JobEvent](), None
    for line in event_reader.newest_first(events):
        place = place or line.behind
        if wanted(line.kind, line.job_id) and (happened := _happened(context, line)):
            budget -= _cost(happened)
            if chosen and budget < 0:
                break
            chosen.append(happened)
    first, place = event_log.beginning(events), place or event_log.end(events)
    heads = (head for some, _ in event_reader.heads(events, first, place) for head in some)
    left_out = max(0, sum(wanted(*head) for head in heads) - len(chosen))
    return EventPage(chosen[::-1], str(place), left_out=left_out, earlier=str(first) if left_out else None)


def _happened(context: Context, line: Line) -> JobEvent | None:
    event = line.event
    if event is None:
        return None
    details = {word: value for word, value in event.items() if word not in OUTSIDE and value is not None}
    return JobEvent(
        at=event["at"],
        kind=event["kind"],
        job_id=event["job_id"],
        name=event.get("name") or _name(context, event["job_id"]),
        details=_worded(details),
    )


def _name(context: Context, job_id: str) -> str | None:
    with contextlib.suppress(JobNotFound):
        return context.store.load(job_id).spec.name
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


def _cost(happened: JobEvent) -> int:
    text = json.dumps([happened.name, happened.details], ensure_ascii=False)
    return ENVELOPE_BYTES + len(text.encode(errors="replace"))


def _worded(details: dict[str, Any]) -> dict[str, Any]:
    """In the words of the other answers."""
    for word in ("line", "prompt"):
        if isinstance(details.get(word), str):
            details[word] = plain_line(details[word].encode("utf-8", "replace")).strip()
    if isinstance(details.get("signal"), int):
        details["signal"] = signal_name(details["signal"])
    if (details.get("cause"), details.get("limit")) == ("over_limit", "memory"):
        details["cause"] = "out_of_memory"
    return details
