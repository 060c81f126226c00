"""Runs a process for each event, from a place in the log of events that is kept on disk.

One process at a time, in the order of the events. A process that hangs is killed, because the next event
waits for it. A killed watcher goes on from the place that was kept: behind the last event whose process has
ended.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from bgjob.core.job import Event
from bgjob.home.event_log import Cursor
from bgjob.store import event_reader
from bgjob.store.store import Store
from bgjob.system import processes
from bgjob.system.inotify import LOOK_EVERY_S

STDERR_BYTES = 4000


class EventRun:
    """One process, for one event."""

    def __init__(
        self, argv: Sequence[str], stdin: bytes, environment: Mapping[str, str], timeout_s: float
    ) -> None:
        self.failure, self._timeout_s = "", timeout_s
        self.deadline = time.monotonic() + timeout_s
        with contextlib.ExitStack() as undo:
            self._stderr = undo.enter_context(tempfile.TemporaryFile())
            # A file, not a pipe: a process that does not read must not block the watcher.
            with tempfile.TemporaryFile() as file:
                file.write(stdin)
                file.seek(0)
                self._process = subprocess.Popen(
                    argv,
                    stdin=file,
                    stdout=subprocess.DEVNULL,
                    stderr=self._stderr,
                    env=environment,
                    start_new_session=True,
                    preexec_fn=processes.die_with_parent,  # noqa: PLW1509  # a watcher has no threads
                )
            undo.pop_all()
        self.end = os.pidfd_open(self._process.pid) if hasattr(os, "pidfd_open") else -1

    def is_done(self) -> bool:
        """Whether the process has ended. If its time is up, its whole process group is killed."""
        if self._process.poll() is None and time.monotonic() < self.deadline:
            return False
        if self._process.returncode is None:
            self.failure = f"took more than {self._timeout_s:.0f} s"
            self._kill()
        elif self._process.returncode != 0:
            self.failure = f"ended with {self._process.returncode}"
        if self.end >= 0:
            os.close(self.end)
        return True

    def abandon(self) -> None:
        """Kill it: its rule is gone, or another is in its place."""
        self._kill()
        self.is_done()
        self._stderr.close()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stderr_end(self) -> bytes:
        with self._stderr as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - STDERR_BYTES))
            return file.read()


Run = TypeVar("Run", bound=EventRun)


class EventRunner(Generic[Run]):
    def __init__(self, store: Store, place: Cursor) -> None:
        self._store = store
        self._place = self._saved = place
        self._run: Run | None = None

    @property
    def descriptors(self) -> list[int]:
        """Readable when the process has ended."""
        return [self._run.end] if self._run and self._run.end >= 0 else []

    def seconds_left(self) -> float:
        if self._run is None:
            return float("inf")
        left_s = max(0.0, self._run.deadline - time.monotonic())
        return left_s if self._run.end >= 0 else min(left_s, LOOK_EVERY_S)

    def advance(self) -> bool:
        """Do what can be done now, without waiting. True: all events were handed over."""
        while self._run is None or self._run.is_done():
            if self._run is not None:
                self._note_end(self._run, self._run.stderr_end())
                self._run = None
            self._save_if_moved()
            if not self._start_next():
                self._save_if_moved()
                return True
        return False

    def _start_next(self) -> bool:
        """Start the process of the next event that has one."""
        for line in event_reader.lines(self._store.events, self._place):
            if self._may_want(line.kind) and (event := line.event):
                self._run = self._begin(event)
            self._place = line.behind  # only now: what fails for want of our own resources is tried again
            if self._run is not None:
                return True
        return False

    def _save_if_moved(self) -> None:
        """Keep the place behind the last event whose process has ended."""
        if self._place != self._saved:
            with contextlib.suppress(OSError):
                self._save(self._place)
            self._saved = self._place

    def _may_want(self, _kind: str) -> bool:
        return True

    def _begin(self, event: Event) -> Run | None:
        """None: nothing is run for this event."""
        raise NotImplementedError

    def _note_end(self, run: Run, stderr_end: bytes) -> None:
        raise NotImplementedError

    def _save(self, place: Cursor) -> None:
        raise NotImplementedError
