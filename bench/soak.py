"""A long steady life with jobs, and a count every few seconds of whether anything grows."""

import contextlib
import os
import signal
import statistics
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

from bench import processes
from bench.lab import BenchError, Lab, Server, wait_until
from bench.load_client import Act, Agent, expect
from bench.report import Goal, Result, Row

KEEP_JOBS = 30
SETTINGS = {
    "MCP_BG_MAX_JOBS": "50",
    "MCP_BG_MAX_OUTPUT_SIZE": "1MB",
    "MCP_BG_KEEP_JOBS": str(KEEP_JOBS),
    "MCP_BG_CLEANUP_INTERVAL": "0.5",
}
CLIENTS = 3
ENOUGH_COUNTS = 30
CLEANED_WITHIN_S = ENDED_WITHIN_S = 10.0
LONGEST_THOUGHT_S, LATEST_KILL_S = 0.3, 0.02

Counts = dict[str, float]
TOLERANCES: dict[str, tuple[float, float]] = {
    "server, RSS MB": (0.02, 0),
    "server, PSS MB": (0.02, 2),
    "server, open files": (0, 0),
    "server, threads": (0, 1),
    "guard and shim of one long job, RSS MB": (0.02, 0),
    "guard and shim of one long job, open files": (0, 0),
    "bgjob-* processes": (0, 0),
    "jobs' processes": (0, 0),
    "zombies": (0, 0),
    "ended jobs beyond MCP_BG_KEEP_JOBS": (0, 0),
    "files in the home": (0.1, 10),
    "drafts, trash, index without a job": (0, 2),
}
"""How far the median of the last third may be above that of the second: a share of it, and so much more."""


def soak(lab: Lab) -> Result:
    """3 clients use jobs for --minutes while servers end and are killed -9: nothing may grow or be left"""
    return Soak(lab).run()


