"""All jobs of one home. The directories are the truth; the index can be thrown away and made again.

    jobs/<id>/             one job each, see jobdir
    index/<µs>-<id>        its spec's second name, by creation: newest first without opening anything
    events/                what happened, see event_log
    watches/, watcher.lock jobs whose output and events somebody looks after, see lookout
    on_event.json          how far the log of events has been handed to commands, see courier
    slots/<n>              flocked by the shim that uses it, see slots
    queue/                 who waits for one, see queue_dir
    drafts/<id>/           a job directory in the making; becomes visible by a rename, complete and locked
    trash/<id>/            on its way out
    cleaned                its mtime says when somebody last cleaned up
    clock, leapt           when the machine was booted, by the clock of that time; when that clock last leapt
    newest                 its mtime is the place of the newest job: the order holds when the clock is set back
    size, sizes            how large all jobs and each ended one are, see quota
    boot.json              the boot in which somebody last made sure of the index

Any number of processes use one store at once; none of them is needed for it to stay right.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from bgjob import cgroup, jobdir, processes, queue_dir, slots
from bgjob.errors import CannotStart, JobLimitReached, JobNotFound, StoreUnusable
from bgjob.event_log import EVENTS
from bgjob.job import Job, Lost, PastRuns, Running, Spec, UnreadableSpec
from bgjob.jobdir import CONTROL, LOG, PAPERS, RUN, SCRIPT, SPEC
from bgjob.layout import DRAFTS, JOBS, SLOTS
from bgjob.locks import try_lock
from bgjob.queue_dir import QUEUE
from bgjob.records import (
    read_groups,
    read_history,
    read_limited_by,
    read_resizes,
    read_spec,
    read_state,
    run_from,
)

JOB_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
BOOT = "boot.json"
ARGUMENT_MAX_BYTES = (128 << 10) - 1  # what execve takes as one argument
REMEMBERED_JOBS, GONE_REMEMBERED = 20_000, 100
JOB_ID_CHARACTERS = 36
ABANDONED_S = 60.0
PLACE_DIGITS = 16
PLACE = re.compile(rf"[0-9]{{{PLACE_DIGITS},}}-({JOB_ID.pattern})")
NAME_LOCKS = 64
DAY_S = 86400.0
FARTHEST_PLACE_US = 9 * 10**15  # the year 2255: what is beyond is no place that a clock gave
SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
STEADY_S = 3600.0
MOST_ROWS, MOST_COLS = 500, 1000  # a larger screen is not drawn


@dataclass(frozen=True)
class NewJob:
    """Visible, and ours until a shim has it: `lock` is held by us."""

    directory: str
    lock: int


class Store:
    def __init__(self, home: str) -> None:
        self.home = os.path.abspath(home)
        self._jobs, self._index = f"{self.home}/{JOBS}", f"{self.home}/index"
        self.events = f"{self.home}/{EVENTS}"
        self._ended: dict[str, Job] = {}  # these never change again
        self._specs: dict[str, Spec] = {}  # nor do these
        self._prepare()

    # -- making a job -------------------------------------------------------------------------------

    def create(self, spec: Spec, papers: bytes | None = None, priority: int = 0) -> NewJob:
        """With papers it is one that waits in the queue, as soon as its lock is free."""
        draft = f"{self.home}/{DRAFTS}/{spec.id}"
        os.mkdir(draft, 0o700)
        with contextlib.ExitStack() as undo:
            undo.callback(shutil.rmtree, draft, ignore_errors=True)
            record = {"format": jobdir.FORMAT_VERSION, **vars(spec), "boot_id": processes.boot_id()}
            lock = jobdir.create_locked(f"{draft}/{SPEC}", record)
            undo.callback(os.close, lock)
            _write_script(draft, spec.command.encode())
            place_us = self._next_place_us(spec)
            self._enter(spec, f"{draft}/{SPEC}", place_us)
            if papers is not None:
                jobdir.write_whole(f"{draft}/{PAPERS}", papers)
                entry = queue_dir.entry_for(spec.id, priority, place_us)
                undo.callback(queue_dir.leave, self.home, entry)
                queue_dir.enter(self.home, entry)  # before it is visible: what waits has a place
            os.rename(draft, self.directory(spec.id))
            undo.pop_all()
        return NewJob(self.directory(spec.id), lock)

    def make_durable(self, new: NewJob) -> None:
        """After this the job survives a power cut: its spec, the spec's name, the job's name. Its script, its place
        in the index and its run are not needed for that."""
        os.fsync(new.lock)
        jobdir.sync_directory(new.directory)
        jobdir.sync_directory(self._jobs)

    def claim_slots(self, limit: int, group: str | None = None, group_limit: int | None = None) -> list[int]:
        """Descriptors that stand for one running job; JobLimitReached if there is no room for it."""
        held = slots.claim_all(f"{self.home}/{SLOTS}", limit, group, group_limit)
        if isinstance(held, str):
            raise (
                JobLimitReached(limit, None)
                if held == slots.ALL
                else JobLimitReached(group_limit or 0, group)
            )
        return held

    @contextlib.contextmanager
    def name_lock(self, name: str) -> Iterator[None]:
        """Held by whoever makes sure that there is one job of this name."""
        path = f"{self.home}/{SLOTS}/name-{zlib.crc32(name.encode(errors='replace')) % NAME_LOCKS}"
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CannotStart(error, self.home) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    # -- looking ------------------------------------------------------------------------------------

    def directory(self, job_id: str) -> str:
        """An id is matched whole before it becomes a part of a path."""
        if not JOB_ID.fullmatch(job_id):
            raise JobNotFound(job_id)
        return f"{self._jobs}/{job_id}"

    def control_path(self, job_id: str) -> str:
        return f"{self.directory(job_id)}/{CONTROL}"

    def log_directory(self, job_id: str) -> str:
        return f"{self.directory(job_id)}/{LOG}"

    def terminal_sizes(self, job: Job) -> list[tuple[int, int, int]]:
        """(offset in the log, rows, columns) of its terminal, from the first size on."""
        with self._readable():
            sizes = [(0, job.spec.rows, job.spec.cols), *read_resizes(self.directory(job.id))]
        return [(at, min(rows, MOST_ROWS), min(cols, MOST_COLS)) for at, rows, cols in sizes]

    def history(self, job: Job) -> PastRuns | None:
        """None: it was to run once."""
        return read_history(self.directory(job.id)) if job.spec.restart else None

    def limited_by(self, job_id: str) -> dict[str, str]:
        """Which mechanism keeps each limit of a job."""
        with self._readable():
            return read_limited_by(self.directory(job_id))

    def forget_groups(self, job_id: str) -> None:
        """The control groups of a job whose shim and guard were killed; of others there are none left."""
        with self._readable():
            cgroup.remove_left(read_groups(self.directory(job_id)), job_id)

    def load(self, job_id: str) -> Job:
        directory = self.directory(job_id)
        if not os.path.isdir(directory):
            self._ended.pop(job_id, None)
            raise JobNotFound(job_id)
        if ended := self._ended.get(job_id):
            return ended
        with self._readable():
            return self._read(job_id, directory)

    def has_shim(self, job_id: str) -> bool:
        """A job that has ended keeps its shim while processes of it are left."""
        with self._readable():
            return jobdir.is_locked(f"{self.directory(job_id)}/{SPEC}")

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        """What we cannot read for want of descriptors or memory we do not judge: a wrong answer would be remembered."""
        try:
            yield
        except OSError as error:
            raise StoreUnusable(
                f"The job store {self.home} cannot be read now: {error}. The job is not touched by that; try again."
            ) from error

    def ids(self, before: str | None = None) -> Iterator[tuple[str, str]]:
        """(place in the order, job id), newest first; `before` is such a place."""
        seen: set[str] = set()  # whoever mends the index while a job is entered gives it a second place
        entries = self._entries()
        self._forget_all_but(entries)
        for entry in sorted(entries, reverse=True):
            if (place := PLACE.fullmatch(entry)) and place[1] not in seen:
                seen.add(place[1])
                if before is None or entry < before:
                    yield entry, place[1]

    def _forget_all_but(self, entries: list[str]) -> None:
        """Others clean up too, and do not tell us."""
        if len(self._ended) + len(self._specs) > len(entries) + GONE_REMEMBERED:
            there = {entry[-JOB_ID_CHARACTERS:] for entry in entries}
            self._ended = {job_id: job for job_id, job in list(self._ended.items()) if job_id in there}
            self._specs = {job_id: spec for job_id, spec in list(self._specs.items()) if job_id in there}

    def _entries(self) -> list[str]:
        try:
            return os.listdir(self._index)
        except FileNotFoundError:  # thrown away under us
            os.makedirs(self._index, mode=0o700, exist_ok=True)
            self._mend_index(time.time() - ABANDONED_S)
            return os.listdir(self._index)

    def jobs(self, before: str | None = None) -> Iterator[tuple[str, Job]]:
        for place, job_id in self.ids(before):
            with contextlib.suppress(JobNotFound):  # cleaned up meanwhile, or not yet visible
                yield place, self.load(job_id)

    def _read(self, job_id: str, directory: str) -> Job:
        spec = self._specs.get(job_id) or read_spec(job_id, directory)
        state = read_state(directory)
        run = state.run if isinstance(state, Running) else run_from(jobdir.read_record(f"{directory}/{RUN}"))
        if isinstance(state, Lost) and not os.path.isdir(directory):
            raise JobNotFound(job_id)  # removed while we read
        job = Job(spec, state, run)
        self._remember(job)
        return job

    def _remember(self, job: Job) -> None:
        if len(self._ended) + len(self._specs) >= REMEMBERED_JOBS:
            self._ended.clear()
            self._specs.clear()
        if not isinstance(job.state, Running):
            self._specs.pop(job.id, None)
            self._ended[job.id] = job
        elif not isinstance(job.spec, UnreadableSpec):
            self._specs[job.id] = job.spec

    # -- cleaning up --------------------------------------------------------------------------------

    def clean(self, keep_jobs: int, keep_days: float, interval_s: float) -> None:
        """Remove ended jobs that are too old or too many. At most once per interval, by whoever comes by."""
        now, cleaned_at = time.time(), _mtime(f"{self.home}/cleaned")
        if 0 <= now - cleaned_at < interval_s:
            return
        with contextlib.suppress(OSError), open(f"{self.home}/cleaned", "a", opener=_private) as turn:
            if not try_lock(turn.fileno()):
                return  # somebody else is at it
            os.utime(turn.fileno())
            with contextlib.suppress(OSError, StoreUnusable):  # whoever comes by wants something else of us
                leapt_at = self._note_leap(now, now - cleaned_at if cleaned_at else 0.0, keep_days)
                self._remove_surplus(keep_jobs, now - keep_days * DAY_S, now, leapt_at)
                self._sweep(now - ABANDONED_S)

    def remove(self, place: str, job_id: str) -> None:
        """Out of sight in one step, then in pieces."""
        trash = f"{self.home}/trash/{job_id}"
        self.forget_groups(job_id)
        with contextlib.suppress(OSError):  # gone already; or stuck, and no reason to stop for
            os.rename(self.directory(job_id), trash)
        _remove_tree(trash)
        if os.path.isdir(self.directory(job_id)):
            return  # still there: then it is listed
        with contextlib.suppress(OSError):
            os.unlink(f"{self._index}/{place}")
        self._ended.pop(job_id, None)

    def _note_leap(self, now: float, unseen_s: float, keep_days: float) -> float:
        """When the clock last leapt between two cleanings, by so much that it would throw jobs away; 0: never."""
        clock, leapt = f"{self.home}/clock", f"{self.home}/leapt"
        booted_at = now - time.clock_gettime(SINCE_BOOT)
        # a clock that was set has another idea of when that was; so has another boot: then nobody knows
        is_steady = abs(booted_at - _mtime(clock)) < STEADY_S
        if unseen_s < -DAY_S or (not is_steady and unseen_s > max(keep_days, 1.0) * DAY_S):
            _stamp(leapt, int(now * 1e9))
        _stamp(clock, int(booted_at * 1e9))
        return _mtime(leapt)

    def _remove_surplus(self, keep_jobs: int, oldest: float, now: float, leapt_at: float) -> None:
        places = list(self.ids())
        kept, are_few, wanted = 0, len(places) <= keep_jobs, self._waited_for()
        for place, job_id in places:
            if job_id in wanted or (are_few and oldest <= _made_at(place) <= now):
                continue  # how it ended decides about others; or neither too many nor too old: no need to open it
            job = self._ended_job(job_id)
            if job is None:
                continue
            kept += job.is_understood  # a newer version's job goes by its age alone, and takes nobody's place
            is_surplus = kept > keep_jobs and job.is_understood
            if is_surplus or _ages_from(self._last_seen(job), leapt_at, now) < oldest:
                self.remove(place, job_id)

    def _waited_for(self) -> set[str]:
        """Jobs after which others, in the queue, are to run."""
        waiting = map(queue_dir.job_of, queue_dir.entries(self.home))
        specs = (read_spec(job_id, f"{self._jobs}/{job_id}") for job_id in waiting)
        return {job_id for spec in specs for job_id in spec.queue.get("after", ())}

    def is_removable(self, job_id: str) -> bool:
        """It has ended, nobody writes into it, and it is not a newer version's."""
        job = self._ended_job(job_id)
        return job is not None and job.is_understood

    def _ended_job(self, job_id: str) -> Job | None:
        with contextlib.suppress(JobNotFound):
            job = self.load(job_id)
            return None if isinstance(job.state, Running) or self.has_shim(job_id) else job
        return None

    def _last_seen(self, job: Job) -> float:
        """How one ended that is lost nobody knows; but until then its files were written."""
        if not isinstance(job.state, Running | Lost):
            return job.state.ended_at
        directory = self.directory(job.id)
        written = [directory, *_entries_of(directory), *_entries_of(f"{directory}/{LOG}")]
        return max(job.spec.created_at, *map(_mtime, written))

    def _sweep(self, oldest: float) -> None:
        """What killed starters and cleaners left behind."""
        for name in (DRAFTS, "trash"):
            with os.scandir(f"{self.home}/{name}") as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):  # made visible, or removed, meanwhile
                        if entry.stat().st_mtime < oldest and not jobdir.is_locked(f"{entry.path}/{SPEC}"):
                            _remove_tree(entry.path)
        self._mend_index(oldest)

    def _mend_index(self, oldest: float) -> None:
        """Every job has its entry, and every entry its job."""
        entries = {job_id: place for place, job_id in self.ids()}
        jobs = set(filter(JOB_ID.fullmatch, os.listdir(self._jobs)))
        for job_id in jobs - entries.keys():
            with contextlib.suppress(JobNotFound):
                self._enter(self.load(job_id).spec, f"{self.directory(job_id)}/{SPEC}")
        for job_id in entries.keys() - jobs:
            if int(entries[job_id][:PLACE_DIGITS]) / 1e6 < oldest:
                with contextlib.suppress(OSError):
                    os.unlink(f"{self._index}/{entries[job_id]}")

    # -- the home -----------------------------------------------------------------------------------

    def _prepare(self) -> None:
        made = [path for path in _with_ancestors(os.path.realpath(self.home)) if not os.path.isdir(path)]
        try:
            os.makedirs(self.home, mode=0o700, exist_ok=True)
            _check_private(self.home)
            new = not os.path.isdir(self._index)
            for name in (JOBS, SLOTS, DRAFTS, "trash", "index", EVENTS, QUEUE):
                os.makedirs(f"{self.home}/{name}", mode=0o700, exist_ok=True)
            if new or self._is_first_since_boot():
                self._settle_in(made)
        except OSError as error:
            raise StoreUnusable(
                f"The job store {self.home} cannot be used: {error}. Set BGJOB_HOME."
            ) from error

    def _is_first_since_boot(self) -> bool:
        record = jobdir.read_record(f"{self.home}/{BOOT}") or {}
        return "boot_id" not in record or record["boot_id"] != processes.boot_id()

    def _settle_in(self, made: list[str]) -> None:
        """A new home must be on disk before its jobs; what a power cut took from the index is made up for."""
        with contextlib.suppress(OSError):  # read-only, or full: next time, then
            for directory in [*map(os.path.dirname, made), self.home]:
                jobdir.sync_directory(directory)
            self._mend_index(time.time() - ABANDONED_S)
            queue_dir.dissolve(self.home)
            jobdir.write_record(f"{self.home}/{BOOT}", {"boot_id": processes.boot_id()})

    def _enter(self, spec: Spec, spec_path: str, place_us: int | None = None) -> None:
        """A second name for the spec: that costs no new file, which is what a start pays most for."""
        if not os.path.isdir(self._index):
            self._entries()
        place_us = _microseconds(spec.created_at) if place_us is None else place_us
        entry = f"{self._index}/{place_us:0{PLACE_DIGITS}d}-{spec.id}"
        try:
            os.link(spec_path, entry)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            os.close(os.open(entry, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def _next_place_us(self, spec: Spec) -> int:
        """When it was made; or, once the clock was set back, right after the newest, so that it is the newest."""
        newest_us, place_us = self._newest_us(), _microseconds(spec.created_at)
        if _microseconds(time.time()) < newest_us < FARTHEST_PLACE_US:
            place_us = newest_us + 1
        if place_us > newest_us:
            _stamp(f"{self.home}/newest", place_us * 1000)
        return place_us

    def _newest_us(self) -> int:
        try:
            return os.lstat(f"{self.home}/newest").st_mtime_ns // 1000
        except FileNotFoundError:
            places = (int(place.partition("-")[0]) for place, _ in self.ids())
            return max((place for place in places if place < FARTHEST_PLACE_US), default=0)


def _with_ancestors(path: str) -> Iterator[str]:
    while path != (above := os.path.dirname(path)):
        yield path
        path = above


def _check_private(home: str) -> None:
    info = os.lstat(home)
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise StoreUnusable(f"The job store {home} is not a directory of yours. Set BGJOB_HOME to one.")
    if info.st_mode & 0o077:
        raise StoreUnusable(
            f"The job store {home} is open to other users (mode {info.st_mode & 0o777:o}). "
            "Run chmod 700 on it, or set BGJOB_HOME to a private directory."
        )


def _write_script(draft: str, command: bytes) -> None:
    if len(command) < ARGUMENT_MAX_BYTES:
        return
    with open(f"{draft}/{SCRIPT}", "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(command)


def _private(path: str, flags: int) -> int:
    """Never waits: a FIFO in its place is an error."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def _made_at(place: str) -> float:
    return int(place.partition("-")[0]) / 1e6


def _entries_of(directory: str) -> list[str]:
    try:
        return [f"{directory}/{name}" for name in os.listdir(directory)]
    except OSError:
        return []


def _remove_tree(path: str) -> None:
    """Only a tree: rmtree would wait for whoever writes into a FIFO."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)


def _ages_from(seen_at: float, leapt_at: float, now: float) -> float:
    """Not from before the clock leapt: how long ago that was, nobody knows. Nor from a future that was taken back."""
    return max(seen_at, leapt_at) if seen_at < now + DAY_S else leapt_at or now


def _microseconds(seconds: float) -> int:
    return max(0, int(seconds * 1e6))


def _stamp(path: str, time_ns: int) -> None:
    """A moment, kept as the mtime of an empty file: one system call, and never half written."""
    try:
        os.utime(path, ns=(time_ns, time_ns), follow_symlinks=False)
    except FileNotFoundError:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.utime(path, ns=(time_ns, time_ns), follow_symlinks=False)


def _mtime(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0
