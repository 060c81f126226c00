"""From a job's records on disk to nouns: what each file may say, and what is made of one that says something else.

A record that breaks one rule is not read at all: half of it would be a guess. Fields that we do not know are
passed over.
"""

import os
import re
import stat
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields
from typing import Any, get_args

from bgjob import __version__, jobdir, processes, queue_dir
from bgjob.job import (
    End,
    Ended,
    Exited,
    Killed,
    LimitWord,
    Lost,
    NeverStarted,
    OverLimit,
    PastRun,
    PastRuns,
    Queued,
    Run,
    Running,
    Signaled,
    Spec,
    State,
    TimedOut,
    Unreadable,
    UnreadableSpec,
    cause_word,
)
from bgjob.jobdir import LIMITS, LOG, OUTCOME, RUN, RUNS, SPEC, TERMINAL

Record = Mapping[str, Any]
VERSION = re.compile(r"[0-9][0-9A-Za-z.+!-]{0,30}")
MOST_SECONDS = 2.5e11  # in the year 9892: what can be shown as a date
MOST_BYTES = 1 << 63
MOST_FINITE = 1.7e308


class Malformed(Exception):
    """A record says what no record of this format may say."""


# -- a job's files ------------------------------------------------------------------------------------


def read_spec(job_id: str, directory: str) -> Spec:
    """One that cannot be read is said to be so, and dated by its directory: a job's age must not depend on it."""
    try:
        return spec_of(job_id, _understood(jobdir.read_record(f"{directory}/{SPEC}")))
    except Malformed as why:
        return UnreadableSpec(job_id, f"({SPEC} cannot be read: {why})", "", "", _changed_at(directory), 0)


def _changed_at(directory: str) -> float:
    try:
        return max(0.0, os.stat(directory).st_mtime)
    except FileNotFoundError:
        return 0.0  # removed while we read


def read_state(directory: str) -> State:
    return _credible(_found_state(directory), directory)


def _found_state(directory: str) -> State:
    if end := _end(jobdir.read_record(f"{directory}/{OUTCOME}")):
        return end
    was_waiting = queue_dir.is_waiting(
        directory
    )  # before its lock: whoever takes it out of the queue has that
    if jobdir.is_locked(f"{directory}/{SPEC}"):
        return Running(run_from(jobdir.read_record(f"{directory}/{RUN}")))
    # it may have ended between the two looks
    if end := _end(jobdir.read_record(f"{directory}/{OUTCOME}")):
        return end
    if was_waiting and not _is_of_another_boot(directory):
        return Queued(None)
    return Lost(_why_lost(directory))


def read_resizes(directory: str) -> list[tuple[int, int, int]]:
    """(offset in the log, rows, columns) each; none, where they cannot be read."""
    try:
        record = _understood(jobdir.read_record(f"{directory}/{TERMINAL}"))
        return [(at, rows, cols) for at, rows, cols in _values(record, {"resizes": _are_resizes})["resizes"]]
    except Malformed:
        return []


def read_history(directory: str) -> PastRuns:
    """Empty, where it cannot be read."""
    try:
        record = _understood(jobdir.read_record(f"{directory}/{RUNS}"))
        known = _values(record, {"count": _is_count, "runs": _are_runs, "pauses_until": _or_none(_is_time)})
    except Malformed:
        return PastRuns(0, (), False)
    runs = [PastRun(*(each[name] for name in PAST_RULES)) for each in known["runs"]]
    return PastRuns(known["count"], runs, known["pauses_until"] is not None)


def read_limited_by(directory: str) -> dict[str, str]:
    """Which mechanism keeps each limit of a job; nothing, where that is not on record."""
    try:
        record = _understood(jobdir.read_record(f"{directory}/{LIMITS}"))
        return dict(_values(record, {"limited_by": _are_words})["limited_by"])
    except Malformed:
        return {}


def read_groups(directory: str) -> list[str]:
    """The control groups that were made for a job."""
    try:
        record = _understood(jobdir.read_record(f"{directory}/{LIMITS}"))
        return list(_values(record, {"groups": _are_texts})["groups"])
    except Malformed:
        return []


def run_from(record: Record | None) -> Run | None:
    try:
        return run_of(_understood(record))
    except Malformed:
        return None


def _end(record: Record | None) -> End | Unreadable | None:
    """What is no record counts as missing. What is one tells that the job has ended, even if not how."""
    if record is None:
        return None
    try:
        return end_of(_understood(record))
    except Malformed as why:
        return Unreadable(f"how it ended is in its {OUTCOME}, which bgjob {__version__} cannot read: {why}")


def _understood(record: Record | None) -> Record:
    """The record, if it is of a format whose rules we know."""
    if record is None:
        raise Malformed("it is missing, torn or no record")
    number = record.get("format", 1)
    if not isinstance(number, int) or number < 1:
        raise Malformed("its format is no number")
    if number > jobdir.FORMAT_VERSION:
        raise Malformed(f"it is of format {str(number)[:20]}; {_reader(record.get('needs'))} reads that")
    return record


def _reader(version: object) -> str:
    is_one = isinstance(version, str) and VERSION.fullmatch(version)
    return f"bgjob {version} or newer" if is_one else "a newer bgjob"


