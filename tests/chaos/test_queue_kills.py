"""Eight processes submit, cancel and kill -9 each other and whoever serves them, while the queue moves.

BGJOB_CHAOS_QUEUE=500      how many kills; scripts/chaos has more
"""

import collections
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from bgjob.api import Jobs, open_jobs
from bgjob.core.job import Exited, Killed, Lost, NeverStarted, Queued, Running
from bgjob.home import jobdir, queue_dir
from tests.chaos.model_jobs import carriers, described, strike
from tests.chaos.queue_people import GROUPS, MARK, SLOTS, Notes
from tests.support.requires import linux_only
from tests.support.waiting import wait_until

pytestmark = linux_only
STRIKES = int(os.environ.get("BGJOB_CHAOS_QUEUE") or 500)
SEED = int(os.environ.get("BGJOB_CHAOS_SEED") or random.randrange(1 << 32))
ROOT = Path(__file__).parents[2]
MOST_SHOWN = 20


@pytest.mark.timeout(900 + STRIKES)
def test_nothing_is_lost_or_doubled_whoever_is_killed(tmp_path: Path) -> None:
    print(f"{STRIKES} kills, BGJOB_CHAOS_SEED={SEED}")
    home = tmp_path / "home"
    mark = f"{MARK}={home}"
    environment = {
        **os.environ,
        MARK: str(home),
        "MCP_BG_MAX_JOBS": str(SLOTS),
        "MCP_BG_GROUPS": ",".join(f"{name}={slots}" for name, slots in GROUPS.items()),
        "MCP_BG_KEEP_JOBS": "100000",
    }
    began = time.monotonic()
    try:
        people = [sys.executable, "-m", "tests.chaos.queue_people", str(tmp_path), str(STRIKES), str(SEED)]
        subprocess.run(people, cwd=ROOT, env=environment, check=True)
        jobs = open_jobs(environment)
        see_them_end(jobs)
        wait_until(lambda: not carriers(mark), "nobody is left", lambda: described(carriers(mark)))
    finally:
        strike(carriers(mark), mark)
    notes = Notes(tmp_path)
    verdict = Readiness(jobs, notes)
    verdict.check()
    struck = collections.Counter(notes.struck())
    print(f"{dict(struck)} killed in {time.monotonic() - began:.0f} s; {dict(verdict.outcomes)}")
    if verdict.violations:
        pytest.fail("\n".join(verdict.violations[:MOST_SHOWN]), pytrace=False)
    assert sum(struck.values()) >= STRIKES
    assert min(struck[role] for role in ("shim", "guard", "drainer", "keeper", "person")) > STRIKES / 100
    assert verdict.outcomes["whole"] > STRIKES / 2


def see_them_end(jobs: Jobs) -> None:
    """One look is enough to have the queue go on; then nothing waits, and nothing runs, for ever."""
    jobs.list(limit=100_000)

    def left() -> list[str]:
        return [str(job) for _, job in jobs.store.jobs() if isinstance(job.state, Running)]

    wait_until(lambda: not left(), "all have ended", lambda: "\n".join(left()[:5]))
    jobs.close()


class Readiness:
    def __init__(self, jobs: Jobs, notes: Notes) -> None:
        self._jobs, self._notes = jobs, notes
        self._journal = [line.split() for line in notes.journal.read_text().splitlines()]
        self._starts = collections.Counter(job_id for sign, job_id, _ in self._journal if sign == "+")
        self._ends = collections.Counter(job_id for sign, job_id, _ in self._journal if sign == "-")
        self._lost: set[str] = set()
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.violations: list[str] = []

    def check(self) -> None:
        self.violations += [f"{job_id} has started {n} times" for job_id, n in self._starts.items() if n > 1]
        self.violations += [f"{text}" for text in self._notes.said("error")]
        self._check_states()
        self._check_slots(SLOTS, None)
        for group, slots in GROUPS.items():
            self._check_slots(slots, group)
        self._check_what_is_left(Path(self._jobs.home))

    def _check_states(self) -> None:
        submitted, asked = set(self._notes.said("submitted")), set(self._notes.said("asked"))
        there = {job.id: job for _, job in self._jobs.store.jobs()}
        self.violations += [f"{job_id} is forgotten" for job_id in submitted - there.keys()]
        for job_id, job in there.items():
            word = self._judged(job_id, job.state, job_id in asked)
            if word == "lost":
                self._lost.add(job_id)
                word = "violation" if job_id in submitted or self._starts[job_id] else "never acknowledged"
            self.outcomes[word] += 1
            if word == "violation":
                self.violations.append(f"{job_id}: {job.state}, {self._starts[job_id]} starts")

    def _judged(self, job_id: str, state: object, was_asked: bool) -> str:
        starts, ends = self._starts[job_id], self._ends[job_id]
        match state:
            case Exited(code=code) if code in (0, 1) and (starts, ends) == (1, 1):
                return "whole"
            case Killed() if was_asked and ends <= starts <= 1:
                return "killed" if starts else "cancelled"
            case NeverStarted(reason=why) if why.startswith("it was to run after") and starts == 0:
                return "not run"
            case Lost():
                return "lost"
            case _:
                return "violation"

    def _check_slots(self, most: int, group: str | None) -> None:
        """By the order in which the jobs wrote: each between its two lines has a slot. Of a killed one nobody knows."""
        running: set[str] = set()
        for sign, job_id, its_group in self._journal:
            if self._ends[job_id] and job_id not in self._lost and group in (None, its_group):
                (running.add if sign == "+" else running.discard)(job_id)
            if len(running) > most:
                self.violations.append(f"{len(running)} run at once, of {group or 'all'}: {sorted(running)}")
                return

    def _check_what_is_left(self, home: Path) -> None:
        left = [*home.glob("jobs/*/papers"), *home.glob("jobs/*/shim-error.txt"), *home.glob("trash/*")]
        left += [home / "queue" / entry for entry in queue_dir.entries(str(home))]
        left += [slot for slot in held(home.glob("slots/*")) if slot.is_file()]
        self.violations += [f"left behind: {path}" for path in left]
        for error in home.glob("jobs/*/shim-error.txt"):
            self.violations.append(error.read_text())


def held(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if jobdir.is_locked(str(path))]


def test_the_judge_can_tell(tmp_path: Path) -> None:
    """A doubled start, a forgotten job and one too many at once are violations."""
    notes = Notes(tmp_path)
    ids = [f"{n}0000000-0000-4000-8000-000000000000" for n in range(1, 7)]
    lines = [f"+ {job_id} -" for job_id in ids] + [f"- {job_id} -" for job_id in ids] + [f"+ {ids[0]} -"]
    notes.journal.write_text("\n".join(lines) + "\n")
    notes.say(f"submitted {ids[0]}")
    verdict = Readiness(open_jobs({**os.environ, "BGJOB_HOME": str(tmp_path / "home")}), notes)
    verdict.check()
    said = "\n".join(verdict.violations)
    assert f"{ids[0]} has started 2 times" in said
    assert f"{ids[0]} is forgotten" in said
    assert "5 run at once, of all" in said
    assert verdict._judged(ids[0], Queued(None), False) == "violation"
