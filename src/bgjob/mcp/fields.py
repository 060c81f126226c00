"""How the nouns of the api become fields of an answer: times, signals, phases, past runs."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NotRequired, TypedDict, cast

from bgjob.api import Executed, JobEvent, JobStatus, Output
from bgjob.api.hints import still_running
from bgjob.api.results import Place
from bgjob.api.status import LISTED_COMMAND_CHARACTERS
from bgjob.core.job import (
    CauseWord,
    Ended,
    Job,
    PastRun,
    PastRuns,
    Running,
    State,
    cause_word,
    exit_code,
    limit_word,
    reason,
    signal_number,
    status_word,
)
from bgjob.system.processes import signal_name

RUNS_SHOWN = 10
OTHER_COMMAND = (
    "The job of this name runs another command, shown here, and %r was not started: "
    "if_running=restart replaces the job."
)


def printed_fields(output: Output) -> dict[str, Any]:
    """A count of zero, of bytes left out or dropped, is not mentioned; nor is a prompt, which a screen shows."""
    fields = {key: None if value == 0 else value for key, value in vars(output).items() if key != "picture"}
    if picture := output.picture:
        fields |= {"screen": picture.text, "cursor_row": picture.cursor_row}
        fields |= {"cursor_column": picture.cursor_column, "title": picture.title}
        fields |= {"highlight": picture.highlight or None, "prompt": None}
        fields |= {"screen_incomplete": None if picture.exact else True}
    return fields


class ToldEvent(TypedDict):
    """Beside these an event has the details of its kind."""

    time: str
    kind: str
    job_id: str
    name: NotRequired[str]
    command: NotRequired[str]


def event_fields(event: JobEvent) -> ToldEvent:
    told = ToldEvent(time=timestamp(event.at), kind=event.kind, job_id=event.job_id)
    if event.name:
        told["name"] = event.name
    elif event.command:
        told["command"] = event.command
    return cast("ToldEvent", told | event.details)


def meant_id(job: Job, asked: str) -> str | None:
    """The id of the job, where the caller gave something else for it."""
    return None if asked == job.id else job.id


def started(job: Job) -> str:
    return timestamp(job.run.started_at if job.run else job.spec.created_at)


@lru_cache(4096)  # a list of jobs has the same ones again and again
def timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def activity_of(status: JobStatus) -> dict[str, Any] | None:
    if status.activity is None:
        return None
    from dataclasses import asdict  # few callers want it, and importing it takes as long as all of JSON

    return asdict(status.activity)


def duration_s_of(status: JobStatus) -> float | None:
    state = status.job.state
    duration_s = state.duration_s if isinstance(state, Ended) else status.ran_s
    return None if duration_s is None else round(duration_s, 3)


def phase_of(state: State, history: PastRuns | None) -> Literal["restarting"] | None:
    return "restarting" if isinstance(state, Running) and history and history.pauses else None


def cause_of(state: State) -> CauseWord | None:
    """None: the exit code says as much."""
    cause = cause_word(state)
    return None if cause == "exited" else cause


def reason_of(job: Job, place: Place | None) -> str | None:
    """Return why a job waits, or why it ended: it did not start, it is lost, its engine ended it."""
    if place:
        return place.reason
    return reason(job.state) or (job.remote.reason if job.remote else None)


def place_fields(job: Job) -> dict[str, Any]:
    """Where a job of a target is; nothing of a job of this machine."""
    remote = job.remote
    return {"target": remote.target, "node": remote.node, "engine_id": remote.engine_id} if remote else {}


def unreachable_of(job: Job) -> str | None:
    """Since when and why its machine does not answer: what is told of the job is as it was then."""
    remote = job.remote
    if remote is None or remote.unreachable_since is None:
        return None
    return f"since {timestamp(remote.unreachable_since)}: {remote.unreachable}"


def standing_fields(
    job: Job,
    place: Place | None = None,
    *,
    left_running: int = 0,
    waits_for_input: bool | None = None,
    prompt: str | None = None,
    hint: str | None = None,
    history: PastRuns | None = None,
) -> dict[str, Any]:
    """How a job stands, in every answer about it. What says nothing is None."""
    state = job.state
    last = history.runs[-1] if history and history.runs and isinstance(state, Running) else None
    return {
        "status": status_word(state),
        "exit_code": exit_code(state),
        "phase": phase_of(state, history),
        "restarts": (history.restarts or None) if history else None,
        "last_exit_code": last.code if last else None,
        "cause": cause_of(state),
        "reason": reason_of(job, place),
        "unreachable": unreachable_of(job),
        "limit": limit_word(state),
        "signal": signal_of(state),
        "position": (place.position or None) if place else None,
        "left_running": left_running or None,
        "waits_for_input": waits_for_input or None,
        "prompt": prompt,
        "hint": hint or None,
    }


def start_hint(ran: Executed, is_other: bool) -> str | None:
    """`is_other`: the job that runs was started with another command than the one that was asked for."""
    of_job = ran.waited.status.hint if ran.waited else still_running(ran.job.state, ran.left_running)
    hints = (
        OTHER_COMMAND % shortened(str(ran.asked_command), LISTED_COMMAND_CHARACTERS) if is_other else None,
        of_job,
    )
    return " ".join(filter(None, hints)) or None


def runs_of(history: PastRuns) -> list[dict[str, Any]] | None:
    """The last few: a crash loop has many. `output` is a cursor for the since of get_job_output."""
    return [_run(run) for run in history.runs[-RUNS_SHOWN:]] or None


def _run(run: PastRun) -> dict[str, Any]:
    how = {"exit_code": run.code} if run.signal is None else {"signal": signal_name(run.signal)}
    return {
        "ended": timestamp(run.ended_at),
        "duration_s": round(run.duration_s, 3),
        **how,
        **({"limit": run.limit} if run.limit else {}),
        "output": f"{run.log_from}-{run.log_to}",
    }


def signal_of(state: State) -> str | None:
    number = signal_number(state)
    return None if number is None else signal_name(number)


def shortened(command: str, limit: int) -> str:
    left_out = len(command) - limit
    return f"{command[:limit]}... ({left_out} more characters)" if left_out > 0 else command
