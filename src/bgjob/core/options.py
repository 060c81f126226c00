"""The options of a job, as a caller or a setting gives them: limits, restarts, the queue, the target, who is told.

One table says which options there are, what each accepts, and under which key the spec keeps it.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from bgjob.core.errors import InvalidArgument
from bgjob.core.frozen import Frozen
from bgjob.core.notify import ACCEPTED, notify_from
from bgjob.core.values import KIB, TEN_YEARS_S, TIB, duration, label, number, size, switch, whole, word

# The same as in home/queue_dir, which the shim imports; a test compares the two.
MOST_PRIORITY = 1000
MOST_PROBLEMS = 10
DEFAULT_RESTARTS, DEFAULT_BACKOFF_S = 5, 1.0
MOST_LABELS, MOST_LABEL_CHARACTERS = 20, 100


class Option(Frozen):
    accepted: str
    parse: Callable[[object], Any]
    """The value, or ValueError."""


def cpus(value: object) -> float:
    """A whole number where it is one: engines take 4.0 for a part of one."""
    count = number(0.1, 100_000)(value)
    return int(count) if count.is_integer() else count


def time_limit(value: object) -> float:
    seconds = duration(value)
    if seconds < 1:
        raise ValueError
    return seconds


def labels(value: object) -> dict[str, str]:
    """Of a mapping, or of a text such as gpu=a100,disk=ssd."""
    pieces = [piece.partition("=") for piece in value.split(",")] if isinstance(value, str) else []
    given = {name: text for name, _, text in pieces} if isinstance(value, str) else value
    if not isinstance(given, Mapping) or not 0 < len(given) <= MOST_LABELS:
        raise ValueError
    return {_label_word(name): _label_word(text) for name, text in given.items()}


def _label_word(value: object) -> str:
    """It becomes a part of a command line of the engine."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError
    word = str(value).strip()
    if not 0 < len(word) <= MOST_LABEL_CHARACTERS or not all(c.isalnum() or c in "._/:@+-" for c in word):
        raise ValueError
    return word


SIZE = "a size such as 512MB or 2GB, or bytes, from 1KB"
LIMITS: Mapping[str, tuple[str, Option]] = {
    "memory": ("memory_bytes", Option(SIZE, size(KIB, 1024 * TIB))),
    "cpu_s": ("cpu_s", Option("seconds of CPU time, at least 1", number(1.0, TEN_YEARS_S))),
    "processes": ("processes", Option("a whole number from 1 to 1000000", whole(1, 1_000_000))),
    "open_files": ("open_files", Option("a whole number from 8 to 1000000", whole(8, 1_000_000))),
    "file_size": ("file_bytes", Option(SIZE, size(KIB, 1024 * TIB))),
    "silence_s": ("silence_s", Option("seconds without output, at least 0.1", number(0.1, TEN_YEARS_S))),
    # Off: the process tree is measured instead, as where no control group can be made.
    "cgroup": ("cgroup", Option("on or off", lambda value: int(switch(value)))),
}
OUTPUT: Mapping[str, Option] = {
    "output": Option(SIZE, size(KIB, 1024 * TIB)),
    "on_output": Option("drop_oldest or stop", word("drop_oldest", "stop")),
}
RESTART: Mapping[str, Option] = {
    "restart": Option("no, on-failure or always", word("no", "on-failure", "always")),
    "max_restarts": Option("a whole number from 0 to 1000000", whole(0, 1_000_000)),
    "backoff_s": Option("seconds from 0.01", number(0.01, TEN_YEARS_S)),
}
QUEUE: Mapping[str, Option] = {
    "after_policy": Option("success or any", word("success", "any")),
    "delay_s": Option("seconds from 0", number(0.0, TEN_YEARS_S)),
    "priority": Option(
        f"a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}", whole(-MOST_PRIORITY, MOST_PRIORITY)
    ),
    "group": Option("a name of letters, digits, - and _, at most 64", label),
}
WAIT: Mapping[str, Option] = {
    # Of a wait that has become a task: whoever cancels the task ends the job.
    "kill_on_cancel": Option("on or off", switch),
}
# Of the engine of a target, which has a queue of its own. Together with memory, which is a limit here.
TARGET: Mapping[str, Option] = {
    "cpus": Option("a number from 0.1 to 100000", cpus),
    "gpus": Option("a whole number from 0 to 1000", whole(0, 1000)),
    "time_limit": Option("seconds from 1, or e.g. '2h'", time_limit),
    "labels": Option("an object of names and texts, e.g. {'gpu': 'a100'}, or 'gpu=a100'", labels),
    "session": Option("a name of letters, digits, - and _, at most 64", label),
}
NOTIFY: Mapping[str, Option] = {"notify": Option(ACCEPTED, notify_from)}
LIMIT_OPTIONS: Mapping[str, Option] = {**{name: option for name, (_, option) in LIMITS.items()}, **OUTPUT}
ALL_OPTIONS: Mapping[str, Option] = {**LIMIT_OPTIONS, **RESTART, **QUEUE, **WAIT, **TARGET, **NOTIFY}
# By the kind of a target: which of these, and memory, its engine can be asked for.
ENGINE_OPTIONS: Mapping[str, Collection[str]] = {
    "ssh": (),
    "slurm": ("memory", *TARGET),
    "ray": ("memory", "cpus", "gpus", "labels"),
}
RESOURCES = {"memory": "memory_bytes", "time_limit": "time_limit_s"}
"""Under which key a spec keeps what has a unit."""


