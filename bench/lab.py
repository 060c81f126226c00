"""Where measuring happens: servers of both sides, rounds that take turns, jobs waited for."""

import errno
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from bench import processes
from bench.report import Goal, Row, Samples
from tests.support.raw_client import RawClient

OURS, REFERENCE = "ours", "reference"
NOT_OVER = ("queued", "running")
JOB_ENDS_WITHIN_S = 120.0
END_WITHIN_S = 3.0

Json = dict[str, Any]
Turn = TypeVar("Turn")
Sample = TypeVar("Sample")


class BenchError(Exception):
    """A measurement could not be made; the message says why."""


class ToolFailed(BenchError):
    """The server answered an error."""


class Server(RawClient):
    """An MCP server on stdio. `last_ms`: from the last request's first byte to its answer's last.

    `last_text_bytes`: what a model reads of that answer.
    """

    def __init__(self, name: str, argv: Sequence[str], home: Path, settings: Mapping[str, str]) -> None:
        self.name, self.root, self.home = name, home, Path(settings["BGJOB_HOME"])
        self.last_ms, self.last_text_bytes = 0.0, 0
        super().__init__(self.home, argv, **{**settings, "HOME": str(home), "TMPDIR": str(home)})

    @property
    def pid(self) -> int:
        return self.process.pid

    def tool(self, tool: str, **arguments: Any) -> Json:
        began = time.perf_counter()
        try:
            result = self.call(tool, arguments)
        except (EOFError, BrokenPipeError) as error:
            raise self.gone() from error
        self.last_ms = (time.perf_counter() - began) * 1000
        self.last_text_bytes = sum(len(part["text"].encode()) for part in result["content"])
        if result.get("isError"):
            raise ToolFailed(f"{self.name}: {tool} answered an error: {result['content'][0]['text']}")
        return dict(result["structuredContent"])

    def initialize(self) -> None:
        try:
            self.shake_hands()
        except (EOFError, BrokenPipeError) as error:
            raise self.gone() from error

    def gone(self) -> BenchError:
        said = self.stderr.strip()[-1000:]
        return BenchError(f"{self.name}: the server ended while we talked to it. Its stderr ends: {said}")

    def end(self) -> None:
        """As a client does: close its stdin, then lose patience. Its jobs go on."""
        with suppress(BrokenPipeError):
            self.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_WITHIN_S)
        self.__exit__()


@dataclass(frozen=True)
class Side:
    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    list_all: Mapping[str, int] = field(default_factory=dict)
    """Arguments with which list_jobs gives 1,000 jobs in one answer."""


@dataclass(frozen=True)
class Lab:
    root: Path
    sides: Sequence[Side]
    """Ours is the last; the other one, if there is one, the first."""
    quick: bool = False
    minutes: float = 10.0
    others: Sequence[Side] = ()
    """Ours on further Pythons."""
    earlier: str = ""
    """A commit to hold ours against."""
    _homes: Iterator[int] = field(default_factory=count)

    @property
    def ours(self) -> Side:
        return self.sides[-1]

    def rounds(self, full: int, quick: int = 3) -> int:
        return quick if self.quick else full

    def new_home(self) -> Path:
        home = self.root / f"home-{next(self._homes)}"
        home.mkdir()
        return home

    def start(self, side: Side, **settings: str) -> Server:
        """A server just spawned, not yet spoken to."""
        home = self.new_home()
        usual = {"BGJOB_HOME": str(home / "jobs"), "MCP_BG_MAX_JOBS": "100"}
        # the reference's framework asks PyPI for a newer version at start: that would measure the network
        quiet = {"FASTMCP_CHECK_FOR_UPDATES": "off"}
        return Server(side.name, side.argv, home, {**usual, **quiet, **side.environment, **settings})

    @contextmanager
    def server(self, side: Side, **settings: str) -> Iterator[Server]:
        """An initialized server that has run a job; afterwards nothing of it is left, its jobs included."""
        server = self.start(side, **settings)
        try:
            server.initialize()
            # the first job pays for what is made lazily; cold_start is the measure of that
            for _ in range(3):
                run(server, "true")
            yield server
            kill_jobs(server)
        finally:
            server.end()
            processes.end_all()
            shutil.rmtree(server.root)

    @contextmanager
    def servers(self, **settings: str) -> Iterator[list[Server]]:
        """One server of each side."""
        with self.server(self.sides[0], **settings) as first:
            if len(self.sides) == 1:
                yield [first]
                return
            with self.server(self.sides[1], **settings) as second:
                yield [first, second]

    def row(
        self, title: str, samples: Sequence[Samples], goal: Goal | None = None, *, unit: str = "ms"
    ) -> Row:
        """The samples of each side, in their order."""
        baseline, against = (samples[0], self.sides[0].name) if len(self.sides) > 1 else ([], "")
        return Row(title, unit, samples[-1], baseline, against, goal if baseline else None)


