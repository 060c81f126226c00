"""Several servers on one queue, beside a model of it: who may run runs, who may not waits, and each runs once.

BGJOB_MODEL=200 has Hypothesis make up so many stories (in scripts/test, a few).
"""

import contextlib
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from bgjob.api import Jobs, open_jobs
from bgjob.core.errors import InvalidArgument
from bgjob.core.job import Exited, Killed, NeverStarted, Queued, Running, State
from bgjob.home import queue_dir
from tests.chaos.killer import pair_of
from tests.chaos.model_jobs import carriers, described, locked_slots, name_of, strike
from tests.chaos.model_servers import Server, ServerRoom
from tests.support.requires import linux_only
from tests.support.waiting import wait_until

pytestmark = linux_only
SLOTS, GPU = 2, 1
SERVERS = 3
EXAMPLES = int(os.environ.get("BGJOB_MODEL") or 6)
STEPS = 25
MOST_JOBS = 14
SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    database=None,
)
NUMBERS = st.integers(0, 99)
PARTS = {"drainer": ["bgjob-queue"], "keeper": ["bgjob-keeper"], "both": ["bgjob-keeper", "bgjob-queue"]}


@dataclass
class Queueing:
    """What the model knows of a job."""

    id: str
    gate: int
    group: str | None
    after: str | None
    any_end: bool
    priority: int
    place: str = ""
    """Of those who submit at once nobody knows who was first, but the store."""
    state: str = "queued"  # running, done, failed, killed, never
    struck: bool = field(default=False)

    @property
    def rank(self) -> tuple[int, str]:
        return -self.priority, self.place

    @property
    def is_over(self) -> bool:
        return self.state not in ("queued", "running")


def word_of(state: State) -> str:
    match state:
        case Queued():
            return "queued"
        case Running():
            return "running"
        case Exited(code=0):
            return "done"
        case Exited():
            return "failed"
        case Killed():
            return "killed"
        case NeverStarted():
            return "never"
        case _:
            return str(state)


