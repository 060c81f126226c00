"""When a system call fails in the starter, the shim or the guard: a clean error, or the full result.

Every cell of {fault} x {call} x {process} is tried once, each at another moment of that process's life;
with BGJOB_FAULTS=all, at every moment, and with other kinds of job. `pytest -s` shows what became of the jobs.
"""

import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.chaos.faults import (
    BOUNDED,
    CALLS,
    DELAY,
    FAULTS,
    KIND,
    TERMINAL,
    Case,
    Injection,
    Result,
    attempt,
    counts_of,
)
from tests.chaos.stage import Role, Stage, built_stage
from tests.support.requires import linux_only, needs

AT_ONCE = 6
MOMENTS = 6
BRIEF = ("EAGAIN", "EINTR", DELAY)  # whoever gets these tries again: for ever would be for ever
ALL = os.environ.get("BGJOB_FAULTS") == "all"
USUAL = {
    "starter": [Case("starter"), Case("starter", launch="zygote to boot")],
    "shim": [Case("shim")],
    "guard": [Case("guard")],
}
FURTHER = {
    "starter": [Case("starter", launch="fresh")],
    "shim": [Case("shim", BOUNDED), Case("shim", TERMINAL)],
    "guard": [Case("guard", BOUNDED), Case("guard", TERMINAL)],
}
# The shim, not the starter, makes a job durable. A guard makes a control group only if it takes over before the shim
# has made one, as on a busy machine.
SELDOM_CALLED = {"starter": {"splice", "fsync"}, "shim": set[str](), "guard": {"mkdir"}}

Trial = tuple[Case, Injection]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with built_stage() as stage:
        yield stage


@linux_only
@needs("strace")
@pytest.mark.timeout(3600 if ALL else 900)
@pytest.mark.parametrize("role", ["starter", "shim", "guard"])
def test_a_system_call_that_fails_costs_no_truth(stage: Stage, role: Role) -> None:
    cases = USUAL[role] + (FURTHER[role] if ALL else [])
    trials = [(case, injection) for case in cases for injection in injections(counts_of(stage, case))]
    results = attempt_all(stage, trials if ALL else one_of_each_cell(trials))
    print(f"\n{role}:\n{summary(results)}")
    assert not [str(result) for result in results if result.violates]
    struck = {KIND[result.injection.call] for result in results if result.strikes}
    assert CALLS.keys() - struck <= SELDOM_CALLED[role]


def injections(counts: Counter[str]) -> Iterator[Injection]:
    for call, fault in itertools.product(sorted(counts), FAULTS):
        for moment in moments(fault, counts[call]):
            yield Injection(call, fault, moment)


def moments(fault: str, count: int) -> list[str]:
    """Some of the times that the call is made, with the first and the last; several in a row; from one on."""
    steps = range(min(count, MOMENTS))
    single = [1 + round(step * (count - 1) / max(1, len(steps) - 1)) for step in steps]
    return [*map(str, single), *(["1..5"] if fault in BRIEF else sorted({"1+", f"{count // 2 + 1}+"}))]


def one_of_each_cell(trials: list[Trial]) -> list[Trial]:
    """Each fault at another moment than the fault before, so that most moments have their turn."""
    cells: dict[tuple[str, str], list[Trial]] = {}
    for case, injection in trials:
        cells.setdefault((KIND[injection.call], injection.fault), []).append((case, injection))
    return [cell[5 * number % len(cell)] for number, cell in enumerate(cells.values())]


def attempt_all(stage: Stage, trials: Iterable[Trial]) -> list[Result]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda trial: attempt_until_struck(stage, *trial), trials))


def attempt_until_struck(stage: Stage, case: Case, injection: Injection) -> Result:
    """How often output is moved is up to the scheduler: it may have been less often than before."""
    result = attempt(stage, case, injection)
    return result if result.strikes else attempt(stage, case, injection._replace(when="1"))


def summary(results: list[Result]) -> str:
    calls = Counter((KIND[result.injection.call], result.outcome) for result in results if result.strikes)
    lines = [f"{number:5} {call:7} {outcome}" for (call, outcome), number in sorted(calls.items())]
    cells = {(KIND[result.injection.call], result.injection.fault) for result in results if result.strikes}
    missed, died = (
        sum(map(bool, kind)) for kind in ([not r.strikes for r in results], [r.crash for r in results])
    )
    figures = f"{len(cells)} cells, {len(results)} trials, {missed} missed; {died} times a shim died of it"
    return "\n".join([*lines, figures])


WITHOUT_DESCRIPTORS = """
import os, resource, sys
from bgjob.api import open_jobs
from bgjob.core.errors import BgjobError
from bgjob.core.job import Running
jobs = open_jobs({**os.environ, "BGJOB_HOME": sys.argv[1]}, many=False)
job_id = jobs.execute("sleep 1000").id
most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, most[1]))
try:
    state = jobs.status(job_id).job.state
    assert isinstance(state, Running), state
except BgjobError as error:
    assert "try again" in str(error), error
resource.setrlimit(resource.RLIMIT_NOFILE, most)
state = jobs.status(job_id).job.state
jobs.kill(job_id, grace_s=0)
assert isinstance(state, Running), state
"""


def test_a_reader_without_descriptors_does_not_judge_a_job(tmp_path: Path) -> None:
    """What cannot be read is not lost; and what was wrong for a moment is not remembered."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DESCRIPTORS, tmp_path / "home"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
