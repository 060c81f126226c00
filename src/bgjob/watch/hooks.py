"""Runs a command for each event: MCP_BG_ON_EVENT, as it was set when the job was started.

A command that fails is not run again. A command has the environment that was kept when its job was started
(see watch_registry), never that of the watcher, which is its starter's.
"""

import contextlib
import json
import time
from collections.abc import Mapping

from bgjob.core.errors import JobNotFound
from bgjob.core.job import Event, Spec
from bgjob.home import jobdir, watch_registry
from bgjob.home.event_log import Cursor
from bgjob.store.event_reader import kept_place
from bgjob.store.record_schema import Malformed, environment_of
from bgjob.store.store import Store
from bgjob.watch.event_runner import EventRun, EventRunner

POSITION, FAILURE = "on_event.json", "on_event.err"
TIMEOUT_S = 10.0


class HookRun(EventRun):
    """One run of a command, for one event."""

    def __init__(self, command: str, environment: Mapping[str, str], event: Event) -> None:
        self.command = command
        stdin = json.dumps(event).encode() + b"\n"
        super().__init__(["/bin/sh", "-c", command], stdin, environment, TIMEOUT_S)


class HookRunner(EventRunner[HookRun]):
    def __init__(self, store: Store) -> None:
        record = jobdir.read_record(f"{store.home}/{POSITION}") or {}
        super().__init__(store, kept_place(str(record.get("cursor", ""))))

    def _begin(self, event: Event) -> HookRun | None:
        spec = self._spec(event)
        if spec is None or not spec.on_event:
            return None
        try:
            return HookRun(spec.on_event, self._environment(event, spec), event)
        except (OSError, ValueError) as why:  # not tried again: the next events wait
            self._note_failure(spec.on_event, f"could not be started ({why})")
            return None

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

    def _save(self, place: Cursor) -> None:
        jobdir.write_record(f"{self._store.home}/{POSITION}", {"cursor": str(place)})

    def _note_end(self, run: HookRun, stderr_end: bytes) -> None:
        if run.failure:
            self._note_failure(run.command, run.failure, stderr_end)

    def _note_failure(self, command: str, failure: str, stderr_end: bytes = b"") -> None:
        """Keep the output of the last command that failed: it is shown nowhere else."""
        text = f"{time.strftime('%F %T %z')}: {failure}: {command}\n".encode(errors="replace")
        with contextlib.suppress(OSError):
            jobdir.write_whole(f"{self._store.home}/{FAILURE}", text + stderr_end)
