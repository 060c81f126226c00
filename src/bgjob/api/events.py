"""What happened since a moment: to all jobs or some, now or when it does."""

import contextlib
import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from bgjob.api.audit import AUDIT_KINDS
from bgjob.api.context import Context, ensure_watcher
from bgjob.api.find import ids_of
from bgjob.api.news import untold_in_log
from bgjob.api.output import BYTES_PER_TOKEN
from bgjob.api.results import EventPage, JobEvent
from bgjob.api.session import answering, note_told
from bgjob.api.wait import TELL_EVERY_S, Cancellation, Tell
from bgjob.core.errors import InvalidArgument, JobNotFound, StoreUnusable
from bgjob.core.frozen import replace
from bgjob.core.job import Event, beginning
from bgjob.home import event_log, sessions, watch_registry
from bgjob.home.event_log import Cursor
from bgjob.output.text import plain_line
from bgjob.store import event_reader
from bgjob.store.event_reader import Line
from bgjob.system.inotify import Inotify
from bgjob.system.processes import signal_name

DEFAULT_TOKENS = 2000
MOST_JOBS = 100
ENVELOPE_BYTES = 120  # time, id and the words around them
CATCH_UP_S = 1.0
CATCH_UP_EVERY_S = 1.0
OUTSIDE = ("at", "kind", "job_id", "name")
# Of a job whose end is told too, these say nothing more.
BEFORE_THE_END = frozenset({"queued", "moved", "started"})

Wanted = Callable[[str, str], bool]
"""Of a kind and a job's id."""


class Room(NamedTuple):
    """How much an answer may have."""

    bytes: int
    newest: int | None
    """The most events, where the caller gave no cursor."""
    condensed: bool
    log: str
    """The directory of the log that is read: the events', or the audit trail's."""


class Past(NamedTuple):
    """What a caller who waits from now on is told of what has happened before."""

    now: Cursor
    untold: Collection[str] = ()
    """The ends of these jobs, and nothing else."""

    def hides(self, line: Line) -> bool:
        is_new = self.now < line.behind
        return not is_new and not (line.kind == "ended" and line.job_id in self.untold)


NOTHING_HIDDEN = Past(Cursor(0, 0))


def job_events(
    context: Context,
    since: str | None = None,
    *,
    job_ids: Sequence[str] | None = None,
    kinds: Collection[str] | None = None,
    timeout_s: float = 0.0,
    max_tokens: int | None = None,
    newest: int | None = None,
    condensed: bool = False,
    session: str | None = None,
    cancellation: Cancellation | None = None,
    tell: Tell | None = None,
) -> EventPage:
    """Events after a cursor, oldest first, as many as fit; if there are none, it waits for the next.

    Without a cursor: the newest ones, at most `newest`; with a timeout, what happens from now on, and before
    that the ends that the session has not been told. Condensed, unless the caller chooses kinds: without what
    led to an end that is told too.
    """
    context.starts.finish_all()
    settings, kinds = context.settings, kinds or None
    log = _log_of(context, kinds)
    place, past = _begin(context, log, since, timeout_s, session if log == context.store.events else None)
    job_ids = None if job_ids is None else ids_of(context, job_ids)
    wanted = _filter(context, job_ids, kinds)
    budget = min((max_tokens or DEFAULT_TOKENS) * BYTES_PER_TOKEN, settings.max_response_bytes)
    room = Room(budget, newest, condensed and kinds is None, log)
    most_s = settings.max_wait_s
    wait = EventWait(log, min(timeout_s, most_s), cancellation, tell, job_ids or ())
    with _readable(context), _answering_ends(context, session, wanted if timeout_s > 0 else None):
        found = wait.run(context, lambda place: _found(context, place, past, wanted, room), place)
        if not (cancellation and cancellation.is_abandoned):
            note_told(context, session, [each.job_id for each in found.events if each.kind == "ended"])
    return replace(found, cut_to_s=most_s if wait.was_up and timeout_s > most_s else None)


