"""What a job's records and events may hold, and the nouns that they make.

A record that breaks one rule is not used at all: half of it would be a guess. Unknown fields are ignored.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, get_args

from bgjob.core.frozen import MISSING
from bgjob.core.job import (
    JOB_ID,
    TARGET_NAME,
    End,
    Event,
    Exited,
    Killed,
    LimitWord,
    NeverStarted,
    OverLimit,
    PastRun,
    PastRuns,
    Run,
    Signaled,
    Spec,
    StdinWord,
    TimedOut,
)
from bgjob.core.late_pattern import late_pattern
from bgjob.core.notify import WAYS, NotifyRule
from bgjob.home.target_dir import HANDOVERS

Record = Mapping[str, Any]
Rule = Callable[[object], bool]
# In the year 9892: the last that can be shown as a date.
MOST_SECONDS = 2.5e11
MOST_BYTES = 1 << 63
MOST_FINITE = 1.7e308
WORD = late_pattern(r"[a-z][a-z0-9_]{0,39}")
EVENT_TEXT_CHARACTERS, EVENT_DETAILS = 8192, 40
_as_json = json.JSONEncoder(ensure_ascii=False).encode


class Malformed(Exception):
    """A record breaks a rule of this format."""


def spec_of(job_id: str, record: Record) -> Spec:
    """The id is that of the directory, whatever the record says."""
    return Spec(id=job_id, **_values(record, SPEC_RULES, MAY_LACK))


def remote_of(record: Record) -> dict[str, Any]:
    """What the relay has written down of a job of a target."""
    return _values(record, REMOTE_RULES, REMOTE_RULES.keys() - {"phase"})


def unreachable_of(record: Record) -> Mapping[str, tuple[float, str]]:
    """Return since when and why hosts of a target cannot be reached."""
    return {
        host: (float(since), why)
        for host, (since, why) in _values(record, STATE_RULES)["unreachable"].items()
    }


def run_of(record: Record) -> Run:
    return Run(**_values(record, RUN_RULES))


def end_of(record: Record) -> End:
    when = _values(record, END_RULES, {"stdout_bytes", "stderr_bytes"})
    when = {"stdout_bytes": when.pop("output_bytes"), "stderr_bytes": 0} | when
    how = _values(record, HOW_RULES, HOW_RULES)
    code, signal = how.get("exit_code"), how.get("signal")
    why = _values(record, {"reason": _or_none(is_text)}, {"reason"})
    match record.get("cause"):
        case "exited" if code is not None:
            return Exited(**when, code=code, **why)
        case "signaled" if signal is not None:
            return Signaled(**when, signal=signal, **why)
        case "killed":
            return Killed(**when, code=code, signal=signal, **why)
        case "timed_out":
            return TimedOut(**when, code=code, signal=signal, **why)
        case "over_limit":
            over = _values(record, OVER_RULES, {"peak_memory_bytes"})
            return OverLimit(**when, **over, code=code, signal=signal, **why)
        case "never_started":
            return NeverStarted(**when, **_values(record, NEVER_STARTED_RULES))
        case "exited" | "signaled" as cause:
            raise Malformed(f"it says {cause} and not with what")
        case unknown:
            raise Malformed(f"its cause is {shown(unknown)}")


def resizes_of(record: Record) -> list[tuple[int, int, int]]:
    """(offset in the log, rows, columns) of each resize."""
    return [(at, rows, cols) for at, rows, cols in _values(record, TERMINAL_RULES)["resizes"]]


def history_of(record: Record) -> PastRuns:
    known = _values(record, RUNS_RULES)
    runs = [PastRun(*(each[name] for name in PAST_RULES)) for each in known["runs"]]
    return PastRuns(known["count"], runs, known["pauses_until"] is not None)


def limited_by_of(record: Record) -> dict[str, str]:
    return dict(_values(record, LIMITED_BY_RULES)["limited_by"])


def groups_of(record: Record) -> list[str]:
    return list(_values(record, GROUPS_RULES)["groups"])


def watch_state_of(record: Record) -> dict[str, Any]:
    """How far the watches of a job have looked."""
    return _values(record, WATCH_RULES, WATCH_RULES)


def wait_of(record: Record) -> dict[str, Any]:
    """What a wait that is kept is for."""
    return _values(record, WAIT_RULES, ("deadline_since_boot_s", "boot_id"))


def wait_end_of(record: Record) -> dict[str, Any]:
    return _values(record, WAIT_END_RULES)


def environment_of(record: Record) -> dict[str, str]:
    """An environment that a process can be started with."""
    if not all(
        name and "=" not in name and _is_argument(name) and _is_argument(record[name]) for name in record
    ):
        raise Malformed("it is no environment")
    return dict(record)


def notify_rule_of(record: object) -> NotifyRule:
    if not isinstance(record, dict):
        raise Malformed("it is no object")
    known = _values(record, NOTIFY_RULES, NOTIFY_RULES.keys() - {"way"})
    return NotifyRule(**{**known, "environment": environment_of(known.get("environment", {}))})


def notified_of(record: object) -> dict[str, Any]:
    """How far a rule has come, and what became of it."""
    if not isinstance(record, dict):
        raise Malformed("it is no object")
    return _values(record, NOTIFIED_RULES, NOTIFIED_RULES)


def event_of(record: object) -> Event:
    """Without details whose name is no word, or whose value is no text or number."""
    if not isinstance(record, dict):
        raise Malformed("it is no object")
    _values(record, EVENT_RULES, EVENT_RULES.keys() - {"at", "kind", "job_id"})
    known = [(name, value) for name, value in record.items() if WORD.fullmatch(name) and _is_detail(value)]
    return dict(known[:EVENT_DETAILS])


def _values(record: Record, rules: Mapping[str, Rule], may_lack: Collection[str] = ()) -> dict[str, Any]:
    for name, is_valid in rules.items():
        if name not in record and name not in may_lack:
            raise Malformed(f"it has no {name}")
        if name in record and not is_valid(record[name]):
            raise Malformed(f"its {name} is {shown(record[name])}")
    known = {name: record[name] for name in rules if name in record}
    if not _is_encodable(known):
        raise Malformed("it has half a character (a lone surrogate)")
    return known


def _is_encodable(value: object) -> bool:
    """Return whether each text in it can be encoded: as part of a path, a line of a file, an answer.

    A surrogate for one byte of a file name can.
    """
    try:
        _as_json(value).encode("utf-8", "surrogateescape")
    except (ValueError, RecursionError):
        return False
    return True


def shown(value: object) -> str:
    """As a message shows it, never kilobytes."""
    match value:
        case str():
            return repr(value[:40])
        case int() | float():
            return str(value)[:40]
        case None:
            return "null"
        case _:
            return "a list" if isinstance(value, list) else "an object"


def is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_argument(value: object) -> bool:
    """A text that can be an argument or variable of a process."""
    return isinstance(value, str) and "\0" not in value


def _is_target_name(value: object) -> bool:
    """It names a directory."""
    return isinstance(value, str) and TARGET_NAME.fullmatch(value) is not None


def _is_word(value: object) -> bool:
    return isinstance(value, str) and WORD.fullmatch(value) is not None


def is_job_id(value: object) -> bool:
    return isinstance(value, str) and JOB_ID.fullmatch(value) is not None


def _is_detail(value: object) -> bool:
    match value:
        case str():
            return len(value) <= EVENT_TEXT_CHARACTERS and _is_encodable(value)
        case int():
            return abs(value) <= MOST_BYTES
        case float():
            return math.isfinite(value)
        case _:
            return value is None


def _are_resizes(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, list) and len(each) == 3 and is_size(each[0]) and all(map(_is_length, each[1:]))
        for each in value
    )


def _are_runs(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and each and _is_past_run(each) for each in value
    )


def is_flag(value: object) -> bool:
    return isinstance(value, bool)


def number(low: float, high: float) -> Rule:
    """NaN is not between any two numbers."""
    return lambda value: isinstance(value, int | float) and not is_flag(value) and low <= value <= high


def _whole(low: int, high: int) -> Rule:
    return lambda value: isinstance(value, int) and not is_flag(value) and low <= value <= high


def _or_none(rule: Rule) -> Rule:
    return lambda value: value is None or rule(value)


_is_time = _is_duration = number(0, MOST_SECONDS)
is_size = _whole(0, MOST_BYTES)
_is_length = _whole(1, 65535)
is_count = _whole(0, 1 << 31)


def one_of(*words: str) -> Rule:
    return lambda value: isinstance(value, str) and value in words


def _empty_or(rules: Mapping[str, Rule]) -> Rule:
    """An object that is empty, or has all these fields."""

    def is_valid(value: object) -> bool:
        return value == {} or (
            isinstance(value, dict)
            and all(name in value and rule(value[name]) for name, rule in rules.items())
        )

    return is_valid


def _some_of(rules: Mapping[str, Rule]) -> Rule:
    """An object that has none but these fields."""

    def is_valid(value: object) -> bool:
        return isinstance(value, dict) and all(
            name in rules and rules[name](each) for name, each in value.items()
        )

    return is_valid


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(is_text, value))


def _are_words(value: object) -> bool:
    return isinstance(value, dict) and all(map(is_text, value.values()))


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _are_choices(value: object) -> bool:
    """Of ways and kinds: a newer version may have others."""
    return isinstance(value, dict) and all(map(_are_texts, value.values()))


def _are_ids(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(is_job_id, value))


def _are_silences(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(each, list) and len(each) == 2 and _is_time(each[0]) and is_text(each[1])
        for each in value.values()
    )


def _are_limits(value: object) -> bool:
    return isinstance(value, dict) and all(map(number(0, MOST_BYTES), value.values()))


SPEC_RULES: Mapping[str, Rule] = {
    "command": is_text,
    "shell": is_text,
    "cwd": is_text,
    "created_at": _is_time,
    "max_output_bytes": is_size,
    "name": _or_none(is_text),
    "timeout_s": _or_none(number(0, MOST_FINITE)),
    "pty": is_flag,
    "rows": _is_length,
    "cols": _is_length,
    "stdin": one_of(*get_args(StdinWord)),
    "restricted": is_flag,
    "limits": _are_limits,
    "on_output_limit": one_of("drop_oldest", "stop"),
    "watch": _are_texts,
    "restart": _empty_or(
        {"policy": one_of("on-failure", "always"), "max": is_count, "backoff_s": _is_duration}
    ),
    "queue": _empty_or(
        {
            "after": _are_ids,
            "after_policy": one_of("success", "any"),
            "not_before": _is_time,
            "max_jobs": is_count,
            "group_slots": _or_none(is_count),
        }
    ),
    "group": _or_none(is_text),
    "on_event": _or_none(is_text),
    "notify": _or_none(_are_choices),
    "keep_days": _or_none(number(0, MOST_FINITE)),
    "keep_jobs": _or_none(_whole(0, MOST_BYTES)),
    "by": _are_words,
    "of": _or_none(is_job_id),
    "target": _or_none(_is_target_name),
    "resources": _is_object,
}
MAY_LACK = frozenset(name for name, default in Spec.defaults.items() if default is not MISSING)
RUN_RULES: Mapping[str, Rule] = {
    "pid": _whole(1, 1 << 31),
    "shim_pid": _whole(1, 1 << 31),
    "started_at": _is_time,
    "boot_id": _or_none(is_text),
}
REMOTE_RULES: Mapping[str, Rule] = {
    "phase": one_of("submitting", "queued", "running", "lost"),
    "handover": one_of(*HANDOVERS),
    "cwd": _or_none(is_text),
    "shell": _or_none(is_text),
    "host": _or_none(is_text),
    "engine_id": _or_none(is_text),
    "node": _or_none(is_text),
    "reason": _or_none(is_text),
    "left_running": is_count,
    "asks_at": _or_none(is_size),
    "session": _or_none(is_text),
}
STATE_RULES: Mapping[str, Rule] = {"unreachable": _are_silences}
END_RULES: Mapping[str, Rule] = {
    "ended_at": _is_time,
    "duration_s": _is_duration,
    "output_bytes": is_size,
    "stdout_bytes": is_size,
    "stderr_bytes": is_size,
}
NEVER_STARTED_RULES: Mapping[str, Rule] = {"reason": is_text}
TERMINAL_RULES: Mapping[str, Rule] = {"resizes": _are_resizes}
LIMITED_BY_RULES: Mapping[str, Rule] = {"limited_by": _are_words}
GROUPS_RULES: Mapping[str, Rule] = {"groups": _are_texts}
RUNS_RULES: Mapping[str, Rule] = {
    "count": is_count,
    "runs": _are_runs,
    "pauses_until": _or_none(_is_time),
}
# In the order of a PastRun.
PAST_RULES: Mapping[str, Rule] = {
    "ended_at": _is_time,
    "duration_s": _is_duration,
    "exit_code": _or_none(_whole(0, 1 << 32)),
    "signal": _or_none(_whole(1, 128)),
    "limit": _or_none(one_of(*get_args(LimitWord))),
    "from": is_size,
    "to": is_size,
}
_is_past_run = _empty_or(PAST_RULES)
OVER_RULES: Mapping[str, Rule] = {
    "limit": one_of(*get_args(LimitWord)),
    "peak_memory_bytes": _or_none(is_size),
}
HOW_RULES: Mapping[str, Rule] = {
    "exit_code": _or_none(_whole(0, 1 << 32)),
    "signal": _or_none(_whole(1, 128)),
}
WATCH_RULES: Mapping[str, Rule] = {
    "stdout": is_size,
    "stderr": is_size,
    "missed": is_size,
    "suppressed": lambda value: isinstance(value, dict) and all(map(is_size, value.values())),
    "is_over": is_flag,
}
UNTIL_RULES: Mapping[str, Rule] = {
    "pattern": is_text,
    "stop_pattern": is_text,
    "literal": is_flag,
    "stream": one_of("stdout", "stderr"),
    "port": _whole(0, 65535),
    "silence_s": number(0, MOST_FINITE),
    "for_input": is_flag,
}
WAIT_RULES: Mapping[str, Rule] = {
    "job_ids": _are_ids,
    "created_at": _is_time,
    "deadline": _or_none(_is_time),
    "deadline_since_boot_s": _or_none(_is_time),
    "boot_id": _or_none(is_text),
    "until": _some_of(UNTIL_RULES),
    "mode": one_of("any", "all"),
    "since": _are_words,
    "max_bytes": _or_none(is_size),
    "raw": is_flag,
    "session": _or_none(is_text),
    "started": _empty_or({"reused": is_flag, "asked_command": _or_none(is_text)}),
    "kills": is_flag,
}
WAIT_END_RULES: Mapping[str, Rule] = {
    "word": one_of("completed", "failed", "cancelled"),
    "at": _is_time,
    "answer": _is_object,
    "told": _are_ids,
}
NOTIFY_RULES: Mapping[str, Rule] = {
    "way": one_of(*WAYS),
    "target": _is_argument,
    "kinds": _are_texts,
    "named": is_flag,
    "headers": _are_words,
    "environment": _are_words,
    "terminal_ctime_ns": _whole(0, 1 << 63),
    "since": is_text,
}
NOTIFIED_RULES: Mapping[str, Rule] = {
    "cursor": is_text,
    "told_at": _is_time,
    "failed_at": _is_time,
    "failure": is_text,
}
EVENT_RULES: Mapping[str, Rule] = {
    "at": _is_time,
    "kind": _is_word,
    "job_id": is_job_id,
    "name": _or_none(is_text),
    "cause": _or_none(_is_word),
    "limit": _or_none(_is_word),
    "reason": _or_none(is_text),
    "duration_s": _or_none(_is_duration),
    "output_bytes": _or_none(is_size),
    **HOW_RULES,
    **dict.fromkeys(("line", "prompt", "pattern", "stream", "cursor"), _or_none(is_text)),
}
