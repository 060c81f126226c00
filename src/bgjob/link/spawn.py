"""Hands a new job to a shim: forked from a zygote in a millisecond or two, or a fresh interpreter in tens.

The zygote belongs to this process, holds nothing and may die at any time: the next start makes another
zygote.
"""

import contextlib
import json
import marshal
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bgjob.core.frozen import Frozen
from bgjob.home.jobdir import write_all
from bgjob.link import hold
from bgjob.system import detached, open_files
from bgjob.system.own_argv import SHIM
from bgjob.system.readiness import is_readable

if TYPE_CHECKING:
    import subprocess

PATIENCE_S = 10.0


class Handover(Frozen):
    """What a shim is given. `lock` and `slots` are shared with us until we close our descriptors."""

    directory: str
    lock: int
    slots: Sequence[int]
    spec: Mapping[str, Any]
    environment: Mapping[str, str]
    """The job's own."""
    inherited: Mapping[str, str]
    """The environment of supervisors. The job can read it in /proc, so it lacks the variables hidden from jobs."""


Launch = Callable[[Handover, list[int]], bool]
"""Passes the directory of a job and its descriptors to a shim. False: there is no shim to take them."""


class Start:
    """A shim has taken the job, and will report on this end of a socket how the start went."""

    def __init__(self, ready: int) -> None:
        self._ready, self._heard = ready, b""
        self._mutex = threading.Lock()
        self._answer: dict[str, Any] | None = None

    def is_owned(self) -> bool:
        """Waits until the job is shim's and guard's, whoever is killed now. False: its report is here instead."""
        if is_readable(self._ready, PATIENCE_S):
            self._heard = os.read(self._ready, 1)
        return self._heard == b"+"

    def has_reported(self) -> bool:
        return self._answer is not None or is_readable(self._ready, 0)

    def finish(self) -> dict[str, Any]:
        """Waits until the child is exec'd: the record of the run, or {"error": …, "errno": …}.

        Empty if shim and guard have died, took the job in the moment in which we gave up, or do not report in
        time (a job can stop both): what they have done is on disk, or not known.
        """
        with self._mutex:
            if self._answer is None:
                self._answer = self._report()
        return self._answer

    def _report(self) -> dict[str, Any]:
        try:
            rest = _read_line(self._ready)
        finally:
            os.close(self._ready)
        record: dict[str, Any] = json.loads((self._heard + rest).lstrip(b"+")) if rest else {}
        return record


class Starts:
    """Jobs of ours that shim and guard own, and of which it is not known yet whether they were exec'd."""

    def __init__(self) -> None:
        self._starts: dict[str, Start] = {}

    def add(self, job_id: str, start: Start) -> None:
        for known, earlier in list(self._starts.items()):
            if earlier.has_reported():
                self.finish(known)
        self._starts[job_id] = start

    def finish(self, job_id: str) -> dict[str, Any] | None:
        """How the start went; None if that was known before."""
        start = self._starts.get(job_id)
        if start is None:
            return None
        answer = start.finish()
        self._starts.pop(job_id, None)  # last: another caller may wait for it too
        return answer

    def finish_all(self) -> None:
        for job_id in list(self._starts):
            self.finish(job_id)


class Spawner:
    """Starts shims, from a zygote of its own if one is wanted and the system can fork one."""

    def __init__(self, *, zygote: bool) -> None:
        self._wants_zygote = zygote
        self._requests: socket.socket | None = None
        self._mutex = threading.Lock()

    def close(self) -> None:
        """The zygote ends with its socket; the shims it made go on."""
        if self._requests is not None:
            self._requests.close()
            self._requests = None

    def start(self, handover: Handover) -> Start:
        for launch in self._launches():
            if start := _attempt(handover, launch):
                return start
        raise OSError("no shim could be started")

    def _launches(self) -> Sequence[Launch]:
        """Ways to start a shim, the best first."""
        return self._ask_zygote, _run_fresh

    def _ask_zygote(self, handover: Handover, descriptors: list[int]) -> bool:
        with self._mutex:
            for _ in range(2):  # a zygote that died is replaced once
                requests = self._connected(handover.inherited)
                if requests is None:
                    return False
                try:
                    socket.send_fds(requests, [os.fsencode(handover.directory)], descriptors)
                    return True
                except OSError:
                    requests.close()
                    self._requests = None
        return False

    def _connected(self, inherited: Mapping[str, str]) -> socket.socket | None:
        if self._requests is None and self._wants_zygote:
            try:
                self._requests = _start_zygote(inherited)
            except OSError:
                return None  # no such sockets here: each shim is started fresh
        return self._requests


