"""Tools of the trade: the queue against task-spooler, the search against grep."""

import os
import shutil
import subprocess
import time
from functools import partial
from pathlib import Path

from bench.lab import BenchError, Lab, Server, execute, run, take_turns, wait_until
from bench.report import Result, Row, ratio_at_least

SLOTS = 8
IN_MEMORY = ("tmpfs", "ramfs")
LEVELS = ["ERROR", *["INFO"] * 9]
BLOCK = "".join(
    f"2026-01-01T12:00:0{number} {level} worker-{number} handled request 12345{number} in 4{number} ms\\n"
    for number, level in enumerate(LEVELS)
)
SEARCHES = [
    ("rare literal", "needle", True, ["-F", "needle"]),
    ("rare regex", r"ne+dle \d+$", False, ["-E", "ne+dle [0-9]+$"]),
    ("literal, 1 line in 10", "ERROR", True, ["-F", "ERROR"]),
    ("regex, 1 line in 10", r"ERROR.* in \d+ ms", False, ["-E", "ERROR.* in [0-9]+ ms"]),
    ("literal, every line", "request", True, ["-F", "request"]),
    ("regex, every line", r"request \d+", False, ["-E", "request [0-9]+"]),
]


def queue(lab: Lab) -> Result:
    """1,000 `true` through 8 slots until the last exit code is there, on a disk, against task-spooler"""
    if not shutil.which("tsp"):
        return Result(notes=["queue: not measured, `tsp` is not installed (Debian: task-spooler)."])
    if (file_system := _file_system(lab.root)) in IN_MEMORY:
        raise BenchError(f"{lab.root} is in memory ({file_system}): let TMPDIR name a directory on a disk")
    jobs = lab.rounds(1000, 50)
    turns = [partial(_through_tsp_s, lab, jobs), partial(_through_queue_s, lab, jobs)]
    its, ours = take_turns(turns, lab.rounds(3, 1), lambda once: jobs / once(), warm_up=0)
    title = f"{jobs} `true` through {SLOTS} slots, on {file_system}"
    return Result([Row(title, "jobs/s", ours, its, "task-spooler", ratio_at_least(0.5))])


def _file_system(path: Path) -> str:
    """The name of its type, such as ext2/ext3 or tmpfs."""
    return subprocess.check_output(["stat", "--file-system", "--format=%T", path], text=True).strip()


def _through_queue_s(lab: Lab, jobs: int) -> float:
    with lab.server(lab.ours, MCP_BG_MAX_JOBS=str(SLOTS), MCP_BG_KEEP_JOBS="100000") as server:
        began = time.perf_counter()
        for job_id in [execute(server, "true", queue=True) for _ in range(jobs)]:
            outcome = server.home / "jobs" / job_id / "outcome.json"
            wait_until(outcome.exists, f"job {job_id} of the queue has ended", every_s=0.01)
        return time.perf_counter() - began


def _through_tsp_s(lab: Lab, jobs: int) -> float:
    home = lab.new_home()
    settings = {"TS_SOCKET": f"{home}/socket", "TMPDIR": str(home), "TS_MAXFINISHED": str(jobs + 10)}
    environment = {**os.environ, **settings}

    def tsp(*arguments: str) -> str:
        return subprocess.check_output(
            ["tsp", *arguments], env=environment, stdin=subprocess.DEVNULL, text=True
        )

    tsp("-S", str(SLOTS))
    try:
        began = time.perf_counter()
        for _ in range(jobs):
            tsp("true")
        wait_until(lambda: tsp("-l").count(" finished ") == jobs, "task-spooler is done", every_s=0.02)
        return time.perf_counter() - began
    finally:
        tsp("-K")


def search(lab: Lab) -> Result:
    """search_job_output of 1 GB with exact counts, against `grep -c` on the same files"""
    size_mb = lab.rounds(1000, 50)
    with lab.server(lab.ours, MCP_BG_MAX_OUTPUT_SIZE="4GB") as server:
        command = f"yes \"$(printf '{BLOCK}')\" | head -c {size_mb}000000; echo; echo a needle 42"
        job_id = run(server, command, every_s=0.05)
        files = sorted((server.home / "jobs" / job_id / "log").glob("*[0-9]"))
        rows = []
        for title, pattern, literal, grep in SEARCHES:
            turns = [partial(_grep_ms, grep, files), partial(_search_ms, server, job_id, pattern, literal)]
            its, ours = take_turns(turns, lab.rounds(3, 1), lambda once: once(), warm_up=1)
            rows.append(Row(f"search of {size_mb} MB, {title}", "ms", ours, its, "`grep -c`"))
    return Result(rows, ["search: every match is counted; the newest 20 lines come with it, by MCP."])


def _search_ms(server: Server, job_id: str, pattern: str, literal: bool) -> float:
    found = server.tool("search_job_output", pattern=pattern, literal=literal, job_ids=[job_id], limit=20)
    if not found["complete"]:
        raise BenchError(f"the search for {pattern!r} did not count all")
    return server.last_ms


def _grep_ms(arguments: list[str], files: list[Path]) -> float:
    began = time.perf_counter()
    # into a pipe: with /dev/null as its output it stops at the first match
    subprocess.run(["grep", "-a", "-c", *arguments, *files], check=False, stdout=subprocess.PIPE)
    return (time.perf_counter() - began) * 1000
