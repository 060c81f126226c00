"""The nouns: what a job is, every way it can stand or have ended, and how records become nouns."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, assert_never

StatusWord = Literal["running", "completed", "failed", "killed"]
CauseWord = Literal["exited", "signaled", "killed", "timed_out", "never_started", "lost"]


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
class Running:
    """Somebody holds the lock. `run` is None in the instant before the child is exec'd."""

    run: Run | None


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
class NeverStarted(Ended):
    reason: str


@dataclass(frozen=True)
class Lost:
    """The shim is gone and left no outcome: we do not know, and say so."""

    reason: str


class Unreadable(Lost):
    """It has ended, and how is written down in words that we do not know. A newer version may."""


End = Exited | Signaled | Killed | TimedOut | NeverStarted
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
        case Signaled() | Killed() | TimedOut():
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
        case NeverStarted():
            return "never_started"
        case Lost():
            return "lost"
        case _:
            assert_never(state)


# -- from records ---------------------------------------------------------------------------------------
#
# A record that breaks one rule is not read at all: half of it would be a guess. Fields that we do not know
# are passed over.

Record = Mapping[str, Any]
MOST_SECONDS = 2.5e11  # in the year 9892: what can be shown as a date
MOST_BYTES = 1 << 63
MOST_FINITE = 1.7e308


class Malformed(Exception):
    """A record says what no record of this format may say."""


def spec_of(job_id: str, record: Record) -> Spec:
    """Whose directory it is decides the id, and not what somebody wrote into it."""
    return Spec(id=job_id, **_values(record, SPEC_RULES, MAY_LACK))


def run_of(record: Record) -> Run:
    return Run(**_values(record, RUN_RULES))


def end_of(record: Record) -> End:
    when = _values(record, END_RULES, {"stdout_bytes", "stderr_bytes"})
    when = {"stdout_bytes": when.pop("output_bytes"), "stderr_bytes": 0} | when
    how = _values(record, HOW_RULES, HOW_RULES)
    code, signal = how.get("exit_code"), how.get("signal")
    match record.get("cause"):
        case "exited" if code is not None:
            return Exited(**when, code=code)
        case "signaled" if signal is not None:
            return Signaled(**when, signal=signal)
        case "killed":
            return Killed(**when, code=code, signal=signal)
        case "timed_out":
            return TimedOut(**when, code=code, signal=signal)
        case "never_started":
            return NeverStarted(**when, **_values(record, {"reason": _is_text}))
        case "exited" | "signaled" as cause:
            raise Malformed(f"it says {cause} and not with what")
        case unknown:
            raise Malformed(f"its cause is {_shown(unknown)}")


Rule = Callable[[object], bool]


def _values(record: Record, rules: Mapping[str, Rule], may_lack: Collection[str] = ()) -> dict[str, Any]:
    for name, is_kept in rules.items():
        if name not in record and name not in may_lack:
            raise Malformed(f"it has no {name}")
        if name in record and not is_kept(record[name]):
            raise Malformed(f"its {name} is {_shown(record[name])}")
    return {name: record[name] for name in rules if name in record}


def _shown(value: object) -> str:
    """In a sentence; never kilobytes of it."""
    match value:
        case str():
            return repr(value[:40])
        case int() | float():
            return str(value)[:40]
        case None:
            return "null"
        case _:
            return "a list" if isinstance(value, list) else "an object"


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _number(low: float, high: float) -> Rule:
    """NaN is not between anything."""
    return lambda value: isinstance(value, int | float) and not _is_flag(value) and low <= value <= high


def _whole(low: int, high: int) -> Rule:
    return lambda value: isinstance(value, int) and not _is_flag(value) and low <= value <= high


def _or_none(rule: Rule) -> Rule:
    return lambda value: value is None or rule(value)


_is_time = _is_duration = _number(0, MOST_SECONDS)
_is_size = _whole(0, MOST_BYTES)

SPEC_RULES: Mapping[str, Rule] = {
    "command": _is_text,
    "shell": _is_text,
    "cwd": _is_text,
    "created_at": _is_time,
    "max_output_bytes": _is_size,
    "name": _or_none(_is_text),
    "timeout_s": _or_none(_number(0, MOST_FINITE)),
    "pty": _is_flag,
    "rows": _whole(1, 65535),
    "cols": _whole(1, 65535),
}
MAY_LACK = frozenset(field.name for field in fields(Spec) if field.default is not MISSING)
RUN_RULES: Mapping[str, Rule] = {
    "pid": _whole(1, 1 << 31),
    "shim_pid": _whole(1, 1 << 31),
    "started_at": _is_time,
    "boot_id": _or_none(_is_text),
}
END_RULES: Mapping[str, Rule] = {
    "ended_at": _is_time,
    "duration_s": _is_duration,
    "output_bytes": _is_size,
    "stdout_bytes": _is_size,
    "stderr_bytes": _is_size,
}
HOW_RULES: Mapping[str, Rule] = {
    "exit_code": _or_none(_whole(0, 1 << 32)),
    "signal": _or_none(_whole(1, 128)),
}
