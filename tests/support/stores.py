"""Job directories made by hand: as a starter and a shim would have left them."""

import json
import os
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from bgjob.api import Jobs
from bgjob.api.context import Context
from bgjob.core.config import settings_from
from bgjob.core.job import Spec
from bgjob.link.spawn import Spawner
from bgjob.store import quota
from bgjob.store.store import NewJob, Store


def new_spec(created_at: float | None = None, command: str = "true", **more: Any) -> Spec:
    return Spec(str(uuid.uuid4()), command, "/bin/sh", "/", created_at or time.time(), 1 << 20, **more)


def ended_job(
    store: Store, ended_at: float | None = None, created_at: float | None = None, **more: Any
) -> str:
    """A job that exited with 0, and whose shim is gone."""
    ended_at = ended_at or time.time()
    spec = new_spec(created_at or ended_at, **more)
    new = store.create(spec)
    write_outcome(Path(new.directory), ended_at=ended_at)
    os.close(new.lock)
    return spec.id


def job_with(home: str | Path, **values: Any) -> str:
    """A job that exited with 0 and has these values in its spec: also such as no starter accepts any more."""
    store = Store(str(home))
    new = store.create(replace(new_spec(), **values))
    write_outcome(Path(new.directory))
    os.close(new.lock)
    return Path(new.directory).name


def write_outcome(directory: Path, **values: Any) -> None:
    usual = {"cause": "exited", "exit_code": 0, "signal": None, "ended_at": time.time()}
    record = {"duration_s": 1.0, "output_bytes": 0, **usual, **values}
    (directory / "outcome.json").write_text(json.dumps(record))


def running_job(store: Store, created_at: float | None = None) -> NewJob:
    """Locked by us: close `lock` and it is lost."""
    return store.create(new_spec(created_at))


def listed(store: Store) -> list[str]:
    return [job.id for _, job in store.jobs()]


def jobs_on(store: Store, **environ: str) -> Jobs:
    return Jobs(Context.of(store, settings_from(environ), environ, Spawner(zygote=False)))


def forget_measure(home: str | Path) -> None:
    """As if the last one were long ago."""
    size = Path(home, quota.SIZE)
    if size.exists():
        os.utime(size, (0, 0))
