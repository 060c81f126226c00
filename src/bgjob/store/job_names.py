"""Cached listings of directories, and the names of jobs, for readers that look repeatedly.

names    the ids of the jobs of each name: a copy of what the specs say, which can be deleted
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from bgjob.core.job import Spec, UnreadableSpec
from bgjob.home import jobdir
from bgjob.home.layout import NAMES, names_in
from bgjob.home.locks import open_locked
from bgjob.store.row_file import identity

# The times of files may be so coarse: two changes can have the same.
SAME_TIME_NS = 50_000_000
# Number of specs read because the file lacks them, after which the file is written again.
MOST_UNWRITTEN = 100
UNNAMED = ""  # no job can have this name

Made = TypeVar("Made")


class Listing(Generic[Made]):
    """What `make` returns for the names in a directory, which is listed again only if its mtime has changed."""

    def __init__(self, directory: str, make: Callable[[list[str]], Made]) -> None:
        self._directory, self._make = directory, make
        self._seen: tuple[tuple[int, ...] | None, Made] | None = None

    def look(self) -> Made:
        """Return the same object as last time if nothing has changed."""
        identity, seen = self._identity(), self._seen
        if seen and identity and identity == seen[0]:
            return seen[1]
        made = self._make(names_in(self._directory))
        self._seen = identity, made
        return made

    def _identity(self) -> tuple[int, ...] | None:
        """Identify its state. None: it has just changed, and the next change may get the same time."""
        info = os.lstat(self._directory)
        is_settled = time.time_ns() - info.st_mtime_ns >= SAME_TIME_NS
        return (info.st_dev, info.st_ino, info.st_mtime_ns) if is_settled else None


class JobNames:
    """The ids of the existing jobs."""

    def __init__(self, directory: str) -> None:
        self._listing = Listing(directory, set)
        self.names: set[str] = set()
        self.have_changed()

    def note(self, name: str) -> None:
        """One that was found in another way: that it is gone is a change, also if it never was listed."""
        self.names.add(name)

    def have_changed(self) -> bool:
        with contextlib.suppress(OSError):
            before, self.names = self.names, self._listing.look()
            return before != self.names
        return False


class NamesOfJobs:
    """The name of each job, from the file `names` and from the specs of the jobs that the file lacks.

    Every process may rewrite it as a whole. An entry that is missing or whose job is gone only costs time, so starters
    and cleaners do not have to maintain it.
    """

    def __init__(self, home: str, spec_of: Callable[[str], Spec]) -> None:
        self._path, self._spec_of = f"{home}/{NAMES}", spec_of
        self._identity: tuple[int, ...] | None = None
        self._known: dict[str, str] = {}
        self._unwritten = 0

    def of(self, job_ids: Iterable[str]) -> dict[str, str]:
        """Return the name of each of these jobs, in this order; UNNAMED for a job without a name."""
        known, job_ids = self._loaded(), list(job_ids)
        read = self._read(job_id for job_id in job_ids if job_id not in known)
        known = {**known, **read}
        names = {job_id: known[job_id] for job_id in job_ids if job_id in known}
        self._known, self._unwritten = names, self._unwritten + len(read)
        if self._unwritten > MOST_UNWRITTEN:
            self._write(names)
        return names

    def _read(self, job_ids: Iterable[str]) -> dict[str, str]:
        """Return the names in these specs, except of jobs that are not visible yet or cannot be read now."""
        specs = map(self._spec_of, job_ids)
        return {spec.id: spec.name or UNNAMED for spec in specs if not isinstance(spec, UnreadableSpec)}

    def _loaded(self) -> dict[str, str]:
        if (now := identity(self._path)) == self._identity:
            return self._known
        self._identity, self._unwritten = now, 0
        rows = (jobdir.read_record(self._path) or {}).get("names")
        items = rows.items() if isinstance(rows, dict) else ()
        return self._known | {
            job_id: name for name, job_ids in items if isinstance(job_ids, str) for job_id in job_ids.split()
        }

    def _write(self, names: dict[str, str]) -> None:
        """Write the file. If the disk is full or another process writes it, the next look reads these specs again."""
        rows: dict[str, list[str]] = {}
        for job_id, name in names.items():
            rows.setdefault(name, []).append(job_id)
        record = {"names": {name: " ".join(job_ids) for name, job_ids in rows.items()}}
        with contextlib.suppress(OSError):
            lock = open_locked(f"{self._path}.lock")
            if lock is None:
                return
            try:
                jobdir.write_record(self._path, {"format": jobdir.FORMAT_VERSION, **record})
                self._identity, self._unwritten = identity(self._path), 0
            finally:
                os.close(lock)
