"""A home with something of everything in it, and what may happen to each part of it: named, and always the same."""

import contextlib
import json
import os
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bgjob.api.kept_waits import KeptWait, WaitEnd
from bgjob.core.notify import NotifyRule
from bgjob.home import event_log, layout, queue_dir, sessions, target_dir, waits, watch_registry
from bgjob.link.spawn import packed
from bgjob.store import notify_rules, quota, record_schema, retention
from bgjob.store.store import Store
from tests.support import foreign
from tests.support.foreign import Damage, of_bytes, of_size, was

# -- the home -----------------------------------------------------------------------------------------------


def _id(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


PLAIN, TERMINAL, LOST, BYSTANDER, RICH, RUNNING, QUEUED, DRAFT, TRASH, AFAR = map(_id, range(1, 11))
TARGET = "gpu-box"
SEGMENT = f"{0:020d}"
QUEUE_ENTRY = f"1000-{1:016d}-{QUEUED}"
DRAFTS = ("sizes.new", "on_event.json.new", f"jobs/{RICH}/watch.json.new", f"jobs/{QUEUED}/outcome.json.new")
"""Left by somebody who was killed over writing them."""
TERMS = {"after": [BYSTANDER], "after_policy": "any", "not_before": 0.0, "max_jobs": 3, "group_slots": 2}
RULE = NotifyRule("bell", "/dev/pts/none", ["end"], environment={"PATH": "/bin"})
SESSION, CLIENT = "a session", "process 1 of 2"
AT_TARGET = target_dir.directory(".", TARGET).removeprefix("./")
OWN_SESSION = str(Path(sessions.directory_of(".", SESSION)))
OWN_CLIENT = str(Path(sessions.client_file(".", CLIENT)))


def make_home(home: Path) -> None:
    """As some weeks of use leave it: one job of each kind, and every file that a home can have."""
    foreign.new_home(home)
    for job_id, name in {
        PLAIN: foreign.VICTIM,
        TERMINAL: foreign.ON_A_TERMINAL,
        LOST: foreign.LOST,
        BYSTANDER: foreign.BYSTANDER,
        RICH: foreign.VICTIM,
        RUNNING: foreign.ON_A_TERMINAL,
        QUEUED: foreign.VICTIM,
        AFAR: foreign.VICTIM,
    }.items():
        foreign.hang(home, name, job_id=job_id)
    _make_rich(home / "jobs" / RICH)
    (home / "jobs" / RUNNING / "outcome.json").unlink()
    _make_queued(home / "jobs" / QUEUED)
    _make_afar(home)
    store = Store(str(home))
    for name in ("0", "name-0", "ci:0"):
        (home / "slots" / name).touch(0o600)
    queue_dir.enter(str(home), QUEUE_ENTRY)
    os.mkfifo(home / "queue" / "kick", 0o600)
    for name in ("queue/drainer", "events/lock", "watcher.lock", "leapt", "newest"):
        (home / name).touch(0o600)
    for job_id in (PLAIN, RICH, RUNNING):
        event_log.append(store.events, "started", job_id, name="a name")
    event_log.append(store.events, "matched", RICH, pattern="out", line="out 1", cursor="0-5")
    event_log.append(store.events, "ended", PLAIN, name="a name", cause="exited", exit_code=0)
    watch_registry.add(str(home), RICH)
    (home / "on_event.json").write_text('{"cursor": "1.0"}')
    notify_rules.add(str(home), RULE)
    notify_rules.save_notified(str(home), {RULE.key: notify_rules.Notified("1.0", 1.0, 2.0, "it is gone")})
    _make_session(str(home))
    quota.make_room(store, 1 << 40)
    retention.clean(store, keep_jobs=1000, keep_days=1000, interval_s=0)
    for name in DRAFTS:  # at last: the next writer would take them away, and a cleaner what is in the trash
        (home / name).write_bytes(b" " * 1024)
    for place in (f"{layout.DRAFTS}/{DRAFT}", f"{layout.TRASH}/{TRASH}"):
        shutil.copytree(home / "jobs" / PLAIN, home / place)


def _make_session(home: str) -> None:
    """It waits for a job that runs, has waited for one that has ended, and has not been told of another."""
    sessions.note_client(home, CLIENT, SESSION)
    for job_id in (RUNNING, LOST):
        sessions.expect(home, SESSION, job_id)
    sessions.claim_prompt(home, SESSION, RUNNING, 5)
    for job_id in (RUNNING, PLAIN):
        until = {
            "pattern": "never",
            "stop_pattern": "never",
            "literal": True,
            "stream": "stdout",
            "port": 1,
            "silence_s": 1e6,
            "for_input": True,
        }
        started = {"reused": False, "asked_command": None}
        wait = KeptWait(
            job_id,
            [job_id],
            time.time(),
            deadline=None,
            until=until,
            since={job_id: "0"},
            session=SESSION,
            started=started,
        )
        waits.create(home, job_id, {"format": 1, **vars(wait)})
    waits.end(home, PLAIN, vars(WaitEnd("completed", time.time(), {"content": []}, [PLAIN])))


def _make_rich(directory: Path) -> None:
    """It has limits, watches, and runs before this one."""
    now = time.time()
    record = json.loads((directory / "spec.json").read_text())
    record |= {
        "limits": {"memory_bytes": 1 << 30, "silence_s": 60},
        "watch": ["out", "err"],
        "restart": {"policy": "always", "max": 3, "backoff_s": 1.0},
        "group": "ci",
    }
    past = {
        "pid": 77,
        "exit_code": 1,
        "signal": None,
        "limit": None,
        "ended_at": now,
        "duration_s": 1.0,
        "from": 0,
        "to": 7,
    }
    runs = {"count": 1, "in_a_row": 1, "pauses_until": None, "began": now, "from": 7, "runs": [past]}
    limits = {"limited_by": {"memory_bytes": "cgroup"}, "groups": [f"/sys/fs/cgroup/bgjob-{directory.name}"]}
    (directory / "script").write_bytes(bytes(1_500_000))  # it makes the store larger than a small cap
    watch = {"stdout": 0, "stderr": 0, "missed": 0, "suppressed": {"out": 1}, "is_over": False}
    for name, content in {"spec": record, "runs": runs, "limits": limits, "watch": watch}.items():
        (directory / f"{name}.json").write_text(json.dumps({"format": 1, **content}))


def _make_afar(home: Path) -> None:
    """It runs on a host that has not answered for a while."""
    directory = home / "jobs" / AFAR
    record = json.loads((directory / "spec.json").read_text()) | {"target": TARGET, "resources": {"cpus": 2}}
    remote = {
        "phase": "running",
        "cwd": "/there",
        "shell": "/bin/sh",
        "host": "n1",
        "engine_id": "17",
        "node": "n1",
        "reason": "Priority",
        "left_running": 0,
        "asks_at": 0,
        "session": SESSION,
    }
    (directory / "outcome.json").unlink()
    for name, content in {"spec": record, "remote": remote}.items():
        (directory / f"{name}.json").write_text(json.dumps({"format": 1, **content}))
    target_dir.make(str(home), TARGET, {"name": TARGET, "kind": "ssh", "host": "n1.invalid"})
    target_dir.add(str(home), TARGET, AFAR)
    place = home / AT_TARGET
    (place / target_dir.LOCK).touch(0o600)
    (place / target_dir.STATE).write_text(json.dumps({"unreachable": {"n1": [time.time(), "timed out"]}}))


def _make_queued(directory: Path) -> None:
    record = json.loads((directory / "spec.json").read_text()) | {"queue": TERMS, "group": "ci"}
    record.pop("boot_id", None)  # it is of this boot, whichever that is
    shutil.rmtree(directory)
    directory.mkdir(0o700)
    (directory / "spec.json").write_text(json.dumps(record))
    (directory / "papers").write_bytes(packed(record, {"PATH": os.defpath}, 0o022))


# -- what may happen to it ----------------------------------------------------------------------------------


class Mutation(NamedTuple):
    place: str
    """In the home."""
    what: str
    make: Damage
    is_unprivileged: bool = False
    """It says something only to somebody who is not root."""

    @property
    def job_id(self) -> str:
        """The job that it is about, or one that lives in the home that it is about."""
        parts = self.place.split("/")
        if parts[0] == "queue":
            return QUEUED
        if parts[0] == "watches":
            return RICH
        if parts[0] == "targets":
            return AFAR
        return parts[1] if parts[0] == "jobs" and len(parts) > 1 else PLAIN

    @property
    def is_of_one_job(self) -> bool:
        return self.place.startswith("jobs/0")

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


def outside(home: Path) -> Path:
    """What nobody may open."""
    return home.with_name("outside")


def _home_of(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.name == "home")


def moved_out(path: Path) -> None:
    """A symlink to what was there, which is out of the home now."""
    was(path).rename(outside(_home_of(path)) / path.name)
    path.symlink_to(outside(_home_of(path)) / path.name)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(path.parent)
        listener.bind(path.name)
        os.chdir(here)


def closed(path: Path) -> None:
    was(path).rename(path)
    path.chmod(0)


def halved(path: Path) -> None:
    data = _bytes_of(was(path))
    path.write_bytes(data[: len(data) // 2])


def with_zeros_at_its_end(path: Path) -> None:
    data = _bytes_of(was(path))
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))


def _bytes_of(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b"17"  # a FIFO or a socket has none


def emptied(path: Path) -> None:
    path.mkdir(0o700)


def with_odd_names(make: Callable[[Path], object]) -> Damage:
    """What was there, and beside it names that nobody gave."""

    def crowd(path: Path) -> None:
        was(path).rename(path)
        for name in ODD_NAMES:
            with contextlib.suppress(OSError):  # a name that the file system refuses
                make(path / name)

    return crowd


ODD_NAMES = (
    "1" + "0" * 23,
    "9" * 200,
    "00000000000000000000",
    "0" * 19 + "²",
    "٣" * 20,
    "-1",
    "1e5",
    "with\nnewline",
    "with\x1b[31mescape",
    "with\u202ebidi",
    os.fsdecode(b"no\xffutf8"),
    "x" * 255,
    ".hidden",
    f"{10**17}-{PLAIN}",  # beyond all clocks
    f"{2:016d}-{PLAIN}",  # a second place
    f"{3:016d}-{_id(99)}",  # of no job
    f"1000-{2:016d}-{PLAIN}",  # of one that does not wait
    f"9999-{'9' * 200}",
    "²²²²-x",
    "1000-x",
    _id(98),
    f"{SEGMENT}.runs.runs",
    "0" * 15 + "99999",
    "0" * 15 + "99999.runs",
)
AS_A_FILE = {
    **foreign.THINGS,
    "a socket": a_socket,
    "a symlink out of the home": moved_out,
    "closed": closed,
    "halved": halved,
    "zeros at its end": with_zeros_at_its_end,
    "100 kB of [": of_bytes(b"[" * 100_000),
    "100 kB of { in an object": of_bytes(b'{"a":' * 20_000 + b"1" + b"}" * 20_000),
    "a number of 5000 digits": of_bytes(b"1" * 5000),
    "60 MB without a newline": of_size(60 << 20),
    "7 MB in lists": of_bytes(b'{"a": [' + b"[]," * 2_300_000 + b"[]]}"),
    "a word that is no number": of_bytes(b"nan inf"),
}
AS_A_SEGMENT = {**AS_A_FILE, "10 GB": of_size(10 << 20)}  # 10 GB would be just a long log
AS_A_DIRECTORY = {
    **{what: make for what, make in foreign.THINGS.items() if what not in ("10 GB", "a directory")},
    "a socket": a_socket,
    "a symlink out of the home": moved_out,
    "closed": closed,
    "emptied": emptied,
    "odd names, as files": with_odd_names(Path.touch),
    "odd names, as directories": with_odd_names(Path.mkdir),
    "odd names, as FIFOs": with_odd_names(os.mkfifo),
    "odd names, as symlinks to themselves": with_odd_names(lambda path: path.symlink_to(path.name)),
    "odd names, as symlinks out of the home": with_odd_names(
        lambda path: path.symlink_to(outside(_home_of(path)))
    ),
}
AS_A_RECORD = {
    **AS_A_FILE,
    **foreign.NO_RECORDS,
    **foreign.FUTURE,
    **foreign.EMPTY_OR_NO_FORMAT,
}

DIRECTORIES = (
    *("jobs", "index", "slots", "queue", "drafts", "trash", "events", "watches", "sessions", "waits"),
    *(OWN_SESSION, f"waits/{RUNNING}"),
    *(f"jobs/{job_id}" for job_id in (PLAIN, LOST, RUNNING, QUEUED, AFAR)),
    *("targets", AT_TARGET, f"{AT_TARGET}/jobs"),
    f"jobs/{PLAIN}/log",
    f"jobs/{RUNNING}/log",
    f"drafts/{DRAFT}",
    f"trash/{TRASH}",
)
FILES = (
    f"jobs/{PLAIN}/log/{SEGMENT}",
    f"jobs/{PLAIN}/log/{SEGMENT}.runs",
    f"jobs/{RUNNING}/log/{SEGMENT}",
    f"jobs/{RUNNING}/log/{SEGMENT}.runs",
    f"jobs/{RUNNING}/ctl",
    f"jobs/{QUEUED}/papers",
    f"drafts/{DRAFT}/spec.json",
    f"index/{{{PLAIN}}}",
    *("slots/0", "slots/name-0", "slots/ci:0"),
    *(f"queue/{QUEUE_ENTRY}", "queue/drainer", "queue/kick"),
    *("events/1", "events/lock", f"watches/{RICH}", "watcher.lock"),
    *(f"{OWN_SESSION}/{LOST}", f"{OWN_SESSION}/{RUNNING}.asked-5"),
    *("size", "cleaned", "clock", "leapt", "newest"),
    *DRAFTS,
)
RECORDS = (
    *(f"jobs/{PLAIN}/{name}.json" for name in ("spec", "run", "outcome")),
    *(f"jobs/{RICH}/{name}.json" for name in ("spec", "runs", "limits", "watch")),
    *(f"jobs/{RUNNING}/{name}.json" for name in ("spec", "run", "terminal")),
    f"jobs/{QUEUED}/spec.json",
    *("boot.json", "on_event.json", "notify.json", "notified.json", "sizes"),
    *(f"jobs/{AFAR}/spec.json", f"jobs/{AFAR}/remote.json", f"{AT_TARGET}/state.json"),
    *(OWN_CLIENT, f"waits/{RUNNING}/wait.json", f"waits/{PLAIN}/end.json"),
)
SCHEMAS = {
    "spec.json": (record_schema.SPEC_RULES,),
    "run.json": (record_schema.RUN_RULES,),
    "runs.json": (record_schema.RUNS_RULES,),
    "outcome.json": (
        *(record_schema.END_RULES, record_schema.HOW_RULES),
        *(record_schema.OVER_RULES, record_schema.NEVER_STARTED_RULES),
    ),
    "limits.json": (record_schema.LIMITED_BY_RULES, record_schema.GROUPS_RULES),
    "watch.json": (record_schema.WATCH_RULES,),
    "terminal.json": (record_schema.TERMINAL_RULES,),
    "remote.json": (record_schema.REMOTE_RULES,),
    "state.json": (record_schema.STATE_RULES,),
    "wait.json": (record_schema.WAIT_RULES,),
    "end.json": (record_schema.WAIT_END_RULES,),
}
"""What the door lets in by the name of a record: each field of it is tried, also those that no job here has."""
VALUES: dict[str, object] = {
    "null": None,
    "true": True,
    "a text": "17",
    "a path": "../../../outside",
    "a long text": "x" * 1_000_000,
    "lone surrogates": "\ud800\udfff\x00\x1b",
    "half a character": "\ud800",
    "half a character in a list": ["\ud800"],
    "half a character in an object": {"x": "\ud800"},
    "half a character as a key": {"\ud800": "x"},
    "a list": [],
    "a list of lists": [[[[]]], ["x"], [None, None, None]],
    "a list of paths": ["../../../outside", "/dev/zero", "\0"],
    "an object": {"x": {"y": []}},
    "negative": -1,
    "0": 0,
    "10^30": 10**30,
    "10^400": 10**400,
    "NaN": float("nan"),
    "endless": float("-inf"),
}


def all_mutations(home: Path) -> Iterator[Mutation]:
    yield Mutation("", "nothing happened", lambda path: None)
    for place in DIRECTORIES:
        yield from _each(place, AS_A_DIRECTORY)
    for place in FILES:
        yield from _each(_entry(home, place), AS_A_SEGMENT if place.endswith(SEGMENT) else AS_A_FILE)
    for place in RECORDS:
        yield from _each(place, AS_A_RECORD)
        yield from _fields(home, place)
    yield from _events()


def _entry(home: Path, place: str) -> str:
    """{id} is the name of that job's place in the index."""
    directory, brace, job_id = place.partition("{")
    if not brace:
        return place
    (entry,) = (home / directory).glob(f"*-{job_id.rstrip('}')}")
    return f"{directory}{entry.name}"


def _each(place: str, makes: dict[str, Damage]) -> Iterator[Mutation]:
    for what, make in makes.items():
        yield Mutation(place, what, make, make is closed)


def _fields(home: Path, place: str) -> Iterator[Mutation]:
    """Each value in each field, also in those inside of a field; and each field taken away."""
    there = list(_paths(json.loads((home / place).read_text())))
    accepted = {(name,) for rules in SCHEMAS.get(place.rpartition("/")[2], ()) for name in rules}
    for missing in sorted(accepted - set(there)):
        for word, value in VALUES.items():
            yield Mutation(place, f"{missing[0]}, which it has not, is {word}", _edited(missing, value))
    for path in there:
        name = ".".join(map(str, path))
        yield Mutation(place, f"no {name}", _edited(path, None, is_there=False))
        for word, value in VALUES.items():
            yield Mutation(place, f"{name} is {word}", _edited(path, value))


def _events() -> Iterator[Mutation]:
    """One more event, with each value in each field."""
    for name in record_schema.EVENT_RULES:
        for word, value in VALUES.items():
            event = {"at": time.time(), "kind": "ended", "job_id": RICH, name: value}
            yield Mutation("events/1", f"an event whose {name} is {word}", _with_line(event))


def _with_line(event: dict[str, Any]) -> Damage:
    return lambda path: path.write_bytes(_bytes_of(was(path)) + b"\n" + json.dumps(event).encode() + b"\n")


def _paths(value: object, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inside:
        yield (*above, name)
        yield from _paths(each, (*above, name))


def _edited(path: tuple[str | int, ...], value: object, *, is_there: bool = True) -> Damage:
    def edit(file: Path) -> None:
        record = json.loads(was(file).read_text())
        holder = record
        for name in path[:-1]:
            holder = holder[name]
        if is_there:
            holder[path[-1]] = value
        else:
            del holder[path[-1]]
        file.write_text(json.dumps(record))

    return edit


def apply(mutation: Mutation, home: Path) -> None:
    """To this home: what was there is out of the way, and its name too."""
    outside(home).mkdir(exist_ok=True)
    if not mutation.place:
        return
    path = home / mutation.place
    foreign.damage(path, mutation.make)
    _remove(was(path))


def _remove(path: Path) -> None:
    if not os.path.lexists(path):
        return
    if stat.S_ISDIR(path.lstat().st_mode):
        shutil.rmtree(path)
    else:
        path.unlink()
