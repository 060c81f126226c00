"""Load: many MCP clients and running jobs on one store with thousands of ended jobs. `--help` tells how."""

import argparse
import os
import shlex
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from bench import census, processes, replicas
from bench.agents import Agent, Tally, expect
from bench.client import BenchError, Json, Server
from bench.findings import Figure, Findings, Plan, report
from bench.lab import OURS, Lab, Side
from bench.stage import cleaning_up, machine_facts, server_argument, tell
from bench.workers import Watcher, Worker

DESCRIPTION = """\
Real `bgjob mcp` servers on one store, one per client. Each round: first one client alone asks for the status of a
running and of an ended job (idle); then all jobs are started, and every client uses all tools at the pace of an
agent while that one goes on asking in the same rhythm (load); then all jobs are killed and what is left is counted.
At the end of the last round the clients also go at full speed. Linux only. Exit status: 0 when every goal is reached,
1 when one is missed or a call failed, 3 when a p95 of fewer than 100 calls could not be judged."""
EPILOG = """\
The ended jobs are copies of a few real ones, made by bgjob's own code under fresh ids: see bench/replicas.py."""
WATCHER_CALLS_PER_S = 20.0
AT_REST_WITHIN_S = 10.0
READ_BACK = 20
TRIES_ALONE = 3


