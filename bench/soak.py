"""Soak: a long steady life with jobs, and a look every few seconds at whether anything grows. `--help` tells how."""

import argparse
import shlex
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bench import census, processes
from bench.agents import Act
from bench.client import BenchError, Server
from bench.lab import OURS, Lab, Side
from bench.scenes import Life, RestlessLife
from bench.stage import cleaning_up, machine_facts, print_errors, server_argument, tell
from bench.tables import digits, exit_status, markdown_table, verdict

DESCRIPTION = """\
A few MCP clients on one store live with jobs: they start, type, wait, read, search and kill jobs of many kinds. The
first keeps its server; the others now and then end theirs or kill it with -9, also in the middle of a start. Every
few seconds they hold still and what is there is counted. Flat = the median of the last third is not above that of
the second third, but for a small tolerance (the first third is warming up). Linux only. Exit status: 0 when all is
flat, nothing is left at the end and no call failed, 1 otherwise, 3 when fewer than 30 looks could not be judged."""
KEEP_JOBS = 30
SETTINGS = {
    "MCP_BG_MAX_JOBS": "50",
    "MCP_BG_MAX_OUTPUT_SIZE": "1MB",
    "MCP_BG_KEEP_JOBS": str(KEEP_JOBS),
    "MCP_BG_CLEANUP_INTERVAL": "0.5",
}
ENOUGH_LOOKS = 30
CLEANED_WITHIN_S = 10.0
ENDED_WITHIN_S = 10.0
LONGEST_THOUGHT_S = 0.3

Look = dict[str, float]


@dataclass(frozen=True)
class Measure:
    """How far its last third may be above its second: a share of it, and so much more."""

    title: str
    share: float = 0.0
    more: float = 0.0

    def is_flat(self, second: float, last: float) -> bool:
        return last <= second * (1 + self.share) + self.more


MEASURES = [
    SERVER_RSS := Measure("server, RSS MB", share=0.02),
    SERVER_PSS := Measure("server, PSS MB", share=0.02, more=2),
    SERVER_FILES := Measure("server, open files"),
    SERVER_THREADS := Measure("server, threads", more=1),
    KEEPER_RSS := Measure("bgjob-* of one long job, RSS MB", share=0.02),
    KEEPER_FILES := Measure("bgjob-* of one long job, open files"),
    OURS_ALIVE := Measure("bgjob-* processes"),
    JOBS_ALIVE := Measure("jobs' processes"),
    ZOMBIES := Measure("zombies"),
    SURPLUS := Measure("ended jobs beyond MCP_BG_KEEP_JOBS"),
    HOME_FILES := Measure("files in the home", share=0.1, more=10),
    TEMPORARY := Measure("temporary files"),
    LEFTOVERS := Measure("drafts, trash, index without a job", more=2),
]


# -- the life -------------------------------------------------------------------------------------------


class Soak:
    def __init__(self, lab: Lab, minutes: float, every_s: float, clients: int, seed: int) -> None:
        self._lab, self._every_s = lab, every_s
        self._seconds, self._clients, self._seed = minutes * 60, clients, seed
        self.store, self._temporary = lab.root / "store", lab.root / "tmp"
        self._temporary.mkdir()
        self.looks: list[Look] = []
        self.errors: list[str] = []
        self.lives: list[Life] = []

    def run(self) -> None:
        steady = self._start_server()
        resident = steady.call("execute_command", command="exec cat")
        self._resident = str(resident["job_id"])
        self._resident_pid = int(steady.call("get_job_status", job_id=self._resident)["pid"])
        self.lives = [Life(steady, self._seed, self._resident)]
        for number in range(1, self._clients):
            self.lives.append(RestlessLife(self._start_server, self._seed + number, self._resident))
        self._live()
        self._end()

    def _start_server(self) -> Server:
        places = {"BGJOB_HOME": str(self.store), "TMPDIR": str(self._temporary)}
        server = self._lab.start(self._lab.sides[0], **SETTINGS, **places)
        server.initialize()
        return server

    def _live(self) -> None:
        until, over = time.monotonic() + self._seconds, threading.Event()
        playing = [threading.Lock() for _ in self.lives]
        with ThreadPoolExecutor(len(self.lives)) as pool:
            pairs = zip(self.lives, playing, strict=True)
            lives = [pool.submit(live, life, lock, until, over) for life, lock in pairs]
            try:
                while not all(one.done() for one in lives):
                    self._look_when_still(playing)
                    time.sleep(self._every_s)
            finally:
                over.set()  # also when somebody interrupts us
            for one in lives:
                one.result()

    def _look_when_still(self, playing: Sequence[threading.Lock]) -> None:
        with ExitStack() as stillness:
            for lock in playing:
                stillness.enter_context(lock)
            self.looks.append(self._look())
        print(
            " ".join(f"{digits(value):>6}" for value in self.looks[-1].values()), file=sys.stderr, flush=True
        )

    def _end(self) -> None:
        """In order; then nothing may be left."""
        self.lives[0].attempt(self._kill_resident)
        for life in self.lives:
            life.attempt(life.end_server)
        self.errors += [error for life in self.lives for error in life.tally.errors]
        if not census.wait_until(lambda: not census.names(), ENDED_WITHIN_S):
            self.errors.append(f"processes are left at the end: {dict(census.names())}")

    def _kill_resident(self) -> None:
        self.lives[0].call("kill_job", job_id=self._resident)

    # -- the look -----------------------------------------------------------------------------------

    def _look(self) -> Look:
        surplus = self._surplus()
        processes.settle()
        names, pid = census.names(), self.lives[0].server.pid
        keepers = self._keepers()
        ours = sum(number for name, number in names.items() if census.is_ours(name))
        return {
            SERVER_RSS.title: census.memory_mb(pid, "Rss"),
            SERVER_PSS.title: census.memory_mb(pid, "Pss"),
            SERVER_FILES.title: census.open_files(pid),
            SERVER_THREADS.title: len(list(Path(f"/proc/{pid}/task").iterdir())),
            KEEPER_RSS.title: sum(census.memory_mb(keeper, "Rss") for keeper in keepers),
            KEEPER_FILES.title: sum(census.open_files(keeper) for keeper in keepers),
            OURS_ALIVE.title: ours,
            JOBS_ALIVE.title: names.total() - ours - names[census.ZOMBIE] - len(self.lives),
            ZOMBIES.title: names[census.ZOMBIE],
            SURPLUS.title: surplus,
            HOME_FILES.title: sum(1 for path in self.store.rglob("*") if path.is_file()),
            TEMPORARY.title: sum(1 for _ in self._temporary.iterdir()),
            LEFTOVERS.title: self._leftovers(),
        }

    def _surplus(self) -> int:
        """What a clean-up leaves beyond its limit; the resident runs, and the job whose start cleans comes after."""

        def surplus() -> int:
            return len(list((self.store / "jobs").iterdir())) - 2 - KEEP_JOBS

        def cleaned() -> bool:
            if surplus() <= 0:
                return True
            self.lives[0].server.call("execute_command", command="true", wait_s=10)  # cleans, once it is due
            return False

        census.wait_until(cleaned, CLEANED_WITHIN_S)
        return max(0, surplus())

    def _keepers(self) -> list[int]:
        """bgjob's processes above the resident, up to the zygote they were forked from."""
        parents = {one.pid: one.parent for one in processes.descendants()}
        keepers, pid = [], parents.get(self._resident_pid, 0)
        while pid in parents and census.is_ours(census.name(pid)):
            keepers.append(pid)
            pid = parents[pid]
        return keepers

    def _leftovers(self) -> int:
        """Of servers killed in the middle of a start; swept when they are an hour old."""
        jobs, index, drafts, trash = (
            len(list((self.store / name).iterdir())) for name in ("jobs", "index", "drafts", "trash")
        )
        return drafts + trash + max(0, index - jobs)


