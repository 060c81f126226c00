"""Bombs: jobs that print without end, and jobs that fork without end, beside a client that asks. `--help` tells how."""

import argparse
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import census
from bench.agents import Tally
from bench.client import BenchError, Json
from bench.findings import ENDED, MOST_RATIO, RUNNING, Figure, ratio
from bench.lab import OURS, Lab, Side, run
from bench.load import harvest
from bench.stage import cleaning_up, machine_facts, print_errors, server_argument, tell
from bench.tables import ENOUGH_SAMPLES, exit_status, markdown_table, p50_p95, p95, verdict
from bench.workers import Watcher

DESCRIPTION = """\
One `bgjob mcp` server and a client that asks for the status of a running and of an ended job, 20 times a second: alone
(idle), while four `yes` run, while a fork bomb runs that may have 50 processes. The disk is measured all the time.
Linux only. Exit status: 0 when every goal is reached, 1 when one is missed or a call failed, 3 when a p95 of fewer
than 100 calls could not be judged."""
BOMBS = "get_job_status, the bomb itself"
CALLS_PER_S = 20.0
FLOODS, LIMIT_BYTES, FLUSHED_BYTES = 4, 10 << 20, 1 << 16
MOST_PROCESSES, GENERATIONS = 50, 10
BOMB = "if [ $1 -gt 0 ]; then sh $0 $(($1-1)) & sh $0 $(($1-1)) & fi\nsleep 100 & wait\n"
GONE_WITHIN_S = 30.0


@dataclass
class Found:
    idle: Tally = field(default_factory=Tally)
    flood: Tally = field(default_factory=Tally)
    forks: Tally = field(default_factory=Tally)
    figures: list[Figure] = field(default_factory=list)


class Bombs:
    def __init__(self, lab: Lab, seconds: float) -> None:
        self._lab, self._seconds, self.found = lab, seconds, Found()
        self._store = lab.root / "store"

    def run(self) -> Found:
        self._server = self._lab.start(
            self._lab.sides[0], BGJOB_HOME=str(self._store), MCP_BG_MAX_OUTPUT_SIZE=str(LIMIT_BYTES)
        )
        self._server.initialize()
        ended, standing = run(self._server, "true"), self._execute("exec sleep 100000")
        self._watcher = Watcher(self._server, 1, standing, ended)
        self._watcher.calls_per_s = CALLS_PER_S
        self._idle()
        self._flood()
        self._stop_at_limit()
        for switch in ("on", "off"):
            self._forks(switch)
        self._idle()
        self._server.call("kill_job", job_id=standing)
        self._server.end()
        return self.found

    def _execute(self, command: str, **options: object) -> str:
        return str(self._server.call("execute_command", command=command, options=options)["job_id"])

    def _idle(self) -> None:
        tell("idle")
        self._ask_for(self._seconds / 2, self.found.idle)

    def _ask_for(self, seconds: float, into: Tally, bomb: str | None = None) -> None:
        def ask_bomb() -> None:
            self._watcher.call("get_job_status", timed_as=BOMBS, job_id=bomb)

        acts = {self._watcher.ask: 1} | ({ask_bomb: 1} if bomb else {})
        self._watcher.work(acts, time.monotonic() + seconds)
        harvest([self._watcher], into)

    # -- output -------------------------------------------------------------------------------------

    def _flood(self) -> None:
        tell(f"{FLOODS} x yes for {self._seconds:g} s")
        floods = [self._execute("yes") for _ in range(FLOODS)]
        with most(lambda: max(map(self._log_bytes, floods))) as largest:
            self._ask_for(self._seconds, self.found.flood, floods[0])
        printed = sum(self._status(job_id)["output_bytes"] for job_id in floods)
        self._note("printed by them", f"{printed / 2**30:.1f} GB")
        size_bytes = largest()
        self._note(
            "most of one on disk, of 10 MB",
            f"{size_bytes / 2**20:.2f} MB",
            "≤ 10 MB",
            size_bytes <= LIMIT_BYTES + FLUSHED_BYTES,
        )
        began = time.monotonic()
        for job_id in floods:
            self._server.call("kill_job", job_id=job_id)
        self._note("end of all four by kill_job", f"{time.monotonic() - began:.2f} s")

    def _stop_at_limit(self) -> None:
        job_id = self._execute("yes", output="1MB", on_output="stop")
        status = self._wait(job_id)
        took = f"{status['duration_s']:.2f} s, {self._log_bytes(job_id)} bytes on disk"
        self._note(
            "yes with output 1MB, on_output stop", took, "over_limit: output", _limit(status) == "output"
        )

    def _log_bytes(self, job_id: str) -> int:
        return sum(_size(file) for file in (self._store / "jobs" / job_id / "log").glob("*"))

    # -- forks --------------------------------------------------------------------------------------

    def _forks(self, switch: str) -> None:
        tell(f"a fork bomb, cgroup {switch}")
        bomb = self._lab.root / "bomb.sh"
        bomb.write_text(BOMB)
        before = census.names()
        command = f"sh {bomb} {GENERATIONS}"
        with most(lambda: census.names()["sh"] + census.names()["sleep"]) as largest:
            job_id = self._execute(command, processes=MOST_PROCESSES, cgroup=switch)
            self._ask_for(3.0, self.found.forks, job_id)
            status = self._wait(job_id)
        gone = census.wait_until(lambda: not census.names() - before, GONE_WITHIN_S)
        by = status["limited_by"]["processes"]
        self._note(
            f"fork bomb, processes={MOST_PROCESSES}, {by}",
            f"ended after {status['duration_s']:.2f} s, {largest()} processes at most were seen",
            "over_limit: processes",
            _limit(status) == "processes",
        )
        self._note(f"processes left of it, {by}", "0" if gone else str(census.names() - before), "0", gone)

    def _wait(self, job_id: str) -> Json:
        self._server.call("wait_for_job", job_ids=[job_id], timeout_s=40)
        return self._status(job_id)

    def _status(self, job_id: str) -> Json:
        return self._server.call("get_job_status", job_id=job_id)

    def _note(self, title: str, value: str, goal: str = "", reached: bool | None = True) -> None:
        self.found.figures.append(Figure(title, value, goal, reached))


