"""Runs a command for each event: MCP_BG_ON_EVENT, as it was set when the job was started.

One command at a time, in the order of the events. The position is kept in the home, so that a killed watcher
goes on from there. A command that fails is not run again; a command that hangs is killed, because the next
event waits for it.

A command has the environment that was kept when its job was started (see watch_registry), never that of the
watcher, which is its starter's.
"""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from bgjob.core.errors import JobNotFound
from bgjob.core.job import Event, Spec
from bgjob.home import jobdir, watch_registry
from bgjob.home.event_log import Cursor
from bgjob.store import event_reader
from bgjob.store.record_schema import Malformed, environment_of
from bgjob.store.store import Store
from bgjob.system import processes
from bgjob.system.inotify import LOOK_EVERY_S

POSITION, FAILURE = "on_event.json", "on_event.err"
TIMEOUT_S = 10.0
FAILURE_BYTES = 4000


class HookRunner:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._place = self._saved = self._known_place()
        self._run: HookRun | None = None

    @property
    def descriptors(self) -> list[int]:
        """Readable when the command has ended."""
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
                stderr_end = self._run.stderr_end()
                if self._run.failure:
                    self._note_failure(self._run.command, self._run.failure, stderr_end)
                self._run = None
            self._save()
            if not self._start_next():
                self._save()
                return True
        return False

    def _start_next(self) -> bool:
        """Start the command of the next event that has one."""
        for event, behind in event_reader.read(self._store.events, self._place):
            self._place = behind
            if (spec := self._spec(event)) and spec.on_event and self._begin(spec.on_event, spec, event):
                return True
        return False

    def _begin(self, command: str, spec: Spec, event: Event) -> bool:
        try:
            self._run = HookRun(command, self._environment(event, spec), event)
        except (OSError, ValueError) as why:  # not tried again: the next events wait
            self._note_failure(command, f"could not be started ({why})")
            return False
        return True

    def _spec(self, event: Event) -> Spec | None:
        with contextlib.suppress(JobNotFound):
            return self._store.load(event["job_id"]).spec
        return None

    def _environment(self, event: Event, spec: Spec) -> dict[str, str]:
        return {
            **self._kept_environment(spec.id),
            "BGJOB_HOME": self._store.home,
            "BGJOB_EVENT": str(event["kind"]),
            "BGJOB_JOB_ID": spec.id,
            "BGJOB_JOB_NAME": spec.name or "",
        }

    def _kept_environment(self, job_id: str) -> dict[str, str]:
        try:
            return environment_of(
                jobdir.read_record(watch_registry.entry_path(self._store.home, job_id)) or {}
            )
        except Malformed:
            return {}

    def _known_place(self) -> Cursor:
        record = jobdir.read_record(f"{self._store.home}/{POSITION}") or {}
        with contextlib.suppress(ValueError):
            return Cursor.parse(str(record.get("cursor", "")))
        return Cursor(0, 0)

    def _save(self) -> None:
        """Keep the place behind the last event whose command has ended."""
        if self._place != self._saved:
            with contextlib.suppress(OSError):
                jobdir.write_record(f"{self._store.home}/{POSITION}", {"cursor": str(self._place)})
            self._saved = self._place

    def _note_failure(self, command: str, failure: str, stderr_end: bytes = b"") -> None:
        """Keep the output of the last command that failed: it is shown nowhere else."""
        text = f"{time.strftime('%F %T %z')}: {failure}: {command}\n".encode(errors="replace")
        with contextlib.suppress(OSError):
            jobdir.write_whole(f"{self._store.home}/{FAILURE}", text + stderr_end)


class HookRun:
    """One run of a command, for one event."""

    def __init__(self, command: str, environment: dict[str, str], event: Event) -> None:
        self.command, self.failure = command, ""
        self.deadline = time.monotonic() + TIMEOUT_S
        with contextlib.ExitStack() as undo:
            self._stderr = undo.enter_context(tempfile.TemporaryFile())
            with _file_with(event) as stdin:
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", command],
                    stdin=stdin,
                    stdout=subprocess.DEVNULL,
                    stderr=self._stderr,
                    env=environment,
                    start_new_session=True,
                    preexec_fn=processes.die_with_parent,  # noqa: PLW1509  # a watcher has no threads
                )
            undo.pop_all()
        self.end = os.pidfd_open(self._process.pid) if hasattr(os, "pidfd_open") else -1

    def is_done(self) -> bool:
        """Whether the command has ended. If its time is up, its whole process group is killed."""
        if self._process.poll() is None and time.monotonic() < self.deadline:
            return False
        if self._process.returncode is None:
            self.failure = f"took more than {TIMEOUT_S:.0f} s"
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        elif self._process.returncode != 0:
            self.failure = f"ended with {self._process.returncode}"
        if self.end >= 0:
            os.close(self.end)
        return True

    def stderr_end(self) -> bytes:
        with self._stderr as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - FAILURE_BYTES))
            return file.read()


@contextlib.contextmanager
def _file_with(event: Event) -> Iterator[Any]:
    """A file, not a pipe: a command that does not read must not block the watcher."""
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(event).encode() + b"\n")
        file.seek(0)
        yield file
