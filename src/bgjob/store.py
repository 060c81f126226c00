"""All jobs of one home. The directories are the truth; the index can be thrown away and made again.

    jobs/<id>/             one job each, see jobdir
    index/<µs>-<id>        its spec's second name, by creation: newest first without opening anything
    slots/<n>              flocked by the shim that uses it: exact across any number of servers
    drafts/<id>/           a job directory in the making; becomes visible by a rename, complete and locked
    trash/<id>/            on its way out
    cleaned                its mtime says when somebody last cleaned up

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

from bgjob import jobdir, processes
from bgjob.errors import JobNotFound, StoreUnusable
from bgjob.job import (
    End,
    Exited,
    Job,
    Killed,
    Lost,
    NeverStarted,
    Run,
    Running,
    Signaled,
    Spec,
    State,
    TimedOut,
)
from bgjob.jobdir import CONTROL, LOG, OUTCOME, RUN, SCRIPT, SPEC, TERMINAL

JOB_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
ARGUMENT_MAX_BYTES = (128 << 10) - 1  # what execve takes as one argument
REMEMBERED_JOBS = 20_000
ABANDONED_S = 3600.0
PLACE_DIGITS = 16
PLACE = re.compile(rf"[0-9]{{{PLACE_DIGITS},}}-({JOB_ID.pattern})")
NAME_LOCKS = 64
DAY_S = 86400.0


@dataclass(frozen=True)
class NewJob:
    """Visible, and ours until a shim has it: `lock` is held by us."""

    directory: str
    lock: int


class Store:
    def __init__(self, home: str) -> None:
        self.home = os.path.abspath(home)
        self._jobs, self._index = f"{self.home}/jobs", f"{self.home}/index"
        self._ended: dict[str, Job] = {}  # these never change again
        self._prepare()

    # -- making a job -------------------------------------------------------------------------------

    def create(self, spec: Spec) -> NewJob:
        draft = f"{self.home}/drafts/{spec.id}"
        os.mkdir(draft, 0o700)
        with contextlib.ExitStack() as undo:
            undo.callback(shutil.rmtree, draft, ignore_errors=True)
            record = {"format": jobdir.FORMAT_VERSION, **vars(spec)}
            lock = jobdir.create_locked(f"{draft}/{SPEC}", record)
            undo.callback(os.close, lock)
            _write_script(draft, spec.command.encode())
            self._enter(spec, f"{draft}/{SPEC}")
            os.rename(draft, self.directory(spec.id))
            undo.pop_all()
        return NewJob(self.directory(spec.id), lock)

    def make_durable(self, new: NewJob) -> None:
        """After this the job survives a power cut. The index need not: it is mended from the directories."""
        os.fsync(new.lock)
        jobdir.sync_directory(self._jobs)

    def claim_slot(self, limit: int) -> int | None:
        """A descriptor that stands for one running job; the slot is free when its last holder is gone."""
        for number in range(limit):
            fd = os.open(f"{self.home}/slots/{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return fd
            except BlockingIOError:
                os.close(fd)
        return None

    @contextlib.contextmanager
    def name_lock(self, name: str) -> Iterator[None]:
        """Held by whoever makes sure that there is one job of this name."""
        path = f"{self.home}/slots/name-{zlib.crc32(name.encode(errors='replace')) % NAME_LOCKS}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
        record = jobdir.read_record(f"{self.directory(job.id)}/{TERMINAL}") or {}
        later = [(int(at), int(rows), int(cols)) for at, rows, cols in record.get("resizes", ())]
        return [(0, job.spec.rows, job.spec.cols), *later]

    def load(self, job_id: str) -> Job:
        directory = self.directory(job_id)
        if not os.path.isdir(directory):
            self._ended.pop(job_id, None)
            raise JobNotFound(job_id)
        return self._ended.get(job_id) or self._read(job_id, directory)

    def has_shim(self, job_id: str) -> bool:
        """A job that has ended keeps its shim while processes of it are left."""
        return jobdir.is_locked(f"{self.directory(job_id)}/{SPEC}")

    def ids(self, before: str | None = None) -> Iterator[tuple[str, str]]:
        """(place in the order, job id), newest first; `before` is such a place."""
        for entry in sorted(self._entries(), reverse=True):
            if (before is None or entry < before) and (place := PLACE.fullmatch(entry)):
                yield entry, place[1]

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
        spec = _spec(job_id, jobdir.read_record(f"{directory}/{SPEC}"))
        state = self._state(directory)
        run = state.run if isinstance(state, Running) else run_from(jobdir.read_record(f"{directory}/{RUN}"))
        if isinstance(state, Lost) and not os.path.isdir(directory):
            raise JobNotFound(job_id)  # removed while we read
        job = Job(spec, state, run)
        if not isinstance(state, Running):
            self._remember(job)
        return job

    def _state(self, directory: str) -> State:
        if end := _end(jobdir.read_record(f"{directory}/{OUTCOME}")):
            return end
        if jobdir.is_locked(f"{directory}/{SPEC}"):
            return Running(run_from(jobdir.read_record(f"{directory}/{RUN}")))
        # it may have ended between the two looks
        return _end(jobdir.read_record(f"{directory}/{OUTCOME}")) or Lost(_why_lost(directory))

    def _remember(self, job: Job) -> None:
        if len(self._ended) >= REMEMBERED_JOBS:
            self._ended.clear()
        self._ended[job.id] = job

    # -- cleaning up --------------------------------------------------------------------------------

    def clean(self, keep_jobs: int, keep_days: float, interval_s: float) -> None:
        """Remove ended jobs that are too old or too many. At most once per interval, by whoever comes by."""
        now = time.time()
        if 0 <= now - _mtime(f"{self.home}/cleaned") < interval_s:
            return
        with open(f"{self.home}/cleaned", "a", opener=_private) as turn:
            try:
                fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return  # somebody else is at it
            os.utime(turn.fileno())
            with contextlib.suppress(OSError):  # whoever comes by wants something else of us
                self._remove_surplus(keep_jobs, now - keep_days * DAY_S)
                self._sweep(now - ABANDONED_S)

    def remove(self, place: str, job_id: str) -> None:
        """Out of sight in one step, then in pieces."""
        trash = f"{self.home}/trash/{job_id}"
        with contextlib.suppress(OSError):  # gone already; or stuck, and no reason to stop for
            os.rename(self.directory(job_id), trash)
        shutil.rmtree(trash, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._index}/{place}")
        self._ended.pop(job_id, None)

    def _remove_surplus(self, keep_jobs: int, oldest: float) -> None:
        kept = 0
        for place, job in self.jobs():
            if isinstance(job.state, Running) or self.has_shim(job.id):
                continue
            kept += 1
            if kept > keep_jobs or _last_seen(job) < oldest:
                self.remove(place, job.id)

    def _sweep(self, oldest: float) -> None:
        """What killed starters and cleaners left behind."""
        for name in ("drafts", "trash"):
            with os.scandir(f"{self.home}/{name}") as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):  # made visible, or removed, meanwhile
                        if entry.stat().st_mtime < oldest and not jobdir.is_locked(f"{entry.path}/{SPEC}"):
                            shutil.rmtree(entry.path, ignore_errors=True)
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
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{self._index}/{entries[job_id]}")

    # -- the home -----------------------------------------------------------------------------------

    def _prepare(self) -> None:
        try:
            os.makedirs(self.home, mode=0o700, exist_ok=True)
            _check_private(self.home)
            new = not os.path.isdir(self._index)
            for name in ("jobs", "slots", "drafts", "trash", "index"):
                os.makedirs(f"{self.home}/{name}", mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreUnusable(
                f"The job store {self.home} cannot be used: {error}. Set BGJOB_HOME."
            ) from error
        if new:
            self._mend_index(time.time() - ABANDONED_S)

    def _enter(self, spec: Spec, spec_path: str) -> None:
        if not os.path.isdir(self._index):
            self._entries()
        """A second name for the spec: that costs no new file, which is what a start pays most for."""
        entry = f"{self._index}/{int(spec.created_at * 1e6):0{PLACE_DIGITS}d}-{spec.id}"
        try:
            os.link(spec_path, entry)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            os.close(os.open(entry, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


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
    return os.open(path, flags, 0o600)


def _spec(job_id: str, record: jobdir.Record | None) -> Spec:
    """Whose directory it is decides the id, and not what somebody wrote into it."""
    record = record or {}
    if isinstance(record.get("command"), str) and _is_finite(record.get("created_at")):
        known = {name: record[name] for name in Spec.__dataclass_fields__ if name in record}
        with contextlib.suppress(TypeError):
            return Spec(**{**known, "id": job_id})
    return Spec(job_id, "(unreadable)", "", "", 0.0, 0)


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and -1e15 < value < 1e15


def run_from(record: jobdir.Record | None) -> Run | None:
    if record is None:
        return None
    try:
        return Run(record["pid"], record["shim_pid"], record["started_at"], record["boot_id"])
    except KeyError:
        return None


def _end(record: jobdir.Record | None) -> End | None:
    if record is None:
        return None
    try:
        stdout, stderr = record.get("stdout_bytes", record["output_bytes"]), record.get("stderr_bytes", 0)
        when = {"ended_at": record["ended_at"], "duration_s": record["duration_s"]}
        when |= {"stdout_bytes": stdout, "stderr_bytes": stderr}
        code, signal = record.get("exit_code"), record.get("signal")
        if not all(map(_is_finite, when.values())) or not all(
            isinstance(n, int | None) for n in (code, signal)
        ):
            return None
        match record["cause"]:
            case "exited":
                return None if code is None else Exited(**when, code=code)
            case "signaled":
                return None if signal is None else Signaled(**when, signal=signal)
            case "killed":
                return Killed(**when, code=code, signal=signal)
            case "timed_out":
                return TimedOut(**when, code=code, signal=signal)
            case "never_started":
                return NeverStarted(**when, reason=record["reason"])
    except KeyError:
        pass
    return None


def _why_lost(directory: str) -> str:
    run = run_from(jobdir.read_record(f"{directory}/{RUN}"))
    if run is None:
        return "it was never started: whoever was about to start it is gone"
    if run.boot_id != processes.boot_id():
        return "the machine was restarted while it ran"
    return "its shim was killed while it ran"


def _last_seen(job: Job) -> float:
    return job.spec.created_at if isinstance(job.state, Running | Lost) else job.state.ended_at


def _mtime(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0
