"""What the machine could do at best: output against the same command into a file, memory beside idle jobs."""

import shutil
import subprocess
import time
from functools import partial

from bench import processes
from bench.client import BenchError, Server
from bench.lab import (
    OURS,
    REFERENCE,
    Lab,
    Side,
    execute,
    run,
    take_turns,
    wait_until_ended,
)
from bench.report import Result, Row, ours_at_most, ratio_at_least

GB = 1_000_000_000
IDLE_JOBS = 100
IDLE = "sleep 1000"
WRITERS = {
    "bulk": f"head -c {GB} /dev/zero",
    "lines": f"yes {'x' * 99} | head -c {GB}",
}
KEEP_ALL = {"MCP_BG_MAX_OUTPUT_SIZE": str(2 * GB)}
KEEP_DEFAULT: dict[str, str] = {}


def output(lab: Lab) -> Result:
    """1 GB through one of our jobs against the same command > file"""
    ours = lab.side(OURS)
    if not ours:
        return Result([], ["output: ours is not part of this run."])
    rows = []
    for kind, command in WRITERS.items():
        limit, all_kept, default = take_turns(
            [None, KEEP_ALL, KEEP_DEFAULT],
            lab.rounds(5, 2),
            partial(_megabytes_per_s, lab, ours, command),
            warm_up=1,
        )
        for kept, samples in [("all kept", all_kept), ("default limit", default)]:
            rows.append(
                Row(f"1 GB of {kind}, {kept}", "MB/s", samples, limit, "`> file`", ratio_at_least(0.7))
            )
    return Result(rows, ["MB/s: the p95 columns give the slow end (p5)."])


def _megabytes_per_s(lab: Lab, ours: Side, command: str, settings: dict[str, str] | None) -> float:
    took_s = _into_file_s(lab, command) if settings is None else _through_job_s(lab, ours, command, settings)
    return GB / 1e6 / took_s


def _into_file_s(lab: Lab, command: str) -> float:
    file = lab.new_home() / "output"
    began = time.perf_counter()
    subprocess.run(["/bin/sh", "-c", f"{command} > {file}"], check=True)
    took_s = time.perf_counter() - began
    # before the next one begins: its dirty pages would be written back during it
    file.unlink()
    return took_s


def _through_job_s(lab: Lab, side: Side, command: str, settings: dict[str, str]) -> float:
    server = lab.start(side, **settings)
    try:
        server.initialize()
        run(server, "true")
        processes.settle()
        began = time.perf_counter()
        job_id = execute(server, command)
        word = wait_until_ended(server, job_id, every_s=0.025)
        took_s = time.perf_counter() - began
        _check_output(server, job_id, word)
        return took_s
    finally:
        server.end()
        processes.end_all()
        shutil.rmtree(server.home)


def _check_output(server: Server, job_id: str, word: str) -> None:
    if word != "completed":
        raise BenchError(f"{server.name}: the job that prints 1 GB ended as {word}")
    size_bytes = server.call("get_job_status", job_id=job_id).get("output_bytes", GB)
    if size_bytes != GB:
        raise BenchError(f"{server.name}: of {GB} bytes it counts {size_bytes}")


def memory(lab: Lab) -> Result:
    """PSS per idle job at 100 jobs, beside the jobs themselves"""
    measured = {side.name: _memory_beside_jobs(lab, side) for side in lab.sides}
    mb = {name: [per_job] for name, (per_job, _) in measured.items()}
    helpers = ", ".join(f"{name} {number}" for name, (_, number) in measured.items())
    row = Row(
        f"memory per idle job at {IDLE_JOBS}", "MB", mb.get(OURS), mb.get(REFERENCE), goal=ours_at_most(2)
    )
    what = f"memory: PSS of all processes but `{IDLE}`, less the server's before its first job, per job."
    return Result([row], [what, f"memory: processes beside server and jobs: {helpers}."])


def _memory_beside_jobs(lab: Lab, side: Side) -> tuple[float, int]:
    """Megabytes per job, and how many processes stand beside the server and the jobs."""
    server = lab.start(side)
    try:
        server.initialize()
        server.request("tools/list", {})
        processes.settle()
        before = next(one.pss_bytes() for one in processes.descendants() if one.pid == server.pid)
        for _ in range(IDLE_JOBS):
            execute(server, IDLE)
        processes.settle()
        beside = [one for one in processes.descendants() if one.alive and not _is_job(one)]
        after = sum(one.pss_bytes() for one in beside)
        return (after - before) / 1e6 / IDLE_JOBS, len(beside) - 1
    finally:
        server.end()
        processes.end_all()


def _is_job(process: processes.Process) -> bool:
    argv = process.argv()
    return argv == IDLE.split() or argv[-1:] == [IDLE]