def cursor_at(context: Context, at: float, kinds: Collection[str] | None = None) -> str:
    """Before the first event that came at that time, in seconds since the epoch, or later."""
    log = _log_of(context, kinds)
    with _readable(context):
        older = (line for line in event_reader.newest_first(log) if line.at < at)
        newest = next(older, None)
        return str(newest.behind if newest else event_log.beginning(log))


def _log_of(context: Context, kinds: Collection[str] | None) -> str:
    """InvalidArgument: some kinds are of the audit trail and some are not; a cursor is of one log."""
    audited = AUDIT_KINDS.intersection(kinds or ())
    if audited and not AUDIT_KINDS.issuperset(kinds or ()):
        raise InvalidArgument(
            f" has {', '.join(sorted(audited))} of the audit trail and other kinds. Ask for them separately.",
            argument="kinds",
        )
    return context.store.audit if audited else context.store.events


def events_between(context: Context, start: float, end: float, most: int) -> tuple[list[JobEvent], bool]:
    """The newest events of a span, oldest first, without what their jobs are called; and whether there are more."""
    found: list[JobEvent] = []
    with _readable(context):
        _catch_up(context, ())
        for line in event_reader.newest_first(context.store.events):
            if line.at < start and line.kind != "ended":  # an end may be told long after it came
                break
            if start <= line.at <= end and (event := line.event):
                if len(found) == most:
                    return found[::-1], True
                found.append(
                    JobEvent(event["at"], event["kind"], event["job_id"], None, None, _details(event))
                )
    return found[::-1], False


class EventWait:
    """Waits until there are events to tell."""

    def __init__(
        self,
        log: str,
        timeout_s: float,
        cancellation: Cancellation | None,
        tell: Tell | None,
        first: Sequence[str],
    ) -> None:
        """`first`: the jobs whose missing ends are looked for first."""
        self._log, self._timeout_s, self._tell, self._first = log, timeout_s, tell, first
        self._cancelled_by = [cancellation.signal.fileno()] if cancellation else []
        self._began, self._told_s, self._caught_up_s = time.monotonic(), 0.0, -CATCH_UP_EVERY_S
        self.was_up = False

    def run(
        self, context: Context, read: Callable[[Cursor | None], EventPage], place: Cursor | None
    ) -> EventPage:
        """OSError: the events cannot be read."""
        with contextlib.closing(Inotify()) as inotify:
            if self._timeout_s > 0:  # to watch a directory costs more than to read it
                inotify.watch(self._log)  # first: what happens while we read wakes us
            while True:
                self._catch_up(context)
                found, passed_s = read(place), self._passed_s()
                self.was_up = not found.events and passed_s >= self._timeout_s
                if found.events or self.was_up:
                    return found
                self._tell_progress(passed_s)
                place = Cursor.parse(found.cursor)
                if inotify.wait(self._timeout_s - passed_s, self._cancelled_by):
                    return found

    def _passed_s(self) -> float:
        return time.monotonic() - self._began

    def _catch_up(self, context: Context) -> None:
        if self._passed_s() >= self._caught_up_s + CATCH_UP_EVERY_S:
            _catch_up(context, self._first)
            self._caught_up_s = self._passed_s()

    def _tell_progress(self, passed_s: float) -> None:
        if self._tell and passed_s >= self._told_s + TELL_EVERY_S:
            self._told_s = passed_s
            self._tell(passed_s, "nothing has happened yet")


def _answering_ends(
    context: Context, session: str | None, wanted: Wanted | None
) -> contextlib.AbstractContextManager[None]:
    """The ends that this answer is to tell, of the jobs that the session expects now."""
    expected = sessions.expected(context.store.home, session) if session and wanted else []
    ours = [job_id for job_id in expected if wanted and wanted("ended", job_id)]
    return answering(context, session, ours)


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


