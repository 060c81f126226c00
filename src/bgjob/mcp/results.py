"""What the tools answer: the nouns of the api as fields, in the order a reader wants them.

A field that is None is left out of the answer.
"""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from bgjob.api import (
    EventPage,
    Executed,
    Found,
    Interaction,
    JobStatus,
    Kill,
    KillWord,
    Match,
    Mode,
    Output,
    Page,
    Waited,
)
from bgjob.api.results import InputWord
from bgjob.core.job import (
    CauseWord,
    Ended,
    Job,
    OverLimit,
    Running,
    StatusWord,
    cause_word,
    exit_code,
    limit_word,
    reason,
    status_word,
)
from bgjob.mcp.fields import (
    duration_s_of,
    event_fields,
    phase_of,
    printed_fields,
    runs_of,
    shortened,
    signal_of,
    started,
    timestamp,
)
from bgjob.mcp.registry import OUTPUT
from bgjob.mcp.schema import UNLISTED

# a field that few answers have is not in the schema, which every caller pays for
Rare = Field(json_schema_extra={UNLISTED: True})
Count = Annotated[int | None, Rare]
Text = Annotated[str | None, Rare]
Texts = Annotated[list[str] | None, Rare]
Interleaved = Annotated[str | None, Rare, OUTPUT]
Phase = Annotated[Literal["queued", "restarting"] | None, Rare]


@dataclass(frozen=True, kw_only=True)
class Printed:
    stdout: Annotated[str, OUTPUT]
    stderr: Annotated[str, OUTPUT]
    cursor: str
    stdout_left_out_bytes: Count = None
    stderr_left_out_bytes: Count = None
    stdout_dropped_bytes: Count = None
    stderr_dropped_bytes: Count = None
    interleaved: Interleaved = None
    screen: Text = None
    cursor_row: Count = None
    cursor_column: Count = None
    highlight: Texts = None
    title: Text = None

    @classmethod
    def of(cls, output: Output) -> "Printed":
        return cls(**printed_fields(output))


@dataclass(frozen=True, kw_only=True)
class Started:
    job_id: str
    status: StatusWord
    phase: Phase = None
    position: Count = None
    reused: Annotated[bool | None, Rare] = None
    cause: Annotated[CauseWord | None, Rare] = None
    reason: Text = None
    limit: Text = None
    exit_code: int | None = None
    signal: Text = None
    stdout: Annotated[str | None, OUTPUT] = None
    stderr: Annotated[str | None, OUTPUT] = None
    cursor: str | None = None
    stdout_left_out_bytes: Count = None
    stderr_left_out_bytes: Count = None
    stdout_dropped_bytes: Count = None
    stderr_dropped_bytes: Count = None
    interleaved: Interleaved = None
    screen: Text = None
    cursor_row: Count = None
    cursor_column: Count = None
    highlight: Texts = None
    title: Text = None
    hint: Text = None

    @classmethod
    def of(cls, ran: Executed) -> "Started":
        state, waited = ran.job.state, ran.waited
        return cls(
            job_id=ran.job.id,
            status=status_word(state),
            phase=phase_of(state),
            position=ran.place.position if ran.place else None,
            reused=ran.reused or None,
            cause=cause_word(state),
            reason=ran.place.reason if ran.place else reason(state),
            limit=limit_word(state),
            exit_code=exit_code(state),
            signal=signal_of(state),
            hint=waited.status.hint if waited else None,
            **(printed_fields(waited.output) if waited else {}),
        )


@dataclass(frozen=True, kw_only=True)
class Status:
    status: StatusWord
    started: str
    cwd: str
    output_bytes: int
    descendants: Annotated[int, Field(description="its processes alive now")]
    phase: Annotated[Literal["queued", "restarting"] | None, Field(description="not running yet")] = None
    position: Count = None
    priority: Count = None
    exit_code: int | None = None
    cause: str | None = None
    signal: str | None = None
    reason: Text = None
    limit: Text = None
    peak_memory_bytes: Count = None
    ended: Text = None
    duration_s: float | None = None
    pid: Count = None
    name: Text = None
    waits_for_input: InputWord | None = None
    prompt: str | None = None
    log: Annotated[str | None, Field(description="file with its output")] = None
    idle_s: Annotated[float | None, Field(description="since it printed")] = None
    hint: Text = None
    restarts: Count = None
    runs: Annotated[list[dict[str, Any]] | None, Rare] = None
    limits: Annotated[dict[str, Any] | None, Rare] = None
    limited_by: Annotated[dict[str, str] | None, Rare] = None
    activity: Annotated[dict[str, Any] | None, Rare] = None

    @classmethod
    def of(cls, status: JobStatus) -> "Status":
        job, state = status.job, status.job.state
        return cls(
            status=status_word(state),
            started=started(job),
            cwd=job.spec.cwd,
            output_bytes=status.output_bytes,
            descendants=status.descendants,
            phase=phase_of(state, status.history),
            position=status.place.position if status.place else None,
            priority=status.place.priority if status.place else None,
            exit_code=exit_code(state),
            cause=cause_word(state),
            signal=signal_of(state),
            reason=status.place.reason if status.place else reason(state),
            limit=limit_word(state),
            peak_memory_bytes=state.peak_memory_bytes if isinstance(state, OverLimit) else None,
            ended=timestamp(state.ended_at) if isinstance(state, Ended) else None,
            duration_s=duration_s_of(status),
            # of a running job only: later another process may have the number
            pid=state.run.pid if isinstance(state, Running) and state.run else None,
            name=job.spec.name,
            waits_for_input=status.waits_for_input,
            prompt=status.prompt,
            log=status.log,
            idle_s=None if status.idle_s is None else round(status.idle_s, 1),
            hint=status.hint,
            restarts=status.history.restarts if status.history else None,
            runs=runs_of(status.history) if status.history else None,
            limits=dict(status.limits) if status.limits else None,
            limited_by=dict(status.limited_by) if status.limited_by else None,
            activity=asdict(status.activity) if status.activity else None,
        )


