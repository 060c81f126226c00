"""What the machine allows: a raw wait, the same command into a file, a screen of little output, memory."""

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import environments, processes
from bench.lab import (
    BenchError,
    Lab,
    Server,
    Side,
    column,
    execute,
    gate,
    kill_jobs,
    open_gate,
    run,
    take_turns,
    wait_until_ended,
)
from bench.report import Result, Row, ours_at_most, ratio_at_least, ratio_at_most

MB = 1_000_000
WRITERS = {
    "bulk": ("head /dev/zero -c", ratio_at_least(0.7)),
    "lines": (f"yes {'x' * 99} | head -c", ratio_at_least(0.8)),
}
KEPT = {"all kept": {"MCP_BG_MAX_OUTPUT_SIZE": str(2000 * MB)}, "default limit": {}}
SCREEN_BYTES = [1_000_000, 100_000_000]
IDLE, IDLE_JOBS = "sleep 1000", 100
KEEPERS = ("bgjob-guard", "bgjob-shim")


def wait(lab: Lab) -> Result:
    """a job's release until get_job_status says so, and until wait_for_job has answered"""
    rounds = lab.rounds(60, 8)
    with lab.servers() as servers:
        visible = take_turns(servers, rounds, _visible_ms)
        turns = [partial(_pidfd_ms, servers[-1].root), partial(_wait_ms, servers[-1])]
        raw, waited = take_turns(turns, rounds, lambda once: once())
    rows = [
        lab.row("exit to visible", visible, ratio_at_most(1)),
        Row("exit to answered wait", "ms", waited, raw, "raw pidfd"),
    ]
    note = "exit to visible: get_job_status is asked without a pause until it says `completed`."
    return Result(rows, [note])


def _visible_ms(server: Server) -> float:
    fifo = gate(server.root)
    job_id = execute(server, f"cat {fifo}")
    return _released_ms(fifo, lambda: wait_until_ended(server, job_id, every_s=0))


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
    rows, megabytes = [], lab.rounds(1000, 200)
    for kind, (writer, goal) in WRITERS.items():
        size_bytes = megabytes * MB
        command = f"{writer} {size_bytes}"
        turns = [partial(_into_file_s, lab, command)]
        turns += [partial(_through_job_s, lab, command, size_bytes, settings) for settings in KEPT.values()]
        into_file, *through_job = take_turns(
            turns, lab.rounds(5, 2), lambda once: megabytes / once(), warm_up=1
        )
        for kept, samples in zip(KEPT, through_job, strict=True):
            title = f"{megabytes} MB of {kind}, {kept}"
            rows.append(Row(title, "MB/s", samples, into_file, "`> file`", goal))
    return Result(rows, ["MB/s: the p95 columns give the slow end (p5)."])


def _into_file_s(lab: Lab, command: str) -> float:
    file = lab.new_home() / "output"
    began = time.perf_counter()
    subprocess.run(["/bin/sh", "-c", f"{command} > {file}"], check=True)
    took_s = time.perf_counter() - began
    # before the next one begins: its dirty pages would be written back during it
    file.unlink()
    return took_s


def _through_job_s(lab: Lab, command: str, expected_bytes: int, settings: dict[str, str]) -> float:
    with lab.server(lab.ours, **settings) as server:
        processes.settle()
        began = time.perf_counter()
        job_id = run(server, command, every_s=0.025)
        took_s = time.perf_counter() - began
        size_bytes = server.tool("get_job_status", job_id=job_id)["output_bytes"]
    if size_bytes != expected_bytes:
        raise BenchError(f"of {expected_bytes} bytes get_job_status counts {size_bytes}")
    return took_s


def idle(lab: Lab) -> Result:
    """PSS per idle job at 100 jobs: of all but the job itself, and of guard and shim on each Python"""
    jobs, sides = lab.rounds(IDLE_JOBS, 5), [*lab.sides, *lab.others]
    samples = take_turns(sides, lab.rounds(3, 1), lambda side: _memory_beside(lab, side, jobs), warm_up=0)
    both, ours = samples[: len(lab.sides)], samples[len(lab.sides) - 1 :]
    rows = [lab.row(f"PSS per idle job at {jobs}", column(0, both), unit="MB")]
    for side, guard_and_shim in zip([lab.ours, *lab.others], column(1, ours), strict=True):
        title = f"guard and shim of {jobs} idle jobs, PSS each, Python {environments.version_of(side)}"
        # with few jobs more of it is not shared
        goal = ours_at_most(1.9, "MB") if jobs == IDLE_JOBS else None
        rows.append(Row(title, "MB", guard_and_shim, [], "", goal))
    what = f"idle: PSS of all processes but `{IDLE}`, less the server's before its first job, per job."
    return Result(rows, [what])


def _memory_beside(lab: Lab, side: Side, jobs: int) -> tuple[float, float]:
    """Megabytes per idle job: of all but the job itself, and of guard and shim."""
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
        pss_mb = {one: processes.memory_mb(one.pid, "Pss") for one in beside}
        keepers_mb = sum(mb for one, mb in pss_mb.items() if one.name in KEEPERS)
        kill_jobs(server)
        return (sum(pss_mb.values()) - before_mb) / jobs, keepers_mb / jobs
    finally:
        server.end()
        processes.end_all()


def _is_idle_job(process: processes.Process) -> bool:
    """The shell of the job, or what it has become."""
    argv = process.argv()
    return argv == IDLE.split() or argv[-1:] == [IDLE]