class SpawnerBelow(Spawner):
    """Its shims stay below us in the process tree, for an engine that looks after that tree alone."""

    def __init__(self) -> None:
        super().__init__(zygote=False)
        self._guards: list[subprocess.Popen[bytes]] = []

    def _launches(self) -> Sequence[Launch]:
        return [self._run_below]

    def _run_below(self, handover: Handover, descriptors: list[int]) -> bool:
        """Whoever has such a child waits for it: it is the guard."""
        words = "below", "fresh", handover.directory, *map(str, descriptors)
        guard = _popen(*words, environment=handover.inherited, pass_fds=descriptors)
        self._guards.append(guard)
        return True


class SpawnerInHold(Spawner):
    """Its zygote is below the process that holds an allocation: see bgjob.link.hold."""

    def __init__(self, path: str) -> None:
        super().__init__(zygote=True)
        self._path = path

    def start(self, handover: Handover) -> Start:
        with hold.starting(self._path):
            return super().start(handover)

    def _launches(self) -> Sequence[Launch]:
        return [self._ask_zygote]

    def _connected(self, inherited: Mapping[str, str]) -> socket.socket | None:
        if self._requests is None:
            self._requests = hold.connected(self._path)
        return self._requests


def _attempt(handover: Handover, launch: Launch) -> Start | None:
    with contextlib.ExitStack() as ours:
        # Not a pipe: only a socket can be shut down, which revokes the offer.
        ready, their_ready = socket.socketpair()
        ours.callback(ready.close)
        with their_ready, contextlib.ExitStack() as theirs:
            launch_file = _launch_file(handover)
            theirs.callback(os.close, launch_file)
            descriptors = [handover.lock, their_ready.fileno(), launch_file, *handover.slots]
            launched = launch(handover, descriptors)
        if not launched or not _is_taken(ready):
            return None
        ours.pop_all()
    return Start(ready.detach())


def _run_fresh(handover: Handover, descriptors: list[int]) -> bool:
    words = "fresh", handover.directory, *map(str, descriptors)
    launcher = _popen(*words, environment=handover.inherited, pass_fds=descriptors)
    return launcher.wait() == 0  # the launcher has forked the shim


def start_dispatcher(home: str, environment: Mapping[str, str]) -> bool:
    """Start the dispatcher of this home's queue; it ends at once if there is one already.

    It gets few of our variables: its shims show theirs to jobs of other starters, which may hide more than we do.
    """
    return _popen("queue", home, environment=detached.kept(environment, detached.BY_HOME)).wait() == 0


def _popen(
    *arguments: str, environment: Mapping[str, str], stdin: int | None = None, pass_fds: Sequence[int] = ()
) -> "subprocess.Popen[bytes]":
    import subprocess  # 3 ms, which a server's start does not need

    return subprocess.Popen(
        [*SHIM, *arguments],
        env={**environment, **open_files.noted_limit()},
        pass_fds=pass_fds,
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def start_zygote_below(requests: int, environment: Mapping[str, str]) -> int:
    """For the process that holds an allocation: serves a starter at the other end of this socket. Its pid."""
    return _popen("below", "zygote", environment=environment, stdin=requests).pid


def _start_zygote(environment: Mapping[str, str]) -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, contextlib.ExitStack() as undo:
        undo.callback(ours.close)
        _popen("zygote", environment=environment, stdin=theirs.fileno()).wait()
        undo.pop_all()
    return ours


def _launch_file(handover: Handover) -> int:
    """What to run, in which environment. In memory if possible: an environment may hold secrets."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("launch", os.MFD_CLOEXEC)
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, fd)
        write_all(fd, packed(handover.spec, handover.environment))
        undo.pop_all()
    return fd


def packed(spec: Mapping[str, Any], environment: Mapping[str, str], *more: int) -> bytes:
    """The content of a launch file."""
    return marshal.dumps((dict(spec), dict(environment), *more))


def _is_taken(ready: socket.socket) -> bool:
    """Either a shim has taken the job in time, or none can take it any more.

    The kernel orders the two: a "+" that was written before the shutdown can be read after it, and a later
    "+" fails, so that its shim leaves the job alone.
    """
    if not is_readable(ready.fileno(), PATIENCE_S):
        ready.shutdown(socket.SHUT_RD)
    return ready.recv(1) == b"+"


def _read_line(fd: int) -> bytes:
    """Empty if no whole line comes in time."""
    data, deadline = b"", time.monotonic() + PATIENCE_S
    while is_readable(fd, deadline - time.monotonic()) and (part := os.read(fd, 1 << 16)):
        data += part
        if b"\n" in data:
            return data[: data.index(b"\n")]
    return b""
