"""Hands events to commands: MCP_BG_ON_EVENT, as it was set where the job was started.

One command at a time, for each event in its order; how far it has come is kept in the home, so that a killed courier
goes on where it was. One that fails is not tried again, one that hangs is killed: the next event waits for it.

A command runs with the environment that was kept for it where its job was started (see lookout), never with ours,
which is of whoever started us.
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

POSITION, COMPLAINT = "on_event.json", "on_event.err"
TIMEOUT_S = 10.0
COMPLAINT_BYTES = 4000


class HookRunner:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._place = self._saved = self._known_place()
        self._errand: HookRun | None = None

    @property
    def descriptors(self) -> list[int]:
        """Readable when something has to be done."""
        return [self._errand.end] if self._errand and self._errand.end >= 0 else []

    def seconds_left(self) -> float:
        if self._errand is None:
            return float("inf")
        left_s = max(0.0, self._errand.deadline - time.monotonic())
        return left_s if self._errand.end >= 0 else min(left_s, LOOK_EVERY_S)

    def turn(self) -> bool:
        """Do what can be done now, without waiting. True: there is nothing left to do."""
        while self._errand is None or self._errand.is_done():
            if self._errand is not None:
                last_words = self._errand.last_words()
                if self._errand.failure:
                    self._complain(self._errand.command, self._errand.failure, last_words)
                self._errand = None
            self._save()
            if not self._set_out():
                self._save()
                return True
        return False

    def _set_out(self) -> bool:
        """With the next event that has a command."""
        for event, behind in event_reader.read(self._store.events, self._place):
            self._place = behind
            if (spec := self._spec(event)) and spec.on_event and self._begin(spec.on_event, spec, event):
                return True
        return False

    def _begin(self, command: str, spec: Spec, event: Event) -> bool:
        try:
            self._errand = HookRun(command, self._environment(event, spec), event)
        except (
            OSError,
            ValueError,
        ) as why:  # nor is one tried again that cannot be started: the others wait for it
            self._complain(command, f"could not be started ({why})")
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
        """Behind the last event whose command has ended."""
        if self._place != self._saved:
            with contextlib.suppress(OSError):
                jobdir.write_record(f"{self._store.home}/{POSITION}", {"cursor": str(self._place)})
            self._saved = self._place

    def _complain(self, command: str, failure: str, last_words: bytes = b"") -> None:
        """The last one that failed can be looked at: nobody reads its output otherwise."""
        text = f"{time.strftime('%F %T %z')}: {failure}: {command}\n".encode(errors="replace")
        with contextlib.suppress(OSError):
            jobdir.write_whole(f"{self._store.home}/{COMPLAINT}", text + last_words)


class HookRun:
    """One command, with one event."""

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
        """It has ended; or its time is up, and then it is ended with all of its group."""
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

    def last_words(self) -> bytes:
        with self._stderr as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - COMPLAINT_BYTES))
            return file.read()


@contextlib.contextmanager
def _file_with(event: Event) -> Iterator[Any]:
    """Not a pipe: a command that does not read must not hold us up."""
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(event).encode() + b"\n")
        file.seek(0)
        yield file