def _found(context: Context, since: Cursor | None, past: Past, wanted: Wanted, room: Room) -> EventPage:
    if since is None:
        return _newest(context, wanted, room)
    events = room.log
    first = event_log.beginning(events)
    gone = max(0, (first.segment - max(since.segment, 1)) * event_log.SEGMENT_BYTES - since.byte)
    return _oldest(context, event_reader.place_between_events(events, since), past, wanted, room, gone)


def _oldest(context: Context, place: Cursor, past: Past, wanted: Wanted, room: Room, gone: int) -> EventPage:
    chosen, budget = list[JobEvent](), room.bytes
    is_told = _told_after(place, wanted, room)
    for line in event_reader.lines(room.log, place):
        is_wanted = is_told(line.kind, line.job_id) and not past.hides(line)
        if is_wanted and (happened := _happened(context, line)):
            budget -= _cost(happened)
            if chosen and budget < 0:
                return EventPage(chosen, str(place), more=True, gone_bytes=gone)
            chosen.append(happened)
        place = line.behind
    return EventPage(chosen, str(place), gone_bytes=gone)


def _newest(context: Context, wanted: Wanted, room: Room) -> EventPage:
    events, chosen, place, budget = room.log, list[JobEvent](), None, room.bytes
    first = event_log.beginning(events)
    is_told = _told_after(first, wanted, room)
    for line in event_reader.newest_first(events):
        place = place or line.behind
        if is_told(line.kind, line.job_id) and (happened := _happened(context, line)):
            budget -= _cost(happened)
            if chosen and (budget < 0 or len(chosen) == room.newest):
                break
            chosen.append(happened)
    place = place or event_log.end(events)
    left_out = max(0, sum(is_told(*head) for head in _heads(events, first, place)) - len(chosen))
    return EventPage(chosen[::-1], str(place), left_out=left_out, earlier=str(first) if left_out else None)


def _told_after(place: Cursor, wanted: Wanted, room: Room) -> Wanted:
    """Condensed: not what led to an end that is told after this place, in this answer or in the next."""
    if not room.condensed:
        return wanted
    ended = {job_id for kind, job_id in _heads(room.log, place) if kind == "ended"}
    return lambda kind, job_id: wanted(kind, job_id) and not (kind in BEFORE_THE_END and job_id in ended)


def _heads(log: str, place: Cursor, until: Cursor | None = None) -> Iterator[tuple[str, str]]:
    for some, _ in event_reader.heads(log, place, until):
        yield from some


def _happened(context: Context, line: Line) -> JobEvent | None:
    event = line.event
    if event is None:
        return None
    name, command = (event["name"], None) if event.get("name") else _called(context, event["job_id"])
    return JobEvent(
        at=event["at"],
        kind=event["kind"],
        job_id=event["job_id"],
        name=name,
        command=command,
        details=_details(event),
    )


def _details(event: Event) -> dict[str, Any]:
    return _worded(
        {word: value for word, value in event.items() if word not in OUTSIDE and value is not None}
    )


def _called(context: Context, job_id: str) -> tuple[str | None, str | None]:
    """(the job's name, else how its command begins), as far as the job is still there."""
    with contextlib.suppress(JobNotFound):
        spec = context.store.load(job_id).spec
        return (spec.name, None) if spec.name else (None, beginning(spec.command))
    return None, None


def _begin(
    context: Context, log: str, since: str | None, timeout_s: float, session: str | None
) -> tuple[Cursor | None, Past]:
    """Where to read on; None: a caller without a cursor, who does not wait, wants the newest."""
    if since is not None or timeout_s <= 0:
        return _parsed(since), NOTHING_HIDDEN
    with _readable(context):
        now = event_log.end(log)  # first: what happens from now on is behind it
        first, untold = untold_in_log(context, session) if session else (None, ())
        return min(first or now, now), Past(now, untold)


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
    text = json.dumps([happened.name or happened.command, happened.details], ensure_ascii=False)
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
