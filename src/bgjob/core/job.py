"""The nouns: what a job is, and every way it can stand or have ended."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, assert_never

from bgjob.core.frozen import NOTHING, Frozen
from bgjob.core.late_pattern import late_pattern

JOB_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
TARGET_NAME = late_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
StatusWord = Literal["queued", "running", "completed", "failed", "killed"]
CauseWord = Literal[
    "exited", "signaled", "killed", "timed_out", "out_of_memory", "over_limit", "never_started", "lost"
]
LimitWord = Literal["memory", "cpu", "processes", "file_size", "output", "silence"]
"""The limits that end a job; one more, open files, only makes its calls fail."""
StdinWord = Literal["open", "null"]
EventKind = Literal[
    "started",
    "matched",
    "unwatched",
    "input",
    "ended",
    "queued",
    "moved",
    "limit_near",
    "limit_hit",
    "restarting",
    "typed",
]
"""Those that this version tells. Another version may tell more: an event of any kind is read."""
AuditKind = Literal["kill_asked", "signal_sent", "input_sent", "refused", "logged_in", "token_used"]
"""The kinds of the audit trail, a log of its own that is shown only on request."""
Event = dict[str, Any]
"""As the log has it: at, kind, job_id, and the details of its kind."""
BEGINNING_CHARACTERS = 40
# Of an id that is shown to be read: a name follows or stands before it.
SHORT_ID_CHARACTERS = 8
LOCAL = "local"
"""What this machine is called where the name of a target is wanted."""


class Spec(Frozen):
    """What to run. Written once, before the job is visible."""

    id: str
    command: str
    shell: str
    cwd: str
    created_at: float
    max_output_bytes: int
    name: str | None = None
    timeout_s: float | None = None
    pty: bool = False
    rows: int = 24
    cols: int = 80
    stdin: StdinWord = "open"
    """null: /dev/null, and nothing can be typed into the job."""
    restricted: bool = False
    """A server with an allow-list started it: its pagers and editors run no commands."""
    limits: Mapping[str, float] = NOTHING
    """memory_bytes, cpu_s, processes, open_files, file_bytes, silence_s: those that are set."""
    on_output_limit: Literal["drop_oldest", "stop"] = "drop_oldest"
    watch: Sequence[str] = ()
    restart: Mapping[str, Any] = NOTHING
    """policy (on-failure or always), max, backoff_s; empty: the job runs once."""
    queue: Mapping[str, Any] = NOTHING
    """after (ids), after_policy, not_before, max_jobs, group_slots; empty: not from the queue."""
    group: str | None = None
    on_event: str | None = None
    """A shell command that is run for each event of the job."""
    notify: Mapping[str, Sequence[str]] | None = None
    """By which ways a person is told of it, and of what; see core.notify. None: as the rules of the home say."""
    keep_days: float | None = None
    keep_jobs: int | None = None
    """How long the starter promised to keep the ended job, and among how many. None: no promise."""
    by: Mapping[str, str] = NOTHING
    """Who started it, as far as is known: client, version, session, cwd."""
    of: str | None = None
    """The job that this one runs again."""
    target: str | None = None
    """Where it runs: a name of targets.toml. None: on this machine."""
    resources: Mapping[str, Any] = NOTHING
    """What the engine of the target is asked for: see core.options.resources_of."""


class UnreadableSpec(Spec):
    """A spec that cannot be read: `command` says why, `created_at` is the time of the directory."""


class Run(Frozen):
    """The live part of a job: its processes, and when it was started."""

    pid: int
    shim_pid: int
    started_at: float
    boot_id: str | None


class PastRun(Frozen):
    """A run that was followed by another, under the job's restart policy."""

    ended_at: float
    duration_s: float
    code: int | None
    signal: int | None
    limit: LimitWord | None
    """The limit that ended it."""
    log_from: int
    log_to: int
    """Where its output begins and ends in the log."""


class PastRuns(Frozen):
    """The runs before the present one, of a job with a restart policy."""

    restarts: int
    runs: Sequence[PastRun]
    """The newest of them."""
    pauses: bool
    """The job is between two runs."""


class Running(Frozen):
    """A shim or guard holds the lock. `run` is None in the instant before the child is exec'd."""

    run: Run | None


class Queued(Running):
    """Not started yet: the job waits for a slot, for other jobs or for a time. Its lock is free."""


class Ended(Frozen):
    """The shim saw the end and recorded it."""

    ended_at: float
    duration_s: float
    stdout_bytes: int
    stderr_bytes: int
    """Printed by the end of the job; processes that it left behind may have added to it."""

    @property
    def output_bytes(self) -> int:
        return self.stdout_bytes + self.stderr_bytes


