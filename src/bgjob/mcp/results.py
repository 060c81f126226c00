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
    FoundInJob,
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
from bgjob.api.status import LISTED_COMMAND_CHARACTERS
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
    status_word,
)
from bgjob.mcp.fields import (
    ToldEvent,
    cause_of,
    duration_s_of,
    event_fields,
    left_running_of,
    phase_of,
    printed_fields,
    reason_of,
    runs_of,
    shortened,
    signal_of,
    start_hint,
    started,
    timestamp,
)
from bgjob.mcp.registry import OUTPUT
from bgjob.mcp.schema import UNLISTED
from bgjob.system.processes import signal_name

# a field that few answers have is not in the schema, which every caller pays for
Rare = Field(json_schema_extra={UNLISTED: True})
Count = Annotated[int | None, Rare]
Text = Annotated[str | None, Rare]
Texts = Annotated[list[str] | None, Rare]
Interleaved = Annotated[str | None, Rare, OUTPUT]
# Of a command that is shown whole: a command may have any size, an answer may not.
COMMAND_CHARACTERS = 20_000


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
    exit_code: int | None = None
    left_running: Count = None
    position: Count = None
    reused: Annotated[bool | None, Rare] = None
    command: Text = None
    cause: Annotated[CauseWord | None, Rare] = None
    reason: Text = None
    limit: Text = None
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
    met: bool | None = None
    condition: str | None = None
    match: str | None = None
    waits_for_input: bool | None = None
    prompt: Text = None
    waited_s: float | None = None

    @classmethod
    def of(cls, ran: Executed) -> "Started":
        state, waited = ran.job.state, ran.waited
        came = waited.came if waited and ran.met is not None else None
        is_other = ran.reused and ran.asked_command not in (None, ran.job.spec.command)
        return cls(
            job_id=ran.job.id,
            status=status_word(state),
            exit_code=exit_code(state),
            left_running=left_running_of(ran) or None,
            position=ran.place.position if ran.place else None,
            reused=ran.reused or None,
            command=shortened(ran.job.spec.command, LISTED_COMMAND_CHARACTERS) if is_other else None,
            cause=cause_of(state),
            reason=reason_of(state, ran.place),
            limit=limit_word(state),
            signal=signal_of(state),
            hint=start_hint(ran, is_other),
            met=ran.met,
            condition=came.condition if came else None,
            match=came.detail if came else None,
            waits_for_input=(waited.status.waits_for_input or None) if waited else None,
            prompt=waited.status.prompt if waited else None,
            waited_s=waited.cut_to_s if waited else None,
            **(printed_fields(waited.output) if waited else {}),
        )


