"""A relay with many machines: what it costs per machine and per job, and how late its copies are."""

import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import processes
from bench.lab import BenchError, Lab, wait_until
from bench.report import Result, Row, Samples, p95_at_most
from bench.scale_relay import TARGET
from bgjob.api import Jobs, open_jobs
from bgjob.core.job import Spec
from bgjob.core.targets import as_record
from bgjob.home import jobdir, target_dir
from bgjob.home.jobdir import OUTCOME, REMOTE, RUN
from bgjob.home.log_format import segment_name
from bgjob.store.store import Store

LINES_PER_S = 1000
PAGE = 20
# Of all jobs. The others run: two descriptors each, and most systems allow 20,000 or more.
ENDED_ONE_IN = 5
LATE_MS, LIST_MS = 500.0, 100.0
ADOPTED_S, SEEN_S = 300.0, 60.0
# Of the machine's own clock, which both processes read.
LOOK_EVERY_S = 0.0005


def scale(lab: Lab) -> Result:
    """one relay with 200 machines that are made up and 10,000 jobs: messages, CPU, memory, how late, list of 20"""
    nodes, jobs = lab.rounds(200, 4), lab.rounds(10_000, 50)
    simulation = Simulation(lab.new_home() / "jobs", nodes, jobs)
    with contextlib.closing(simulation):
        return _measured(simulation, lab)


class Simulation:
    """The store, the agents in one process, the relay in another."""

    def __init__(self, home: Path, nodes: int, jobs: int) -> None:
        self.home, self.nodes = home, nodes
        self.ids = _make_jobs(home, nodes, jobs)
        """Of those that run."""
        self._opened = contextlib.ExitStack()
        path = str(home.parent / "agents")
        self._agents = self._started("bench.scale_agents", path)
        wait_until(lambda: os.path.exists(path), "the agents listen")  # noqa: PTH110
        self.relay = self._started("bench.scale_relay", str(home), path)
        environment = {**os.environ, "BGJOB_HOME": str(home), "MCP_BG_KEEP_JOBS": "1000000"}
        self.jobs: Jobs = self._opened.enter_context(contextlib.closing(open_jobs(environment)))

    def _started(self, module: str, *arguments: str) -> "subprocess.Popen[str]":
        argv = [sys.executable, "-m", module, *arguments]
        root = str(Path(__file__).resolve().parents[1])
        pipe, environ = subprocess.PIPE, {**os.environ, "PYTHONPATH": root}
        started = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, env=environ)
        self._opened.callback(started.wait)
        self._opened.callback(started.kill)
        return self._opened.enter_context(contextlib.closing(_Pipes(started))).process

    def close(self) -> None:
        self._opened.close()

    def order(self, *words: object) -> Any:
        assert self._agents.stdin
        assert self._agents.stdout
        print(json.dumps(words), file=self._agents.stdin, flush=True)
        return json.loads(self._agents.stdout.readline())

    def path(self, job_id: str, name: str) -> Path:
        return self.home / "jobs" / job_id / name

    def wait_for(self, name: str, job_ids: Sequence[str]) -> float:
        """How many seconds until all of them have this file."""
        began, left = time.monotonic(), list(job_ids)

        def is_done() -> bool:
            self.check_relay()
            while left and self.path(left[-1], name).exists():
                left.pop()
            return not left

        wait_until(is_done, f"{len(job_ids)} jobs have {name}", within_s=ADOPTED_S, every_s=0.01)
        return time.monotonic() - began

    def check_relay(self) -> None:
        if self.relay.poll() is not None:
            raise BenchError(f"the relay has ended with {self.relay.returncode}")

    def late_ms(self, job_id: str) -> float:
        """From a line over there until its file here has it."""
        log = self.path(job_id, f"log/{segment_name(0)}")
        before = _size(log)
        self.order("line", job_id)
        wait_until(lambda: _size(log) > before, "the line is here", within_s=SEEN_S, every_s=LOOK_EVERY_S)
        printed_at = float(log.read_bytes()[before:].split(b"\n")[0].split()[0])
        return (log.stat().st_mtime - printed_at) * 1000

    def list_ms(self) -> float:
        began = time.perf_counter()
        if len(self.jobs.list(limit=PAGE).jobs) != min(PAGE, len(self.ids)):
            raise BenchError("the list is not complete")
        return (time.perf_counter() - began) * 1000


