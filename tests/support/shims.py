"""Talks to a real shim as a stranger would: raw bytes on its socket, signals to its pid."""

import contextlib
import json
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bgjob.api import Jobs
from bgjob.core.job import Run
from bgjob.link import control
from bgjob.link.control import ShimConnection
from bgjob.system import processes
from tests.support.process_table import parent_of, wait_until_gone
from tests.support.waiting import PATIENCE_S, wait_until


def directory(jobs: Jobs, job_id: str) -> Path:
    return Path(jobs.directory(job_id))


def run_of(jobs: Jobs, job_id: str) -> Run:
    """A job that another process has started may run for a moment before its record says so."""
    runs: list[Run | None] = []

    def look() -> bool:
        runs.append(jobs.status(job_id).job.run)
        return runs[-1] is not None

    wait_until(look, f"{job_id} has a record of its run")
    assert runs[-1] is not None
    return runs[-1]


def shim_pid(jobs: Jobs, job_id: str) -> int:
    return run_of(jobs, job_id).shim_pid


def guard_pid(jobs: Jobs, job_id: str) -> int:
    """The shim's parent."""
    return parent_of(shim_pid(jobs, job_id))


def kill_both(jobs: Jobs, job_id: str) -> None:
    """Shim and guard, at one instant as far as the rest of the world can tell: neither runs in between."""
    pids = [guard_pid(jobs, job_id), shim_pid(jobs, job_id)]  # a guard continues its shim
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)
    for pid in pids:
        wait_until_gone(pid)


@contextlib.contextmanager
def stopped(jobs: Jobs, job_id: str) -> Iterator[int]:
    """Its shim, while neither it nor its guard runs."""
    shim, guard = shim_pid(jobs, job_id), guard_pid(jobs, job_id)
    for pid in (guard, shim):  # in this order: a guard continues its shim
        os.kill(pid, signal.SIGSTOP)
    try:
        yield shim
    finally:
        for pid in (shim, guard):
            processes.send(pid, signal.SIGCONT)


def settable_signals(mask: str) -> int:
    """Of a mask as /proc shows it: without the two that the C library keeps to itself, and sets in what it spawns."""
    return int(mask, 16) & sum(1 << number - 1 for number in signal.valid_signals())


def ask(jobs: Jobs, job_id: str, payload: bytes = b"", **request: object) -> dict[str, Any]:
    with ShimConnection(jobs.store.control_path(job_id)) as line:
        return line.ask(PATIENCE_S, payload, **request)


class Caller:
    """One connection, byte by byte."""

    def __init__(self, jobs: Jobs, job_id: str) -> None:
        self.socket = control._connect(jobs.store.control_path(job_id))  # however long the path
        self.socket.settimeout(PATIENCE_S)
        self._lines = self.socket.makefile("rb")

    def say(self, data: bytes) -> None:
        self.socket.sendall(data)

    def request(self, **request: object) -> None:
        self.say(json.dumps(request).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        line = self._lines.readline()
        assert line, "it hung up"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def is_hung_up_on(self) -> bool:
        try:
            return self._lines.readline() == b""
        except ConnectionResetError:
            return True

    def has_answer(self) -> bool:
        return bool(select.select([self.socket], [], [], 0)[0])

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


def is_alive_and_well(jobs: Jobs, job_id: str) -> bool:
    return bool(ask(jobs, job_id, op="status")["ok"])
