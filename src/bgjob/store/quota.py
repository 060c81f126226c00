"""The size limit of a store: old jobs make room; if running jobs alone exceed it, starts are refused.

A start removes a part of what is too much, and later starts remove the rest: until then a store may be too large.

    size       bytes of all jobs on disk, and for how many seconds after its mtime that counts; locked while a
               process measures
    sizes      bytes of each ended job, which never change: only the other jobs are measured again

Both are in the home, and can be deleted. A measurement counts so long that measuring takes a small part of
the time.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from bgjob.core.errors import StoreFull
from bgjob.home import jobdir
from bgjob.home.layout import is_directory
from bgjob.home.locks import open_locked
from bgjob.store.retention import Portion
from bgjob.store.store import Store

SIZE, SIZES = "size", "sizes"
GOOD_FOR_TIMES = 20
BLOCK_BYTES = 512
# A shim takes at most this long to leave after the end of its job.
LEAVING_S, LOOK_AGAIN_S = 1.0, 0.01


def make_room(store: Store, cap_bytes: int) -> None:
    """Make room for one more job, or a part of it; StoreFull if there is nothing to remove."""
    with _turn(f"{store.home}/{SIZE}") as size:
        if size is not None and not _is_known_to_fit(size, cap_bytes):
            _make_room(store, cap_bytes, size)


def _make_room(store: Store, cap_bytes: int, size: int) -> None:
    """A job that has just ended can be removed once its shim has left: we wait a moment for that."""
    until = time.monotonic() + LEAVING_S
    while True:
        others, is_rest_left = _measure(store, cap_bytes, size)
        if is_rest_left or sum(others.values()) <= cap_bytes:
            return
        if time.monotonic() > until or not any(_has_ended(store.directory(job_id)) for job_id in others):
            raise StoreFull(sum(others.values()), cap_bytes)
        time.sleep(LOOK_AGAIN_S)


class StoreSize:
    """The bytes of all jobs on disk, measured again and again: an ended job is measured once. For any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ended: dict[str, int] = {}
        self._mutex = threading.Lock()

    def measure(self, patience_s: float) -> int | None:
        """None: there was no time to measure all jobs; the next call goes on with the rest."""
        with self._mutex:
            return self._measure(patience_s)

    def _measure(self, patience_s: float) -> int | None:
        deadline = time.monotonic() + patience_s
        known = self._ended or _known(self._store)
        ended, total = dict[str, int](), 0
        for _, job_id in self._store.ids():
            if job_id in known:
                ended[job_id] = known[job_id]
            elif time.monotonic() > deadline:
                self._ended = {**known, **ended}
                return None
            else:
                directory = self._store.directory(job_id)
                is_final, size = _is_final(directory), size_on_disk(directory)
                if is_final:
                    ended[job_id] = size
                else:
                    total += size
        self._ended = ended
        return total + sum(ended.values())


@contextlib.contextmanager
def _turn(path: str) -> Iterator[int | None]:
    """None if another process measures. It may be stopped: that must not block all starts."""
    fd = open_locked(path)
    try:
        yield fd
    finally:
        if fd is not None:
            os.close(fd)


def _is_known_to_fit(size: int, cap_bytes: int) -> bool:
    age_s = time.time() - os.fstat(size).st_mtime
    words = os.pread(size, 100, 0).split()
    try:
        size_bytes, good_for_s = int(words[0]), float(words[1])
    except (IndexError, ValueError):
        return False  # the file is new, or torn
    return size_bytes <= cap_bytes and 0 <= age_s < good_for_s


def _measure(store: Store, cap_bytes: int, size: int) -> tuple[dict[str, int], bool]:
    """Return the sizes of the jobs that cannot be removed, and whether others are left for later starts.

    Of those the oldest are removed, if necessary.
    """
    began = time.monotonic()
    known, places = _known(store), list(store.ids())
    ended: dict[str, int] = {}
    others: dict[str, int] = {}
    # The file that readers may make of an ended job's log is no part of what is known of the job.
    merged = {job_id: _blocks(f"{store.directory(job_id)}/{jobdir.MERGED}") for _, job_id in places}
    for _, job_id in places:
        if job_id in known:
            ended[job_id] = known[job_id] + merged[job_id]
        else:
            directory = store.directory(job_id)
            (ended if _is_final(directory) else others)[job_id] = size_on_disk(directory)
    total, is_rest_left = sum(ended.values()) + sum(others.values()), False
    if total > cap_bytes:
        total, is_rest_left = _remove_oldest(store, places, ended, others, cap_bytes)
    lasting = {job_id: size - merged[job_id] for job_id, size in ended.items()}
    if lasting != known:
        _write_sizes(store, lasting)
    _write_size(size, total, GOOD_FOR_TIMES * (time.monotonic() - began))
    return others, is_rest_left


def _known(store: Store) -> dict[str, int]:
    ended = (jobdir.read_record(f"{store.home}/{SIZES}") or {}).get("ended")
    if not isinstance(ended, dict) or not all(type(each) is int and each >= 0 for each in ended.values()):
        return {}
    return ended


def _remove_oldest(
    store: Store, places: list[tuple[str, str]], ended: dict[str, int], others: dict[str, int], cap: int
) -> tuple[int, bool]:
    """Return the size that is left, and whether later starts have to remove more.

    In the end a tenth of what running jobs leave is free, so that this is rare.
    """
    total, running = sum(ended.values()) + sum(others.values()), sum(others.values())
    wanted, portion = store.waited_for(), Portion()
    for place, job_id in reversed(places):
        if total <= cap - max(0, cap - running) // 10:
            break
        if job_id in wanted or not _is_removable(store, job_id):
            continue
        if portion.is_done():
            return total, True
        if store.remove(place, job_id):
            portion.removed += 1
            total -= ended.pop(job_id, 0) + others.pop(job_id, 0)  # a lost job is among the others
    return total, False


def _is_removable(store: Store, job_id: str) -> bool:
    """A job of a newer version is not removed."""
    job = store.ended(job_id)
    return job is not None and job.is_understood


def _is_final(directory: str) -> bool:
    """The job has ended, and its shim has left: its files do not change any more."""
    return (
        is_directory(directory)
        and _has_ended(directory)
        and not jobdir.is_locked(f"{directory}/{jobdir.SPEC}")
    )


def _has_ended(directory: str) -> bool:
    return os.path.exists(f"{directory}/{jobdir.OUTCOME}")


def size_on_disk(directory: str) -> int:
    """The size of a job's files."""
    size_bytes = 0
    with contextlib.suppress(OSError):
        for each in (directory, f"{directory}/{jobdir.LOG}"):
            if not is_directory(each):
                break
            size_bytes += sum(_sizes_in(each))
    return size_bytes


def _sizes_in(directory: str) -> Iterator[int]:
    with os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                yield entry.stat(follow_symlinks=False).st_blocks * BLOCK_BYTES


def _blocks(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * BLOCK_BYTES
    except OSError:
        return 0


def _write_sizes(store: Store, ended: dict[str, int]) -> None:
    with contextlib.suppress(OSError):  # on a full disk they are measured again next time
        jobdir.write_record(f"{store.home}/{SIZES}", {"format": jobdir.FORMAT_VERSION, "ended": ended})


def _write_size(size: int, total: int, good_for_s: float) -> None:
    """In place: the file is the lock too."""
    with contextlib.suppress(OSError):
        os.ftruncate(size, 0)
        os.pwrite(size, b"%d %.6f" % (total, good_for_s), 0)