@dataclass(frozen=True, kw_only=True)
class Reply(Printed):
    accepted_bytes: int
    unread_bytes: int | None = None

    @classmethod
    def to(cls, said: Interaction) -> "Reply":
        return cls(
            **printed_fields(said.output), accepted_bytes=said.accepted_bytes, unread_bytes=said.unread_bytes
        )


@dataclass(frozen=True)
class Listed:
    job_id: str
    status: StatusWord
    command: str
    started: str
    name: str | None = None
    exit_code: int | None = None
    cause: Text = None
    waits_for_input: bool | None = None
    phase: Phase = None
    position: Count = None
    reason: Text = None

    @classmethod
    def of(cls, job: Job, page: Page) -> "Listed":
        place = page.places.get(job.id)
        return cls(
            job_id=job.id,
            status=status_word(job.state),
            command=shortened(job.spec.command, page.command_characters),
            started=started(job),
            name=job.spec.name,
            exit_code=exit_code(job.state),
            cause=cause_word(job.state),
            waits_for_input=job.id in page.asking or None,
            phase=phase_of(job.state),
            position=place.position if place else None,
            reason=place.reason if place else None,
        )


@dataclass(frozen=True)
class Listing:
    jobs: list[Listed]
    next_cursor: str | None = None

    @classmethod
    def of(cls, page: Page) -> "Listing":
        return cls([Listed.of(job, page) for job in page.jobs], page.next_cursor)


@dataclass(frozen=True, kw_only=True)
class WaitedFor(Printed):
    job_id: str
    status: str
    condition: str | None = None
    match: str | None = None
    exit_code: int | None = None
    cause: Annotated[CauseWord | None, Rare] = None
    limit: Text = None
    signal: Text = None
    prompt: Text = None
    hint: Text = None

    @classmethod
    def of_one(cls, waited: Waited) -> "WaitedFor":
        status, met = waited.status, waited.met
        return cls(
            job_id=status.job.id,
            status=status_word(status.job.state),
            condition=met.condition if met else None,
            match=met.detail if met else None,
            exit_code=exit_code(status.job.state),
            cause=cause_word(status.job.state),
            limit=limit_word(status.job.state),
            signal=signal_of(status.job.state),
            prompt=status.prompt,
            hint=status.hint,
            **printed_fields(waited.output),
        )


@dataclass(frozen=True)
class Waits:
    met: Annotated[bool, Field(description="false: time was up, call again with the cursors")]
    jobs: list[WaitedFor]

    @classmethod
    def of(cls, waited: list[Waited], mode: Mode) -> "Waits":
        came_true = [each.met is not None for each in waited]
        return cls(all(came_true) if mode == "all" else any(came_true), list(map(WaitedFor.of_one, waited)))


@dataclass(frozen=True)
class FoundLine:
    job_id: str
    stream: str
    time: str
    line: str
    cursor: str
    before: Annotated[list[str] | None, Rare] = None
    after: Annotated[list[str] | None, Rare] = None

    @classmethod
    def of(cls, match: Match) -> "FoundLine":
        when = timestamp(match.at)
        return cls(
            match.job.id,
            match.stream,
            when,
            match.line,
            match.cursor,
            match.before or None,
            match.after or None,
        )


@dataclass(frozen=True)
class FoundLines:
    matches: list[FoundLine]
    count: int
    complete: Annotated[bool, Field(description="false: out of time")]
    searched_jobs: Count = None

    @classmethod
    def of(cls, found: Found) -> "FoundLines":
        return cls(list(map(FoundLine.of, found.matches)), found.count, found.complete, found.searched_jobs)


@dataclass(frozen=True)
class Told:
    events: Annotated[
        list[dict[str, Any]], Field(description="oldest first: time, job_id, name, kind, details")
    ]
    cursor: str
    more: Annotated[bool | None, Field(description="true: call again with cursor")] = None
    left_out: Count = None
    earlier: Text = None
    gone_bytes: Count = None

    @classmethod
    def of(cls, found: EventPage) -> "Told":
        return cls(
            list(map(event_fields, found.events)),
            found.cursor,
            found.more or None,
            found.left_out or None,
            found.earlier,
            found.gone_bytes or None,
        )


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
        return cls(kill.status, kill.processes, exit_code(kill.job.state), signal_of(kill.job.state))