class Load:
    def __init__(self, plan: Plan, lab: Lab) -> None:
        self.plan, self.lab, self.found = plan, lab, Findings()
        self.store = lab.root / "store"
        self._servers: list[Server] = []
        self._pool = ThreadPoolExecutor(plan.clients)

    def run(self) -> Findings:
        with self._pool:
            tell(f"{self.plan.ended} ended jobs")
            first = self._start_servers(1)[0]
            ended = self._fill_store(first)
            tell(f"{self.plan.clients} more servers")
            standing = str(first.call("execute_command", command="exec sleep 100000")["job_id"])
            self.watcher = Watcher(first, self.plan.seed, standing, ended[0])
            self.watcher.calls_per_s = WATCHER_CALLS_PER_S
            self._hire(ended)
            self._measure_alone()
            self._all_rounds()
            first.call("kill_job", job_id=standing)
        self._end_servers()
        return self.found

    def _start_servers(self, number: int) -> list[Server]:
        settings = {
            "BGJOB_HOME": str(self.store),
            "MCP_BG_MAX_JOBS": str(min(1000, self.plan.jobs + 2 * self.plan.clients + 10)),
            "MCP_BG_KEEP_JOBS": "1000000",
        }
        started = [self.lab.start(self.lab.sides[0], **settings) for _ in range(number)]
        self._servers += started
        for server in started:
            server.initialize()
        return started

    def _hire(self, ended: Sequence[str]) -> None:
        plan = self.plan
        shares = [len(range(number, plan.jobs, plan.clients)) for number in range(plan.clients)]
        servers = self._start_servers(plan.clients)
        self.workers = [
            Worker(server, plan.seed + number, shares[number], ended) for number, server in enumerate(servers)
        ]
        for worker in self.workers:
            worker.meet(self.workers)
            worker.run()  # the first job boots the zygote, which then stays
            worker.tally = Tally()

    def _all_rounds(self) -> None:
        at_rest, files = self._names_at_rest(), self._open_files()
        for number in range(1, self.plan.rounds + 1):
            tell(f"round {number} of {self.plan.rounds}")
            self._idle()
            self._start_jobs()
            self._loaded()
            if number == self.plan.rounds:
                self._at_full_speed()
            self._kill_jobs()
            self._count_leftovers(at_rest, files)
        self._weigh_servers()

    def _idle(self) -> None:
        self.watcher.work({self.watcher.ask: 1}, time.monotonic() + self.plan.seconds)
        harvest([self.watcher], self.found.idle)

    def _start_jobs(self) -> None:
        self.found.starts_s.append(self._together(Worker.start_all))
        harvest(self.workers, self.found.at_once)
        if len(self.found.starts_s) == 1:
            self._count_running()

    def _count_running(self) -> None:
        """By a server that started none of them."""
        running = self.watcher.server.call("list_jobs", status="running", limit=1000)["jobs"]
        others, wanted = len(running) - 1, self.plan.jobs
        self._note("jobs that run at once", str(others), str(wanted), others == wanted)
        beside_mb = census.total_pss_mb(census.is_ours) / max(1, wanted)
        self._note("memory of bgjob-* processes per running job, PSS", f"{beside_mb:.1f} MB")

    def _kill_jobs(self) -> None:
        self.found.kills_s.append(self._together(Worker.kill_all))
        harvest(self.workers, self.found.at_once)

    def _together(self, act: Callable[[Worker], None]) -> float:
        for worker in self.workers:
            worker.calls_per_s = None
        began = time.monotonic()
        list(self._pool.map(act, self.workers))
        return time.monotonic() - began

    def _loaded(self) -> None:
        self._drive(self.plan.calls_per_s, self.plan.seconds)
        harvest([self.watcher], self.found.watched_load)
        harvest(self.workers, self.found.load)
        self.found.load_s += self.plan.seconds

    def _at_full_speed(self) -> None:
        if self.plan.full_speed_seconds:
            tell("full speed")
            self._drive(None, self.plan.full_speed_seconds)
            harvest([self.watcher], self.found.watched_full)
            harvest(self.workers, self.found.full)
            self.found.full_s = self.plan.full_speed_seconds

    def _drive(self, calls_per_s: float | None, seconds: float) -> None:
        until = time.monotonic() + seconds
        for worker in self.workers:
            worker.calls_per_s = calls_per_s
        working = [self._pool.submit(worker.work, worker.mix(calls_per_s), until) for worker in self.workers]
        self.watcher.work({self.watcher.ask: 1}, until)
        for each in working:
            each.result()

    # -- what is there, and what is left ------------------------------------------------------------

    def _names_at_rest(self) -> Counter[str]:
        processes.settle()
        return census.names()

    def _open_files(self) -> dict[int, int]:
        return {server.pid: census.open_files(server.pid) for server in self._servers}

    def _count_leftovers(self, names: Counter[str], files: dict[int, int]) -> None:
        census.wait_until(lambda: not census.names() - names, AT_REST_WITHIN_S)
        self.found.left += census.names() - names
        more = {pid: number - files[pid] for pid, number in self._open_files().items()}
        self.found.files_left += sum(max(0, number) for number in more.values())

    def _weigh_servers(self) -> None:
        rss = [census.memory_mb(server.pid, "Rss") for server in self._servers]
        pss = [census.memory_mb(server.pid, "Pss") for server in self._servers]
        for word, each in [("RSS", rss), ("PSS", pss)]:
            self._note(
                f"memory of a server after the load, {word}",
                f"median {statistics.median(each[1:]):.0f} MB, most {max(each):.0f} MB",
            )

    def _end_servers(self) -> None:
        for server in self._servers:
            server.end()
            if said := (server.home / "stderr").read_text(errors="replace").strip():
                self.found.load.errors.append(f"a server's stderr: {said[-400:]}")
        census.wait_until(lambda: not census.names(), AT_REST_WITHIN_S)
        self.found.left += census.names()
        unfinished = sum(len(list((self.store / name).iterdir())) for name in ("drafts", "trash"))
        self._note("unfinished job directories (drafts, trash)", str(unfinished), "0", unfinished == 0)

    # -- the store, and what only one client does ---------------------------------------------------

    def _fill_store(self, server: Server) -> list[str]:
        originals = replicas.run_originals(server)
        began = time.monotonic()
        replicas.replicate(self.store, originals, self.plan.ended)
        self._note("making the copies of ended jobs", f"{time.monotonic() - began:.1f} s")
        others = [*originals, self._measure_clean_up(server)]
        ended = [job_id for job_id in _all_ids(server) if job_id not in others]
        if len(ended) != self.plan.ended:
            raise BenchError(f"of {self.plan.ended} ended jobs list_jobs shows {len(ended)}")
        _read_back(server, originals, ended)
        return ended or originals

    def _measure_clean_up(self, server: Server) -> str:
        """Whoever starts a job while a clean-up is due does it; here in a server that has seen no job yet."""
        os.utime(self.store / "cleaned", (0, 0))
        job_id = str(server.call("execute_command", command="true")["job_id"])
        self._note("a start that does the clean-up (once in 300 s)", f"{server.last_s * 1000:.0f} ms")
        server.call("wait_for_job", job_ids=[job_id])
        return job_id

    def _measure_alone(self) -> None:
        alone: list[tuple[str, Json]] = [
            ("list_jobs", {"status": "running"}),
            ("search_job_output", {"pattern": "step 77 of"}),
        ]
        for tool, arguments in alone:
            took_ms = []
            for _ in range(TRIES_ALONE):
                self.watcher.call(tool, timed_as="(alone)", **arguments)
                took_ms.append(self.watcher.server.last_s * 1000)
            what = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
            self._note(f"{tool} {what} through all jobs, idle", f"{statistics.median(took_ms):.0f} ms")
        self.watcher.tally = Tally()

    def _note(self, title: str, value: str, goal: str = "", reached: bool | None = True) -> None:
        self.found.figures.append(Figure(title, value, goal, reached))


