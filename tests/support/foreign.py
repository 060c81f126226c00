"""Things in a store that we did not write, and everything that can be asked of it."""

import contextlib
import fcntl
import functools
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from bgjob.api import Jobs
from bgjob.mcp.tools import TOOLS
from bgjob.store.store import Store
from tests.support.stores import jobs_on
from tests.support.tools import call_tool, text_of

RECORDED = Path(__file__).parents[1] / "contracts/stores/format-1/jobs"
VICTIM, ON_A_TERMINAL, LOST, BYSTANDER = "both streams, by turns", "on a terminal", "is lost", "exits with 0"
WHOLE = "out 1\nout 2\nout 3\nunfinished"
ANOTHER_ID = "00000000-0000-4000-8000-000000000000"

# -- what may lie in the place of something -----------------------------------------------------------------

Damage = Callable[[Path], object]


def of_bytes(data: bytes) -> Damage:
    return lambda path: path.write_bytes(data)


def of_size(size: int) -> Damage:
    """Zeros that take no room on disk."""

    def make(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(size)

    return make


def changed(**values: object) -> Damage:
    """The record that was there, with these values."""
    return lambda path: path.write_text(json.dumps({**json.loads(was(path).read_text()), **values}))


def without(name: str) -> Damage:
    def make(path: Path) -> None:
        record = json.loads(was(path).read_text())
        del record[name]
        path.write_text(json.dumps(record))

    return make


def was(path: Path) -> Path:
    return path.with_name(f"{path.name}.was")


def damage(path: Path, make: "Damage") -> None:
    """Put something else in the place of what is there, if anything is."""
    if os.path.lexists(path):
        path.rename(was(path))
    make(path)


THINGS: dict[str, Damage] = {
    "nothing": lambda path: None,
    "a directory": lambda path: path.mkdir(),
    "a FIFO": os.mkfifo,
    "a symlink to nothing": lambda path: path.symlink_to("nowhere"),
    "a symlink to itself": lambda path: path.symlink_to(path.name),
    "a symlink to a device without end": lambda path: path.symlink_to("/dev/zero"),
    "an empty file": of_bytes(b""),
    "10 GB": of_size(10 << 30),
    "noise": of_bytes(bytes(range(256)) * 3),
}
NO_RECORDS: dict[str, Damage] = {
    **THINGS,
    "a symlink to a good one": lambda path: path.symlink_to(was(path).name),
    "a torn record": of_bytes(b'{"format": 1, "cause": "exi'),
    "a record torn in a character": of_bytes(b'{"name": "caf\xc3'),
    "no UTF-8": of_bytes(b'{"command": "\xff\xfe"}'),
    "NULs": of_bytes(b"\0" * 4096),
    "a list": of_bytes(b"[1, 2]"),
    "a number": of_bytes(b"17"),
    "NaN": of_bytes(b"NaN"),
    "nested beyond reason": of_bytes(b'{"a":' * 100_000),
}
FUTURE: dict[str, Damage] = {
    "of format 2": changed(format=2, needs="0.9", novelty=[1, {"x": None}]),
    "of format 2, needs nobody knows what": changed(format=2, needs="x" * 10_000),
    "of format 2, needs a list": changed(format=2, needs=["0.9"]),
    "of a format without end": changed(format=2 * 10**400),
}
EMPTY_OR_NO_FORMAT: dict[str, Damage] = {
    "an empty record": of_bytes(b"{}"),
    "a format that is a text": changed(format="2"),
    "a format that is NaN": changed(format=float("nan")),
    "format 0": changed(format=0),
    "format null": changed(format=None),
}
NO_TEXT = {"a number": 17, "a list": ["x"], "an object": {"x": 1}, "nested": [[[[[[[[[]]]]]]]]], "true": True}
HALF_A_CHARACTER = {"half a character": "\ud800"}
NO_NUMBER = {
    "a text": "17",
    "a list": [],
    "NaN": float("nan"),
    "endless": float("inf"),
    "negative": -5,
    "true": True,
}
NO_TIME = {**NO_NUMBER, "null": None, "beyond the calendar": 1e14, "of 4000 digits": 10**4000}
NO_COUNT = {**NO_NUMBER, "null": None, "half": 0.5, "more than there is": 10**30}


def each(values: Mapping[str, object], *fields: str) -> dict[str, Damage]:
    """Each of these values in each of these fields."""
    return {
        f"{field} is {word}": changed(**{field: value}) for field in fields for word, value in values.items()
    }


Places = Mapping[str, tuple[str, Mapping[str, Damage]]]
"""In the directory of a job: (which job, what may lie there). What follows a space is for the reader."""


def cases(places: Places, *names: str) -> pytest.MarkDecorator:
    pairs = [(place, what) for place in names or places for what in places[place][1]]
    return pytest.mark.parametrize(("place", "what"), pairs, ids=ascii)


# -- the store, and everything that can be asked of it ------------------------------------------------------


class Gallery:
    """One home with a damaged job for every case, and a few that nobody has touched."""

    def __init__(self, home: Path, places: Places) -> None:
        self.home = new_home(home)
        self.untouched = {name: hang(home, name) for name in (VICTIM, ON_A_TERMINAL, LOST, BYSTANDER)}
        self.ids = {
            (place, what): hang(home, name, place.partition(" ")[0], make)
            for place, (name, makes) in places.items()
            for what, make in makes.items()
        }
        self.store = Store(str(home))
        self._told: dict[str, dict[str, Any]] = {}

    @property
    def all_ids(self) -> list[str]:
        return sorted([*self.ids.values(), *self.untouched.values()])

    def told(self, job_id: str) -> dict[str, Any]:
        """What every verb says of a job. Asked once."""
        if job_id not in self._told:
            jobs = jobs_on(self.store)
            self._told[job_id] = {verb: answer(jobs, verb, job_id) for verb in VERBS}
        return self._told[job_id]


def new_home(home: Path) -> Path:
    home.mkdir(mode=0o700)
    (home / "jobs").mkdir(mode=0o700)
    return home


def hang(
    home: Path, name: str, place: str = "", make: Damage = lambda path: None, job_id: str | None = None
) -> str:
    """A recorded job, as if it were of a minute ago, perhaps with something else in some place of it."""
    job_id = job_id or str(uuid.uuid4())
    directory = home / "jobs" / job_id
    shutil.copytree(recorded(name), directory)
    for path in directory.glob("*.json"):
        record = json.loads(path.read_text())
        record |= {key: time.time() - 60 for key in ("created_at", "started_at", "ended_at") if key in record}
        path.write_text(json.dumps(record))
    if place:
        damage(directory / place, make)
    return job_id


@functools.cache
def recorded(name: str) -> Path:
    jobs = {json.loads((path / "spec.json").read_text())["name"]: path for path in RECORDED.iterdir()}
    return jobs[name]


VERBS: dict[str, tuple[str, dict[str, Any]]] = {
    # verb: (tool, its arguments beside the job's id)
    "look": ("get_job_status", {"detail": True}),
    "output": ("get_job_output", {}),
    "output, little of it": ("get_job_output", {"max_tokens": 50}),
    "output, from somewhere": ("get_job_output", {"since": "7"}),
    "tail": ("tail_job_output", {"lines": 2}),
    "timeline": ("get_job_output", {"view": "interleaved"}),
    "end of the timeline": ("tail_job_output", {"view": "interleaved", "lines": 2}),
    "screen": ("get_job_output", {"view": "screen"}),
    "search": ("search_job_output", {"pattern": "out", "context_lines": 2}),
    "search by time": (
        "search_job_output",
        {"pattern": "o", "after": "2020-01-01T00:00:00Z", "oldest_first": True},
    ),
    "wait": ("wait_for_job", {"timeout_s": 0.1}),
    "wait for a line": ("wait_for_job", {"timeout_s": 0.1, "pattern": "no such line"}),
    "interact": ("interact_with_job", {"input": "x", "wait_s": 0.1}),
    "resize": ("interact_with_job", {"input": "", "rows": 10, "cols": 10, "wait_s": 0.1}),
    "kill": ("kill_job", {"grace_s": 0.1}),
}
REFUSALS = {"interact": "is not running", "resize": "is not running", "screen": "has no terminal"}
SCHEMAS = {tool["name"]: jsonschema.Draft202012Validator(tool["outputSchema"]) for tool in TOOLS.listing()}


def answer(jobs: Jobs, verb: str, job_id: str) -> Any:
    """As the server gives it. An answer fits its schema; a refusal is one that we know; nothing else happens."""
    tool, arguments = VERBS[verb]
    ids = {"wait_for_job": {"job_ids": [job_id]}, "search_job_output": {"job_ids": [job_id]}}
    return call(jobs, tool, REFUSALS.get(verb), **arguments, **ids.get(tool, {"job_id": job_id}))


def call(jobs: Jobs, tool: str, may_refuse: str | None = None, **arguments: Any) -> Any:
    result = call_tool(jobs, tool, arguments)
    if result["isError"]:
        text = text_of(result)
        assert may_refuse, text
        assert may_refuse in text
        return text
    SCHEMAS[tool].validate(result["structuredContent"])
    return result["structuredContent"]


@contextlib.contextmanager
def locked(home: Path, job_id: str) -> Iterator[Jobs]:
    """As by a shim."""
    with (home / "jobs" / job_id / "spec.json").open() as spec:
        fcntl.flock(spec, fcntl.LOCK_EX)
        yield jobs_on(Store(str(home)))
