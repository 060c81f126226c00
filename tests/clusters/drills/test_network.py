"""A hole in the network: nothing comes through, and no end is told. It is noticed by the silence, and said."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bgjob.api import Typed
from bgjob.core.errors import NotSteerable, TargetUnreachable
from bgjob.core.job import Running
from tests.clusters.drills.story import check_ends_well, check_goes_on, code_of, running
from tests.clusters.far_side import NOTICED_S, FarSide, disturbed
from tests.clusters.target import Target
from tests.support.gate import Gate
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.timeout(600)  # many trials, or a silence that takes its time


def test_it_is_said_since_when_and_all_goes_on_after_it(target: Target, far: FarSide, gate: Gate) -> None:
    job_id = running(target, gate)
    began = time.time()
    with far.host.line.silent():
        far.wait_until_unreachable(job_id)
        check_away(target, job_id, began)
        gate.open()
    far.wait_until_reachable(job_id)
    check_ends_well(target, job_id)
    assert [job.id for job in target.jobs.list().jobs] == [job_id]


def check_away(target: Target, job_id: str, since: float) -> None:
    """What was known is told, as it was; nothing can be asked of the job, and it is not said to have failed."""
    status = target.jobs.status(job_id)
    assert isinstance(status.job.state, Running)
    assert status.job.remote
    assert status.job.remote.unreachable_since
    assert since <= status.job.remote.unreachable_since <= time.time()
    assert target.jobs.tail(job_id, 1).stdout == "before\n"
    assert [job.id for job in target.jobs.list(status="running").jobs] == [job_id]
    asks: list[Callable[[], object]] = [
        lambda: target.jobs.interact(job_id, Typed("lost")),
        lambda: target.jobs.kill(job_id),
        lambda: target.start("true"),
    ]
    for ask in asks:
        with pytest.raises((TargetUnreachable, NotSteerable)):
            ask()


def test_looks_are_answered_at_once_while_it_is_not_noticed_yet(
    target: Target, far: FarSide, gate: Gate
) -> None:
    """They read what is here."""
    job_id = running(target, gate)
    with far.host.line.silent():
        began = time.monotonic()
        assert target.jobs.tail(job_id, 1).stdout == "before\n"
        assert isinstance(target.jobs.find(job_id).state, Running)
        assert [job.id for job in target.jobs.list().jobs] == [job_id]
        assert isinstance(target.jobs.status(job_id).job.state, Running)
        assert time.monotonic() - began < PATIENCE_S
    check_goes_on(target, job_id, gate)


def test_the_agent_behind_it_ends_by_itself(target: Target, far: FarSide, gate: Gate) -> None:
    """Else it would stay as long as sshd believes in its line."""
    job_id = running(target, gate)
    agents = set(far.host.agents())
    assert agents
    with far.host.line.silent():
        wait_until(lambda: not agents & set(far.host.agents()), "the agent has ended", within_s=NOTICED_S)
    check_goes_on(target, job_id, gate)


def test_a_host_is_reached_again_after_a_long_time(target: Target, far: FarSide, gate: Gate) -> None:
    """Neither a relay nor an agent is left. The job has gone on meanwhile, and ended."""
    job_id = target.start(f"{gate.pause}; seq 1 200000; exit 7")
    gate.wait_until_reached()
    with target.unreachable():
        far.wait_until_unreachable(job_id)
        far.kill("keeper_and_relay", job_id)
        wait_until(lambda: not far.host.agents(), "the agent has ended")
        gate.open()
        wait_until((target.far_home / "jobs" / job_id / "outcome.json").exists, "it has ended over there")
        assert isinstance(target.jobs.status(job_id).job.state, Running)
    assert code_of(target, job_id) == 7
    assert target.printed(job_id) == "".join(f"{number}\n" for number in range(1, 200_001)).encode()


def test_a_wait_outlasts_it(target: Target, far: FarSide, gate: Gate) -> None:
    job_id = running(target, gate)
    with ThreadPoolExecutor() as pool:
        with target.unreachable():
            waiting = pool.submit(target.wait, job_id, pattern="after", timeout_s=NOTICED_S, most_s=NOTICED_S)
            far.wait_until_unreachable(job_id)
            gate.open()
        waited = waiting.result()
    assert waited.came
    assert waited.came.condition == "pattern"


def test_nothing_is_typed_twice_when_the_line_is_cut(target: Target, far: FarSide, tmp_path: Path) -> None:
    """An answer says that it arrived, that it did not, or that this is not known."""
    job_id = target.start(f"while read line; do echo $line >> {tmp_path}/heard; echo heard $line; done")
    told: dict[str, str] = {}
    for ms in range(16):
        make_line(target)
        with disturbed(far.host.line.cut, ms):
            told[f"line-{ms}"] = typed(target, job_id, f"line-{ms}")
    make_line(target)
    wait_until(lambda: typed(target, job_id, "last") == "arrived", "the last line has arrived")
    heard = (tmp_path / "heard").read_text().split()
    assert len(heard) == len(set(heard))
    assert {word for word, how in told.items() if how == "arrived"} <= set(heard)
    assert {word for word, how in told.items() if how == "not sent"} & set(heard) == set()
    assert set(told.values()) <= {"arrived", "not sent", "unknown"}


def make_line(target: Target) -> None:
    """A start does not wait for the next attempt to connect: it asks for one."""
    target.ended(target.start("true"))


def typed(target: Target, job_id: str, word: str) -> str:
    try:
        said = target.jobs.interact(job_id, Typed(word), wait_s=PATIENCE_S)
    except TargetUnreachable:
        return "not sent"
    except NotSteerable as problem:
        return "unknown" if "may have arrived" in str(problem) else str(problem)
    return "arrived" if said.output.stdout == f"heard {word}\n" else "unknown"
