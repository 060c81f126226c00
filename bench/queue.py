"""The queue: so many `true` through so many slots, ours against task-spooler (`tsp`), in turns in one run.

    python -m bench.queue [JOBS] [SLOTS] [ROUNDS]

Every round has a fresh store; servers are up and have run one job before the clock starts. It stops when the last job
has ended and its exit code can be asked for. Ours is filled by one process through the door, and by one MCP server over
stdio, a call after the other; task-spooler's by its own command, once per job.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.client import Server
from bench.stage import machine_facts
from bgjob.api import open_jobs
from bgjob.home import queue_dir

POLL_S = 0.02
WITHIN_S = 300.0


class Taken(NamedTuple):
    """Seconds until all were submitted, and until all had ended."""

    submitted_s: float
    ended_s: float


Side = Callable[[Path, int, int], Taken]


def through_the_door(root: Path, jobs: int, slots: int) -> Taken:
    with closing(open_jobs(environment(root, slots))) as door:
        return timed(root, jobs, lambda: door.execute("true", queue=True))


def through_mcp(root: Path, jobs: int, slots: int) -> Taken:
    argv = [sys.executable, "-m", "bgjob", "mcp"]
    server = Server("bgjob", argv, environment(root, slots), root)
    try:
        server.initialize()
        return timed(root, jobs, lambda: server.call("execute_command", command="true", queue=True))
    finally:
        server.end()


def environment(root: Path, slots: int) -> dict[str, str]:
    return {
        **os.environ,
        "BGJOB_HOME": str(root / "home"),
        "MCP_BG_MAX_JOBS": str(slots),
        "MCP_BG_KEEP_JOBS": "100000",
    }


def timed(root: Path, jobs: int, submit: Callable[[], object]) -> Taken:
    home = root / "home"
    submit()
    wait_until(lambda: outcomes(home) == 1)
    began = time.perf_counter()
    for _ in range(jobs):
        submit()
    submitted_s = time.perf_counter() - began
    wait_until(lambda: not queue_dir.entries(str(home)) and outcomes(home) == jobs + 1)
    return Taken(submitted_s, time.perf_counter() - began)


def outcomes(home: Path) -> int:
    return sum((job / "outcome.json").exists() for job in (home / "jobs").iterdir())


def task_spooler(root: Path, jobs: int, slots: int) -> Taken:
    settings = {"TS_SOCKET": str(root / "socket"), "TMPDIR": str(root), "TS_MAXFINISHED": str(jobs + 10)}
    run = {"env": {**os.environ, **settings}, "stdout": subprocess.PIPE, "stdin": subprocess.DEVNULL}

    def tsp(*arguments: str) -> bytes:
        return bytes(subprocess.run(["tsp", *arguments], check=True, **run).stdout)  # type: ignore[call-overload]

    tsp("-S", str(slots))
    try:
        tsp("true")
        tsp("-w")
        began = time.perf_counter()
        for _ in range(jobs):
            tsp("true")
        submitted_s = time.perf_counter() - began
        wait_until(lambda: tsp("-l").count(b" finished ") == jobs + 1)
        return Taken(submitted_s, time.perf_counter() - began)
    finally:
        tsp("-K")


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.perf_counter() + WITHIN_S
    while not is_so():
        if time.perf_counter() > deadline:
            raise SystemExit(f"not done within {WITHIN_S:.0f} s")
        time.sleep(POLL_S)


SIDES: dict[str, Side] = {
    "bgjob, one process": through_the_door,
    "bgjob, one MCP server": through_mcp,
    "tsp": task_spooler,
}


@contextmanager
def fresh_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bgjob-bench-queue-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def main(jobs: int = 1000, slots: int = 8, rounds: int = 3) -> None:
    sides = {name: side for name, side in SIDES.items() if name != "tsp" or shutil.which("tsp")}
    print(f"{jobs} `true` through {slots} slots, {rounds} rounds in turns; {machine_facts()}\n")
    taken: dict[str, list[Taken]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            with fresh_directory() as root:
                taken[name].append(side(root, jobs, slots))
    print("| side | submitted, s | all ended, s | jobs per s | against tsp, round by round |")
    print("| --- | --- | --- | --- | --- |")
    for name, rows in taken.items():
        submitted, ended = (statistics.median(column) for column in zip(*rows, strict=True))
        ratios = [its.ended_s / ours.ended_s for ours, its in zip(rows, taken.get("tsp", []), strict=False)]
        shown = " … ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
        print(f"| {name} | {submitted:.2f} | {ended:.2f} | {jobs / ended:.0f} | {shown} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
