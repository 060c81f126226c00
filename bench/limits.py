"""What the machine allows: a raw wait, the same command into a file, a screen of little output, memory."""

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import processes
from bench.lab import BenchError, Lab, Server, Side, execute, gate, kill_jobs, open_gate, run, take_turns
from bench.report import Result, Row, ours_at_most, ratio_at_least

GB = 1_000_000_000
WRITERS = {
    "bulk": f"head -c {GB} /dev/zero",
    "lines": f"yes {'x' * 99} | head -c {GB}",
}
KEPT = {"all kept": {"MCP_BG_MAX_OUTPUT_SIZE": str(2 * GB)}, "default limit": {}}
SCREEN_BYTES = [1_000_000, 100_000_000]
IDLE, IDLE_JOBS = "sleep 1000", 100


def wait(lab: Lab) -> Result:
    """a job's release until wait_for_job has answered, against a raw wait on a pidfd"""
    with lab.server(lab.ours) as ours:
        turns = [partial(_pidfd_ms, ours.root), partial(_wait_ms, ours)]
        raw, waited = take_turns(turns, lab.rounds(60, 8), lambda once: once())
    row = Row("exit to answered wait", "ms", waited, raw, "raw pidfd", ours_at_most(10, "ms"))
    return Result([row])


def _pidfd_ms(directory: Path) -> float:
    fifo = gate(directory)
    with subprocess.Popen(["cat", fifo]) as child:
        pidfd = os.pidfd_open(child.pid)
        try:
            return _released_ms(fifo, lambda: select.select([pidfd], [], []))
        finally:
            os.close(pidfd)


def _wait_ms(server: Server) -> float:
    fifo = gate(server.root)
    job_id = execute(server, f"exec cat {fifo}")

    def wait_for_end() -> None:
        if not server.tool("wait_for_job", job_ids=[job_id], timeout_s=30)["met"]:
            raise BenchError("the wait ended before the job")

    return _released_ms(fifo, wait_for_end)


def _released_ms(fifo: Path, wait_for_end: Callable[[], object]) -> float:
    """From the moment that the reader of the FIFO is let go to the end of the wait."""
    held, released = open_gate(fifo), []

    def release() -> None:
        released.append(time.perf_counter())
        os.close(held)

    threading.Timer(0.03, release).start()
    wait_for_end()
    return (time.perf_counter() - released[0]) * 1000


def screen(lab: Lab) -> Result:
    """the screen of a job on a terminal that printed 1 MB, and 100 MB"""
    with lab.server(lab.ours, MCP_BG_MAX_OUTPUT_SIZE="200MB") as ours:
        line = "yes 'a line of a colourful log' | head -c"
        jobs = [run(ours, f"{line} {number}", every_s=0.05, pty=True) for number in SCREEN_BYTES]
        small, large = take_turns(jobs, lab.rounds(30, 5), partial(_screen_ms, ours), warm_up=1)
    title, goal = "screen after 100 MB on a terminal", ours_at_most(150, "ms")
    return Result([Row(title, "ms", large, small, "after 1 MB", goal)])


def _screen_ms(server: Server, job_id: str) -> float:
    shown = server.tool("tail_job_output", job_id=job_id, view="screen")["screen"]
    if "colourful" not in shown:
        raise BenchError(f"not the screen that was expected: {shown[:80]!r}")
    return server.last_ms


def output(lab: Lab) -> Result:
    """1 GB through one of our jobs against the same command > file"""
    rows = []
    for kind, command in WRITERS.items():
        turns = [partial(_into_file_s, lab, command)]
        turns += [partial(_through_job_s, lab, command, settings) for settings in KEPT.values()]
        into_file, *through_job = take_turns(
            turns, lab.rounds(5, 2), lambda once: GB / 1e6 / once(), warm_up=1
        )
        for kept, samples in zip(KEPT, through_job, strict=True):
            title = f"1 GB of {kind}, {kept}"
            rows.append(Row(title, "MB/s", samples, into_file, "`> file`", ratio_at_least(0.7)))
    return Result(rows, ["MB/s: the p95 columns give the slow end (p5)."])


def _into_file_s(lab: Lab, command: str) -> float:
    file = lab.new_home() / "output"
    began = time.perf_counter()
    subprocess.run(["/bin/sh", "-c", f"{command} > {file}"], check=True)
    took_s = time.perf_counter() - began
    # before the next one begins: its dirty pages would be written back during it
    file.unlink()
    return took_s


def _through_job_s(lab: Lab, command: str, settings: dict[str, str]) -> float:
    with lab.server(lab.ours, **settings) as server:
        processes.settle()
        began = time.perf_counter()
        job_id = run(server, command, every_s=0.025)
        took_s = time.perf_counter() - began
        size_bytes = server.tool("get_job_status", job_id=job_id)["output_bytes"]
    if size_bytes != GB:
        raise BenchError(f"of {GB} bytes get_job_status counts {size_bytes}")
    return took_s


def memory(lab: Lab) -> Result:
    """PSS per idle job at 100 jobs, beside the jobs themselves"""
    measured = [memory_beside_jobs(lab, side) for side in lab.sides]
    helpers = [f"{side.name} {number}" for side, (_, number) in zip(lab.sides, measured, strict=True)]
    samples = [[mb] for mb, _ in measured]
    row = lab.row(f"memory per idle job at {IDLE_JOBS}", samples, ours_at_most(2, "MB"), unit="MB")
    what = f"memory: PSS of all processes but `{IDLE}`, less the server's before its first job, per job."
    return Result([row], [what, f"memory: processes beside server and jobs: {', '.join(helpers)}."])


def memory_beside_jobs(lab: Lab, side: Side, jobs: int = IDLE_JOBS) -> tuple[float, int]:
    """Megabytes per job, and how many processes stand beside the server and the jobs."""
    server = lab.start(side)
    try:
        server.initialize()
        server.tools()
        processes.settle()
        before_mb = processes.memory_mb(server.pid, "Pss")
        for _ in range(jobs):
            execute(server, IDLE)
        processes.settle()
        beside = [one for one in processes.descendants() if one.alive and not _is_idle_job(one)]
        after_mb = sum(processes.memory_mb(one.pid, "Pss") for one in beside)
        kill_jobs(server)
        return (after_mb - before_mb) / jobs, len(beside) - 1
    finally:
        server.end()
        processes.end_all()


def _is_idle_job(process: processes.Process) -> bool:
    """The shell of the job, or what it has become."""
    argv = process.argv()
    return argv == IDLE.split() or argv[-1:] == [IDLE]