class _Pipes:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _make_jobs(home: Path, nodes: int, count: int) -> list[str]:
    """As a new relay finds them: most run, and nothing of them is here; the others have ended."""
    store = Store(str(home))
    target_dir.make(store.home, TARGET.name, as_record(TARGET))
    ids = [str(uuid.uuid4()) for _ in range(count)]
    running = [job_id for number, job_id in enumerate(ids) if number % ENDED_ONE_IN]
    for number, job_id in enumerate(ids):
        spec = Spec(
            id=job_id,
            command=f"python train.py --part {number}",
            shell="/bin/sh",
            cwd="/",
            created_at=time.time(),
            max_output_bytes=10 << 20,
            target=TARGET.name,
        )
        node = f"node{number % nodes}"
        remote = {"phase": "running", "node": node, "host": node}
        if number % ENDED_ONE_IN:
            target_dir.add(store.home, TARGET.name, job_id)
        new = store.create(spec, records={REMOTE: remote})
        if not number % ENDED_ONE_IN:
            jobdir.write_record(f"{new.directory}/{OUTCOME}", jobdir.unstarted(cause="killed"))
        os.close(new.lock)
    return running


# -- what is measured -------------------------------------------------------------------------------------


def _measured(simulation: Simulation, lab: Lab) -> Result:
    notes, rounds = [], lab.rounds(100, 5)
    count, pid = len(simulation.ids), simulation.relay.pid
    title = f"{simulation.nodes} machines, {count:,} running jobs"
    took_s = simulation.wait_for(RUN, simulation.ids)
    processes_cpu = processes.cpu_s(pid)
    notes.append(
        f"a new relay has taken on {count:,} jobs after {took_s:.1f} s, {processes_cpu:.1f} s of CPU"
    )
    with _noted(simulation, "at rest", notes):
        quiet = _probed(simulation, rounds)
    simulation.order("print", LINES_PER_S if not lab.quick else 50)
    with _noted(simulation, f"{LINES_PER_S if not lab.quick else 50:,} lines a second", notes):
        busy = _probed(simulation, rounds)
    simulation.order("print", 0)
    notes.append(_size_words(pid, simulation))
    notes.append(_ends_words(simulation, lab.rounds(1000, 5)))
    against = "at rest"
    return Result(
        [
            Row(f"{title}: line to file", "ms", busy[0], quiet[0], against, p95_at_most(LATE_MS, "ms")),
            Row(f"{title}: list of {PAGE}", "ms", busy[1], quiet[1], against, p95_at_most(LIST_MS, "ms")),
        ],
        notes,
    )


def _probed(simulation: Simulation, rounds: int) -> tuple[Samples, Samples]:
    """How late lines of several jobs are, and what a list takes meanwhile."""
    late, listed = list[float](), list[float]()
    for number in range(rounds):
        late.append(simulation.late_ms(simulation.ids[number * 7919 % len(simulation.ids)]))
        listed.append(simulation.list_ms())
        time.sleep(0.02)
    return late, listed


@contextlib.contextmanager
def _noted(simulation: Simulation, when: str, notes: list[str]) -> Iterator[None]:
    """Messages and CPU of the relay meanwhile."""
    pid = simulation.relay.pid
    before, cpu_s, began = simulation.order("counts"), processes.cpu_s(pid), time.monotonic()
    yield
    took_s, now = time.monotonic() - began, simulation.order("counts")
    share = (processes.cpu_s(pid) - cpu_s) / took_s
    rate: Callable[[str], float] = lambda word: (now[word] - before[word]) / took_s  # noqa: E731
    notes.append(
        f"{when}, {took_s:.1f} s: {rate('said'):.0f} messages/s to the relay, {rate('heard'):.0f} from it; "
        f"{rate('printed'):.0f} lines/s, {100 * share:.1f} % of a CPU"
    )


def _size_words(pid: int, simulation: Simulation) -> str:
    memory, files = processes.memory_mb(pid, "Rss"), processes.open_files(pid)
    each_kb = 1000 * memory / len(simulation.ids)
    return f"the relay has {memory:.0f} MB (RSS; {each_kb:.1f} kB per job) and {files:,} descriptors"


def _ends_words(simulation: Simulation, count: int) -> str:
    """The agents end those first that they follow longest: so all are looked at."""
    before = processes.cpu_s(simulation.relay.pid)
    began = time.monotonic()
    simulation.order("end", count)

    def are_seen() -> bool:
        simulation.check_relay()
        left = len(target_dir.registered(str(simulation.home), TARGET.name))
        return left <= len(simulation.ids) - count

    wait_until(are_seen, "the ends are here", within_s=ADOPTED_S, every_s=0.02)
    took_s, cpu_s = time.monotonic() - began, processes.cpu_s(simulation.relay.pid) - before
    seen = sum(simulation.path(job_id, OUTCOME).exists() for job_id in simulation.ids)
    if seen < count:
        raise BenchError(f"{seen} of {count} ends are here")
    return f"{count:,} ends at once are here after {took_s:.2f} s, {1000 * cpu_s / count:.2f} ms of CPU each"
