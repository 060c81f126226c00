"""What watches cost the job: 1 GB of lines, all kept, with 10 watches and with none, in turns.

    python -m bench.watches [MEGABYTES [ROUNDS]]

Each row: the median time of the job, from its start to its end as its own record has it, and how far behind the watcher
was when the job ended, in bytes and in seconds until it had read all.
"""

import argparse
import contextlib
import json
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

from bgjob.api import Jobs, open_jobs
from bgjob.core.job import Ended
from bgjob.home import watch_registry

MEGABYTE = 1_000_000
LINE = "2026-01-01T12:00:00 INFO worker-3 handled request 123456 in 42 ms for GET /items/and/some/more"
NONE = [f"never {number} (here|there)" for number in range(10)]
FEW = [*NONE[:9], "^needle"]
EVERY = [*NONE[:9], "request [0-9]+"]
CASES = {
    "no watches": [],
    "10 watches, nothing matches": NONE,
    "10 watches, one line matches": FEW,
    "10 watches, every line matches one": EVERY,
}


def main(megabytes: int, rounds: int) -> None:
    command = f"yes '{LINE}' | head -c {megabytes * MEGABYTE}; echo; echo needle"
    took: dict[str, list[tuple[float, float, float]]] = {case: [] for case in CASES}
    for number in range(rounds + 1):
        for case in random.Random(number).sample(
            list(CASES), len(CASES)
        ):  # none is always the first, or the last
            figures = one(command, CASES[case])
            if number:  # the first is to warm up
                took[case].append(figures)
    base = [figures[0] for figures in took["no watches"]]
    print(f"{megabytes} MB of lines, {rounds} rounds in turns, {os.cpu_count()} CPUs\n")
    print(
        "| watches | job s | lowest … highest | ratio of medians | by round | behind at its end | read after s |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for case, figures in took.items():
        jobs = [figure[0] for figure in figures]
        ratios = sorted(mine / its for mine, its in zip(jobs, base, strict=True))
        behind, after_s = (statistics.median(figure[place] for figure in figures) for place in (1, 2))
        print(
            f"| {case} | {statistics.median(jobs):.2f} | {min(jobs):.2f} … {max(jobs):.2f} "
            f"| {statistics.median(jobs) / statistics.median(base):.2f} | {ratios[0]:.2f} … {ratios[-1]:.2f} "
            f"| {behind / MEGABYTE:.0f} MB | {after_s:.1f} |"
        )


def one(command: str, watch: list[str]) -> tuple[float, float, float]:
    """(seconds of the job, bytes that the watcher had not read at its end, seconds until it had)"""
    with tempfile.TemporaryDirectory(prefix="bgjob-bench-watches-") as directory:
        settings = {"BGJOB_HOME": f"{directory}/home", "MCP_BG_MAX_OUTPUT_SIZE": "4GB"}
        environ = {name: value for name, value in os.environ.items() if not name.startswith("MCP_BG_")}
        with contextlib.closing(open_jobs(environ | settings)) as jobs:
            if watch:
                warm_up(jobs)
            job = jobs.execute(command, watch=watch)
            for _ in iter(lambda: isinstance(jobs.look(job.id).job.state, Ended), True):
                time.sleep(0.01)
            state, ended = jobs.look(job.id).job.state, time.monotonic()
            assert isinstance(state, Ended)
            behind = state.output_bytes - seen(jobs, job.id) if watch else 0
            while job.id in watch_registry.registered(jobs.home):
                time.sleep(0.01)
            check(jobs, job.id, watch)
            for _, other in jobs.store.jobs():
                jobs.kill(other.id, grace_s=0)
            return state.duration_s, behind, time.monotonic() - ended if watch else 0.0


def warm_up(jobs: Jobs) -> None:
    """The watcher's start is no part of what is measured."""
    jobs.execute("echo warm; exec sleep 1000", watch=["warm"])
    assert jobs.events("0.0", kinds=["matched"], timeout_s=30).events


def seen(jobs: Jobs, job_id: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        return int(json.loads(Path(jobs.directory(job_id), "watch.json").read_text())["stdout"])
    return 0


def check(jobs: Jobs, job_id: str, watch: list[str]) -> None:
    """It did its work: the line was found, all of the lines were counted, nothing was missed."""
    if not watch:
        return
    found = jobs.events("0.0", job_ids=[job_id], max_tokens=100_000).events
    assert not [event for event in found if event.kind == "unwatched"]
    lines = sum(
        ("line" in event.details) + event.details.get("suppressed", 0)
        for event in found
        if event.kind == "matched"
    )
    assert (lines > 0) == (watch is not NONE), lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.watches", description=__doc__.partition("\n")[0])
    parser.add_argument("megabytes", type=int, nargs="?", default=1000, help="of lines; default 1000")
    parser.add_argument("rounds", type=int, nargs="?", default=3, help="in turns; default 3")
    main(**vars(parser.parse_args()))
