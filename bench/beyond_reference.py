"""What the reference cannot do, against what the kernel or the machine takes: a wait, a screen."""

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.against_reference import open_when_read
from bench.client import BenchError, Server
from bench.lab import OURS, Lab, execute, take_turns, wait_until_ended
from bench.report import Result, Row, ours_at_most

SCREEN_BYTES = {"1 MB": 1_000_000, "100 MB": 100_000_000}


def wait_for_job(lab: Lab) -> Result:
    """a job's release until wait_for_job has answered, against a raw wait on a pidfd"""
    if not lab.side(OURS):
        return Result([], ["wait_for_job: ours is not part of this run."])
    with lab.servers() as servers:
        ours = next(server for server in servers if server.name == OURS)
        raw, waited = take_turns(
            [lambda: _pidfd_ms(ours.home), lambda: _wait_ms(ours)],
            lab.rounds(60, 8),
            _call,
            warm_up=2,
        )
    row = Row("exit to answered wait", "ms", waited, raw, "raw pidfd", ours_at_most(10))
    return Result([row], ["exit to answered wait: the goal is 10 ms over the raw wait."])


def _call(once: Callable[[], float]) -> float:
    return once()


def _pidfd_ms(directory: Path) -> float:
    gate = _gate(directory)
    with subprocess.Popen(["cat", gate]) as child:
        pidfd = os.pidfd_open(child.pid)
        try:
            return _released_ms(gate, lambda: select.select([pidfd], [], []))
        finally:
            os.close(pidfd)


def _wait_ms(server: Server) -> float:
    gate = _gate(server.home)
    job_id = execute(server, f"exec cat {gate}")

    def wait() -> None:
        if not server.call("wait_for_job", job_ids=[job_id], timeout_s=30)["met"]:
            raise BenchError("the wait ended before the job")

    return _released_ms(gate, wait)


def _gate(directory: Path) -> Path:
    gate = directory / f"gate-{time.perf_counter_ns()}"
    os.mkfifo(gate)
    return gate


def _released_ms(gate: Path, wait: Callable[[], object]) -> float:
    """From the moment that the reader of the gate is let go to the end of the wait."""
    held, released = open_when_read(gate), []

    def release() -> None:
        released.append(time.perf_counter())
        os.close(held)

    threading.Timer(0.03, release).start()
    wait()
    return (time.perf_counter() - released[0]) * 1000


def screen(lab: Lab) -> Result:
    """the screen of a job on a terminal that printed 1 MB, and 100 MB"""
    if not lab.side(OURS):
        return Result([], ["screen: ours is not part of this run."])
    with lab.servers(MCP_BG_MAX_OUTPUT_SIZE="200MB") as servers:
        ours = next(server for server in servers if server.name == OURS)
        jobs = {size: _printed_on_a_terminal(ours, number) for size, number in SCREEN_BYTES.items()}
        small, large = take_turns(
            list(jobs.values()), lab.rounds(30, 5), lambda job: _screen_ms(ours, job), warm_up=1
        )
    return Result(
        [Row("screen after 100 MB on a terminal", "ms", large, small, "after 1 MB", ours_at_most(150))], []
    )


def _printed_on_a_terminal(server: Server, size_bytes: int) -> str:
    command = f"yes 'a line of a colourful log' | head -c {size_bytes}"
    job_id = str(server.call("execute_command", command=command, pty=True)["job_id"])
    wait_until_ended(server, job_id, every_s=0.05)
    return job_id


def _screen_ms(server: Server, job_id: str) -> float:
    shown = server.call("tail_job_output", job_id=job_id, view="screen")["screen"]
    if "colourful" not in shown:
        raise BenchError(f"not the screen that was expected: {shown[:80]!r}")
    return server.last_s * 1000