def checked(options: Mapping[str, object], of: Mapping[str, Option] = ALL_OPTIONS) -> dict[str, Any]:
    """The values of these options. An option that is null has none. All problems are told in one error."""
    values, problems = dict[str, Any](), list[InvalidArgument]()
    for name, value in options.items():
        try:
            values |= {} if value is None else {name: _value(name, value, of)}
        except InvalidArgument as problem:
            problems.append(problem)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise InvalidArgument("\n".join(map(str, problems[:MOST_PROBLEMS])))
    return values


def _value(name: str, value: object, of: Mapping[str, Option]) -> Any:
    if name not in of:
        raise InvalidArgument(f"Unknown option {name[:40]!r}. Accepted: {', '.join(of)}.")
    try:
        return of[name].parse(value)
    except (ValueError, TypeError, OverflowError):
        raise InvalidArgument(
            f"={repr(value)[:60]} is not valid. Accepted: {of[name].accepted}.", argument=name
        ) from None


def limits_of(options: Mapping[str, Any]) -> dict[str, float]:
    """As the spec keeps the limits."""
    return {kept_as: options[name] for name, (kept_as, _) in LIMITS.items() if name in options}


def limits_shown(limits: Mapping[str, float], stops_at_output: int | None) -> dict[str, float | str]:
    """As the caller gave the limits, from what the spec keeps."""
    shown: dict[str, float | str] = {
        name: limits[kept_as] for name, (kept_as, _) in LIMITS.items() if kept_as in limits
    }
    if "cgroup" in shown:
        shown["cgroup"] = "on" if shown["cgroup"] else "off"
    return shown if stops_at_output is None else {**shown, "output": stops_at_output, "on_output": "stop"}


def restart_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """As the spec keeps the restart policy."""
    idle = [name for name in ("max_restarts", "backoff_s") if name in options and "restart" not in options]
    if idle:
        raise InvalidArgument(" does nothing without restart: on-failure or always.", argument=idle[0])
    if options.get("restart", "no") == "no":
        return {}
    return {
        "policy": options["restart"],
        "max": options.get("max_restarts", DEFAULT_RESTARTS),
        "backoff_s": options.get("backoff_s", DEFAULT_BACKOFF_S),
    }


def resources_of(options: Mapping[str, Any], kind: str | None) -> dict[str, Any]:
    """What the engine of a target is asked for, as the spec keeps it; `kind`: of the target, None: this machine.

    cpus, gpus, memory_bytes, time_limit_s, labels, session: those that are given.
    """
    taken = ENGINE_OPTIONS.get(kind or "", ())
    for name in options:
        if name in TARGET and name not in taken:
            raise _not_taken(name, kind)
    if kind == "slurm" and options.get("cpus", 1) % 1:
        raise InvalidArgument(f"={options['cpus']:g} is not valid: Slurm gives whole CPUs.", argument="cpus")
    return {RESOURCES.get(name, name): options[name] for name in taken if name in options}


def _not_taken(name: str, kind: str | None) -> InvalidArgument:
    takers = " or ".join(taker for taker, names in ENGINE_OPTIONS.items() if name in names)
    here = f"and this one is of kind {kind}" if kind else "and this machine is none"
    advice = "timeout_s ends a job anywhere." if name == "time_limit" else "Leave it out."
    return InvalidArgument(f" needs a target of kind {takers}, {here}.", advice, argument=name)
