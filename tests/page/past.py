"""Jobs of the past, by the hundred: records as a starter and a shim would have left them, with times of our own."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bgjob.home import event_log
from bgjob.store.store import Store
from tests.support.stores import new_spec, write_outcome

OUTCOMES: Mapping[str, dict[str, Any]] = {
    "completed": {"cause": "exited", "exit_code": 0},
    "failed": {"cause": "exited", "exit_code": 2},
    "killed": {"cause": "killed", "exit_code": None, "signal": 15},
}


class Past:
    def __init__(self, home: Path) -> None:
        self._store = Store(str(home))

    def job(
        self, way: str, created: float, started: float | None = None, ended: float | None = None, **spec: Any
    ) -> str:
        """`way`: completed, failed, killed or lost, as the timeline calls it. Its id."""
        began = created if started is None else started
        over = began + 1.0 if ended is None else ended
        new = self._store.create(new_spec(created, **spec))
        directory = Path(new.directory)
        run = {"pid": 4_000_000, "shim_pid": 4_000_001, "started_at": began, "boot_id": None}
        (directory / "run.json").write_text(json.dumps(run))
        if way != "lost":
            write_outcome(directory, ended_at=over, duration_s=over - began, **OUTCOMES[way])
        os.close(new.lock)
        return directory.name

    def event(self, job_id: str, kind: str, at: float, **details: Any) -> None:
        record = {"at": round(at, 3), "kind": kind, "job_id": job_id, **details}
        event_log.append_line(self._store.events, json.dumps(record).encode())