def _credible(state: State, directory: str) -> State:
    """After a power cut an outcome without its seal may be ahead of the output it speaks of."""
    if not isinstance(state, Ended) or state.output_bytes == 0:
        return state
    outcome, spec = f"{directory}/{OUTCOME}", f"{directory}/{SPEC}"
    if jobdir.is_sealed(outcome) or not _is_of_another_boot(directory) or jobdir.is_locked(spec):
        return state
    how = f"exit code {state.code}" if isinstance(state, Exited) else cause_word(state)
    return Lost(
        f"the machine was restarted before its end was safely on disk: {how} is on record, output may be missing"
    )


def _is_of_another_boot(directory: str) -> bool:
    """By its spec, which is on disk before anything else of it. One that does not say is taken at its word."""
    here = processes.boot_id()
    return (jobdir.read_record(f"{directory}/{SPEC}") or {}).get("boot_id", here) != here


def _why_lost(directory: str) -> str:
    """As much as is known: what cannot be read is no reason to say that it is not there."""
    if not _is_plain_file(f"{directory}/{SPEC}"):
        return f"its {SPEC} is gone or cannot be opened, so that nobody can tell whether it runs"
    if os.path.lexists(f"{directory}/{OUTCOME}"):
        return f"its {OUTCOME} cannot be read: it is torn or no record"
    run = run_from(jobdir.read_record(f"{directory}/{RUN}"))
    if run is None and os.path.lexists(f"{directory}/{RUN}"):
        return f"nobody saw its end, and its {RUN} cannot be read"
    if run is None and jobdir.read_record(f"{directory}/{SPEC}") is None:
        return f"its {SPEC} cannot be read, and nothing tells whether it was started"
    if run is None and _is_of_another_boot(directory):
        return "the machine was restarted; whether it had started is not known"
    if run is None and (
        jobdir.is_reserved(f"{directory}/{OUTCOME}") or os.path.lexists(f"{directory}/{LOG}")
    ):
        return "its shim and its guard were killed as they started it: whether it ran is not known"
    if run is None:
        return "it was never started: whoever was about to start it is gone"
    if run.boot_id != processes.boot_id():
        return "the machine was restarted while it ran"
    return "its shim and its guard were killed while it ran"


def _is_plain_file(path: str) -> bool:
    """One whose lock can be asked."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode) and os.access(path, os.R_OK)
    except OSError:
        return False


# -- what one record may say --------------------------------------------------------------------------


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
        case "over_limit":
            return OverLimit(
                **when, **_values(record, OVER_RULES, {"peak_memory_bytes"}), code=code, signal=signal
            )
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


def _are_resizes(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, list) and len(each) == 3 and _is_size(each[0]) and all(map(_is_length, each[1:]))
        for each in value
    )


def _are_runs(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and each and _is_past_run(each) for each in value
    )


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
_is_length = _whole(1, 65535)
_is_count = _whole(0, 1 << 31)


def _one_of(*words: str) -> Rule:
    return lambda value: isinstance(value, str) and value in words


def _keeps(rules: Mapping[str, Rule]) -> Rule:
    """An object that is empty, or has all of this."""

    def is_kept(value: object) -> bool:
        return value == {} or (
            isinstance(value, dict)
            and all(name in value and rule(value[name]) for name, rule in rules.items())
        )

    return is_kept


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_text, value))


def _are_words(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _are_limits(value: object) -> bool:
    return isinstance(value, dict) and all(map(_number(0, MOST_BYTES), value.values()))


SPEC_RULES: Mapping[str, Rule] = {
    "command": _is_text,
    "shell": _is_text,
    "cwd": _is_text,
    "created_at": _is_time,
    "max_output_bytes": _is_size,
    "name": _or_none(_is_text),
    "timeout_s": _or_none(_number(0, MOST_FINITE)),
    "pty": _is_flag,
    "rows": _is_length,
    "cols": _is_length,
    "limits": _are_limits,
    "on_output_limit": _one_of("drop_oldest", "stop"),
    "watch": _are_texts,
    "restart": _keeps(
        {"policy": _one_of("on-failure", "always"), "max": _is_count, "backoff_s": _is_duration}
    ),
    "queue": _keeps(
        {
            "after": _are_texts,
            "after_policy": _one_of("success", "any"),
            "not_before": _is_time,
            "max_jobs": _is_count,
            "group_slots": _or_none(_is_count),
        }
    ),
    "group": _or_none(_is_text),
    "on_event": _or_none(_is_text),
}
MAY_LACK = frozenset(
    field.name for field in fields(Spec) if (field.default, field.default_factory) != (MISSING, MISSING)
)
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
PAST_RULES: Mapping[str, Rule] = {  # in the order of a PastRun
    "ended_at": _is_time,
    "duration_s": _is_duration,
    "exit_code": _or_none(_whole(0, 1 << 32)),
    "signal": _or_none(_whole(1, 128)),
    "limit": _or_none(_one_of(*get_args(LimitWord))),
    "from": _is_size,
    "to": _is_size,
}
_is_past_run = _keeps(PAST_RULES)
OVER_RULES: Mapping[str, Rule] = {
    "limit": _one_of(*get_args(LimitWord)),
    "peak_memory_bytes": _or_none(_is_size),
}
HOW_RULES: Mapping[str, Rule] = {
    "exit_code": _or_none(_whole(0, 1 << 32)),
    "signal": _or_none(_whole(1, 128)),
}