class Exited(Ended):
    code: int
    reason: str | None = None
    """Why it ended, by the engine of its target. The other ends have it, too."""


class Signaled(Ended):
    """By a signal that we did not send."""

    signal: int
    reason: str | None = None


class Killed(Ended):
    """Killed by us or the engine because a caller asked for it, whatever the exit code says."""

    code: int | None
    signal: int | None
    reason: str | None = None


class TimedOut(Ended):
    """Ended because its time was up: by us, or by the engine if there is a reason."""

    code: int | None
    signal: int | None
    reason: str | None = None


class OverLimit(Ended):
    """By us or by the kernel, because the job exceeded a limit."""

    limit: LimitWord
    code: int | None
    signal: int | None
    peak_memory_bytes: int | None = None
    """The most that all its processes took together, if that was measured."""
    reason: str | None = None


class NeverStarted(Ended):
    reason: str


class Lost(Frozen):
    """The shim is gone and left no outcome: we do not know, and say so."""

    reason: str


class Unreadable(Lost):
    """The job has ended, and its outcome cannot be read by this version. A newer version may read it."""


End = Exited | Signaled | Killed | TimedOut | OverLimit | NeverStarted
State = Running | End | Lost


class Remote(Frozen):
    """Where a job of a target is, as far as its relay knows."""

    target: str
    engine_id: str | None = None
    """Of an engine with a queue of its own, e.g. the number that Slurm gave the job."""
    node: str | None = None
    reason: str | None = None
    """Why the engine has it waiting."""
    unreachable_since: float | None = None
    unreachable: str | None = None
    """Why its machine cannot be reached now. What is told of the job is what was known by then."""
    left_running: int = 0
    """Processes that an ended job has left behind there."""
    asks_at: int | None = None
    """Where its log ended when it was last seen at a prompt."""


class Job(Frozen):
    spec: Spec
    state: State
    run: Run | None
    """Of a job of a target: on its machine."""
    remote: Remote | None = None
    """None: the job is of this machine."""

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def is_understood(self) -> bool:
        """False: a newer version may read it. Then it is not removed for being one too many."""
        return not isinstance(self.spec, UnreadableSpec) and not isinstance(self.state, Unreadable)


def beginning(command: str) -> str:
    """How a command begins, on one line: what a job without a name is called by."""
    line = " ".join(command.split())
    return line if len(line) <= BEGINNING_CHARACTERS else f"{line[: BEGINNING_CHARACTERS - 1]}…"


def called(spec: Spec) -> str:
    """By its name, else by how its command begins: on one line."""
    return " ".join(spec.name.split()) if spec.name else beginning(spec.command)


def status_word(state: State) -> StatusWord:
    """The word of the contract. Anything finer is in the state itself."""
    match state:
        case Queued():
            return "queued"
        case Running():
            return "running"
        case Exited(code=0):
            return "completed"
        case Exited() | NeverStarted() | Lost():
            return "failed"
        case Signaled() | Killed() | TimedOut() | OverLimit():
            return "killed"
        case _:
            assert_never(state)


def cause_word(state: State) -> CauseWord | None:
    """How it ended, finer than the status; None while it runs."""
    match state:
        case Running():
            return None
        case Exited():
            return "exited"
        case Signaled():
            return "signaled"
        case Killed():
            return "killed"
        case TimedOut():
            return "timed_out"
        case OverLimit(limit="memory"):
            return "out_of_memory"
        case OverLimit():
            return "over_limit"
        case NeverStarted():
            return "never_started"
        case Lost():
            return "lost"
        case _:
            assert_never(state)


def exit_code(state: State) -> int | None:
    match state:
        case Exited(code=code) | Killed(code=code) | TimedOut(code=code) | OverLimit(code=code):
            return code
        case _:
            return None


def signal_number(state: State) -> int | None:
    match state:
        case Signaled(signal=number) | Killed(signal=number) | TimedOut(signal=number):
            return number
        case OverLimit(signal=number):
            return number
        case _:
            return None


def limit_word(state: State) -> LimitWord | None:
    return state.limit if isinstance(state, OverLimit) else None


def reason(state: State) -> str | None:
    """Return why it ended, if there is more to say than its cause."""
    return None if isinstance(state, Running) else state.reason


def end_details(state: State) -> dict[str, Any]:
    """How it ended, under the keys that outcomes and events have for it; None where there is nothing to say."""
    return {
        "cause": cause_word(state),
        "exit_code": exit_code(state),
        "signal": signal_number(state),
        "limit": limit_word(state),
        "reason": reason(state),
    }
