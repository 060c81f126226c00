"""Jobs on a Ray cluster, as callers see them: room, GPUs, refusals; and what is said while a node is away."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bgjob.api.context import open_context
from bgjob.api.targets import target_statuses
from bgjob.core.errors import ImpossibleRequest, TargetUnreachable
from bgjob.core.job import Killed, Lost, Queued, Running
from tests.clusters.engine import Ray
from tests.clusters.ray_cluster import ray_cluster
from tests.clusters.target import Target, end_relays, relays
from tests.support.gate import Gate
from tests.support.queueing import Diary
from tests.support.waiting import wait_until

NewTarget = Callable[..., Target]
HEAD, WORKER = "127.0.0.11", "127.0.0.12"
ALL_OF_WORKER = {"cpus": 8, "labels": {"kind": "gpu"}}


@pytest.fixture
def target(new_target: NewTarget, ray: Ray) -> Target:
    return new_target(ray)


@pytest.fixture
def own_ray() -> Iterator[Ray]:
    """That a test may harm."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bgjob-ray-"))
        yield Ray(stack.enter_context(ray_cluster(Path(directory), *Ray.nodes)))


def why_unreachable(target: Target, job_id: str) -> str | None:
    remote = target.jobs.status(job_id).job.remote
    return remote.unreachable if remote else None


def test_a_job_runs_on_a_node_that_has_what_it_asks_for(target: Target) -> None:
    job_id = target.start("exit 4", options=ALL_OF_WORKER)
    assert getattr(target.state(job_id), "code", None) == 4
    remote = target.jobs.status(job_id).job.remote
    assert remote
    assert remote.node == WORKER


def test_a_job_sees_the_gpus_that_ray_has_chosen_for_it(target: Target) -> None:
    job_id = target.start("echo $CUDA_VISIBLE_DEVICES $MINE", options={"gpus": 2}, env={"MINE": "too"})
    target.ended(job_id)
    assert target.printed(job_id) == b"0,1 too\n"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"cpus": 1000}, "it asks for 1000 CPU, and no node for it has more than 100"),
        ({"gpus": 3}, "it asks for 3 GPU, and no node for it has more than 2"),
        ({"labels": {"kind": "tpu"}}, "no node has the labels kind=tpu"),
    ],
)
def test_what_no_node_could_run_is_refused_at_once(
    target: Target, options: dict[str, object], why: str
) -> None:
    with pytest.raises(ImpossibleRequest, match=why):
        target.start("true", options=options)
    assert target.jobs.list().jobs == []


def test_a_job_in_the_queue_of_ray_says_why_and_survives_the_relay(
    target: Target, gate: Gate, diary: Diary
) -> None:
    first = target.start(gate.pause, options=ALL_OF_WORKER)
    gate.wait_until_reached()
    second = target.begin(diary.entry("ran"), options=ALL_OF_WORKER).id
    status = target.jobs.status(second)
    assert isinstance(status.job.state, Queued)
    assert status.place
    assert status.place.reason == "it waits for room: it asks for 8 CPU, and no node has that free now"
    end_relays(target.home)
    gate.open()
    target.ended(first)
    assert getattr(target.state(second), "code", None) == 0
    assert diary.words() == ["ran"]


def test_a_job_in_the_queue_of_ray_is_killed_there(target: Target, gate: Gate, diary: Diary) -> None:
    first = target.start(gate.pause, options=ALL_OF_WORKER)
    gate.wait_until_reached()
    second = target.begin(diary.entry("ran"), options=ALL_OF_WORKER).id
    assert target.jobs.kill(second).status == "killed"
    assert isinstance(target.state(second), Killed)
    gate.open()
    target.ended(first)
    third = target.start("exit 1", options=ALL_OF_WORKER)
    assert getattr(target.state(third), "code", None) == 1
    assert diary.words() == []


def test_the_nodes_tell_what_they_have(target: Target) -> None:
    (told,) = target_statuses(open_context(target.environ, many=False), check=True)
    nodes = {node["node"]: node for node in told.nodes}
    assert (nodes[WORKER]["cpus"], nodes[WORKER]["gpus"], nodes[HEAD]["cpus"]) == (8, 2, 100)


