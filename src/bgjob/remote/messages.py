"""The messages that may arrive from a host. Each has a shape, which is checked here before anything else sees it.

A host may be broken, hostile, or of another version. An answer that breaks its shape breaks the channel it came
over, so that its target is `unreachable: it answered nonsense (...)`, and nothing else is disturbed. Unknown fields
are dropped. The relay's own socket and the gateway to Ray have their shapes here, too.

`tests/remote/test_hostile_hosts.py` derives its mutations from these shapes: a new message is covered by being
declared.
"""

import binascii
import json
import math
from base64 import b64decode
from collections.abc import Collection, Mapping
from typing import Any

from bgjob.core.errors import BgjobError
from bgjob.core.late_pattern import late_pattern
from bgjob.home.event_log import Cursor
from bgjob.home.log_format import PROMPT_BYTES
from bgjob.output.cleaner import clean
from bgjob.remote.codec import RECORD_MAX_BYTES, Message, decode, unpack_error
from bgjob.remote.copied_log import FILE as LOG_FILE
from bgjob.store.record_schema import (
    MOST_BYTES,
    Malformed,
    Rule,
    event_of,
    is_count,
    is_flag,
    is_job_id,
    is_size,
    is_text,
    number,
    one_of,
    shown,
)

# Our agents send half a megabyte of output in an answer, and little else.
LINE_MAX_BYTES = MESSAGE_MAX_BYTES = 8 << 20
# `[],` is three bytes in a message and 64 in memory.
MOST_ITEMS, MOST_DEPTH, MOST_WHOLE = 1 << 20, 16, 1 << 64
MOST_SAID = 300
# What may be in one answer with news. An agent sends half a megabyte of logs: fewer than 2 * 16,000 pieces even of
# segments that have one byte and their runs. It sends 500 events or a little more than half a megabyte of them; text
# that is not ASCII may become three times as long here. It has an entry for each job with news.
MOST_JOBS, MOST_PIECES, MOST_RECORDS = 1 << 16, 1 << 15, 100
MOST_EVENTS, MOST_EVENT_BYTES = 1000, 1 << 21
# What answers no call of ours costs the same again with each message, so only a small one is accepted.
SMALL_PARTS, SMALL_CHARACTERS = 1000, 1 << 18
# Where a segment of a log may begin. What follows its first byte must be countable, too.
MOST_OFFSET = MOST_BYTES >> 1
NAME_CHARACTERS, PATH_CHARACTERS, PROMPT_GROWS = 300, 8192, 8
KIND = late_pattern(r"[A-Za-z_][A-Za-z0-9_]{0,60}")
NONSENSE = "it answered nonsense ({why})"


class Fields:
    """An object with these fields."""

    def __init__(self, rules: "Mapping[str, Shape]", may_lack: Collection[str] = ()) -> None:
        self.rules, self.may_lack = rules, may_lack


class Each:
    """A list, what each of its items is, and the maximum number of them. `most_bytes`: of all items, as JSON."""

    def __init__(self, shape: "Shape", most: int | None = None, most_bytes: int | None = None) -> None:
        self.shape, self.most, self.most_bytes = shape, most, most_bytes


class Named:
    """An object with any names of this form, what each of its values is, and the maximum number of them."""

    def __init__(self, name: Rule, shape: "Shape", most: int | None = None) -> None:
        self.name, self.shape, self.most = name, shape, most


class Maybe:
    """Null, or this."""

    def __init__(self, shape: "Shape") -> None:
        self.shape = shape


Shape = Fields | Each | Named | Maybe | Rule


def checked(shape: Shape, value: object, where: str = "it") -> Any:
    """Return the value without unknown fields. Malformed: it has another shape."""
    match shape:
        case Fields():
            return _checked_fields(shape, _of(dict, value, where), where)
        case Named():
            named = _few(_of(dict, value, where), shape.most, where)
            for name in named:
                _check(shape.name, name, f"a name in {where}")
            return {name: checked(shape.shape, each, where) for name, each in named.items()}
        case Each():
            items = _few(_of(list, value, where), shape.most, where)
            if shape.most_bytes is not None and len(json.dumps(items)) > shape.most_bytes:
                raise Malformed(f"{where} has more than {shape.most_bytes} bytes")
            return [checked(shape.shape, each, where) for each in items]
        case Maybe():
            return None if value is None else checked(shape.shape, value, where)
        case _:
            _check(shape, value, where)
            return value


