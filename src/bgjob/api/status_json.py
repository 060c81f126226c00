"""How jobs stand as JSON, for scripts and for the page: the same words as the answers of the MCP tools.

Nothing that is None. Hints name commands of the command line.
"""

from typing import Any

from bgjob.api.hints import with_commands
from bgjob.api.job_json import Moment, job_as_json, utc
from bgjob.api.results import JobStatus
from bgjob.api.survey import phase_word
from bgjob.core.job import OverLimit, PastRun, Running
from bgjob.system.processes import signal_name


def listed_as_json(status: JobStatus, moment: Moment = utc) -> dict[str, Any]:
    """As a list has it."""
    return {**job_as_json(status.job, moment), **_known(_standing(status, moment)), **_known(_usage(status))}


def status_as_json(status: JobStatus, moment: Moment = utc) -> dict[str, Any]:
    """Everything that is known of it."""
    details = {**_output(status), **_spec(status), **_history(status, moment)}
    return {
        **listed_as_json(status, moment),
        **_known(details),
        **_known({"activity": activity_as_json(status)}),
    }


def _known(facts: dict[str, Any]) -> dict[str, Any]:
    return {word: value for word, value in facts.items() if value is not None}


def _standing(status: JobStatus, moment: Moment) -> dict[str, Any]:
    place = status.place
    return {
        "phase": phase_word(status),
        "waits_for_input": status.waits_for_input,
        "prompt": status.prompt,
        "held_by": status.held.by if status.held else None,
        "held_since": moment(status.held.since) if status.held else None,
        "position": (place.position or None) if place else None,
        "priority": place.priority if place and place.position else None,
        "reason": place.reason if place else None,
        "left_running": status.left_running or None,
        "duration_s": None if status.ran_s is None else round(status.ran_s, 3),
    }


def _usage(status: JobStatus) -> dict[str, Any]:
    activity = status.activity
    if activity is None:
        return {}
    listening = activity.listening
    return {
        "cpu_s": activity.cpu_s,
        "memory_bytes": activity.memory_bytes,
        "ports": None if listening is None else sorted({each.port for each in listening}),
    }


def _output(status: JobStatus) -> dict[str, Any]:
    return {
        "output_bytes": status.output_bytes,
        "idle_s": None if status.idle_s is None else round(status.idle_s, 1),
        "log": status.log,
        "log_note": status.log_note,
        "hint": with_commands(status.hint) if status.hint else None,
    }


def _spec(status: JobStatus) -> dict[str, Any]:
    spec, state = status.job.spec, status.job.state
    return {
        "pid": _pid(status),
        "descendants": status.descendants,
        "shell": spec.shell,
        "stdin": spec.stdin,
        "size": {"rows": spec.rows, "cols": spec.cols} if spec.pty else None,
        "started_by": dict(spec.by) or None,
        "timeout_s": spec.timeout_s,
        "resources": dict(spec.resources) or None,
        "limits": dict(status.limits) if status.limits else None,
        "limited_by": dict(status.limited_by) if status.limited_by else None,
        "peak_memory_bytes": state.peak_memory_bytes if isinstance(state, OverLimit) else None,
        "group": spec.group,
        "queue": dict(spec.queue) or None,
        "watch": list(spec.watch) or None,
        "notify": None if spec.notify is None else {way: list(kinds) for way, kinds in spec.notify.items()},
        "restart": dict(spec.restart) or None,
    }


def _pid(status: JobStatus) -> int | None:
    """Of a running job only: later another process may have the number."""
    state = status.job.state
    is_there = isinstance(state, Running) and phase_word(status) != "restarting"
    return status.job.run.pid if is_there and status.job.run else None


def _history(status: JobStatus, moment: Moment) -> dict[str, Any]:
    history = status.history
    if history is None:
        return {}
    return {"restarts": history.restarts, "runs": [_run(run, moment) for run in history.runs]}


def _run(run: PastRun, moment: Moment) -> dict[str, Any]:
    return _known(
        {
            "ended": moment(run.ended_at),
            "duration_s": round(run.duration_s, 3),
            "exit_code": run.code,
            "signal": None if run.signal is None else signal_name(run.signal),
            "limit": run.limit,
            "output": f"{run.log_from}-{run.log_to}",
        }
    )


def activity_as_json(status: JobStatus) -> dict[str, Any] | None:
    activity = status.activity
    if activity is None:
        return None
    parts = {word: getattr(activity, word) for word in ("tree", "listening")}
    return {
        **vars(activity),
        **{word: part and [vars(each) for each in part] for word, part in parts.items()},
    }