class LifeOfAQueue(RuleBasedStateMachine):
    room: ServerRoom

    def __init__(self) -> None:
        super().__init__()
        self.scratch = Path(tempfile.mkdtemp(prefix="bgjob-queue-model-"))
        self.home, self.journal = self.scratch / "home", self.scratch / "journal"
        self.mark = f"BGJOB_HOME={self.home}"
        self.environment = {
            **os.environ,
            "BGJOB_HOME": str(self.home),
            "MCP_BG_MAX_JOBS": str(SLOTS),
            "MCP_BG_GROUPS": f"gpu={GPU}",
        }
        self.servers: list[Server] = []
        self.jobs: dict[str, Queueing] = {}
        self.count = 0
        self.found: dict[str, str] = {}
        self.could_run: set[str] = set()
        self.mutex = threading.Lock()

    @initialize()
    def begin(self) -> None:
        self.servers = [self.new_server() for _ in range(SERVERS)]

    def new_server(self) -> Server:
        return self.room.server(self.environment, self.scratch / "stderr", executed=False)

    def door(self) -> Jobs:
        return open_jobs(self.environment, many=False)

    # -- steps --------------------------------------------------------------------------------------

    @rule(
        whom=NUMBERS,
        priority=st.integers(-1, 1),
        gpu=st.booleans(),
        after=st.none() | NUMBERS,
        any_end=st.booleans(),
    )
    def somebody_submits(self, whom: int, priority: int, gpu: bool, after: int | None, any_end: bool) -> None:
        if len(self.jobs) < MOST_JOBS:
            self.submit(self.servers[whom % SERVERS], priority, gpu, after, any_end)

    @rule(priority=st.integers(-1, 1), gpu=st.booleans(), after=st.none() | NUMBERS)
    def all_submit_at_once(self, priority: int, gpu: bool, after: int | None) -> None:
        if len(self.jobs) + SERVERS > MOST_JOBS:
            return
        threads = [
            threading.Thread(target=self.submit, args=(server, priority, gpu, after, False))
            for server in self.servers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def submit(self, server: Server, priority: int, gpu: bool, after: int | None, any_end: bool) -> None:
        with self.mutex:
            self.count += 1
            number, known = self.count, list(self.jobs)
        fifo = self.scratch / f"gate-{number}"
        os.mkfifo(fifo)
        gate = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        behind = known[after % len(known)] if known and after is not None else None
        options: dict[str, Any] = {"priority": priority, "group": "gpu" if gpu else None}
        if behind:
            options |= {"after": [behind], "after_policy": "any" if any_end else "success"}
        command = f'echo "$BGJOB_ID" >> {self.journal}; read code < {fifo}; exit $code'
        job_id = server.call("execute_command", command=command, queue=True, **options)["job_id"]
        with self.mutex:
            self.jobs[job_id] = Queueing(job_id, gate, "gpu" if gpu else None, behind, any_end, priority)

    @rule(which=NUMBERS, code=st.sampled_from([0, 0, 0, 3]))
    def a_job_ends(self, which: int, code: int) -> None:
        if job := self.one(which, "running"):
            os.write(job.gate, b"%d\n" % code)
            job.state = "failed" if code else "done"

    @rule(whom=NUMBERS, which=NUMBERS)
    def somebody_cancels(self, whom: int, which: int) -> None:
        if job := self.one(which, "queued", "running"):
            answer = self.servers[whom % SERVERS].call("kill_job", job_id=job.id, grace_s=0)
            assert answer["status"] == "killed"
            job.state = "killed"

    @rule(which=NUMBERS, priority=st.integers(-3, 3))
    def somebody_moves(self, which: int, priority: int) -> None:
        if job := self.one(which, "queued"):
            with contextlib.suppress(InvalidArgument):
                self.door().prioritize(job.id, priority)
                job.priority = priority

    @rule(whom=NUMBERS)
    def a_server_is_killed(self, whom: int) -> None:
        self.servers[whom % SERVERS].kill()
        self.servers[whom % SERVERS] = self.new_server()

    @rule(part=st.sampled_from(sorted(PARTS)))
    def who_drains_is_killed(self, part: str) -> None:
        strike([pid for pid in carriers(self.mark) if name_of(pid) in PARTS[part]], self.mark)

    @rule(which=NUMBERS, part=st.sampled_from(["shim", "guard"]))
    def a_part_of_a_job_is_killed(self, which: int, part: str) -> None:
        job = self.one(which, "running")
        run = self.door().status(job.id).job.run if job and not job.struck else None
        pair = pair_of(run.shim_pid) if run else None
        if job and pair:
            strike([getattr(pair, part)], self.mark)
            job.struck = True

    def one(self, which: int, *states: str) -> Queueing | None:
        there = [job for job in self.jobs.values() if job.state in states]
        return there[which % len(there)] if there else None

    # -- what always holds --------------------------------------------------------------------------

    @invariant()
    def the_queue_comes_to_rest_as_the_model_says(self) -> None:
        places = {job_id: place for place, job_id in self.door().store.ids()}
        for job in self.jobs.values():
            job.place = places[job.id]
        wait_until(self.is_at_rest, "the queue is at rest", self.described)
        started = [job for job in self.jobs.values() if job.state == "queued" and self.is_now(job, "running")]
        for job in self.jobs.values():
            assert not job.is_over or job.state == self.found[job.id], job
            job.state = self.found[job.id]
        self.nobody_was_passed_over(started)
        self.could_run = {job.id for job in self.jobs.values() if job.state == "queued" and self.may_run(job)}
        self.check_counts()

    def is_now(self, job: Queueing, word: str) -> bool:
        return self.found[job.id] == word

    def is_at_rest(self) -> bool:
        """Nothing waits that could go on; and all that has ended is known to have."""
        door = self.door()
        self.found = {job_id: word_of(door.status(job_id).job.state) for job_id in self.jobs}
        started = self.starts()
        return all(self.rests(job, started) for job in self.jobs.values())

    def rests(self, job: Queueing, started: list[str]) -> bool:
        now = self.found[job.id]
        if job.is_over:
            return now == job.state
        if now == "running":
            return job.id in started
        if now == "queued":
            return not self.is_doomed(job) and not (self.may_run(job) and self.has_room(job))
        return now == "never" and self.is_doomed(job) and not self.has_papers(job)

    def has_papers(self, job: Queueing) -> bool:
        """Its end is on disk, and synced, a moment before they are gone."""
        return (self.home / "jobs" / job.id / "papers").exists()

    def is_doomed(self, job: Queueing) -> bool:
        return bool(job.after) and not job.any_end and self.ended(job.after) in ("failed", "killed", "never")

    def may_run(self, job: Queueing) -> bool:
        end = self.ended(job.after)
        return job.after is None or end == "done" or (job.any_end and end is not None)

    def ended(self, job_id: str | None) -> str | None:
        word = self.found.get(job_id or "", "queued")
        return None if word in ("queued", "running") else word

    def has_room(self, job: Queueing) -> bool:
        running = [other for other in self.jobs.values() if self.is_now(other, "running")]
        gpus = [other for other in running if other.group == "gpu"]
        return len(running) < SLOTS and (job.group is None or len(gpus) < GPU)

    def nobody_was_passed_over(self, started: list[Queueing]) -> None:
        """Whoever could have run before this step, and is still waiting, has a place behind those who started."""
        for waiting in self.jobs.values():
            if waiting.state == "queued" and waiting.id in self.could_run and waiting.group is None:
                assert all(job.rank < waiting.rank for job in started), (waiting, started)

    def check_counts(self) -> None:
        starts = self.starts()
        assert len(starts) == len(set(starts)), "started twice"
        running = [job for job in self.jobs.values() if job.state == "running"]
        assert len(running) <= SLOTS
        assert len([job for job in running if job.group]) <= GPU
        for job in self.jobs.values():
            assert self.has_papers(job) == (job.state == "queued"), job
            if job.state in ("done", "failed", "running"):
                assert job.id in starts
            if job.state in ("queued", "never"):
                assert job.id not in starts

    def starts(self) -> list[str]:
        return self.journal.read_text().split() if self.journal.exists() else []

    def described(self) -> str:
        return "\n".join(f"{self.found.get(job.id)}: {job}" for job in self.jobs.values())

    # -- the end ------------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            door = self.door()
            for states in (("queued",), ("running",)):
                for job in [job for job in self.jobs.values() if job.state in states]:
                    door.kill(job.id, grace_s=0)
            for server in self.servers:
                server.close()
            wait_until(
                lambda: not carriers(self.mark), "nobody is left", lambda: described(carriers(self.mark))
            )
            assert locked_slots(self.home) == 0
            assert queue_dir.entries(str(self.home)) == []
            assert not list(self.home.glob("jobs/*/papers")) + list(self.home.glob("jobs/*/shim-error.txt"))
        finally:
            strike(carriers(self.mark), self.mark)
            for job in self.jobs.values():
                os.close(job.gate)
            shutil.rmtree(self.scratch)


@pytest.fixture(scope="module")
def room() -> Iterator[ServerRoom]:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with ServerRoom() as room:
        yield room


@pytest.mark.timeout(600 + 60 * EXAMPLES)
def test_the_queue_is_what_the_model_says_whoever_is_killed(room: ServerRoom) -> None:
    LifeOfAQueue.room = room
    run_state_machine_as_test(LifeOfAQueue, settings=SETTINGS)
