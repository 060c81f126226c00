"""Many MCP clients and running jobs on one store with thousands of ended jobs."""

import os
import shutil
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from bench import processes
from bench.lab import BenchError, Json, Lab, Server, wait_until
from bench.load_client import Act, Agent, expect
from bench.report import Goal, Result, Row, Samples, p95_at_most, p95_ratio_at_most
from bgjob.home import jobdir
from bgjob.home.jobdir import LOG, OUTCOME, RUN
from bgjob.store.store import Store

STANDING = [
    "exec sleep 1000",
    "exec cat",
    "while sleep 2; do echo tick; done",
    "sleep 1000 & sleep 1000 & sleep 1000 & echo ready; wait",
    "seq -f 'line %.0f of a build' 2000; exec sleep 1000",
]
"""What the running jobs are: all of them end by SIGTERM, at once."""
ORIGINALS: list[Json] = [
    {"command": "true"},
    {"command": "seq -f 'step %.0f of a build' 200"},
    {"command": "seq 20; echo 'error: it broke' >&2; exit 3"},
    {"command": "echo on a terminal; printf 'done? '", "pty": True, "name": "asks"},
]
READ_BACK = 20
PROBE_CALLS_PER_S, CALLS_PER_S = 20.0, 5.0
AT_REST_WITHIN_S = 10.0

Took = dict[str, Samples]


def crowd(lab: Lab) -> Result:
    """20 clients, 200 running jobs, 10,000 ended ones: a probe's calls, against the same alone (idle)"""
    return Crowd(lab).run()


class Probe(Agent):
    """Asks the same in the same rhythm, idle or under load: what it measures differs only by the load."""

    def ask(self) -> None:
        for job_id, word in zip(self.known, ["running", "ended"], strict=True):
            status = self.call("get_job_status", timed_as=f"get_job_status, {word}", job_id=job_id)
            expect((status["status"] == "running") == (word == "running"), f"it is {word}", status)
        if self.random.random() < 0.1:
            self.call("list_jobs")


