"""Removes ended jobs that are too old or too many, and what killed starters and cleaners left behind.

The spec of a job says how long it is kept: its starter promised that. The process that cleans has settings of
its own, and of the two the longer promise counts. A job without a promise has the longest that is known.

    cleaned            its mtime is the time of the last cleaning
    clock, leapt       when the machine was booted, by the clock of that time; when that clock last leapt
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from bgjob.core.errors import StoreUnusable
from bgjob.core.job import JOB_ID, Job, Lost, Running, Spec
from bgjob.core.values import DAY_S
from bgjob.home import jobdir, queue_dir, target_dir, waits
from bgjob.home.jobdir import LOG, OUTCOME, REMOTE, REQUEST, SPEC
from bgjob.home.layout import DRAFTS, ID_CHARACTERS, TRASH, is_directory, names_in
from bgjob.home.locks import try_lock
from bgjob.home.mtimes import mtime, stamp
from bgjob.home.sessions import SESSIONS, is_of_running_client
from bgjob.home.target_dir import HERE
from bgjob.store.index import ABANDONED_S, made_at
from bgjob.store.records import read_remote
from bgjob.store.store import Store, remove_tree
from bgjob.system import processes

STEADY_S = 3600.0
# Sessions at each cleaning, others each time: a start waits for it.
MOST_SWEPT = 500
# Jobs that each start removes: more than it adds, even on a slow disk.
MOST_REMOVED, LEAST_REMOVED, REMOVING_S = 100, 10, 0.1
UNSENT = "its starter was killed before anything was sent to its target"


class Portion:
    """The part of a long removal that one start does; later starts do the rest."""

    def __init__(self) -> None:
        self._until, self.removed = time.monotonic() + REMOVING_S, 0

    def is_done(self) -> bool:
        if self.removed < LEAST_REMOVED:
            return False
        return self.removed >= MOST_REMOVED or time.monotonic() > self._until


class Promise(NamedTuple):
    """How many ended jobs are kept, and for how long."""

    keep_jobs: int
    keep_days: float


def clean(store: Store, keep_jobs: int, keep_days: float, interval_s: float) -> None:
    """Clean up before a start, at most once per interval; before each start while expired jobs are left.

    `keep_jobs` and `keep_days` are our own promise.
    """
    now, cleaned_at = time.time(), mtime(f"{store.home}/cleaned")
    if 0 <= now - cleaned_at < interval_s:
        return
    with contextlib.suppress(OSError), open(f"{store.home}/cleaned", "a", opener=_private) as turn:
        if not try_lock(turn.fileno()):
            return  # another process cleans
        os.utime(turn.fileno())
        # Suppressed: the caller wants to start a job.
        with contextlib.suppress(OSError, StoreUnusable):
            # By our own promise: no job is removed before that, so that a shorter leap removes none.
            leapt_at = _note_leap(store.home, now, now - cleaned_at if cleaned_at else 0.0, keep_days)
            surplus = _surplus(store, Promise(keep_jobs, keep_days), now, leapt_at)
            if not _remove_some(store, surplus):
                _clean_again_soon(turn.fileno(), now - interval_s)
                return
            _sweep(store.home, now - ABANDONED_S)
            _sweep_sessions(store, now - ABANDONED_S, now - max(keep_days * DAY_S, ABANDONED_S))
            _remove_waits(store, now - DAY_S)
            store.index.mend()
            end_unsent(store)


def _remove_some(store: Store, surplus: Iterator[tuple[str, Job]]) -> bool:
    """Remove expired jobs. False: more are left than one start removes."""
    portion = Portion()
    for place, job in surplus:
        if portion.is_done():
            return False
        portion.removed += store.remove(place, job.id)
    return True


def _clean_again_soon(turn: int, cleaned_at: float) -> None:
    """Let the next start continue."""
    os.utime(turn, (cleaned_at, cleaned_at))


def _private(path: str, flags: int) -> int:
    """O_NONBLOCK: a FIFO in its place is an error, and does not block us."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def _note_leap(home: str, now: float, unseen_s: float, keep_days: float) -> float:
    """When the clock last leapt between two cleanings, so far that jobs would be removed; 0 if never."""
    clock, leapt = f"{home}/clock", f"{home}/leapt"
    booted_at = now - processes.since_boot_s()
    # By a clock that was set, the time of the boot is another; after another boot, a leap cannot be told.
    is_steady = abs(booted_at - mtime(clock)) < STEADY_S
    if unseen_s < -DAY_S or (not is_steady and unseen_s > max(keep_days, 1.0) * DAY_S):
        stamp(leapt, int(now * 1e9))
    stamp(clock, int(booted_at * 1e9))
    return mtime(leapt)


def surplus(store: Store, keep_jobs: int, keep_days: float) -> Iterator[tuple[str, Job]]:
    """(place in the order, job): what a cleaning by this promise would remove now."""
    return _surplus(store, Promise(keep_jobs, keep_days), time.time(), mtime(f"{store.home}/leapt"))


def _surplus(store: Store, ours: Promise, now: float, leapt_at: float) -> Iterator[tuple[str, Job]]:
    places = list(store.ids())
    kept, are_few, wanted = 0, len(places) <= ours.keep_jobs, store.waited_for()
    longest = functools.cache(lambda: _longest_promise(store, places, ours))
    for place, job_id in places:
        if job_id in wanted or (are_few and now - ours.keep_days * DAY_S <= made_at(place) <= now):
            continue  # waiting jobs need its outcome; or jobs are few and this one is young: no need to open it
        job = store.ended(job_id)
        if job is None:
            continue
        promise = _promise(job.spec, ours) or longest()
        # A newer version's job is removed by its age alone, and does not count among the kept jobs.
        is_surplus = kept >= promise.keep_jobs and job.is_understood
        if is_surplus or _ages_from(last_seen(store, job), leapt_at, now) < now - promise.keep_days * DAY_S:
            yield place, job
        else:
            kept += job.is_understood


