"""The model: what must be true of a job, whoever asks, whatever was killed. And where its processes are."""

import contextlib
import os
import select
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bgjob.home import jobdir
from bgjob.system import processes
from tests.chaos.model_puppet import Child, Puppet
from tests.support.waiting import PATIENCE_S

Stream = Literal["stdout", "stderr"]
END_FIELDS = ("status", "cause", "exit_code", "signal", "reason", "ended", "duration_s")


class End(NamedTuple):
    cause: str
    exit_code: int | None = None
    signal: str | None = None


LOST, TIMED_OUT = End("lost"), End("timed_out", signal="SIGTERM")


class Life:
    """One job. It runs, or it may run and be about to time out, or it has ended in one of `ends`, or it is removed."""

    def __init__(self, job_id: str, puppet: Puppet, *, pty: bool, name: str | None, doomed: bool) -> None:
        self.id, self.puppet, self.pty, self.name, self.doomed = job_id, puppet, pty, name, doomed
        self.ends: set[End] = set()
        self.removed = self.abandoned = False
        self.pid = self.shim = self.guard = 0
        self.printed: dict[Stream, str] = {"stdout": "", "stderr": ""}
        self.words: list[str] = []
        self.waits = False  # for a line on its stdin
        self.stdin: list[str | None] = []  # typed and not read; None is a terminal's end of file
        self.stdin_closed = False
        self.sizes: list[list[int]] = []
        self.children: list[Child] = []
        self.first_seen_end: dict[str, Any] | None = None
        self.seen_bytes = 0
        self.most_descriptors = 0  # of its shim
        self.cursor, self.read_so_far = "0", {"stdout": "", "stderr": ""}

    def __str__(self) -> str:
        facts = {name: value for name, value in vars(self).items() if name not in ("printed", "read_so_far")}
        return f"{self.puppet.mode} {facts}, {self.size} bytes"

    @property
    def runs(self) -> bool:
        """For sure."""
        return not (self.ends or self.doomed or self.removed)

    @property
    def is_lost(self) -> bool:
        return self.ends == {LOST}

    @property
    def counts_as_running(self) -> bool:
        """It runs, or has left processes that somebody answers for."""
        has_left = self.alive and not (self.removed or self.doomed)
        is_answered_for = not self.abandoned and {end.cause for end in self.ends} <= {"exited", "signaled"}
        return self.runs or bool(has_left and (self.is_lost or is_answered_for))

    @property
    def listens(self) -> bool:
        """It can be told what to do."""
        return self.runs and not self.waits

    @property
    def alive(self) -> int:
        """How many processes it has: those that a look must count, and a kill must end."""
        return bool(self.pid) + len(self.children)

    @property
    def size(self) -> int:
        return sum(map(len, self.printed.values()))

    def print(self, text: str, stream: Stream = "stdout") -> None:
        if len(text) < 100:
            self.words.append(text)
        if self.pty:
            self.printed["stdout"] += f"{text}\r\n"
        else:
            self.printed[stream] += f"{text}\n"

    def read_line(self) -> None:
        """What it does with the next thing on its stdin."""
        line = self.stdin.pop(0) if self.stdin else None
        self.print("no more" if line is None else f"got {line}")
        self.waits = False

    def is_typed(self, word: str | None, close: bool) -> None:
        """A closed pipe stays closed; on a terminal the end of file is read once, like a line."""
        self.stdin += [] if word is None else [word]
        self.stdin += [None] if close and self.pty else []
        self.stdin_closed = self.stdin_closed or (close and not self.pty)

    def end(self, *ends: End) -> None:
        self.ends, self.doomed, self.waits = set(ends), False, False
        if LOST not in ends:
            self.pid = 0
        if not self.children and LOST not in ends:
            self.shim = self.guard = 0

    def lose(self) -> None:
        """Both that answered for it are dead. A terminal's hang-up ends it, if it minds that; without a terminal,
        the end of its stdin wakes it, and it dies of what it prints."""
        self.shim = self.guard = 0
        self.abandoned = True
        if self.ends:
            return
        if self.puppet.mode != "stubborn" if self.pty else self.waits:
            self.pid = 0
        self.end(LOST)

    def keep_only(self, kept: dict[Stream, str]) -> None:
        """What was in its pipes is lost with it; what is in its log is a beginning, and stays."""
        assert all(text.startswith(kept[stream]) for stream, text in self.printed.items())
        self.printed = kept
        self.words.clear()

    def lines_with(self, word: str) -> list[str]:
        return [line for text in self.printed.values() for line in text.splitlines() if word in line]

    # -- what is said of it -------------------------------------------------------------------------

    def check(self, told: dict[str, Any]) -> None:
        """Against the status that a server, or the door itself, tells."""
        assert not self.removed, f"{self.id} is back"
        self.check_state(told["status"], told.get("cause"), told.get("exit_code"))
        if told["status"] == "running":
            assert self.first_seen_end is None, f"{self.id} had ended: {self.first_seen_end}; now {told}"
        else:
            self._check_end(told)
        assert told["output_bytes"] >= self.seen_bytes, "output has vanished"
        self.seen_bytes = told["output_bytes"]
        assert self.seen_bytes <= self.size, "more output than was printed"
        if self.ends:
            assert self.seen_bytes == self.size, f"{self.size - self.seen_bytes} bytes are missing at its end"
        if self.runs or self.is_lost or (self.ends and self.shim):
            assert told["descendants"] == self.alive, f"{self.id} has {self.alive} processes: {told}"

    def check_state(self, status: str, cause: str | None, exit_code: int | None) -> None:
        if status == "running":
            assert not self.ends, f"{self.id} has ended as {self.ends} and is said to run"
            return
        if self.doomed:
            self.end(TIMED_OUT)
        assert self.ends, f"{self.id} runs and is said to be {status} ({cause}, {exit_code})"
        assert (cause, exit_code) in {end[:2] for end in self.ends}

    def _check_end(self, told: dict[str, Any]) -> None:
        end = {field: told.get(field) for field in END_FIELDS}
        assert (end["cause"], end["exit_code"], end["signal"]) in self.ends, f"{end}, not {self.ends}"
        self.first_seen_end = self.first_seen_end or end
        assert end == self.first_seen_end, "an end has changed"


