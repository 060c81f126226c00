"""The hold: while a person is attached to a job and types, nobody else types into it."""

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from bgjob.api.context import Context
from bgjob.api.results import Hold
from bgjob.core.errors import HeldByPerson
from bgjob.core.job import Job
from bgjob.home import event_log
from bgjob.link.control import NoShim, ask_shim

PATIENCE_S = 2.0


def check_not_held(context: Context, job_id: str, answer: Mapping[str, Any]) -> None:
    """HeldByPerson: by this answer of its shim, what was to be typed was refused."""
    held = answer.get("held")
    if held is not None and not answer.get("ok"):
        by = _holder(context, job_id, held["by"])
        raise HeldByPerson(job_id, by, _utc(held["since"]), _utc(held["typed_at"]))


def hold_on(context: Context, job_id: str, deadline: float | None = None) -> Hold | None:
    """None: no person holds the job, or its shim does not answer in time."""
    deadline = time.monotonic() + PATIENCE_S if deadline is None else deadline
    with contextlib.suppress(NoShim, TimeoutError):
        held = ask_shim(context.store.control_path(job_id), deadline, op="waits").get("held")
        by = _holder(context, job_id, held["by"]) if held else ""
        return Hold(by, held["since"], held["typed_at"]) if held else None
    return None


def _holder(context: Context, job_id: str, by: str) -> str:
    """Return the name of the holder, quoted if it comes from a host."""
    target = context.store.load(job_id).spec.target
    if target is None:
        return by
    from bgjob.remote.messages import said  # few jobs need it

    return said(target, by)


def note_typed(context: Context, job: Job, by: str, count: int) -> None:
    """An event tells who typed into the job and how much, never what: of a person who was not attached."""
    event_log.append(context.store.events, "typed", job.id, name=job.spec.name, by=by, bytes=count)


def _utc(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
