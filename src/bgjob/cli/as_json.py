"""A job as JSON, for scripts: the same words as the answers of the MCP tools."""

import json
import time
from collections.abc import Mapping
from typing import Any

from bgjob.api.filter import started_by
from bgjob.core.job import Ended, Job, end_details, status_word
from bgjob.system.processes import signal_name


def job_as_json(job: Job) -> dict[str, Any]:
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
        "pty": spec.pty or None,
        "created": utc(spec.created_at),
        "started": utc(job.run.started_at) if job.run else None,
        "ended": utc(state.ended_at) if isinstance(state, Ended) else None,
        "duration_s": round(state.duration_s, 3) if isinstance(state, Ended) else None,
    }
    return {word: value for word, value in known.items() if value is not None}


def utc(at: float) -> str:
    """ISO 8601, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def as_line(record: Mapping[str, object]) -> str:
    """JSON on one line; what is not ASCII is escaped, so that nothing in it steers a terminal."""
    return json.dumps(record)
