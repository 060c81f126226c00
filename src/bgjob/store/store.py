"""All jobs of one home. Their directories are the truth.

    jobs/<id>/             one job each, see jobdir
    index/, newest         their order, see index
    names                  the ids of each name, see job_names
    targets/               jobs of other machines, and the relays that copy them, see target_dir
    events/                what happened, see event_log
    watches/, watcher.lock jobs that need a watcher, see watch_registry
    on_event.json          how far the log of events has been handed to commands, see hooks
    notify.json, notified.json    how a person is told of jobs, see notify_rules
    looked.json            up to which event a person has looked, see api.last_look
    slots/<n>              locked by the shim that uses it, see slots
    queue/                 jobs that wait for a slot, see queue_dir
    sessions/              which ends each client's session has still to be told, see sessions
    drafts/<id>/           a job directory in the making; becomes visible by a rename, complete and locked
    trash/<id>/            a job directory that is being removed
    cleaned, clock, leapt  the time of the last cleaning, and by which clock, see retention
    size, sizes            the size of all jobs and of each ended job, see quota
    boot.json              the boot in which the index was last repaired

Any number of processes use one store at once; it stays right if any of them is killed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bgjob.core.errors import CannotStart, JobLimitReached, JobNotFound, StoreUnusable
from bgjob.core.frozen import NOTHING, Frozen, replace
from bgjob.core.job import JOB_ID, Job, Lost, PastRuns, Remote, Run, Running, Spec, State
from bgjob.home import home_dir, jobdir, queue_dir, slots
from bgjob.home.event_log import EVENTS
from bgjob.home.home_dir import Home, Unsafe
from bgjob.home.jobdir import CONTROL, LAUNCH, LOG, OUTCOME, RUN, SCRIPT, SPEC
from bgjob.home.layout import AUDIT, DRAFTS, INDEX, JOBS, SLOTS, TRASH, is_directory
from bgjob.home.queue_dir import QUEUE
from bgjob.store.index import Index, job_of, newest_first
from bgjob.store.job_names import Listing, NamesOfJobs
from bgjob.store.records import (
    has_never_started,
    read_groups,
    read_history,
    read_limited_by,
    read_remote,
    read_resizes,
    read_spec,
    read_state,
    read_unreachable,
    run_from,
)
from bgjob.system import cgroup, processes

BOOT = "boot.json"
# The longest single argument of execve.
ARGUMENT_MAX_BYTES = (128 << 10) - 1
# Of 1.7 kB each.
REMEMBERED_JOBS, GONE_REMEMBERED = 2_000, 100
NAME_LOCKS, LOCK_TRIES = 64, 10
ONE_BY_ONE = 50
DIRECTORIES = (JOBS, SLOTS, DRAFTS, TRASH, INDEX, EVENTS, QUEUE)
ELSEWHERE = "BGJOB_HOME can name another directory."


class NewJob(Frozen):
    """A job that is visible. We hold `lock` until a shim has it."""

    directory: str
    lock: int


class _Names:
    """Which jobs are there: looked up one by one, or, for more than a page of them, all at once."""

    def __init__(self, directory: str, listing: Listing[set[str]]) -> None:
        self._directory, self._listing, self._asked = directory, listing, 0
        self._names: set[str] | None = None

    def __contains__(self, job_id: str) -> bool:
        self._asked += 1
        if self._names is None and self._asked > ONE_BY_ONE:
            with contextlib.suppress(OSError):
                self._names = self._listing.look()
        return job_id in self._names if self._names is not None else self._is_there(job_id)

    def _is_there(self, job_id: str) -> bool:
        try:
            return is_directory(f"{self._directory}/{job_id}")
        except OSError:
            return False  # who loads the job is told why


class Store:
    is_elsewhere = False
    """Of another machine: see store.elsewhere."""

    def __init__(self, home: str) -> None:
        self.home = _real_place(home)
        self._safe: Home | None = None
        self.jobs_directory, self.trash = f"{self.home}/{JOBS}", f"{self.home}/{TRASH}"
        self.index = Index(self.home, lambda job_id: self._load(job_id).spec.created_at)
        self._directories = Listing(self.jobs_directory, set)
        self._names = NamesOfJobs(self.home, self.spec)
        self.events = f"{self.home}/{EVENTS}"
        self.audit = f"{self.home}/{AUDIT}"
        # Ended jobs and specs never change.
        self._ended: dict[str, Job] = {}
        self._specs: dict[str, Spec] = {}
        # Ended jobs whose shims are gone: they get no other.
        self._without_shim: set[str] = set()
        # Lost jobs of which no process is left. To find that out means to look at all processes.
        self.without_processes: set[str] = set()
        try:
            self.prepare()
        except OSError as error:
            raise StoreUnusable(f"The job store {self.home} cannot be used: {error}. {ELSEWHERE}") from error

    # -- making a job -------------------------------------------------------------------------------

    def create(
        self,
        spec: Spec,
        launch: bytes | None = None,
        priority: int = 0,
        records: Mapping[str, dict[str, Any]] = NOTHING,
    ) -> NewJob:
        """With a launch file the job waits in the queue as soon as its lock is free.

        `records`: further ones, by name, which it has from the moment in which it is visible.
        """
        draft = f"{self.home}/{DRAFTS}/{spec.id}"
        os.mkdir(draft, 0o700)
        with contextlib.ExitStack() as undo:
            undo.callback(remove_tree, draft)
            record = {"format": jobdir.FORMAT_VERSION, **vars(spec), "boot_id": processes.boot_id()}
            lock = jobdir.create_locked(f"{draft}/{SPEC}", record)
            undo.callback(os.close, lock)
            _write_script(draft, spec.command.encode())
            for name, further in records.items():
                jobdir.write_record(f"{draft}/{name}", {"format": jobdir.FORMAT_VERSION, **further})
            place_us = self.index.next_place_us(spec.created_at)
            self.index.enter(spec.id, f"{draft}/{SPEC}", place_us)
            if launch is not None:
                jobdir.write_whole(f"{draft}/{LAUNCH}", launch)
                entry = queue_dir.entry_for(spec.id, priority, place_us)
                undo.callback(queue_dir.leave, self.home, entry)
                queue_dir.enter(self.home, entry)  # before the job is visible: a waiting job has a place
            os.rename(draft, self.directory(spec.id))
            undo.pop_all()
        return NewJob(self.directory(spec.id), lock)

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
        """Held by a process that makes sure that there is only one job of this name."""
        with self._lock_file("name", name):
            yield

    @contextlib.contextmanager
    def id_lock(self, job_id: str) -> Iterator[None]:
        """Held by a process that starts the job of this id, if it is not there yet."""
        with self._lock_file("id", job_id):
            yield

    @contextlib.contextmanager
    def _lock_file(self, kind: str, text: str) -> Iterator[None]:
        path = f"{self.home}/{SLOTS}/{kind}-{zlib.crc32(text.encode(errors='replace')) % NAME_LOCKS}"
        try:
            self.prepare()
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
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
        return f"{self.jobs_directory}/{job_id}"

    def control_path(self, job_id: str) -> str:
        return f"{self.directory(job_id)}/{CONTROL}"

    def log_directory(self, job_id: str) -> str:
        return f"{self.directory(job_id)}/{LOG}"

    def terminal_sizes(self, job: Job) -> list[tuple[int, int, int]]:
        """(offset in the log, rows, columns) of its terminal, from the first size on."""
        with self._readable():
            return [(0, job.spec.rows, job.spec.cols), *read_resizes(self.directory(job.id))]

    def history(self, job: Job) -> PastRuns | None:
        """None if the job has no restart policy."""
        with self._readable():
            return read_history(self.directory(job.id)) if job.spec.restart else None

    def limited_by(self, job_id: str) -> dict[str, str]:
        """Which mechanism enforces each limit of a job."""
        with self._readable():
            return read_limited_by(self.directory(job_id))

    def remote(self, job: Job) -> Remote | None:
        """How a job of a target stands there, as its relay last wrote it down."""
        return None if job.spec.target is None else self._remote(job.spec.target, self.directory(job.id))[0]

    def _remote(self, target: str, directory: str) -> tuple[Remote, Mapping[str, Any]]:
        known = read_remote(directory)
        names = ("engine_id", "node", "reason", "left_running", "asks_at")
        remote = Remote(target, **{name: known[name] for name in names if name in known})
        if gone := read_unreachable(self.home, target).get(known.get("host") or ""):
            remote = replace(remote, unreachable_since=gone[0], unreachable=gone[1])
        return remote, known

    def remove_control_groups(self, job_id: str) -> None:
        """Remove the control groups of a job whose shim and guard were killed; other jobs have none left."""
        with self._readable():
            cgroup.remove_left(read_groups(self.directory(job_id)), job_id)

    def load(self, job_id: str) -> Job:
        self.directory(job_id)  # refuses what is no id, also if the home is gone
        self.check_home_exists()
        return self._load(job_id)

    def _load(self, job_id: str) -> Job:
        directory = self.directory(job_id)
        with self._readable():
            self._check_jobs_directory()
            if not is_directory(directory):
                self.forget(job_id)
                raise JobNotFound(job_id)
            return self._ended.get(job_id) or self._read(job_id, directory)

    def _check_jobs_directory(self) -> None:
        if os.path.islink(self.jobs_directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self.jobs_directory)

    def has_shim(self, job_id: str) -> bool:
        """An ended job keeps its shim while processes of the job are left."""
        if job_id in self._without_shim:
            return False
        has_ended = job_id in self._ended
        with self._readable():
            has_shim = jobdir.is_locked(f"{self.directory(job_id)}/{SPEC}")
        if has_ended and not has_shim:
            self._without_shim.add(job_id)
        return has_shim

    def may_run(self, job_id: str) -> bool:
        """Without reading the job. False: it has ended, and its shim is gone."""
        return self.has_shim(job_id) or not os.path.exists(f"{self.directory(job_id)}/{OUTCOME}")

    def forget(self, job_id: str) -> None:
        """Read the job anew next time: its processes could still change its files when it was read."""
        self._ended.pop(job_id, None)
        self._without_shim.discard(job_id)

    def shim_pid(self, job_id: str) -> int | None:
        """As its record says, if there is one."""
        directory = self.directory(job_id)
        run = run_from(jobdir.read_record(f"{directory}/{RUN}")) if is_directory(directory) else None
        return run.shim_pid if run else None

    def lock_paths(self, job_id: str) -> list[str]:
        """Both names of its spec. A job that has removed or replaced one may have left the other."""
        places = [place for place, entered in self.ids() if entered == job_id]
        return [f"{self.directory(job_id)}/{SPEC}", *(f"{self.home}/{INDEX}/{place}" for place in places)]

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        """Without descriptors or memory a job cannot be read now: a wrong answer would be remembered."""
        try:
            yield
        except OSError as error:
            if not os.path.lexists(self.home):
                raise self._gone() from error
            raise StoreUnusable(
                f"The job store {self.home} cannot be read now: {error}. The job is not touched by that; try again."
            ) from error

    def ids(self, before: str | None = None) -> Iterator[tuple[str, str]]:
        """(place in the order, job id), newest first, of places before `before`."""
        if not self._is_there():
            return iter(())
        with self._readable():
            places = self.index.places()
        self._forget_all_but(places)
        return newest_first(places, before)

    def names(self) -> Mapping[str, str]:
        """Return the name of each job by its id, newest first; empty for a job without a name."""
        return self._names.of(job_id for _, job_id in self.ids())

    def named(self, name: str) -> list[str]:
        """Return the ids of the jobs with this name, newest first."""
        return [job_id for job_id, each in self.names().items() if each == name]

    def _forget_all_but(self, places: Sequence[str]) -> None:
        """Other processes remove jobs too, without telling us."""
        if len(self._ended) + len(self._specs) > len(places) + GONE_REMEMBERED:
            there = set(map(job_of, places))
            self._ended = {job_id: job for job_id, job in list(self._ended.items()) if job_id in there}
            self._specs = {job_id: spec for job_id, spec in list(self._specs.items()) if job_id in there}
            self.without_processes &= there
            self._without_shim &= there

    def jobs(self, before: str | None = None) -> Iterator[tuple[str, Job]]:
        names = _Names(self.jobs_directory, self._directories)
        with self._readable():
            self._check_jobs_directory()
        for place, job_id in self.ids(before):
            job = self._ended.get(job_id)
            if job is None or job_id not in names:
                try:
                    job = self._load(job_id)
                except JobNotFound:
                    continue  # cleaned up meanwhile, or not yet visible
            yield place, job

    def _read(self, job_id: str, directory: str) -> Job:
        spec = self._specs.get(job_id) or read_spec(job_id, directory)
        state = read_state(directory)
        run = state.run if isinstance(state, Running) else run_from(jobdir.read_record(f"{directory}/{RUN}"))
        if isinstance(state, Lost) and not is_directory(directory):
            raise JobNotFound(job_id)  # the job was removed while we read
        job = Job(spec, state, run) if spec.target is None else self._at_target(spec, state, run, directory)
        self._remember(job)
        return job

    def _at_target(self, spec: Spec, state: State, run: Run | None, directory: str) -> Job:
        """Its machine chose the working directory and the shell."""
        remote, known = self._remote(str(spec.target), directory)
        place = {name: known[name] for name in ("cwd", "shell") if known.get(name)}
        if not isinstance(state, Running):  # nothing of it will come any more
            remote = replace(remote, unreachable_since=None, unreachable=None, reason=None)
        return Job(replace(spec, **place), state, run, remote)

    def _remember(self, job: Job) -> None:
        """Not a job that cannot be read: that may be mended, e.g. by a chmod. Nor one that may have never
        started: it may be begun again."""
        if not job.is_understood or (isinstance(job.state, Lost) and job.run is None):
            return
        if len(self._ended) + len(self._specs) >= REMEMBERED_JOBS:
            # The last one: a reader of all jobs begins with the first ones. KeyError: another thread has
            # removed it.
            with contextlib.suppress(KeyError):
                forgotten, _ = (self._ended or self._specs).popitem()
                self._without_shim.discard(forgotten)
        if not isinstance(job.state, Running):
            self._specs.pop(job.id, None)
            self._ended[job.id] = job
        else:
            self._specs[job.id] = job.spec

    def remove(self, place: str, job_id: str) -> bool:
        """Move it away in one step, so that no reader sees half a job, then delete it. False: it cannot be moved."""
        trash = f"{self.trash}/{job_id}"
        self.remove_control_groups(job_id)
        with contextlib.suppress(OSError):  # gone already, or it cannot be moved
            os.rename(self.directory(job_id), trash)
        remove_tree(trash)
        if os.path.isdir(self.directory(job_id)):
            return False  # then it stays listed
        self.index.leave(place)
        self.forget(job_id)
        return True

    def remove_unstarted(self, job_id: str) -> bool:
        """Remove what a killed starter has left of a job, so that it can be started again.

        By the holder of its id's lock. False: there is a job that may have started.
        """
        directory = self.directory(job_id)
        if not is_directory(directory):
            if os.path.lexists(f"{self.home}/{DRAFTS}/{job_id}"):
                self._remove_remains(job_id)
            return True
        lock = queue_dir.hold(directory, tries=LOCK_TRIES) if has_never_started(directory) else None
        if lock is None:
            return False
        try:
            if has_never_started(directory):
                self.remove("", job_id)
                self._remove_remains(job_id)
        finally:
            os.close(lock)
        return not is_directory(directory)

    def _remove_remains(self, job_id: str) -> None:
        """What is made before a job is visible: its draft, and its places in the index and in the queue."""
        for place in [entry for entry in self.index.entries() if entry.endswith(job_id)]:
            self.index.leave(place)
        if entry := queue_dir.find(self.home, job_id):
            queue_dir.leave(self.home, entry)
        remove_tree(f"{self.home}/{DRAFTS}/{job_id}")

    def waiting(self) -> list[str]:
        """The entries of the queue, in the order in which the jobs are to start."""
        with self._readable():
            return queue_dir.entries(self.home)

    def waited_for(self) -> set[str]:
        """Jobs that waiting jobs are to run after."""
        waiting = map(queue_dir.job_of, self.waiting())
        specs = (read_spec(job_id, f"{self.jobs_directory}/{job_id}") for job_id in waiting)
        return {job_id for spec in specs for job_id in spec.queue.get("after", ())}

    def spec(self, job_id: str) -> Spec:
        """The spec of a job; an UnreadableSpec if there is no such job."""
        known = self._ended.get(job_id)
        return known.spec if known else self._specs.get(job_id) or read_spec(job_id, self.directory(job_id))

    def ended(self, job_id: str) -> Job | None:
        """None if there is no such job, or if its shim may still write into it."""
        with contextlib.suppress(JobNotFound):
            job = self.load(job_id)
            return None if isinstance(job.state, Running) or self.has_shim(job_id) else job
        return None

    # -- the home -----------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Before each start: the home is safe and complete, also if it was deleted or replaced since."""
        safe = self._safe if self._is_in_place() else None
        is_known, made = safe is not None, list[str]()
        try:
            if safe is None:
                made, safe = home_dir.make(self.home), Home(self.home)
            lacks_index = not os.path.isdir(f"{self.home}/{INDEX}")
            home_dir.make_inside(self.home, DIRECTORIES)
        except Unsafe as why:
            raise StoreUnusable(f"The job store {self.home} is not safe to use: {why} {ELSEWHERE}") from None
        self._safe = safe
        if not is_known:
            self._ended, self._specs, self._without_shim = {}, {}, set()
        if lacks_index or (not is_known and self._is_first_since_boot()):
            self._settle_in(made)

    def check_home_exists(self) -> None:
        if not self._is_there():
            raise self._gone()

    def _is_there(self) -> bool:
        """False: the home was deleted. Another in its place is checked first: it may be another user's."""
        if self._is_in_place():
            return True
        if not os.path.lexists(self.home):
            return False
        with self._readable():
            self.prepare()
        return True

    def _is_in_place(self) -> bool:
        return self._safe is not None and self._safe.is_in_place()

    def _gone(self) -> StoreUnusable:
        return StoreUnusable(
            f"The job store {self.home} is gone: it was deleted or moved away while it was used. Nothing can be told "
            "of the jobs in it; the next job that is started makes it anew."
        )

    def _is_first_since_boot(self) -> bool:
        record = jobdir.read_record(f"{self.home}/{BOOT}") or {}
        return "boot_id" not in record or not processes.is_this_boot(record["boot_id"])

    def _settle_in(self, made: list[str]) -> None:
        """A new home must be on disk before its jobs. The index is mended after a power cut."""
        with contextlib.suppress(OSError):  # the disk is read-only or full: the next start tries again
            for directory in [*map(os.path.dirname, made), self.home]:
                jobdir.sync_directory(directory)
            self.index.mend()
            queue_dir.remove_jobs_of_older_boots(self.home)
            jobdir.write_record(f"{self.home}/{BOOT}", {"boot_id": processes.boot_id()})


def _real_place(home: str) -> str:
    try:
        return home_dir.resolved(os.path.abspath(home))
    except Unsafe as why:
        raise StoreUnusable(f"The job store {home} cannot be used: {why} {ELSEWHERE}") from None


def _write_script(draft: str, command: bytes) -> None:
    if len(command) < ARGUMENT_MAX_BYTES:
        return
    with open(f"{draft}/{SCRIPT}", "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(command)


def remove_tree(path: str) -> None:
    """Only a directory: rmtree blocks on a FIFO."""
    if os.path.isdir(path) and not os.path.islink(path):
        import shutil

        shutil.rmtree(path, ignore_errors=True)