class Crowd:
    def __init__(self, lab: Lab) -> None:
        self.lab, self.store, self.found = lab, lab.root / "store", Result()
        self.clients, self.jobs, self.ended = lab.rounds(20, 1), lab.rounds(200, 6), lab.rounds(10_000, 40)
        self.rounds, self.seconds = lab.rounds(4, 1), 1.0 if lab.quick else 15.0
        self.took: dict[str, Took] = {"idle": defaultdict(list), "load": defaultdict(list)}
        self.servers: list[Server] = []
        self.errors: list[str] = []

    def run(self) -> Result:
        first = self._start_server()
        ended = self._fill_store(first)
        standing = str(first.tool("execute_command", command="exec sleep 100000")["job_id"])
        self.probe = Probe(first, 0, [standing, ended[0]])
        self.probe.calls_per_s = PROBE_CALLS_PER_S
        self.agents = [Agent(self._start_server(), 1 + number, ended) for number in range(self.clients)]
        for agent in self.agents:
            # the first job boots the zygote, which then stays
            agent.run()
        self._all_rounds(ended)
        first.tool("kill_job", job_id=standing)
        self._end()
        return self._report()

    def _start_server(self) -> Server:
        settings = {"MCP_BG_MAX_JOBS": "1000", "MCP_BG_KEEP_JOBS": "1000000", "BGJOB_HOME": str(self.store)}
        server = self.lab.start(self.lab.ours, **settings)
        self.servers.append(server)
        server.initialize()
        return server

    def _all_rounds(self, ended: Sequence[str]) -> None:
        processes.settle()
        at_rest, files = processes.names(), self._open_files()
        with ThreadPoolExecutor(self.clients) as pool:
            for _ in range(self.rounds):
                self._ask("idle")
                jobs = [job for its in pool.map(self._start_jobs, self.agents) for job in its]
                self._work(pool, [*jobs, *ended[: len(jobs)]])
                self._kill_jobs(pool, jobs)
        wait_until(lambda: not processes.names() - at_rest, "the jobs are gone", within_s=AT_REST_WITHIN_S)
        # a server that has just started a job listens for its shim's report until the next call
        self.found.expect("files that servers left open", max(0, self._open_files() - files), 0)

    def _ask(self, when: str, seconds: float = 0.0) -> None:
        self.probe.work({self.probe.ask: 1}, time.monotonic() + (seconds or self.seconds))
        self._harvest(self.probe, when)

    def _start_jobs(self, agent: Agent) -> list[str]:
        share = range(self.jobs // self.clients)
        return [str(agent.start(STANDING[number % len(STANDING)])["job_id"]) for number in share]

    def _work(self, pool: ThreadPoolExecutor, known: Sequence[str]) -> None:
        until = time.monotonic() + self.seconds
        for agent in self.agents:
            agent.known, agent.calls_per_s = known, CALLS_PER_S
        working = [pool.submit(agent.work, _mix(agent), until) for agent in self.agents]
        self._ask("load", until - time.monotonic())
        for each in working:
            each.result()
        for agent in self.agents:
            agent.calls_per_s = None
            self._harvest(agent, "load")

    def _kill_jobs(self, pool: ThreadPoolExecutor, jobs: Sequence[str]) -> None:
        shares = [jobs[number :: self.clients] for number in range(self.clients)]
        began = time.monotonic()
        list(pool.map(lambda agent, share: [agent.kill(job) for job in share], self.agents, shares))
        self.found.notes.append(f"end of {len(jobs)} jobs by kill_job: {time.monotonic() - began:.1f} s")
        for agent in self.agents:
            agent.took_ms.clear()

    def _harvest(self, agent: Agent, when: str) -> None:
        for name, samples in agent.took_ms.items():
            self.took[when][name] += samples
        self.errors += agent.errors
        agent.took_ms.clear()
        agent.errors.clear()

    def _open_files(self) -> int:
        return sum(processes.open_files(server.pid) for server in self.servers)

    # -- ended jobs by the thousand: a few real ones, and copies of them under fresh ids -----------

    def _fill_store(self, server: Server) -> list[str]:
        originals = [str(server.tool("execute_command", wait_s=30, **one)["job_id"]) for one in ORIGINALS]
        store = Store(str(self.store))
        for number in range(self.ended):
            _copy(store, originals[number % len(originals)], age_s=number + 1.0)
        ended = [job_id for job_id in _all_ids(server) if job_id not in originals]
        if len(ended) != self.ended:
            raise BenchError(f"of {self.ended} ended jobs list_jobs shows {len(ended)}")
        known = [_story(server, job_id) for job_id in originals]
        for job_id in ended[:: max(1, len(ended) // READ_BACK)]:
            story = _story(server, job_id)
            expect(story in known, f"{job_id} reads like one of the originals", {"story": story})
        return ended

    # -- the end ------------------------------------------------------------------------------------

    def _end(self) -> None:
        memory = [processes.memory_mb(server.pid, "Pss") for server in self.servers]
        self.found.notes.append(f"memory of a server after the load, PSS: at most {max(memory):.0f} MB")
        for server in self.servers:
            server.end()
            self.errors += [f"a server's stderr: {server.stderr[-400:]}"] if server.stderr.strip() else []
        wait_until(lambda: not processes.names(), "all processes are gone", within_s=AT_REST_WITHIN_S)
        unfinished = [entry for name in ("drafts", "trash") for entry in (self.store / name).iterdir()]
        self.found.expect("unfinished job directories", len(unfinished), 0)

    def _report(self) -> Result:
        idle, load = self.took["idle"], self.took["load"]
        goals: dict[str, Goal] = {
            "get_job_status, running": p95_ratio_at_most(3),
            "get_job_status, ended": p95_ratio_at_most(3),
            "list_jobs": p95_at_most(100, "ms"),
        }
        names = [*goals, *sorted(name for name in load if name not in goals and not name.startswith("("))]
        rows = [Row(name, "ms", load[name], idle[name], "idle", goals.get(name)) for name in names]
        calls = sum(map(len, load.values())) / self.rounds / self.seconds
        self.found.notes.append(
            f"{self.clients} clients, {self.jobs} running jobs, {self.ended} ended ones; "
            f"{self.rounds} rounds of {self.seconds:g} s idle and as much load; {calls:.0f} calls/s under load"
        )
        self.found.expect("calls that failed or answered wrongly", len(self.errors), 0)
        self.found.failures.extend(sorted(set(self.errors))[:10])
        return Result(rows, self.found.notes, self.found.failures)


def _mix(agent: Agent) -> dict[Act, int]:
    """Acts and their weights."""
    looks = {agent.status: 30, agent.tail: 20, agent.read: 10, agent.list: 7, agent.search: 5}
    return {**looks, agent.run: 10, agent.type: 4, agent.use_a_terminal: 2, agent.kill_a_tree: 3}


def _copy(store: Store, job_id: str, age_s: float) -> None:
    """By bgjob's own code, with the times moved into the past: no reader can tell it from a job that ran."""
    original, spec = Path(store.directory(job_id)), store.load(job_id).spec
    new = store.create(replace(spec, id=str(uuid.uuid4()), created_at=spec.created_at - age_s))
    os.close(new.lock)
    for name in (RUN, OUTCOME):
        record = jobdir.read_record(str(original / name)) or {}
        moved: Json = {key: record[key] - age_s for key in ("started_at", "ended_at") if key in record}
        jobdir.reserve_record(f"{new.directory}/{name}")
        jobdir.write_record(f"{new.directory}/{name}", {**record, **moved})
    if (original / LOG).is_dir():
        shutil.copytree(original / LOG, f"{new.directory}/{LOG}")


def _all_ids(server: Server) -> Iterator[str]:
    cursor = None
    while True:
        page = server.tool("list_jobs", limit=1000, cursor=cursor)
        yield from (job["job_id"] for job in page["jobs"])
        if (cursor := page.get("next_cursor")) is None:
            return


def _story(server: Server, job_id: str) -> list[object]:
    status = server.tool("get_job_status", job_id=job_id)
    output = server.tool("get_job_output", job_id=job_id)
    return [status["status"], status.get("exit_code"), output["stdout"], output["stderr"]]