def live(life: Life, playing: threading.Lock, until: float, over: threading.Event) -> None:
    """Every scene once, then by chance; an end before its time is among its errors."""
    scenes = life.scenes
    if not all(_play(life, scene, playing, over) for scene in scenes):
        return
    choices, weights = list(scenes), list(scenes.values())
    while time.monotonic() < until and _play(life, life.random.choices(choices, weights)[0], playing, over):
        pass


def _play(life: Life, scene: Act, playing: threading.Lock, over: threading.Event) -> bool:
    with playing:
        goes_on = life.attempt(scene)
    # outside the lock: here is where all can be found still
    return not over.wait(life.random.uniform(0.01, LONGEST_THOUGHT_S)) and goes_on


# -- the report -----------------------------------------------------------------------------------------


def thirds(looks: Sequence[Look], title: str) -> list[float]:
    """The median of each third."""
    number, values = len(looks), [look[title] for look in looks]
    borders = [0, number // 3, number * 2 // 3, number]
    return [statistics.median(values[low:high] or values) for low, high in pairwise(borders)]


def rows(looks: Sequence[Look]) -> list[list[str]]:
    table = []
    for measure in MEASURES:
        first, second, last = thirds(looks, measure.title)
        flat = measure.is_flat(second, last) if len(looks) >= ENOUGH_LOOKS else None
        most = max(look[measure.title] for look in looks)
        tolerance = " ".join(
            [f"+ {measure.share:.0%}"] * bool(measure.share) + [f"+ {measure.more:g}"] * bool(measure.more)
        )
        table.append([measure.title, *map(digits, [first, second, last, most]), tolerance, verdict(flat)])
    return table


def report(soak: Soak, machine: str, minutes: float) -> int:
    """Prints it; the exit status."""
    table = rows(soak.looks)
    restless = [life for life in soak.lives if isinstance(life, RestlessLife)]
    print(f"- {machine}")
    print(
        f"- {minutes:g} minutes, {len(soak.lives)} clients; {sum(life.tally.calls for life in soak.lives)} calls, "
        f"{sum(life.started_jobs for life in soak.lives)} jobs, {sum(life.restarts for life in restless)} servers "
        f"restarted, {sum(life.kills for life in restless)} killed -9; {len(soak.looks)} looks; "
        f"{len(soak.errors)} errors\n"
    )
    header = ["measure, median", "first third", "second", "last", "most ever", "tolerance", "flat"]
    print(markdown_table(header, table))
    print_errors(soak.errors)
    return exit_status([*(row[-1] for row in table), verdict(not soak.errors)])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=10.0, metavar="X", help="default 10")
    parser.add_argument(
        "--every", type=float, default=5.0, metavar="X", help="seconds between looks; default 5"
    )
    parser.add_argument("--clients", type=int, default=3, metavar="N", help="default 3, one of them steady")
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of what they choose by chance; default 1"
    )
    server_argument(parser)
    return parser


def main() -> int:
    arguments, machine = _parser().parse_args(), machine_facts()
    side = Side(OURS, shlex.split(arguments.server))
    tell("each line is a look: " + "; ".join(measure.title for measure in MEASURES))
    try:
        with cleaning_up() as root:
            lab = Lab(root, [side], quick=False)
            soak = Soak(lab, arguments.minutes, arguments.every, arguments.clients, arguments.seed)
            soak.run()
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return report(soak, machine, arguments.minutes)


if __name__ == "__main__":
    sys.exit(main())