# -- the process table --------------------------------------------------------------------------------


def carriers(entry: str) -> list[int]:
    """Live processes that have this in their environment."""
    mark = entry.encode()
    pids = map(int, filter(str.isdigit, os.listdir("/proc")))  # noqa: PTH208  # as bgjob does it
    return [pid for pid in pids if processes._carries(pid, mark)]


def name_of(pid: int) -> str:
    return (processes.read_if_there(f"/proc/{pid}/comm") or b"").decode().strip()


def parent_of(pid: int) -> int:
    line = processes.read_if_there(f"/proc/{pid}/stat")
    return int(line.rpartition(b") ")[2].split()[1]) if line else 0


def described(pids: Iterable[int]) -> str:
    """For whoever has to find out what went wrong."""
    return "; ".join(f"{pid} below {parent_of(pid)}: {name_of(pid)}, {processes._state(pid)}" for pid in pids)


def strike(pids: Iterable[int], entry: str) -> None:
    """SIGKILL to each that is alive and carries this, and see it dead."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError), pinned(pid) as pin:
            if processes._carries(pid, entry.encode()):
                signal.pidfd_send_signal(pin, signal.SIGKILL)
                assert select.select([pin], [], [], PATIENCE_S)[0], "SIGKILL does not kill"


@contextlib.contextmanager
def pinned(pid: int) -> Iterator[int]:
    pin = os.pidfd_open(pid)
    try:
        yield pin
    finally:
        os.close(pin)


def open_descriptors(pid: int | str = "self") -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208  # pathlib would hold one itself


def locked_slots(home: Path) -> int:
    """How many jobs hold one."""
    return sum(jobdir.is_locked(str(slot)) for slot in home.glob("slots/[0-9]*"))
