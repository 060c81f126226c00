"""What the tools answer: the nouns of the api as fields, in the order a reader wants them.

A field that is None is left out of the answer.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from bgjob.api import (
    Executed,
    Interaction,
    JobStatus,
    Kill,
    KillWord,
    Mode,
    Reading,
    Waited,
)
from bgjob.api.hints import still_running
from bgjob.api.status import LISTED_COMMAND_CHARACTERS
from bgjob.core.job import (
    Ended,
    OverLimit,
    Running,
    StatusWord,
    cause_word,
    exit_code,
    limit_word,
    reason,
    status_word,
)
from bgjob.mcp.answers import Answer
from bgjob.mcp.fields import (
    activity_of,
    duration_s_of,
    meant_id,
    phase_of,
    place_fields,
    printed_fields,
    reason_of,
    runs_of,
    shortened,
    signal_of,
    standing_fields,
    start_hint,
    started,
    timestamp,
    unreachable_of,
)
from bgjob.mcp.registry import UNLISTED
from bgjob.system.processes import signal_name

# a field that few answers have is not in the schema, which every caller pays for
Rare = {UNLISTED: True}
Count = Annotated[int | None, Rare]
Text = Annotated[str | None, Rare]
Texts = Annotated[list[str] | None, Rare]
Seconds = Annotated[float | None, Rare]
Flag = Annotated[bool | None, Rare]
# Of a command that is shown whole: a command may have any size, an answer may not.
COMMAND_CHARACTERS = 20_000


# Of the bases of an answer, the fields of the last come first; long texts are last of all.


class OneJob(Answer):
    job_id: str


class MeantJob(Answer):
    """Where the caller did not give its id."""

    job_id: Text = None


class Placed(Answer):
    """Where a job of a target is."""

    target: Text = None
    node: Text = None
    engine_id: Text = None


class Standing(Answer):
    """How a job stands."""

    status: str
    exit_code: int | None = None
    phase: Text = None
    restarts: Count = None
    last_exit_code: Count = None
    cause: Text = None
    reason: Text = None
    unreachable: Text = None
    limit: Text = None
    signal: Text = None
    position: Count = None
    left_running: Count = None
    waits_for_input: Flag = None
    prompt: Text = None
    hint: Text = None


class Shown(Answer):
    """What an answer shows of a job's output beside stdout and stderr, and what is missing."""

    stdout_left_out_bytes: Count = None
    stderr_left_out_bytes: Count = None
    stdout_dropped_bytes: Count = None
    stderr_dropped_bytes: Count = None
    cursor_row: Count = None
    cursor_column: Count = None
    highlight: Texts = None
    title: Text = None
    screen_incomplete: Flag = None
    screen: Text = None
    interleaved: Text = None


class Printed(Shown, Standing):
    cursor: str
    stdout: str
    stderr: str


class Read(Printed, MeantJob):
    @classmethod
    def of(cls, read: Reading, asked: str) -> Read:
        standing = standing_fields(
            read.job,
            left_running=read.left_running,
            waits_for_input=read.waits_for_input,
            prompt=read.prompt,
            hint=still_running(read.job.state, read.left_running),
            history=read.history,
        )
        meant = meant_id(read.job, asked)
        return cls(job_id=meant, **{**standing, **printed_fields(read.output)})


class Started(Shown, Placed, Standing, OneJob):
    met: Annotated[bool | None, {"description": "of until"}] = None
    condition: Text = None
    match: Text = None
    waited_s: Seconds = None
    reused: Flag = None
    command: Text = None
    cursor: str | None = None
    stdout: str | None = None
    stderr: str | None = None

    @classmethod
    def of(cls, ran: Executed) -> Started:
        waited = ran.waited
        status, came = (waited.status, waited.came) if waited else (None, None)
        is_other = ran.reused and ran.asked_command not in (None, ran.job.spec.command)
        standing = standing_fields(
            ran.job,
            ran.place,
            left_running=status.left_running if status else ran.left_running,
            waits_for_input=status.waits_for_input if status else None,
            prompt=status.prompt if status else None,
            hint=start_hint(ran, is_other),
            history=status.history if status else None,
        )
        return cls(
            job_id=ran.job.id,
            met=ran.met,
            condition=came.condition if came and ran.met is not None else None,
            match=came.detail if came else None,
            waited_s=waited.cut_to_s if waited else None,
            reused=ran.reused or None,
            command=shortened(ran.job.spec.command, LISTED_COMMAND_CHARACTERS) if is_other else None,
            **{**standing, **place_fields(ran.job), **(printed_fields(waited.output) if waited else {})},
        )