def take_turns(
    who: Sequence[Turn], rounds: int, once: Callable[[Turn], Sample], *, warm_up: int = 2
) -> list[list[Sample]]:
    """The samples of each, in the order of `who`. Who begins changes with every round."""
    samples: list[list[Sample]] = [[] for _ in who]
    for number in range(-warm_up, rounds):
        for index in range(len(who)) if number % 2 else reversed(range(len(who))):
            sample = once(who[index])
            if number >= 0:
                samples[index].append(sample)
    return samples


def column(number: int, samples: Sequence[Sequence[tuple[float, ...]]]) -> list[Samples]:
    """Of samples that are several figures each, one."""
    return [[sample[number] for sample in its] for its in samples]


def execute(server: Server, command: str, **options: Any) -> str:
    return str(server.tool("execute_command", command=command, **options)["job_id"])


def wait_until_ended(server: Server, job_id: str, *, every_s: float = 0.002) -> str:
    """Its last status. Asks with pauses: a tight poll would take CPU from the job."""
    word = ""

    def ended() -> bool:
        nonlocal word
        word = str(server.tool("get_job_status", job_id=job_id)["status"])
        return word not in NOT_OVER

    wait_until(ended, f"{server.name}: job {job_id} has ended", every_s=every_s)
    return word


def run(server: Server, command: str, *, every_s: float = 0.002, **options: Any) -> str:
    """The id of a job that has succeeded."""
    job_id = execute(server, command, **options)
    if (word := wait_until_ended(server, job_id, every_s=every_s)) != "completed":
        raise BenchError(f"{server.name}: {command!r} ended as {word}")
    return job_id


def kill_jobs(server: Server) -> None:
    """All that run: end_all would leave their control groups behind."""
    while server.process.poll() is None and (running := _running_jobs(server)):
        for job_id in running:
            server.tool("kill_job", job_id=job_id)
    processes.settle()


def _running_jobs(server: Server) -> list[str]:
    """Page by page, as ours answers; the reference's tool has neither pages nor a filter."""
    found, cursor = list[str](), dict[str, str]()
    while True:
        page = server.tool("list_jobs", **cursor)
        found += [job["job_id"] for job in page["jobs"] if job["status"] in NOT_OVER]
        if "next_cursor" not in page:
            return found
        cursor = {"cursor": page["next_cursor"]}


def wait_until(
    holds: Callable[[], bool], what: str, *, within_s: float = JOB_ENDS_WITHIN_S, every_s: float = 0.002
) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            raise BenchError(f"not so within {within_s:.0f} s: {what}")
        time.sleep(every_s)


def gate(directory: Path) -> Path:
    """A FIFO: a job that reads it goes on when we let go of the end that `open_gate` gives."""
    path = directory / f"gate-{time.perf_counter_ns()}"
    os.mkfifo(path)
    return path


def open_gate(path: Path) -> int:
    """Our end, once the job has opened the other."""
    opened = -1

    def has_reader() -> bool:
        nonlocal opened
        try:
            opened = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        return opened >= 0

    wait_until(has_reader, f"a job reads {path.name}", every_s=0.001)
    return opened
