"""Where measuring happens: servers of both sides side by side, rounds that take turns, jobs waited for."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeVar

from bench import processes
from bench.client import BenchError, Server
from bench.report import Samples

OURS, REFERENCE = "ours", "reference"
JOB_ENDS_WITHIN_S = 120.0
PASSED_ON = ["PATH", "LANG", "LC_ALL", "TZ"]

Turn = TypeVar("Turn")


@dataclass(frozen=True)
class Side:
    name: str
    argv: Sequence[str]
    list_all: Mapping[str, int] = field(default_factory=dict)
    """Arguments with which list_jobs gives 1,000 jobs in one answer."""


class Lab:
    def __init__(self, root: Path, sides: Sequence[Side], *, quick: bool) -> None:
        self.root, self.sides, self._quick = root, sides, quick
        self._homes = count()

    def rounds(self, full: int, quick: int = 3) -> int:
        return quick if self._quick else full

    def side(self, name: str) -> Side | None:
        return next((side for side in self.sides if side.name == name), None)

    def new_home(self) -> Path:
        home = self.root / f"home-{next(self._homes)}"
        home.mkdir()
        return home

    def start(self, side: Side, **settings: str) -> Server:
        """A server just spawned, not yet spoken to."""
        home = self.new_home()
        inherited = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        private = {"HOME": str(home), "BGJOB_HOME": str(home / "jobs"), "MCP_BG_MAX_JOBS": "100"}
        # the reference's framework asks PyPI for a newer version at start: that would measure the network
        quiet = {"FASTMCP_CHECK_FOR_UPDATES": "off"}
        return Server(side.name, side.argv, {**inherited, **private, **quiet, **settings}, home)

    @contextmanager
    def servers(self, **settings: str) -> Iterator[list[Server]]:
        """One initialized server per side; afterwards nothing of them is left, jobs included."""
        started: list[Server] = []
        try:
            for side in self.sides:
                started.append(self.start(side, **settings))
                started[-1].initialize()
                _warm_up(started[-1])
            yield started
        finally:
            for server in started:
                server.end()
            processes.end_all()


def take_turns(
    who: Sequence[Turn], rounds: int, once: Callable[[Turn], float], *, warm_up: int = 2
) -> list[Samples]:
    """The samples of each, in the order of `who`. Who begins changes with every round."""
    samples: list[Samples] = [[] for _ in who]
    for number in range(-warm_up, rounds):
        order = range(len(who)) if number % 2 else reversed(range(len(who)))
        for index in order:
            sample = once(who[index])
            if number >= 0:
                samples[index].append(sample)
    return samples


def by_name(servers: Sequence[Server], samples: Sequence[Samples]) -> dict[str, Samples]:
    return {server.name: its for server, its in zip(servers, samples, strict=True)}


def execute(server: Server, command: str) -> str:
    job_id: str = server.call("execute_command", command=command)["job_id"]
    return job_id


def status(server: Server, job_id: str) -> str:
    word: str = server.call("get_job_status", job_id=job_id)["status"]
    return word


def wait_until_ended(server: Server, job_id: str, *, every_s: float = 0.002) -> str:
    """Its last status. Looks gently: a tight poll would take CPU from the job."""
    deadline = time.monotonic() + JOB_ENDS_WITHIN_S
    while (word := status(server, job_id)) == "running":
        if time.monotonic() > deadline:
            raise BenchError(f"{server.name}: job {job_id} still runs after {JOB_ENDS_WITHIN_S:.0f} s")
        time.sleep(every_s)
    return word


def wait_until_printed(server: Server, job_id: str, text: str) -> None:
    deadline = time.monotonic() + JOB_ENDS_WITHIN_S
    while text not in server.call("tail_job_output", job_id=job_id, lines=1)["stdout"]:
        if time.monotonic() > deadline:
            raise BenchError(f"{server.name}: job {job_id} did not print {text!r}")
        time.sleep(0.002)


def run(server: Server, command: str, *, look_every_s: float = 0.002) -> str:
    """The id of a job that has succeeded."""
    job_id = execute(server, command)
    if (word := wait_until_ended(server, job_id, every_s=look_every_s)) != "completed":
        raise BenchError(f"{server.name}: {command!r} ended as {word}")
    return job_id


def _warm_up(server: Server) -> None:
    """The first job pays for what is made lazily; cold_start is the measure of that."""
    for _ in range(3):
        run(server, "true")
