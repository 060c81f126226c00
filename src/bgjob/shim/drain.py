"""The drainer: starts what waits in the queue, as soon as it may. It is there only while something waits.

All it knows is on disk: it may be killed at any moment. Its keeper, a process above it, then starts another; when
both are killed, the next ending shim does, or any server that looks at a queued job.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal

from bgjob import event_log, jobdir, processes, queue_dir, slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.jobdir import Record

    Launch = Callable[[str, list[int], list[int]], None]  # directory, descriptors for the shim, ours to close

LOOK_AGAIN_S = 1.0  # a slot whose holders were killed is free without anybody's saying so
ABANDONED_S = 3600.0


def keep_draining(home: str, launch: Launch) -> None:
    """Returns when nothing waits any more, or somebody else drains."""
    lock = queue_dir.become_drainer(home)
    if lock is None:
        return
    processes.set_process_name("bgjob-keeper")
    while True:
        drainer = os.fork()
        if drainer == 0:
            drain(home, lock, launch)
        _, status = os.waitpid(drainer, 0)
        if status == 0:
            return


def drain(home: str, lock: int, launch: Launch) -> None:
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps our guards
        processes.set_process_name("bgjob-queue")
        Drainer(home, lock, launch).run()
        status = 0
    finally:
        os._exit(status)


class Drainer:
    def __init__(self, home: str, lock: int, launch: Launch) -> None:
        self._home, self._lock, self._launch = home, lock, launch
        self._kicks = queue_dir.listen(home)
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._specs: dict[str, Record] = {}
        self._full: set[str] = set()
        self._nap_s = LOOK_AGAIN_S

    def run(self) -> None:
        poll = select.poll()
        poll.register(self._kicks, select.POLLIN)
        while True:
            self._hear()  # first: who kicks while we look wakes us
            if self._start_all():
                poll.poll(self._nap_s * 1000 + 1)
            elif not self._go_on():
                return

    def _go_on(self) -> bool:
        """Nothing waits: let go, and look once more. Who has entered meanwhile may have seen our lock."""
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        if not queue_dir.entries(self._home):
            return False
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False  # another one was faster
        return True

    def _hear(self) -> None:
        try:
            os.read(self._kicks, 1 << 16)
        except BlockingIOError:
            pass

    def _start_all(self) -> int:
        """What can start starts; how many still wait."""
        self._full, self._nap_s = set(), LOOK_AGAIN_S
        return sum([self._consider(entry) for entry in queue_dir.entries(self._home)])

    def _consider(self, entry: str) -> bool:
        """Whether it still waits."""
        directory = f"{self._home}/jobs/{queue_dir.job_of(entry)}"
        spec = self._spec(entry, directory)
        if spec and not spec["queue"]["after"] and self._is_full(spec):
            return True  # there may be thousands
        if not queue_dir.is_waiting(directory):
            return not self._is_done_with(entry, directory)
        if spec is None:
            return True
        stands, why = queue_dir.verdict(f"{self._home}/jobs", spec)
        if stands == "fails":
            self._end(entry, directory, why)
            return False
        if stands == "holds" and not self._is_full(spec):
            self._start(directory, spec)
        elif stands == "waits" and (left_s := spec["queue"]["not_before"] - queue_dir.now_s()) > 0:
            self._nap_s = min(self._nap_s, left_s)
        return True  # it goes when its papers are gone: until then it may have to be tried again

    def _is_full(self, spec: Record) -> bool:
        return "jobs" in self._full or spec.get("group") in self._full

    def _is_done_with(self, entry: str, directory: str) -> bool:
        """Started, cancelled or cleaned up; or not yet visible, for a moment."""
        age_s = _age_s(f"{self._home}/{queue_dir.QUEUE}/{entry}")
        if not os.path.isdir(directory) and age_s < ABANDONED_S:
            return False
        queue_dir.leave(self._home, entry)
        self._specs.pop(queue_dir.job_of(entry), None)
        return True

    def _spec(self, entry: str, directory: str) -> Record | None:
        job_id = queue_dir.job_of(entry)
        if job_id not in self._specs:
            spec = jobdir.read_record(f"{directory}/{jobdir.SPEC}")
            if spec is None or not spec.get("queue"):
                return None
            if not queue_dir.is_of_this_boot(spec):
                queue_dir.forget_papers(directory)
                return None
            self._specs[job_id] = spec
        return self._specs[job_id]

    def _start(self, directory: str, spec: Record) -> None:
        terms = spec["queue"]
        held = slots.claim_all(
            f"{self._home}/slots", terms["max_jobs"], spec.get("group"), terms["group_slots"]
        )
        if isinstance(held, str):
            self._full.add(held)
            return
        lock = queue_dir.hold(directory)
        try:
            if lock is not None:  # else it is being started or cancelled
                self._hand_over(directory, lock, held)
        finally:
            slots.release([*held, lock] if lock is not None else held)

    def _hand_over(self, directory: str, lock: int, held: list[int]) -> None:
        if not queue_dir.is_startable(directory):
            return queue_dir.forget_papers(directory)  # whoever cancelled it was killed
        papers = os.open(f"{directory}/{jobdir.PAPERS}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self._launch(directory, [lock, self._null, papers, *held], [self._lock, self._kicks])
        finally:
            os.close(papers)

    def _end(self, entry: str, directory: str, why: str) -> None:
        lock = queue_dir.hold(directory)
        if lock is None:
            return
        try:
            if queue_dir.is_startable(directory):
                queue_dir.end_unstarted(directory, cause="never_started", reason=why)
                event_log.append(
                    f"{self._home}/{event_log.EVENTS}",
                    "ended",
                    queue_dir.job_of(entry),
                    cause="never_started",
                    reason=why,
                )
            queue_dir.forget_papers(directory)
            queue_dir.leave(self._home, entry)
        finally:
            os.close(lock)


def _age_s(path: str) -> float:
    import time

    try:
        return time.time() - os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0