def _promise(spec: Spec, ours: Promise) -> Promise | None:
    """The longer of the starter's promise and ours; None: a starter of an older version promised nothing."""
    if spec.keep_jobs is None or spec.keep_days is None:
        return None
    return Promise(max(spec.keep_jobs, ours.keep_jobs), max(spec.keep_days, ours.keep_days))


def _longest_promise(store: Store, places: list[tuple[str, str]], ours: Promise) -> Promise:
    specs = (store.spec(job_id) for _, job_id in places)
    promises = [ours, *filter(None, (_promise(spec, ours) for spec in specs))]
    return Promise(max(each.keep_jobs for each in promises), max(each.keep_days for each in promises))


def last_seen(store: Store, job: Job) -> float:
    """When a job ended. A lost job ended after its files were last written."""
    if not isinstance(job.state, Running | Lost):
        return job.state.ended_at
    directory = store.directory(job.id)
    written = [directory, *_entries_of(directory), *_entries_of(f"{directory}/{LOG}")]
    return max(job.spec.created_at, *map(mtime, written))


def _entries_of(directory: str) -> list[str]:
    try:
        return [f"{directory}/{name}" for name in os.listdir(directory)]
    except OSError:
        return []


def _ages_from(seen_at: float, leapt_at: float, now: float) -> float:
    """From when a job ages. How long before a leap of the clock it was last seen is not known: then from the
    leap on, as for a time in the future."""
    return max(seen_at, leapt_at) if seen_at < now + DAY_S else leapt_at or now


def _sweep(home: str, oldest: float) -> None:
    for name in (DRAFTS, TRASH):
        with os.scandir(f"{home}/{name}") as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # it was made visible, or removed
                    if _is_abandoned(entry, oldest):
                        remove_tree(entry.path)


def end_unsent(store: Store) -> None:
    """End the remote jobs that were never sent and that have no relay: their starters were killed."""
    for job_id in names_in(store.jobs_directory):
        directory = f"{store.jobs_directory}/{job_id}"
        if _is_unsent(directory) and (lock := queue_dir.hold(directory)) is not None:
            with contextlib.closing(os.fdopen(lock)), contextlib.suppress(OSError):
                if _is_unsent(directory) and not _has_relay(store, job_id):
                    _end_unsent(directory)


def _is_unsent(directory: str) -> bool:
    """Return whether no process is submitting it. Older versions note no handover, but leave no such job."""
    if not os.path.lexists(f"{directory}/{REMOTE}") or os.path.lexists(f"{directory}/{OUTCOME}"):
        return False
    remote = read_remote(directory)
    return remote.get("phase") == "submitting" and remote.get("handover", HERE) == HERE


def _has_relay(store: Store, job_id: str) -> bool:
    """Register it, so that the relay of its target takes it over."""
    target = store.spec(job_id).target
    return target is None or job_id in target_dir.registered(store.home, target)


def _end_unsent(directory: str) -> None:
    queue_dir.end_unstarted(directory, cause="never_started", reason=UNSENT)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{directory}/{REQUEST}")


def _sweep_sessions(store: Store, oldest: float, oldest_session: float) -> None:
    """Entries of jobs that are gone, not those of jobs that are about to start; then sessions without entries."""
    place = f"{store.home}/{SESSIONS}"
    names = names_in(place) if is_directory(place) else []
    first = int(time.time()) % max(len(names), 1)
    for name in [*names[first:], *names[:first]][:MOST_SWEPT]:
        session = f"{place}/{name}"
        is_old = mtime(session) < oldest_session
        with contextlib.suppress(OSError):  # removed meanwhile, or not ours
            if not is_directory(session):
                if is_old and not is_of_running_client(session):
                    os.unlink(session)
                continue
            left = [entry for entry in names_in(session) if not _is_forgotten(store, session, entry, oldest)]
            if is_old and not left:
                os.rmdir(session)


def _is_forgotten(store: Store, session: str, entry: str, oldest: float) -> bool:
    """True: the job of the entry is gone, and the entry with it."""
    path = f"{session}/{entry}"
    if os.path.lexists(f"{store.jobs_directory}/{entry[:ID_CHARACTERS]}") or mtime(path) >= oldest:
        return False
    os.unlink(path)
    return True


def _remove_waits(store: Store, oldest: float) -> None:
    """Those that are over, or whose jobs are all gone, once no client has asked for them for a day."""
    for wait_id in waits.ids(store.home):
        if waits.asked_at(store.home, wait_id) < oldest and not _goes_on(store, wait_id):
            remove_tree(waits.path_of(store.home, wait_id))


def _goes_on(store: Store, wait_id: str) -> bool:
    """True also if that cannot be known now."""
    with contextlib.suppress(OSError):
        job_ids = filter(JOB_ID.fullmatch, waits.job_ids_of(waits.read(store.home, wait_id) or {}))
        directories = map(store.directory, job_ids)
        return waits.ended(store.home, wait_id) is None and any(map(os.path.isdir, directories))
    return True


def _is_abandoned(entry: os.DirEntry[str], oldest: float) -> bool:
    if not entry.is_dir(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_mtime >= oldest:
        return False
    return not jobdir.is_locked(f"{entry.path}/{SPEC}")