@contextmanager
def most(look: Callable[[], int]) -> Iterator[Callable[[], int]]:
    """The largest that was seen, looking ten times a second meanwhile."""
    seen, over = [0], threading.Event()

    def keep_looking() -> None:
        while not over.wait(0.1):
            seen[0] = max(seen[0], look())

    looking = threading.Thread(target=keep_looking)
    looking.start()
    try:
        yield lambda: seen[0]
    finally:
        over.set()
        looking.join()


def _limit(status: Json) -> str | None:
    limit: str | None = status.get("limit")
    return limit


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def report(found: Found, machine: str, seconds: float) -> int:
    print(
        f"- {machine}\n- {seconds:g} s idle, in two halves, before and after; {seconds:g} s of {FLOODS} x `yes`\n"
    )
    idle, flood, forks = (tally.took_ms for tally in (found.idle, found.flood, found.forks))
    rows = []
    for name in (RUNNING, ENDED, BOMBS):
        alone = idle[name] or idle[RUNNING]  # a bomb is held against a job at rest
        enough = min(len(alone), len(flood[name])) >= ENOUGH_SAMPLES
        reached = p95(flood[name]) <= MOST_RATIO * p95(alone) if enough else None
        shown = [p50_p95(idle[name]), p50_p95(flood[name]), ratio(flood[name], alone), p50_p95(forks[name])]
        rows.append([name, *shown, f"p95 ≤ {MOST_RATIO:g} x idle", verdict(reached)])
    header = ["call, ms p50 / p95", "idle", "4 x yes", "yes / idle, p95", "fork bombs", "goal", "reached"]
    print(markdown_table(header, rows))
    errors = [*found.idle.errors, *found.flood.errors, *found.forks.errors]
    figures = [
        Figure("calls that failed or answered wrongly", str(len(errors)), "0", not errors),
        *found.figures,
    ]
    lines = [[one.title, one.value, one.goal, verdict(one.reached) if one.goal else ""] for one in figures]
    print(markdown_table(["figure", "value", "goal", "reached"], lines))
    print_errors(errors)
    return exit_status(row[-1] for row in [*rows, *lines])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.bombs",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=60.0, metavar="X", help="of yes; default 60")
    server_argument(parser)
    options = parser.parse_args()
    machine = machine_facts()
    try:
        with cleaning_up() as root:
            lab = Lab(root, [Side(OURS, shlex.split(options.server))], quick=False)
            found = Bombs(lab, options.seconds).run()
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return report(found, machine, options.seconds)


if __name__ == "__main__":
    sys.exit(main())