def _checked_fields(shape: Fields, value: Mapping[str, Any], where: str) -> dict[str, Any]:
    for name in shape.rules:
        if name not in value and name not in shape.may_lack:
            raise Malformed(f"{where} has no {name}")
    known = {name: rule for name, rule in shape.rules.items() if name in value}
    return {name: checked(rule, value[name], f"{where}.{name}") for name, rule in known.items()}


def _of(kind: type, value: Any, where: str) -> Any:
    _check(lambda value: isinstance(value, kind), value, where)
    return value


def _few(value: Any, most: int | None, where: str) -> Any:
    """Return the value. Malformed: it has more items than an agent of ours sends."""
    if most is not None and len(value) > most:
        raise Malformed(f"{where} has {len(value)} items")
    return value


def _check(rule: Rule, value: object, where: str) -> None:
    if not rule(value):
        raise Malformed(f"{where} is {shown(value)}")


# -- a line -------------------------------------------------------------------------------------------


def received(line: bytes) -> Message:
    """Decode a line from a host. Malformed: it does not hold a message, or one that is too large for our memory."""
    try:
        message = decode(line, MESSAGE_MAX_BYTES, _parsed)
    except ValueError as problem:
        raise Malformed(f"a line is not a message: {problem}") from None
    return message


def _parsed(data: bytes) -> Any:
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MOST_ITEMS:
        raise ValueError("a message has too many parts")
    return _plain(json.loads(data), 0)


def _plain(value: Any, depth: int) -> Any:
    """Return the value as any text, file or terminal can hold it: without half characters or endless numbers."""
    if depth > MOST_DEPTH:
        raise ValueError("a message is nested too deep")
    match value:
        case str():
            return (
                value
                if value.isascii()
                else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            )
        case dict():
            return {_plain(name, depth + 1): _plain(each, depth + 1) for name, each in value.items()}
        case list():
            return [_plain(each, depth + 1) for each in value]
        case int() | float() if not (math.isfinite(value) and abs(value) < MOST_WHOLE):
            raise ValueError("a number has no end")
        case _:
            return value


def is_small(message: Message) -> bool:
    """Return whether it has few parts and little text, as all messages but answers with news or facts."""
    parts, characters, left = 0, 0, list[Any]([message])
    while left and parts <= SMALL_PARTS and characters <= SMALL_CHARACTERS:
        value = left.pop()
        parts += 1
        match value:
            case str():
                characters += len(value)
            case dict():
                left += [*value, *value.values()]
            case list():
                left += value
    return not left and parts <= SMALL_PARTS and characters <= SMALL_CHARACTERS


# -- what a host says ---------------------------------------------------------------------------------


def said(target: str, text: str) -> str:
    """Quote text of a host for a message: attributed to the host, on one line, and bounded."""
    words = " ".join(clean(text).split())
    return f"{target} says: {words if len(words) <= MOST_SAID else words[:MOST_SAID] + '…'!r}"


def refusal(target: str, packed: object) -> BgjobError:
    """Return our own error of the same kind as the host's, which quotes it."""
    error = checked(ERROR, packed, "error")
    text = said(target, error["text"])
    own = {"target": target, "why": text, "argument": "", "problem": text}
    return unpack_error({"kind": error["kind"], "text": text, "state": own})


# -- shapes: what the fields hold ---------------------------------------------------------------------


def _is_nothing(value: object) -> bool:
    return value is None


def _is_any(_value: object) -> bool:
    return True


def _is_short(value: object) -> bool:
    """A name, a version, a word of a cluster: on one line."""
    return is_text(value) and len(str(value)) <= NAME_CHARACTERS and str(value).isprintable()


def _is_path(value: object) -> bool:
    return is_text(value) and len(str(value)) <= PATH_CHARACTERS and "\0" not in str(value)