def test_a_check_finds_a_home_that_its_nodes_cannot_use(new_target: NewTarget, ray: Ray) -> None:
    target = new_target(ray, far_home=Path("/proc/nowhere"))
    (told,) = target_statuses(open_context(target.environ, many=False), check=True)
    assert told.reachable is False
    assert "/proc/nowhere" in str(told.why)


@pytest.mark.parametrize("after_ms", [0, 5, 20, 50, 100, 200, 400])
def test_a_job_whose_gateway_is_killed_in_its_start_runs_once(
    target: Target, ray: Ray, diary: Diary, after_ms: int
) -> None:
    from tests.clusters.far_side import disturbed

    target.ended(target.start("true"))
    with disturbed(ray.cut_line, after_ms):
        job_id = target.start(diary.entry("ran"))
    assert getattr(target.state(job_id), "code", None) == 0
    assert diary.words() == ["ran"]


def test_a_job_whose_relay_is_killed_in_its_start_runs_once(target: Target, diary: Diary) -> None:
    from tests.clusters.far_side import disturbed

    def kill() -> None:
        for pid in relays(target.home)[-1:]:
            os.kill(pid, signal.SIGKILL)

    target.ended(target.start("true"))
    for number, after_ms in enumerate((1, 10, 40)):
        with disturbed(kill, after_ms):
            job_id = target.start(diary.entry(f"ran-{number}"))
        assert getattr(target.state(job_id), "code", None) == 0
    assert diary.words() == [f"ran-{number}" for number in range(3)]


def test_while_a_node_is_away_its_jobs_say_so_and_run_on(
    new_target: NewTarget, own_ray: Ray, gate: Gate
) -> None:
    target, node = new_target(own_ray), own_ray.cluster.nodes[1]
    job_id = target.start(f"{gate.pause}; echo on; exit 9", options=ALL_OF_WORKER)
    gate.wait_until_reached()
    os.kill(node.raylet(), signal.SIGKILL)
    wait_until(lambda: why_unreachable(target, job_id) is not None, "it is said that it is away")
    assert isinstance(target.jobs.status(job_id).job.state, Running)
    with pytest.raises(TargetUnreachable, match="bgjob kill --give-up"):
        target.jobs.kill(job_id)
    node.kill_ray()
    node.start()
    wait_until(lambda: why_unreachable(target, job_id) is None, "it is reached again", within_s=60)
    gate.open()
    assert getattr(target.state(job_id), "code", None) == 9
    assert target.printed(job_id) == b"on\n"


def test_a_job_of_a_node_that_is_lost_is_given_up(new_target: NewTarget, own_ray: Ray, gate: Gate) -> None:
    target, node = new_target(own_ray), own_ray.cluster.nodes[1]
    job_id = target.start(f"echo printed; {gate.pause}", options=ALL_OF_WORKER)
    target.wait_until_printed(job_id, "printed")
    gate.wait_until_reached()
    node.kill_ray()
    wait_until(lambda: why_unreachable(target, job_id) is not None, "it is said that it is away", within_s=60)
    argv = [sys.executable, "-m", "bgjob", "kill", "--give-up", job_id]
    subprocess.run(argv, env=target.environ, check=True)
    assert isinstance(target.state(job_id), Lost)
    assert target.printed(job_id) == b"printed\n"
    gate.open()


def test_a_job_that_ends_while_the_cluster_is_away_is_known_when_a_new_one_is_there(
    new_target: NewTarget, own_ray: Ray, gate: Gate
) -> None:
    target = new_target(own_ray)
    job_id = target.start(f"{gate.pause}; echo last; exit 3")
    gate.wait_until_reached()
    for node in own_ray.cluster.nodes:
        node.kill_ray()
    gate.open()
    own_ray.cut_line()  # by itself a driver ends a minute after its cluster
    wait_until(lambda: why_unreachable(target, job_id) is not None, "it is said that it is away")
    for node in own_ray.cluster.nodes:
        node.start()
    assert getattr(target.state(job_id), "code", None) == 3
    assert target.printed(job_id) == b"last\n"
