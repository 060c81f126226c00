"""Ended jobs by the thousand: a few real ones, and copies of them under fresh ids.

A copy is made by bgjob's own code (`Store.create`, `jobdir.write_record`), with the original's records and log and
its times moved into the past: no reader can tell it from a job that ran.
"""

import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.client import BenchError, Json, Server
from bgjob.core.job import Spec
from bgjob.home import jobdir
from bgjob.home.jobdir import LOG, OUTCOME, RUN
from bgjob.store.store import Store

APART_S = 1.0
RUN_S = 30.0
KINDS: list[Json] = [
    {"command": "true"},
    {"command": "seq -f 'step %.0f of a build' 200"},
    {"command": "seq 20; echo 'error: it broke' >&2; exit 3"},
    {"command": "echo on a terminal; printf 'done? '", "pty": True, "name": "asks"},
]


@dataclass(frozen=True)
class Original:
    spec: Spec
    records: dict[str, Json]
    log: Path


def run_originals(server: Server) -> list[str]:
    """One real job of each kind, ended."""
    return [_run(server, kind) for kind in KINDS]


def replicate(home: Path, originals: Sequence[str], number: int) -> None:
    store = Store(str(home))
    models = [_original(store, job_id) for job_id in originals]
    for index in range(number):
        _copy(store, models[index % len(models)], age_s=(index + 1) * APART_S)


def _run(server: Server, kind: Json) -> str:
    answer = server.call("execute_command", wait_s=RUN_S, **kind)
    if answer["status"] == "running":
        raise BenchError(f"{kind['command']!r} still runs after {RUN_S:.0f} s")
    return str(answer["job_id"])


def _original(store: Store, job_id: str) -> Original:
    directory = Path(store.directory(job_id))
    records = {name: jobdir.read_record(str(directory / name)) or {} for name in (RUN, OUTCOME)}
    return Original(store.load(job_id).spec, records, directory / LOG)


def _copy(store: Store, original: Original, age_s: float) -> None:
    spec = replace(original.spec, id=str(uuid.uuid4()), created_at=original.spec.created_at - age_s)
    new = store.create(spec)
    os.close(new.lock)
    for name, record in original.records.items():
        jobdir.reserve_record(f"{new.directory}/{name}")
        jobdir.write_record(f"{new.directory}/{name}", _earlier(record, age_s))
    if original.log.is_dir():
        shutil.copytree(original.log, f"{new.directory}/{LOG}")


def _earlier(record: Json, age_s: float) -> Json:
    return {
        key: value - age_s if key in ("started_at", "ended_at") else value for key, value in record.items()
    }
