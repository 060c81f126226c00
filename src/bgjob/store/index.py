"""The order in which the jobs of a home were made, newest first, without opening any of them.

    index/<µs>-<id>    a job's place: a second name of its spec, by creation
    newest             its mtime is the place of the newest job: the order stays right if the clock is set back

The jobs' directories are the truth: the index can be deleted, and is made again from them.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from bgjob.core.errors import JobNotFound
from bgjob.core.job import JOB_ID
from bgjob.home.jobdir import SPEC
from bgjob.home.layout import ID_CHARACTERS, INDEX, JOBS, names_in
from bgjob.home.mtimes import stamp
from bgjob.store.job_names import Listing

PLACE_DIGITS = 16
_PLACE = re.compile(rf"[0-9]{{{PLACE_DIGITS},}}-({JOB_ID.pattern})")
# The year 2255: a later place was not given by a clock.
FARTHEST_PLACE_US = 9 * 10**15
# The maker of an unfinished entry that is older is gone.
ABANDONED_S = 60.0


class Index:
    def __init__(self, home: str, created_at: Callable[[str], float]) -> None:
        """`created_at` says when a job without a place was made; JobNotFound if there is no such job."""
        self._jobs, self._directory, self._newest = f"{home}/{JOBS}", f"{home}/{INDEX}", f"{home}/newest"
        self._created_at = created_at
        self._listing = Listing(self._directory, in_order)

    def places(self) -> Sequence[str]:
        """Return the places of all jobs, oldest first. The directory is listed again only if it has changed."""
        try:
            return self._listing.look()
        except FileNotFoundError:
            return in_order(self.entries())

    def entries(self) -> list[str]:
        try:
            return names_in(self._directory)
        except FileNotFoundError:  # the index was deleted
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._directory, 0o700)
            self.mend()
            return names_in(self._directory)

    def enter(self, job_id: str, spec_path: str, place_us: int) -> None:
        """A second name for the spec costs no new file: making files is the largest part of a start."""
        if not os.path.isdir(self._directory):
            self.entries()
        entry = f"{self._directory}/{place_us:0{PLACE_DIGITS}d}-{job_id}"
        try:
            os.link(spec_path, entry)
        except FileExistsError:
            pass
        except OSError:  # this file system has no links
            os.close(os.open(entry, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))

    def leave(self, place: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(f"{self._directory}/{place}")

    def next_place_us(self, created_at: float) -> int:
        """The time of creation; or, if the clock was set back, right after the newest job."""
        newest_us, place_us = self._newest_us(), _microseconds(created_at)
        if _microseconds(time.time()) < newest_us < FARTHEST_PLACE_US:
            place_us = newest_us + 1
        if place_us > newest_us:
            stamp(self._newest, place_us * 1000)
        return place_us

    def _newest_us(self) -> int:
        try:
            return os.lstat(self._newest).st_mtime_ns // 1000
        except FileNotFoundError:
            places = map(_place_us, in_order(self.entries()))
            return max((place for place in places if place < FARTHEST_PLACE_US), default=0)

    def mend(self) -> None:
        """Give every job an entry, and remove the entries that have no job."""
        oldest = time.time() - ABANDONED_S
        entries = {job_of(place): place for place in in_order(self.entries())}
        jobs = set(filter(JOB_ID.fullmatch, names_in(self._jobs)))
        for job_id in jobs - entries.keys():
            with contextlib.suppress(JobNotFound):
                made_us = _microseconds(self._created_at(job_id))
                self.enter(job_id, f"{self._jobs}/{job_id}/{SPEC}", made_us)
        for job_id in entries.keys() - jobs:
            if made_at(entries[job_id]) < oldest:
                self.leave(entries[job_id])


def is_place(text: str) -> bool:
    """Whether it may be a place that a page of jobs ended with."""
    return _PLACE.fullmatch(text) is not None


def in_order(entries: Iterable[str]) -> list[str]:
    """Return the places among these names, oldest first."""
    # A job has two places if the index was repaired while the job was entered: the newer one counts.
    newest = {job_of(place): place for place in sorted(filter(_PLACE.fullmatch, entries))}
    return sorted(newest.values())


def newest_first(places: Sequence[str], before: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield (place in the order, job id) for the places before `before`. `places` are in order."""
    end = len(places) if before is None else bisect.bisect_left(places, before)
    return ((place, job_of(place)) for place in reversed(places[:end]))


def job_of(place: str) -> str:
    return place[-ID_CHARACTERS:]


def made_at(place: str) -> float:
    return _place_us(place) / 1e6


def _place_us(place: str) -> int:
    return int(place.partition("-")[0])


def _microseconds(seconds: float) -> int:
    return max(0, int(seconds * 1e6))
