"""What tests of events and of the watcher share."""

import contextlib
from pathlib import Path
from typing import Any, get_args

from bgjob.core.job import EventKind
from tests.support.process_table import parent_of
from tests.support.server import Server
from tests.support.waiting import PATIENCE_S, wait_until

Event = dict[str, Any]
EVERY_KIND = list(get_args(EventKind))


def events(server: Server, **arguments: Any) -> list[Event]:
    return list(server.call("job_events", **arguments)["events"])


def until(server: Server, kind: str, since: str = "0.0", **arguments: Any) -> list[Event]:
    """All events from a cursor on, to the first of this kind: asked for by their kinds, none is left out."""
    found: list[Event] = []
    while True:
        answer = server.call("job_events", since=since, kinds=EVERY_KIND, timeout_s=PATIENCE_S, **arguments)
        assert answer["events"], f"no {kind} among {found}"
        found += answer["events"]
        since = answer["cursor"]
        if kind in [event["kind"] for event in found]:
            return found


def listens(pid: int) -> bool:
    """Whether a process waits for a directory to change: it has then seen what was there before."""
    return any("inotify" in _target(each) for each in Path(f"/proc/{pid}/fd").iterdir())


def _target(descriptor: Path) -> str:
    with contextlib.suppress(FileNotFoundError):  # closed meanwhile
        return str(descriptor.readlink())
    return ""


def kinds(found: list[Event]) -> list[str]:
    return [event["kind"] for event in found]


def watchers(home: Path) -> list[int]:
    """Keeper and watcher of this home."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with contextlib.suppress(OSError):
                command = (process / "cmdline").read_bytes().split(b"\0")
                if b"from bgjob.watch.watcher import" in b" ".join(command) and str(home).encode() in command:
                    found.append(int(process.name))
    return sorted(found)


def keeper_and_watcher(home: Path) -> tuple[int, int]:
    """Once there are these two and nobody else: a second keeper, started before the first had its lock, ends."""
    found: list[tuple[int, int]] = []

    def are_alone() -> bool:
        with contextlib.suppress(OSError):  # gone meanwhile
            pids = watchers(home)
            found[:] = [(parent_of(pid), pid) for pid in pids if parent_of(pid) in pids]
            return (len(pids), len(found)) == (2, 1)
        return False

    wait_until(are_alone, "there are a keeper and its watcher", lambda: str(watchers(home)))
    return found[0]
