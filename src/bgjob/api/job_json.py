"""A job as JSON, for scripts and for the page: the same words as the answers of the MCP tools."""

import time
from collections.abc import Callable
from typing import Any

from bgjob.api.filter import started_by
from bgjob.core.job import Ended, Job, end_details, status_word
from bgjob.system.processes import signal_name

Moment = Callable[[float], object]
"""How a time, in seconds since the epoch, is written."""


def utc(at: float) -> str:
    """ISO 8601, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def job_as_json(job: Job, moment: Moment = utc) -> dict[str, Any]:
    """What is known of it without a look at its processes or its output; nothing that is None."""
    spec, state, end = job.spec, job.state, end_details(job.state)
    if isinstance(end["signal"], int):
        end["signal"] = signal_name(end["signal"])
    known = {
        "job_id": job.id,
        "name": spec.name,
        "status": status_word(state),
        **end,
        "command": spec.command,
        "cwd": spec.cwd,
        "by": started_by(job) or None,
        "of": spec.of,
        **_place(job, moment),
        "pty": spec.pty or None,
        "created": moment(spec.created_at),
        "started": moment(job.run.started_at) if job.run else None,
        "ended": moment(state.ended_at) if isinstance(state, Ended) else None,
        "duration_s": round(state.duration_s, 3) if isinstance(state, Ended) else None,
    }
    return {word: value for word, value in known.items() if value is not None}


def _place(job: Job, moment: Moment) -> dict[str, Any]:
    """Where a job of a target is, and since when that cannot be reached."""
    remote = job.remote
    if remote is None:
        return {"target": job.spec.target}
    since = remote.unreachable_since
    return {
        "target": remote.target,
        "node": remote.node,
        "engine_id": remote.engine_id,
        "unreachable_since": None if since is None else moment(since),
        "unreachable": remote.unreachable,
    }
