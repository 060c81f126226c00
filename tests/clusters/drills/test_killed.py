"""kill -9 of each process between a caller and a job: the job goes on, and so does whoever looks at it."""

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from bgjob.core.errors import NotSteerable, TargetUnreachable
from bgjob.core.job import Killed
from tests.clusters.drills.story import check_goes_on, code_of, running
from tests.clusters.far_side import FarSide, disturbed
from tests.clusters.held import Held
from tests.clusters.target import Target
from tests.support.gate import Gate
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)  # many trials, or a silence that takes its time

EVERYBODY = ["relay", "keeper", "keeper_and_relay", "client", "session", "agent", "shim"]


@pytest.mark.parametrize("who", EVERYBODY)
def test_a_job_goes_on(target: Target, far: FarSide, gate: Gate, who: str) -> None:
    job_id = running(target, gate)
    far.kill(who, job_id)
    check_goes_on(target, job_id, gate)


def test_a_job_goes_on_when_all_of_them_are_killed(target: Target, far: FarSide, gate: Gate) -> None:
    job_id = running(target, gate)
    for who in ("keeper_and_relay", "agent", "shim"):
        with contextlib.suppress(AssertionError):  # without a relay, the agent may have ended
            far.kill(who, job_id)
    check_goes_on(target, job_id, gate)


@pytest.mark.parametrize("who", ["relay", "keeper_and_relay", "client", "agent"])
def test_a_wait_goes_on(target: Target, far: FarSide, gate: Gate, who: str) -> None:
    job_id = running(target, gate)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(target.wait, job_id, pattern="after")
        far.kill(who, job_id)
        gate.open()
        waited = waiting.result()
    assert waited.came
    assert waited.came.condition == "pattern"


def test_a_job_that_ends_while_there_is_no_relay_is_known_to_the_next(
    target: Target, far: FarSide, gate: Gate
) -> None:
    job_id = target.start(f"{gate.pause}; echo last words; exit 9")
    gate.wait_until_reached()
    far.kill("keeper_and_relay", job_id)
    gate.open()
    assert code_of(target, job_id) == 9
    assert target.jobs.output(job_id).stdout == "last words\n"


def test_all_output_arrives_though_the_line_is_cut_again_and_again(
    target: Target, far: FarSide, tmp_path: Path
) -> None:
    prints = "for n in $(seq 30); do head -c 100000 /dev/urandom; sleep 0.02; done"
    job_id = target.start(f"({prints}) | tee {tmp_path}/kept")
    for size in range(0, 2_500_000, 250_000):
        wait_until(partial(has_printed, target, job_id, size), f"{size} bytes are here")
        far.host.line.cut()
    assert target.printed(job_id) == (tmp_path / "kept").read_bytes()


def has_printed(target: Target, job_id: str, size: int) -> bool:
    return target.jobs.status(job_id).output_bytes > size


def test_a_kill_is_finished_or_can_be_asked_for_again(
    target: Target, far: FarSide, new_held: Callable[[str], Held]
) -> None:
    for step in range(8):
        held = new_held(f"held-{step}")
        job_id = target.start(f"{held.take}; trap '' TERM; echo ready; while :; do sleep 1; done")
        target.wait_until_printed(job_id, "ready")
        with disturbed(far.host.line.cut, 10 * step), contextlib.suppress(NotSteerable, TargetUnreachable):
            target.jobs.kill(job_id, grace_s=0.05)
        wait_until(partial(is_killed, target, job_id), "a kill has got through")
        assert not held.is_held()


def is_killed(target: Target, job_id: str) -> bool:
    with contextlib.suppress(NotSteerable, TargetUnreachable):
        target.jobs.kill(job_id, grace_s=0)
    return isinstance(target.jobs.status(job_id).job.state, Killed)