def _is_kind(value: object) -> bool:
    return isinstance(value, str) and KIND.fullmatch(value) is not None


def _is_log_file(value: object) -> bool:
    """A name of another form could lead out of the directory of the log, or beyond what a record can count."""
    found = LOG_FILE.fullmatch(value) if isinstance(value, str) else None
    return found is not None and int(found[2]) <= MOST_OFFSET


def _is_prompt(value: object) -> bool:
    """An unfinished line. Notes on lines that repeat may make it longer than what was read of the log."""
    return isinstance(value, str) and len(value) <= PROMPT_GROWS * PROMPT_BYTES


def _is_base64(value: object) -> bool:
    try:
        return isinstance(value, str) and b64decode(value, validate=True) is not None
    except (binascii.Error, ValueError):
        return False


def _is_cursor(value: object) -> bool:
    try:
        return isinstance(value, str) and Cursor.parse(value) is not None
    except ValueError:
        return False


def _is_event(value: object) -> bool:
    try:
        return event_of(value) is not None
    except Malformed:
        return False


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_record(value: object) -> bool:
    """Only the size is checked here: the job itself may write its records, so their readers check the rest."""
    return isinstance(value, dict) and len(json.dumps(value)) <= RECORD_MAX_BYTES


_is_amount = number(0, 1 << 63)
_is_port = number(0, 65535)

# -- shapes: calls of an agent ------------------------------------------------------------------------

MET = Fields({"there": is_flag, "python": Each(is_count)})
HELLO = Fields(
    {"host": _is_short, "home": _is_path, "pid": is_count}
    | dict.fromkeys(("version", "boot_id", "python"), _is_short),
    ("version", "boot_id", "python"),
)
ERROR = Fields({"kind": _is_kind, "text": is_text, "trouble": _is_short}, ("trouble",))
MORE = Fields({"data": _is_base64})

STARTED = Fields({"spec": Fields({"cwd": Maybe(_is_path), "shell": Maybe(_is_path)}), "queued": is_flag})
KILLED = Fields(
    {"status": one_of("killed", "already_terminated", "not_found", "signaled"), "processes": is_count}
)
PROCESS = Fields({"pid": is_count, "parent_pid": is_count, "command": is_text, "state": _is_short})
LISTENING = Fields({"port": _is_port, "address": _is_short, "pid": is_count})
ACTIVITY = Fields(
    {
        "process_count": is_count,
        "cpu_s": Maybe(_is_amount),
        "memory_bytes": Maybe(is_size),
        "memory_kind": Maybe(one_of("pss", "rss")),
        "read_bytes": Maybe(is_size),
        "written_bytes": Maybe(is_size),
        "tree": Maybe(Each(PROCESS)),
        "listening": Maybe(Each(LISTENING)),
    }
)
STATUS = Fields(
    {
        "end": is_size,
        "descendants": is_count,
        "left_running": is_count,
        "waits_for_input": Maybe(is_flag),
        "prompt": Maybe(_is_prompt),
        "activity": Maybe(ACTIVITY),
        "ports": Each(_is_port),
        "place": Maybe(Fields({"position": is_count, "reason": is_text, "priority": number(-1e9, 1e9)})),
    },
    ("prompt", "activity", "ports", "place"),
)
GPU = Fields(
    {
        "name": _is_short,
        "memory_bytes": Maybe(is_size),
        "memory_used_bytes": Maybe(is_size),
        "busy_percent": Maybe(_is_amount),
    }
)
FACTS: Mapping[str, Shape] = {
    "cpus": Maybe(is_count),
    "load": Maybe(Each(_is_amount)),
    "memory_bytes": Maybe(is_size),
    "memory_available_bytes": Maybe(is_size),
    "gpus": Maybe(Each(GPU)),
    "jobs_running": is_count,
    "jobs_queued": is_count,
    "slots": is_count,
}
PIECE = Fields({"name": _is_log_file, "at": is_size, "data": _is_base64})
NEWS_OF_JOB: Mapping[str, Shape] = {
    "files": Each(PIECE, MOST_PIECES),
    "records": Named(_is_short, _is_record, MOST_RECORDS),
    "gone": Each(_is_log_file, MOST_PIECES),
    "over": is_flag,
    "missing": is_flag,
    "unended": is_flag,
    "lost": is_text,
}
NEWS = Fields(
    {
        "jobs": Named(is_job_id, Fields(NEWS_OF_JOB, NEWS_OF_JOB), MOST_JOBS),
        "events": Each(_is_event, MOST_EVENTS, MOST_EVENT_BYTES),
        "looked": Named(is_job_id, is_count, MOST_JOBS),
        "cursor": _is_cursor,
    }
)
# By the verbs of agent.verbs.
ANSWERS: Mapping[str, Shape] = {
    **dict.fromkeys(("ping", "follow", "unfollow", "look", "check"), _is_nothing),
    "start": STARTED,
    "kill": KILLED,
    "status": STATUS,
    "info": Fields(FACTS),
    "news": NEWS,
}

