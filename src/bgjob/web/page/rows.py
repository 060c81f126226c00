"""One job as a row of the page: what is nothing, false or empty is left out."""

import json
from typing import Any

from bgjob.api.filter import started_by
from bgjob.api.live import Row
from bgjob.core.job import Ended, Job, Running, cause_word, end_details, exit_code, reason, status_word
from bgjob.home.jobdir import how_ended
from bgjob.mcp.answers import plain

COMMAND_CHARACTERS = 300


def encoded_row(row: Row) -> bytes:
    return json.dumps(row_fields(row), separators=(",", ":")).encode()


def row_fields(row: Row) -> dict[str, Any]:
    """The same job gives the same fields, until something that the page shows has changed."""
    state, spec = row.job.state, row.job.spec
    fields = {
        **_spec_fields(row.job),
        "status": status_word(state),
        "group": row.group,
        "phase": row.phase,
        "cause": cause_word(state),
        "outcome": None if isinstance(state, Running) else how_ended(end_details(state)),
        "reason": row.reason or reason(state),
        "started": row.job.run.started_at if row.job.run else None,
        "ended": state.ended_at if isinstance(state, Ended) else None,
        "prompt": row.prompt,
        "ports": row.ports,
        "held": {"by": row.held.by, "since": row.held.since} if row.held else None,
        "left": row.left_running,
        "restarts": row.restarts,
        "limits": spec.limits,
        "timeout_s": spec.timeout_s,
        "output_bytes": row.output_bytes,
    }
    told: dict[str, Any] = plain({name: value for name, value in fields.items() if value})
    # an exit code of 0 is something
    return told if exit_code(state) is None else {**told, "exit_code": exit_code(state)}


def _spec_fields(job: Job) -> dict[str, Any]:
    spec = job.spec
    return {
        "id": spec.id,
        "name": spec.name,
        "command": spec.command[:COMMAND_CHARACTERS],
        "created": spec.created_at,
        "pty": spec.pty,
        "stdin": spec.stdin != "null",
        "cwd": spec.cwd,
        "by": started_by(job),
        "session": spec.by.get("session"),
        "job_group": spec.group,
        "of": spec.of,
        **_place_fields(job),
    }


def _place_fields(job: Job) -> dict[str, Any]:
    """Of a job of a target: where it is, and since when that cannot be reached."""
    remote = job.remote
    if remote is None:
        return {}
    since = remote.unreachable_since
    gone = None if since is None else {"since": since, "why": remote.unreachable}
    return {"target": remote.target, "node": remote.node, "engine_id": remote.engine_id, "unreachable": gone}