class Soak:
    def __init__(self, lab: Lab) -> None:
        self.lab, self.store = lab, lab.root / "soak"
        self.every_s, self.seconds = (3.0, 0.5) if lab.quick else (5.0, lab.minutes * 60)
        self.counts: list[Counts] = []
        self.errors: list[str] = []

    def run(self) -> Result:
        steady = self.start_server()
        self.resident = str(steady.tool("execute_command", command="exec cat")["job_id"])
        self.resident_pid = int(steady.tool("get_job_status", job_id=self.resident)["pid"])
        restless = [Restless(self, number) for number in range(1, CLIENTS)]
        self.agents = [Agent(steady, 0, [self.resident]), *restless]
        self._live()
        self._end()
        return self._report(restless)

    def start_server(self) -> Server:
        server = self.lab.start(self.lab.ours, **SETTINGS, BGJOB_HOME=str(self.store))
        server.initialize()
        return server

    def _live(self) -> None:
        until, over = time.monotonic() + self.seconds, threading.Event()
        acting = [threading.Lock() for _ in self.agents]
        with ThreadPoolExecutor(len(self.agents)) as pool:
            pairs = zip(self.agents, acting, strict=True)
            lives = [pool.submit(live, agent, lock, until, over) for agent, lock in pairs]
            try:
                while not all(one.done() for one in lives):
                    self._count_when_still(acting)
                    time.sleep(self.every_s)
            finally:
                # also when we are interrupted
                over.set()
            for one in lives:
                one.result()

    def _count_when_still(self, acting: Sequence[threading.Lock]) -> None:
        with ExitStack() as stillness:
            for lock in acting:
                stillness.enter_context(lock)
            self.counts.append(self._count())

    def _end(self) -> None:
        """In order; then nothing may be left."""
        self.agents[0].kill(self.resident)
        for agent in self.agents:
            agent.server.end()
            self.errors += agent.errors
        wait_until(lambda: not processes.names(), "all processes are gone", within_s=ENDED_WITHIN_S)

    # -- the count ----------------------------------------------------------------------------------

    def _count(self) -> Counts:
        surplus = self._surplus()
        processes.settle()
        alive = processes.descendants()
        names, pid, keepers = processes.names(), self.agents[0].server.pid, self._keepers(alive)
        ours = sum(process.is_bgjob for process in alive)
        zombies = names[processes.ZOMBIE]
        counted = [
            processes.memory_mb(pid, "Rss"),
            processes.memory_mb(pid, "Pss"),
            processes.open_files(pid),
            len(list(Path(f"/proc/{pid}/task").iterdir())),
            sum(processes.memory_mb(keeper, "Rss") for keeper in keepers),
            sum(map(processes.open_files, keepers)),
            ours,
            names.total() - ours - zombies - len(self.agents),
            zombies,
            surplus,
            sum(path.is_file() for path in self.store.rglob("*")),
            self._leftovers(),
        ]
        return dict(zip(TOLERANCES, counted, strict=True))

    def _surplus(self) -> int:
        """Jobs that a clean-up leaves beyond its limit, but for the resident and the job that cleans."""

        def surplus() -> int:
            return len(list((self.store / "jobs").iterdir())) - 2 - KEEP_JOBS

        def cleaned() -> bool:
            if surplus() > 0:
                # cleans, once that is due
                self.agents[0].server.tool("execute_command", command="true", wait_s=10)
            return surplus() <= 0

        with contextlib.suppress(BenchError):
            wait_until(cleaned, "the store is cleaned", within_s=CLEANED_WITHIN_S, every_s=0.02)
        return max(0, surplus())

    def _keepers(self, alive: Sequence[processes.Process]) -> list[int]:
        """bgjob's processes above the resident, up to the zygote they were forked from."""
        by_pid = {process.pid: process for process in alive}
        keepers, above = [], by_pid.get(by_pid[self.resident_pid].parent)
        while above and above.is_bgjob:
            keepers.append(above.pid)
            above = by_pid.get(above.parent)
        return keepers

    def _leftovers(self) -> int:
        """Of servers killed in the middle of a start; swept when they are a minute old."""
        names = ("jobs", "index", "drafts", "trash")
        jobs, index, drafts, trash = (len(list((self.store / name).iterdir())) for name in names)
        return drafts + trash + max(0, index - jobs)

    def _report(self, restless: Sequence["Restless"]) -> Result:
        rows = [self._row(title, *tolerance) for title, tolerance in TOLERANCES.items()]
        calls, jobs = sum(a.calls for a in self.agents), sum(a.started_jobs for a in self.agents)
        life = f"soak: {self.seconds / 60:.2g} minutes, {CLIENTS} clients, {calls} calls, {jobs} jobs"
        restarts, kills = sum(one.restarts for one in restless), sum(one.kills for one in restless)
        ends = f"{restarts} servers restarted, {kills} killed -9"
        result = Result(rows, [f"{life}; {ends}; {len(self.counts)} counts"])
        result.expect("soak: errors", len(self.errors), 0)
        result.failures.extend(sorted(set(self.errors))[:10])
        return result

    def _row(self, title: str, share: float, more: float) -> Row:
        values, number = [count[title] for count in self.counts], len(self.counts)
        second, last = values[number // 3 : number * 2 // 3] or values, values[number * 2 // 3 :]
        return Row(title, "", last, second, "second third", flat(share, more, number))


def flat(share: float, more: float, counts: int) -> Goal:
    def reached(row: Row) -> bool | None:
        most = statistics.median(row.baseline) * (1 + share) + more
        return statistics.median(row.ours) <= most if counts >= ENOUGH_COUNTS else None

    parts = [f"+ {share:.0%}"] * bool(share) + [f"+ {more:g}"] * bool(more)
    return Goal(" ".join(["flat", *parts]), reached)


class Restless(Agent):
    """Its servers end, or are killed; its jobs go on."""

    def __init__(self, soak: Soak, seed: int) -> None:
        super().__init__(soak.start_server(), seed, [soak.resident])
        self._start_server = soak.start_server
        self.restarts = self.kills = 0

    def restart(self) -> None:
        self.restarts += 1
        self._renew_server()

    def lose_the_server(self) -> None:
        """kill -9 while a job runs: not the job, not its output, not its exit code is lost."""
        job_id = self.start("echo before; sleep 1; echo after; exit 7")["job_id"]
        os.kill(self.server.pid, signal.SIGKILL)
        self.kills += 1
        self._renew_server()
        waited = self.expect_end(job_id, "failed", "exited")
        expect(waited["exit_code"] == 7 and waited["stdout"] == "before\nafter\n", "nothing was lost", waited)

    def lose_the_starter(self) -> None:
        """kill -9 while a job is being started: it runs or it does not, and nothing stays behind."""
        name, kill = f"mid-start {uuid4()}", (self.server.pid, signal.SIGKILL)
        killer = threading.Timer(self.random.uniform(0, LATEST_KILL_S), os.kill, kill)
        killer.start()
        # that it did not answer is the point
        with contextlib.suppress(BenchError):
            self.start("sleep 0.5", name=name)
        killer.join()
        self.kills += 1
        self._renew_server()
        for job in self.call("list_jobs", status="running", limit=1000)["jobs"]:
            if job.get("name") == name:
                self.wait(job["job_id"])

    def _renew_server(self) -> None:
        self.server.end()
        complaint = self.server.stderr.strip()
        self.server = self._start_server()
        # the first job boots the zygote: a server that has none counts as fewer processes
        self.run()
        expect(not complaint, "a server's stderr is empty", {"stderr": complaint[-400:]})


def scenes(agent: Agent) -> dict[Act, int]:
    """With their weights."""
    often = dict.fromkeys([agent.run, agent.status, agent.tail, agent.type], 8)
    rarely = [agent.kill_a_tree, agent.print_much, agent.time_out, agent.leave_a_daemon, agent.reuse]
    rarely += [agent.use_a_terminal, agent.ask_for_the_impossible, agent.list]
    deadly = (
        [agent.restart, agent.lose_the_server, agent.lose_the_starter] if isinstance(agent, Restless) else []
    )
    return {**often, **dict.fromkeys(rarely, 4), **dict.fromkeys(deadly, 1)}


def live(agent: Agent, acting: threading.Lock, until: float, over: threading.Event) -> None:
    """Every scene once, then by chance; an end before its time is among its errors."""
    acts = scenes(agent)
    if not all(_act(agent, act, acting, over) for act in acts):
        return
    choices, weights = list(acts), list(acts.values())
    while time.monotonic() < until and _act(agent, agent.random.choices(choices, weights)[0], acting, over):
        pass


def _act(agent: Agent, act: Act, acting: threading.Lock, over: threading.Event) -> bool:
    with acting:
        goes_on = agent.attempt(act)
    # outside the lock: here all agents can be found still
    return not over.wait(agent.random.uniform(0.01, LONGEST_THOUGHT_S)) and goes_on