# -- shapes: what a batch script of Slurm leaves on disk ------------------------------------------------

TAKEN = Fields(
    {"engine_id": Maybe(_is_short), "node": Maybe(_is_short), "error": ERROR}, ("engine_id", "node", "error")
)

# -- shapes: the gateway to Ray -----------------------------------------------------------------------

RAY_STATE = Fields(
    {
        "state": one_of("placed", "queued", "over", "unleased", "unreachable", "gone"),
        "node": Maybe(_is_short),
        "environ": Named(_is_short, is_text),
        "reason": Maybe(is_text),
    },
    ("node", "environ", "reason"),
)
RAY_NODE = Fields(
    {
        **dict.fromkeys(("node", "id", "host"), _is_short),
        "alive": is_flag,
        **dict.fromkeys(("total", "free"), Named(_is_short, _is_amount)),
        "labels": Named(_is_short, _is_short),
    }
)
RAY_HELLO = Fields({"ray": _is_short, "address": _is_short, "pid": is_count}, ("address",))
RAY_ANSWERS: Mapping[str, Shape] = {
    **dict.fromkeys(("ping", "check", "release"), _is_nothing),
    "open": _is_object,
    "place": RAY_STATE,
    "states": Named(is_job_id, RAY_STATE),
    "nodes": Each(RAY_NODE),
}
RAY_ANSWER = Fields({"id": is_count})
RAY_DATA = Fields({"channel": is_count, "data": _is_base64, "end": is_flag}, ("data", "end"))

# -- shapes: the relay's own socket -------------------------------------------------------------------

REQUESTS: Mapping[str, Fields] = {
    "start": Fields({"job": is_job_id}),
    "check": Fields({"start": _is_object, "resources": _is_object}, ("resources",)),
    "give_up": Fields({"job": is_job_id}),
    "kill": Fields(
        {"job": is_job_id, "grace_s": _is_amount, "signal": _is_short, "only_signal": is_flag},
        ("grace_s", "signal", "only_signal"),
    ),
    "status": Fields({"job": is_job_id, "detail": is_flag}, ("detail",)),
    "info": Fields({"check": is_flag}, ("check",)),
}
NODE: Mapping[str, Shape] = {
    **FACTS,
    **RAY_NODE.rules,
    **dict.fromkeys(("name", "node", "host", "state"), Maybe(_is_short)),
    **dict.fromkeys(("cpus_free", "gpus_free"), _is_amount),
    "memory_free_bytes": is_size,
    "is_up": is_flag,
    **dict.fromkeys(("gpus", "labels"), _is_any),
}
RELAY_ANSWERS: Mapping[str, Shape] = {
    "start": Fields({"pending": is_text}, ("pending",)),
    **dict.fromkeys(("check", "give_up"), Fields({})),
    "kill": KILLED,
    "status": STATUS,
    "info": Fields({"nodes": Each(Fields(NODE, NODE)), "queue": Fields({"queued": is_count})}, ("queue",)),
}
FAILURE = Fields({"kind": _is_kind, "text": is_text, "state": Named(_is_kind, _is_any)}, ("state",))