class Status(MeantJob):
    LONG: ClassVar[frozenset[str]] = frozenset({"command", "runs", "activity"})

    status: StatusWord
    exit_code: int | None = None
    cause: Text = None
    signal: Text = None
    reason: Text = None
    unreachable: Text = None
    target: Text = None
    node: Text = None
    engine_id: Text = None
    limit: Text = None
    left_running: Count = None
    phase: Annotated[Literal["restarting"] | None, Rare] = None
    position: Count = None
    priority: Count = None
    waits_for_input: Annotated[bool | None, {"description": "it sits at prompt"}] = None
    prompt: str | None = None
    log: str | None = None
    log_note: Text = None
    hint: Text = None
    name: Text = None
    started: str
    ended: Text = None
    duration_s: Seconds = None
    idle_s: Seconds = None
    output_bytes: Annotated[int, Rare]
    descendants: Annotated[int, Rare]
    pid: Count = None
    peak_memory_bytes: Count = None
    cwd: Annotated[str, Rare]
    command: str
    restarts: Count = None
    runs: Annotated[list[dict[str, Any]] | None, Rare] = None
    resources: Annotated[dict[str, Any] | None, Rare] = None
    limits: Annotated[dict[str, Any] | None, Rare] = None
    limited_by: Annotated[dict[str, str] | None, Rare] = None
    activity: Annotated[dict[str, Any] | None, Rare] = None

    @classmethod
    def of(cls, status: JobStatus, asked: str) -> Status:
        job, state = status.job, status.job.state
        return cls(
            job_id=meant_id(job, asked),
            status=status_word(state),
            started=started(job),
            command=shortened(job.spec.command, COMMAND_CHARACTERS),
            cwd=job.spec.cwd,
            output_bytes=status.output_bytes,
            descendants=status.descendants,
            left_running=status.left_running or None,
            phase=phase_of(state, status.history),
            position=(status.place.position or None) if status.place else None,
            priority=status.place.priority if status.place and status.place.position else None,
            exit_code=exit_code(state),
            cause=cause_word(state),
            signal=signal_of(state),
            reason=reason_of(job, status.place),
            unreachable=unreachable_of(job),
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
            log_note=status.log_note,
            idle_s=None if status.idle_s is None else round(status.idle_s, 1),
            hint=status.hint,
            restarts=status.history.restarts if status.history else None,
            runs=runs_of(status.history) if status.history else None,
            limits=dict(status.limits) if status.limits else None,
            limited_by=dict(status.limited_by) if status.limited_by else None,
            activity=activity_of(status),
            resources=dict(job.spec.resources) or None,
            **place_fields(job),
        )


class Reply(Printed, MeantJob):
    accepted_bytes: int
    unread_bytes: Count = None
    waited_s: Seconds = None

    @classmethod
    def to(cls, said: Interaction, asked: str) -> Reply:
        standing = standing_fields(
            said.job, waits_for_input=said.waits_for_input, prompt=said.prompt, history=said.history
        )
        return cls(
            job_id=meant_id(said.job, asked),
            accepted_bytes=said.accepted_bytes,
            unread_bytes=said.unread_bytes or None,
            waited_s=said.cut_to_s,
            **{**standing, **printed_fields(said.output)},
        )


class WaitedFor(Printed, Placed, OneJob):
    condition: Annotated[str | None, {"description": "exit, pattern, port, …"}] = None
    match: str | None = None

    @classmethod
    def of_one(cls, waited: Waited) -> WaitedFor:
        status, came = waited.status, waited.came
        standing = standing_fields(
            status.job,
            status.place,
            left_running=status.left_running,
            waits_for_input=status.waits_for_input,
            prompt=status.prompt,
            hint=status.hint,
            history=status.history,
        )
        return cls(
            job_id=status.job.id,
            condition=came.condition if came else None,
            match=came.detail if came else None,
            **{**standing, **place_fields(status.job), **printed_fields(waited.output)},
        )


class Waits(Answer):
    met: bool
    waited_s: Seconds = None
    jobs: list[WaitedFor]

    @classmethod
    def of(cls, waited: list[Waited], mode: Mode) -> Waits:
        came_true = [each.met for each in waited]
        met = all(came_true) if mode == "all" else any(came_true)
        return cls(met=met, waited_s=waited[0].cut_to_s, jobs=list(map(WaitedFor.of_one, waited)))


class Killing(Answer):
    status: KillWord
    processes: Annotated[int, {"description": "how many there were"}]
    exit_code: Count = None
    signal: Text = None
    reason: Text = None
    job_id: Text = None
    hint: Text = None

    @classmethod
    def of(cls, kill: Kill, asked: str) -> Killing:
        if kill.job is None:
            return cls(status=kill.status, processes=kill.processes, hint=kill.hint)
        signal = signal_name(kill.signal) if kill.signal else signal_of(kill.job.state)
        return cls(
            status=kill.status,
            processes=kill.processes,
            exit_code=exit_code(kill.job.state),
            signal=signal,
            reason=reason(kill.job.state),
            job_id=meant_id(kill.job, asked),
            hint=kill.hint,
        )