@dataclass(frozen=True, kw_only=True)
class Status:
    status: StatusWord
    started: str
    command: str
    cwd: str
    output_bytes: int
    descendants: Annotated[int, Field(description="its processes alive now")]
    left_running: Count = None
    phase: Annotated[Literal["restarting"] | None, Rare] = None
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
    waits_for_input: Annotated[bool | None, Field(description="sits at a prompt")] = None
    prompt: str | None = None
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
            command=shortened(job.spec.command, COMMAND_CHARACTERS),
            cwd=job.spec.cwd,
            output_bytes=status.output_bytes,
            descendants=status.descendants,
            left_running=status.left_running or None,
            phase=phase_of(state, status.history),
            position=status.place.position if status.place else None,
            priority=status.place.priority if status.place else None,
            exit_code=exit_code(state),
            cause=cause_word(state),
            signal=signal_of(state),
            reason=reason_of(state, status.place),
            limit=limit_word(state),
            peak_memory_bytes=state.peak_memory_bytes if isinstance(state, OverLimit) else None,
            ended=timestamp(state.ended_at) if isinstance(state, Ended) else None,
            duration_s=duration_s_of(status),
            # of a running job only: later another process may have the number
            pid=state.run.pid if isinstance(state, Running) and state.run else None,
            name=job.spec.name,
            waits_for_input=status.waits_for_input,
            prompt=status.prompt,
            idle_s=None if status.idle_s is None else round(status.idle_s, 1),
            hint=status.hint,
            restarts=status.history.restarts if status.history else None,
            runs=runs_of(status.history) if status.history else None,
            limits=dict(status.limits) if status.limits else None,
            limited_by=dict(status.limited_by) if status.limited_by else None,
            activity=asdict(status.activity) if status.activity else None,
        )


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a job stands that was typed into. As the last base of an answer, its fields come first."""

    status: StatusWord
    exit_code: int | None = None
    cause: Text = None
    signal: Text = None
    waits_for_input: bool | None = None
    prompt: str | None = None
    accepted_bytes: int
    unread_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Reply(Printed, Standing):
    @classmethod
    def to(cls, said: Interaction) -> "Reply":
        state = said.job.state
        return cls(
            status=status_word(state),
            exit_code=exit_code(state),
            cause=cause_word(state),
            signal=signal_of(state),
            waits_for_input=said.waits_for_input or None,
            prompt=said.prompt,
            accepted_bytes=said.accepted_bytes,
            unread_bytes=said.unread_bytes or None,
            **printed_fields(said.output),
        )


@dataclass(frozen=True)
class Listed:
    job_id: str
    status: StatusWord
    command: str
    started: str
    name: str | None = None
    exit_code: int | None = None
    left_running: Count = None
    cause: Text = None
    waits_for_input: bool | None = None
    position: Count = None
    reason: Text = None

    @classmethod
    def of(cls, job: Job, page: Page) -> "Listed":
        place = page.places.get(job.id)
        return cls(
            job_id=job.id,
            status=status_word(job.state),
            command=shortened(job.spec.command, LISTED_COMMAND_CHARACTERS),
            started=started(job),
            name=job.spec.name,
            exit_code=exit_code(job.state),
            left_running=page.left_running.get(job.id),
            cause=cause_of(job.state),
            waits_for_input=job.id in page.asking or None,
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
    status: StatusWord
    condition: str | None = None
    match: str | None = None
    exit_code: int | None = None
    left_running: Count = None
    position: Count = None
    reason: Text = None
    cause: Annotated[CauseWord | None, Rare] = None
    limit: Text = None
    signal: Text = None
    waits_for_input: bool | None = None
    prompt: Text = None
    hint: Text = None

    @classmethod
    def of_one(cls, waited: Waited) -> "WaitedFor":
        status, came = waited.status, waited.came
        return cls(
            job_id=status.job.id,
            status=status_word(status.job.state),
            condition=came.condition if came else None,
            match=came.detail if came else None,
            exit_code=exit_code(status.job.state),
            left_running=status.left_running or None,
            position=status.place.position if status.place else None,
            reason=reason_of(status.job.state, status.place),
            cause=cause_of(status.job.state),
            limit=limit_word(status.job.state),
            signal=signal_of(status.job.state),
            waits_for_input=status.waits_for_input or None,
            prompt=status.prompt,
            hint=status.hint,
            **printed_fields(waited.output),
        )


@dataclass(frozen=True)
class Waits:
    met: Annotated[bool, Field(description="false: time was up, call again with the cursors")]
    jobs: list[WaitedFor]
    waited_s: Annotated[float | None, Rare] = None

    @classmethod
    def of(cls, waited: list[Waited], mode: Mode) -> "Waits":
        came_true = [each.met for each in waited]
        met = all(came_true) if mode == "all" else any(came_true)
        return cls(met, list(map(WaitedFor.of_one, waited)), waited[0].cut_to_s)


@dataclass(frozen=True)
class FoundLine:
    line: str
    cursor: Annotated[str, Field(description="as since: the whole line")]
    stream: Literal["stderr"] | None = None
    time: str | None = None
    before: Annotated[list[str] | None, Field(description="context_lines")] = None
    after: list[str] | None = None

    @classmethod
    def of(cls, match: Match) -> "FoundLine":
        return cls(
            match.line,
            match.cursor,
            "stderr" if match.stream == "stderr" else None,
            None if match.at is None else timestamp(match.at),
            match.before or None,
            match.after or None,
        )


@dataclass(frozen=True, kw_only=True)
class FoundIn:
    job_id: str
    name: str | None = None
    matches: list[FoundLine]

    @classmethod
    def of(cls, found: FoundInJob) -> "FoundIn":
        job, lines = found.job, list(map(FoundLine.of, found.matches))
        return cls(job_id=job.id, name=job.spec.name, matches=lines)


@dataclass(frozen=True, kw_only=True)
class FoundLines:
    count: Annotated[int, Field(description="all matching lines, shown or not")]
    shown: Count = None
    complete: Annotated[
        bool, Field(description="false: 30 s were up, or a log is unreadable; narrow job_ids")
    ]
    jobs: list[FoundIn]

    @classmethod
    def of(cls, found: Found) -> "FoundLines":
        jobs = list(map(FoundIn.of, found.jobs))
        return cls(count=found.count, shown=found.shown, complete=found.complete, jobs=jobs)


@dataclass(frozen=True)
class Told:
    events: Annotated[list[ToldEvent], Field(description="oldest first")]
    cursor: str
    more: Annotated[bool | None, Field(description="true: call again with cursor")] = None
    left_out: Count = None
    earlier: Annotated[str | None, Field(description="as since: also the older ones")] = None
    gone_bytes: Annotated[int | None, Field(description="of deleted events")] = None

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
    processes: Annotated[int, Field(description="how many there were")]
    exit_code: int | None = None
    signal: str | None = None

    @classmethod
    def of(cls, kill: Kill) -> "Killing":
        if kill.job is None:
            return cls(kill.status, kill.processes)
        signal = signal_name(kill.signal) if kill.signal else signal_of(kill.job.state)
        return cls(kill.status, kill.processes, exit_code(kill.job.state), signal)
