"""What the tools answer: the nouns of the door as fields, in the order a reader wants them.

A field that is None is left out of the answer.
"""

import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field

from bgjob.api import Interaction, Kill, KillWord, Look, Output, Page
from bgjob.job import (
    CauseWord,
    Ended,
    Exited,
    Job,
    Killed,
    Lost,
    NeverStarted,
    Run,
    Running,
    Signaled,
    State,
    StatusWord,
    TimedOut,
    cause_word,
    status_word,
)

LISTED_COMMAND_CHARACTERS = 500


@dataclass(frozen=True)
class Started:
    job_id: str
    status: StatusWord
    cause: str | None = None
    reason: str | None = None

    @classmethod
    def of(cls, job: Job) -> "Started":
        return cls(job.id, status_word(job.state), cause_word(job.state), _reason(job.state))


@dataclass(frozen=True)
class Status:
    status: StatusWord
    started: str
    cwd: str
    output_bytes: int
    descendants: Annotated[int, Field(description="processes of the job alive now, main one included")]
    exit_code: int | None = None
    cause: CauseWord | None = None
    signal: str | None = None
    reason: Annotated[str | None, Field(description="why it never started or was lost")] = None
    ended: str | None = None
    duration_s: float | None = None
    pid: int | None = None
    name: str | None = None

    @classmethod
    def of(cls, look: Look, *, now: float) -> "Status":
        job, state = look.job, look.job.state
        return cls(
            status=status_word(state),
            started=_started(job),
            cwd=job.spec.cwd,
            output_bytes=look.output_bytes,
            descendants=look.descendants,
            exit_code=_exit_code(state),
            cause=cause_word(state),
            signal=_signal(state),
            reason=_reason(state),
            ended=_timestamp(state.ended_at) if isinstance(state, Ended) else None,
            duration_s=_duration_s(state, now),
            # of a running job only: later the number may be somebody else's
            pid=state.run.pid if isinstance(state, Running) and state.run else None,
            name=job.spec.name,
        )


@dataclass(frozen=True, kw_only=True)
class Printed:
    stdout: str
    stderr: str
    cursor: str
    stdout_left_out_bytes: int | None = None
    stderr_left_out_bytes: int | None = None
    stdout_dropped_bytes: int | None = None
    stderr_dropped_bytes: int | None = None

    @classmethod
    def of(cls, output: Output) -> "Printed":
        return cls(**_fields_of(output))


@dataclass(frozen=True, kw_only=True)
class Reply(Printed):
    accepted_bytes: int
    unread_bytes: int | None = None

    @classmethod
    def to(cls, said: Interaction) -> "Reply":
        return cls(
            **_fields_of(said.output), accepted_bytes=said.accepted_bytes, unread_bytes=said.unread_bytes
        )


def _fields_of(output: Output) -> dict[str, Any]:
    """Nothing left out and nothing dropped goes without saying."""
    return {key: None if value == 0 else value for key, value in vars(output).items()}


@dataclass(frozen=True)
class Listed:
    job_id: str
    status: StatusWord
    command: str
    started: str
    name: str | None = None
    exit_code: int | None = None
    cause: str | None = None

    @classmethod
    def of(cls, job: Job) -> "Listed":
        return cls(
            job_id=job.id,
            status=status_word(job.state),
            command=_shortened(job.spec.command),
            started=_started(job),
            name=job.spec.name,
            exit_code=_exit_code(job.state),
            cause=cause_word(job.state),
        )


@dataclass(frozen=True)
class Listing:
    jobs: list[Listed]
    next_cursor: str | None = None

    @classmethod
    def of(cls, page: Page) -> "Listing":
        return cls([Listed.of(job) for job in page.jobs], page.next_cursor)


@dataclass(frozen=True)
class Killing:
    status: KillWord
    processes: Annotated[int, Field(description="how many were alive")]
    exit_code: int | None = None
    signal: str | None = None

    @classmethod
    def of(cls, kill: Kill) -> "Killing":
        if kill.job is None:
            return cls(kill.status, kill.processes)
        return cls(kill.status, kill.processes, _exit_code(kill.job.state), _signal(kill.job.state))


def _started(job: Job) -> str:
    return _timestamp(job.run.started_at if job.run else job.spec.created_at)


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _duration_s(state: State, now: float) -> float | None:
    match state:
        case Ended(duration_s=duration_s):
            return round(duration_s, 3)
        case Running(run=Run(started_at=started_at)):
            return round(max(0.0, now - started_at), 3)
        case _:
            return None


def _exit_code(state: State) -> int | None:
    match state:
        case Exited(code=code) | Killed(code=code) | TimedOut(code=code):
            return code
        case _:
            return None


def _signal(state: State) -> str | None:
    match state:
        case Signaled(signal=int(number)) | Killed(signal=int(number)) | TimedOut(signal=int(number)):
            return _signal_name(number)
        case _:
            return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # the real-time ones between SIGRTMIN and SIGRTMAX
        return f"SIG{number}"


def _reason(state: State) -> str | None:
    match state:
        case NeverStarted(reason=reason) | Lost(reason=reason):
            return reason
        case _:
            return None


def _shortened(command: str) -> str:
    left_out = len(command) - LISTED_COMMAND_CHARACTERS
    if left_out <= 0:
        return command
    return f"{command[:LISTED_COMMAND_CHARACTERS]}... ({left_out} more characters)"