def harvest(agents: Sequence[Agent], into: Tally) -> None:
    for agent in agents:
        for name, samples in agent.tally.took_ms.items():
            into.took_ms[name] += samples
        into.calls += agent.tally.calls
        into.errors += agent.tally.errors
        agent.tally = Tally()


def _all_ids(server: Server) -> Iterator[str]:
    cursor = None
    while True:
        page = server.call("list_jobs", limit=1000, cursor=cursor)
        yield from (job["job_id"] for job in page["jobs"])
        if (cursor := page.get("next_cursor")) is None:
            return


def _read_back(server: Server, originals: Sequence[str], ended: Sequence[str]) -> None:
    """Copies tell the same as their originals."""
    known = [_story(server, job_id) for job_id in originals]
    for job_id in ended[:: max(1, len(ended) // READ_BACK)]:
        story = _story(server, job_id)
        expect(story in known, f"{job_id} reads like one of the originals", {"story": story})


def _story(server: Server, job_id: str) -> list[object]:
    status = server.call("get_job_status", job_id=job_id)
    output = server.call("get_job_output", job_id=job_id)
    return [
        status["status"],
        status.get("exit_code"),
        status["output_bytes"],
        output["stdout"],
        output["stderr"],
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.load",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole = [
        ("--jobs", 200, "that run at once"),
        ("--clients", 20, "and one that watches"),
        ("--ended", 10_000, "jobs in the store that have ended"),
        ("--rounds", 4, "of idle and load, in turns"),
        ("--seed", 1, "of what the clients choose by chance"),
    ]
    for name, default, what in whole:
        parser.add_argument(name, type=int, default=default, metavar="N", help=f"{what}; default {default}")
    decimal = [
        ("--seconds", 15.0, "of idle, and of load, per round"),
        ("--full-speed-seconds", 10.0, "at the end of the last round"),
        ("--calls-per-s", 5.0, "of each client under load, at most"),
    ]
    for name, default_s, what in decimal:
        parser.add_argument(
            name, type=float, default=default_s, metavar="X", help=f"{what}; default {default_s:g}"
        )
    server_argument(parser)
    return parser


def main() -> int:
    arguments = vars(_parser().parse_args())
    side = Side(OURS, shlex.split(arguments.pop("server")))
    plan, machine = Plan(**arguments), machine_facts()
    try:
        with cleaning_up() as root:
            found = Load(plan, Lab(root, [side], quick=False)).run()
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return report(plan, found, machine)


if __name__ == "__main__":
    sys.exit(main())
