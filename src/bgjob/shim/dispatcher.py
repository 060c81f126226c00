"""The dispatcher: a process that starts queued jobs as soon as they may start, and lives while there are any.

All that it knows is on disk: it may be killed at any moment. Its keeper, a process above it, then starts
another. When both are killed, the next shim that ends starts them again, or a server that sees a queued job.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import time

from bgjob.home import event_log, jobdir, queue_dir, slots, watch_registry
from bgjob.home.home_dir import is_ours_alone
from bgjob.home.layout import DRAFTS, SLOTS, is_directory
from bgjob.system import keeper, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.home.jobdir import Record

    Launch = Callable[[str, list[int], list[int]], None]  # directory, descriptors for the shim, ours to close

LOOK_AGAIN_S = 1.0  # nothing wakes us when a killed process frees its slot
LOOK_AT_ALL_S = 0.25
SOON_S = 0.05  # a job that was handed over is started by then, or let go
LONGEST_KEEPER_PAUSE_S = 0.5
# between two starts while the machine lacks descriptors, memory or room; each twice the last
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
HOLD_TRIES = (
    50  # a process that looks at a job has its lock for a moment: that must not cost the job its turn
)
LINGER_S = (
    1.0  # more jobs may be queued soon, and to start a dispatcher takes as long as to queue ten of them
)
MANY_SLOTS = 1 << 31
UNREADABLE = "its spec.json says nothing that this version can queue"


def keep_dispatching(home: str, lock: int, launch: Launch) -> None:
    """Returns when no job waits, another dispatcher is at work, or the queue was deleted with its home."""
    processes.set_process_name("bgjob-keeper")
    # The lock is ours already, unless a dispatcher was killed after it had let go.
    keeper.keep(
        lambda: _dispatch(home, lock, launch),
        lambda: is_directory(f"{home}/{queue_dir.QUEUE}") and queue_dir.lock_dispatcher(lock),
        LONGEST_KEEPER_PAUSE_S,
    )


def _dispatch(home: str, lock: int, launch: Launch) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps our guards
    processes.set_process_name("bgjob-queue")
    Dispatcher(home, lock, launch).run()


class Dispatcher:
    def __init__(self, home: str, lock: int, launch: Launch) -> None:
        self._home, self._lock, self._launch = home, lock, launch
        self._wakes = queue_dir.listen(home)
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._known: dict[str, Record] = {}
        self._handed_over: set[str] = set()
        self._full: dict[str, int] = {}  # kinds of slots that are all taken, and how many there are
        self._nap_s, self._look_at_all_at = LOOK_AGAIN_S, 0.0
        self._pause_s, self._start_again_at = SHORTEST_PAUSE_S, 0.0

    def run(self) -> None:
        poll = select.poll()
        poll.register(self._wakes, select.POLLIN)
        while True:
            self._clear_wakes()  # first: a wake that comes while we look ends the poll below
            if self._start_all():
                poll.poll(self._nap_s * 1000 + 1)
            elif not poll.poll(LINGER_S * 1000) and not self._go_on():
                return

    def _go_on(self) -> bool:
        """No job waits: free the lock, and look once more. A job queued meanwhile may have seen it held."""
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        return bool(queue_dir.entries(self._home)) and queue_dir.lock_dispatcher(self._lock)

    def _clear_wakes(self) -> None:
        try:
            os.read(self._wakes, 1 << 16)
        except BlockingIOError:
            pass

    def _start_all(self) -> int:
        """Start all jobs that can start; how many still wait."""
        self._full, self._nap_s = {}, LOOK_AGAIN_S
        try:
            return self._look_at(queue_dir.entries(self._home))
        except OSError:
            return 1  # not known: look again

    def _look_at(self, entries: list[str]) -> int:
        """Mostly as many as there are slots. Now and then all: one may have become impossible."""
        now = time.monotonic()
        looks_at_all = now >= self._look_at_all_at
        if looks_at_all:
            self._look_at_all_at = now + LOOK_AT_ALL_S
        waiting = 0
        for entry in entries:
            waiting += self._still_waits(entry)
            if slots.ALL in self._full and not looks_at_all:
                self._nap_s = min(self._nap_s, LOOK_AT_ALL_S)
                break
        return waiting

    def _still_waits(self, entry: str) -> bool:
        try:
            return self._consider(entry)
        except OSError:
            return True  # want of descriptors, of memory or of room: look again

    def _consider(self, entry: str) -> bool:
        """Whether it still waits."""
        job_id = queue_dir.job_of(entry)
        directory = queue_dir.job_directory(self._home, job_id)
        terms = self._known.get(job_id)
        if terms and not terms["queue"]["after"] and self._is_full(terms):
            return True  # there may be thousands
        if not queue_dir.is_startable(directory):
            return not self._is_done_with(entry, directory)
        if job_id in self._handed_over and self._is_held(job_id):
            self._nap_s = min(self._nap_s, SOON_S)
            return True  # a shim has it, and will take its launch file
        if job_id in self._handed_over:
            self._hold_off()  # its shim could not start it now
        terms = terms or self._read(job_id, directory)
        if terms is None:
            return self._end(entry, directory, UNREADABLE)
        stands, why = queue_dir.readiness(self._home, terms)
        if stands == "impossible":
            return self._end(entry, directory, why)
        if stands == "ready" and not self._is_full(terms):
            self._start(directory, terms)
        elif stands == "pending" and (left_s := terms["queue"]["not_before"] - queue_dir.now_s()) > 0:
            self._nap_s = min(self._nap_s, left_s)
        return True  # until its launch file is gone it may have to be tried again

    def _is_held(self, job_id: str) -> bool:
        return jobdir.is_locked(f"{queue_dir.job_directory(self._home, job_id)}/{jobdir.SPEC}")

    def _hold_off(self) -> None:
        """The machine lacks what a start takes: no start for a moment, and for a longer one the next time."""
        self._start_again_at = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        self._handed_over = {job_id for job_id in self._handed_over if self._is_held(job_id)}

    def _read(self, job_id: str, directory: str) -> Record | None:
        """The part of its spec that matters here: a command may be long."""
        spec = jobdir.read_record(f"{directory}/{jobdir.SPEC}")
        if spec and not jobdir.is_of_this_boot(spec):
            queue_dir.remove_launch_file(directory)
        elif terms := queue_dir.queue_options_of(spec):
            self._known[job_id] = terms
        return self._known.get(job_id)

    def _is_full(self, terms: Record) -> bool:
        queue, group = terms["queue"], terms["group"]
        if queue["max_jobs"] <= self._full.get(slots.ALL, -1):
            return True
        return group is not None and (queue["group_slots"] or 0) <= self._full.get(group, -1)

    def _is_done_with(self, entry: str, directory: str) -> bool:
        """Started, ended, cleaned up, or never made by a killed submitter. False: it is not visible yet."""
        draft = f"{self._home}/{DRAFTS}/{queue_dir.job_of(entry)}/{jobdir.SPEC}"
        if not os.path.isdir(directory) and (jobdir.is_locked(draft) or os.path.isdir(directory)):
            return False
        if queue_dir.is_being_taken(directory):
            self._nap_s = min(self._nap_s, SOON_S)
            return False
        if queue_dir.is_startable(directory):
            return False  # it was made visible, or put back, since we first looked
        # the process that has cancelled or started it may have been killed before it removed this
        queue_dir.remove_launch_file(directory)
        self._leave(entry)
        return True

    def _leave(self, entry: str) -> None:
        queue_dir.leave(self._home, entry)
        job_id = queue_dir.job_of(entry)
        self._known.pop(job_id, None)
        if job_id in self._handed_over:
            self._handed_over.remove(job_id)
            self._pause_s = SHORTEST_PAUSE_S

    def _start(self, directory: str, terms: Record) -> None:
        queue, group = terms["queue"], terms["group"]
        pause_s = self._start_again_at - time.monotonic()
        if pause_s > 0:
            self._nap_s = min(self._nap_s, pause_s)
            self._full[slots.ALL] = MANY_SLOTS  # so that no other job is tried either
            return
        held = slots.claim_all(f"{self._home}/{SLOTS}", queue["max_jobs"], group, queue["group_slots"])
        if isinstance(held, str):
            most = queue["max_jobs"] if held == slots.ALL else queue["group_slots"]
            self._full[held] = max(most, self._full.get(held, 0))
            return
        self._nap_s = min(self._nap_s, SOON_S)
        lock = None
        try:
            lock = queue_dir.hold(directory, HOLD_TRIES)
            if lock is not None:  # else another process starts or cancels it
                self._hand_over(directory, lock, held)
        except OSError:
            self._hold_off()
            raise
        finally:
            slots.release([*held, lock] if lock is not None else held)

    def _hand_over(self, directory: str, lock: int, held: list[int]) -> None:
        if not queue_dir.is_startable(directory):
            return
        launch_file = os.open(f"{directory}/{jobdir.LAUNCH}", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not _are_ours_alone(os.lstat(directory), os.fstat(lock), os.fstat(launch_file)):
                return
            shown = os.path.realpath(directory)  # our own path is relative: to the home that was found safe
            self._launch(shown, [lock, self._null, launch_file, *held], [self._lock, self._wakes])
            self._handed_over.add(os.path.basename(directory))
            watch_registry.ensure_watcher(os.path.realpath(self._home))
        finally:
            os.close(launch_file)

    def _end(self, entry: str, directory: str, why: str) -> bool:
        """Whether it still waits."""
        lock = queue_dir.hold(directory)
        if lock is None and os.path.lexists(f"{directory}/{jobdir.SPEC}"):
            return True
        try:
            if lock is not None and queue_dir.is_startable(directory):
                self._record_end(queue_dir.job_of(entry), directory, why)
            queue_dir.remove_launch_file(directory)
            self._leave(entry)
        finally:
            slots.release([lock] if lock is not None else [])
        return False

    def _record_end(self, job_id: str, directory: str, why: str) -> None:
        how = {"cause": "never_started", "reason": why}
        name = (jobdir.read_record(f"{directory}/{jobdir.SPEC}") or {}).get("name")
        queue_dir.end_unstarted(directory, **how)
        event_log.append(f"{self._home}/{event_log.EVENTS}", "ended", job_id, name=name, **how)


def _are_ours_alone(*found: os.stat_result) -> bool:
    """By the descriptors that the shim gets: what another user has put into the queue is not run."""
    return all(map(is_ours_alone, found))
