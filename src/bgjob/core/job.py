"""The nouns: what a job is, and every way it can stand or have ended."""

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

JOB_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
StatusWord = Literal["running", "completed", "failed", "killed"]
CauseWord = Literal[
    "exited", "signaled", "killed", "timed_out", "out_of_memory", "over_limit", "never_started", "lost"
]
LimitWord = Literal["memory", "cpu", "processes", "file_size", "output", "silence"]
"""The limits that end a job; one more, open files, only makes its calls fail."""


Event = dict[str, Any]
"""As the log has it: at, kind, job_id, and what else there is to say of its kind."""


@dataclass(frozen=True)
class Spec:
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
    restricted: bool = False
    """A server with an allow-list started it: its pagers and editors run no commands."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """memory_bytes, cpu_s, processes, open_files, file_bytes, silence_s: those that were given."""
    on_output_limit: Literal["drop_oldest", "stop"] = "drop_oldest"
    watch: Sequence[str] = ()
    restart: Mapping[str, Any] = field(default_factory=dict)
    """policy (on-failure or always), max, backoff_s; empty: it runs once."""
    queue: Mapping[str, Any] = field(default_factory=dict)
    """after (ids), after_policy, not_before, max_jobs, group_slots; empty: it was not to wait for anything."""
    group: str | None = None
    on_event: str | None = None
    """A shell command that is run for each of its events."""
    keep_days: float | None = None
    keep_jobs: int | None = None
    """How long its starter promised to keep it once it has ended, and among how many. None: it promised nothing."""


class UnreadableSpec(Spec):
    """It stands for one that we cannot read: its command says why, its time is that of the directory."""


@dataclass(frozen=True)
class Run:
    """The live part of a job: who it is in the process table, and when that began."""

    pid: int
    shim_pid: int
    started_at: float
    boot_id: str | None


@dataclass(frozen=True)
class PastRun:
    """One that was followed by another, under the job's restart policy."""

    ended_at: float
    duration_s: float
    code: int | None
    signal: int | None
    limit: LimitWord | None
    """By which it was ended."""
    log_from: int
    log_to: int
    """Its output: from this byte of the log to that."""


@dataclass(frozen=True)
class PastRuns:
    """Of a job that may be run again."""

    restarts: int
    runs: Sequence[PastRun]
    """The last of them."""
    pauses: bool
    """It is between two runs."""


@dataclass(frozen=True)
class Running:
    """Somebody holds the lock. `run` is None in the instant before the child is exec'd."""

    run: Run | None


@dataclass(frozen=True)
class Queued(Running):
    """Not started yet: it waits for a slot, for other jobs or for a moment. Nobody holds it."""


@dataclass(frozen=True)
class Ended:
    """The shim saw the end and wrote it down."""

    ended_at: float
    duration_s: float
    stdout_bytes: int
    stderr_bytes: int
    """What it had printed when it ended; processes it left behind may have added to it."""

    @property
    def output_bytes(self) -> int:
        return self.stdout_bytes + self.stderr_bytes


@dataclass(frozen=True)
class Exited(Ended):
    code: int


@dataclass(frozen=True)
class Signaled(Ended):
    """By a signal that we did not send."""

    signal: int


@dataclass(frozen=True)
class Killed(Ended):
    """By us, because somebody asked: whatever its exit code says."""

    code: int | None
    signal: int | None


@dataclass(frozen=True)
class TimedOut(Ended):
    """By us, because its time was up."""

    code: int | None
    signal: int | None


@dataclass(frozen=True)
class OverLimit(Ended):
    """By us or by the kernel, because it used more than it was allowed to."""

    limit: LimitWord
    code: int | None
    signal: int | None
    peak_memory_bytes: int | None = None
    """The most that its processes took together, as far as somebody looked."""


@dataclass(frozen=True)
class NeverStarted(Ended):
    reason: str


@dataclass(frozen=True)
class Lost:
    """The shim is gone and left no outcome: we do not know, and say so."""

    reason: str


class Unreadable(Lost):
    """It has ended, and how is written down in words that we do not know. A newer version may."""


End = Exited | Signaled | Killed | TimedOut | OverLimit | NeverStarted
State = Running | End | Lost


@dataclass(frozen=True)
class Job:
    spec: Spec
    state: State
    run: Run | None

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def is_understood(self) -> bool:
        """False: it has a record that we cannot read, but others may. Not ours to throw away for being one too many."""
        return not isinstance(self.spec, UnreadableSpec) and not isinstance(self.state, Unreadable)


def status_word(state: State) -> StatusWord:
    """The contract's word. Anything finer is in the state itself."""
    match state:
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
    return state.reason if isinstance(state, NeverStarted | Lost) else None


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # the real-time ones between SIGRTMIN and SIGRTMAX
        return f"SIG{number}"
