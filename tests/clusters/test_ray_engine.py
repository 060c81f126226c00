"""Room for jobs on a real Ray: what the gateway grants, queues and refuses, and what becomes of it after kills."""

import base64
import contextlib
import getpass
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from anyio.from_thread import BlockingPortal

from bgjob.core.errors import ImpossibleRequest, TargetUnreachable
from bgjob.core.targets import Target
from bgjob.remote.ray import RayGateway
from bgjob.remote.ray_process import PACKAGE, STUB
from bgjob.system import processes
from tests.clusters.installed import need
from tests.clusters.ray_cluster import RayCluster, ray_cluster
from tests.support.gate import Gate
from tests.support.waiting import wait_until

CPUS_OF_A_NODE = 2
HEAD, WORKER = "127.0.0.11", "127.0.0.12"
SEGMENT = re.compile(r"log/\d+")
ECHO = ["-c", "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.flush()"]


@contextlib.contextmanager
def new_cluster() -> Iterator[RayCluster]:
    """A head, and a node that says that it has GPUs. Sockets are in its directory: so its path is short."""
    need("ray")
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bgjob-ray-")))
        yield stack.enter_context(ray_cluster(directory, {}, {"num-gpus": "2", "labels": "kind=gpu"}))


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """One for all tests that do it no harm."""
    with new_cluster() as cluster:
        yield cluster


@pytest.fixture
def own_cluster() -> Iterator[RayCluster]:
    with new_cluster() as cluster:
        yield cluster


class Near:
    """The near end of a gateway, as its relay has it."""

    def __init__(self, portal: BlockingPortal, gateway: RayGateway) -> None:
        self._portal, self.gateway = portal, gateway
        self.requests: dict[str, Mapping[str, Any]] = {}

    def call(self, verb: Callable[..., Coroutine[Any, Any, Any]], *words: object) -> Any:
        return self._portal.call(verb, *words)

    def submit(self, **resources: Any) -> tuple[str, dict[str, Any]]:
        job_id = str(uuid4())
        self.requests[job_id] = resources
        return job_id, self.call(self.gateway.submit, job_id, resources)

    def state(self, job_id: str, node: str | None = None) -> dict[str, Any]:
        job = {"request": self.requests[job_id], "node": node}
        state: dict[str, Any] = self.call(self.gateway.states, {job_id: job})[job_id]
        return state

    def wait_until(self, state: str, job_id: str, node: str | None = None) -> dict[str, Any]:
        seen: list[dict[str, Any]] = [{}]

        def is_so() -> bool:
            seen[0] = self.state(job_id, node)
            return bool(seen[0]["state"] == state)

        wait_until(is_so, f"the job is {state}", lambda: str(seen[0]))
        return seen[0]

    def release(self, job_id: str) -> None:
        self.call(self.gateway.release, job_id)

    def start(self, job_id: str, node: str, command: str, env: Mapping[str, str] | None = None) -> None:
        """By the agent on its node."""

        async def start() -> None:
            channel = await self.gateway.open_channel(node)
            await channel.call("start", id=job_id, command=command, asked={"env": dict(env or {})})
            await channel.close()

        self.call(start)

    def end_of(self, job_id: str, node: str) -> tuple[int, str]:
        """Its exit code and what it has printed, once it is over."""

        async def end() -> tuple[int, str]:
            channel = await self.gateway.open_channel(node)
            await channel.call("follow", job=job_id)
            told: dict[str, Any] = {}
            printed = b""
            while "outcome.json" not in told:
                answer = await channel.call("news", since=None, timeout_s=30, most_bytes=1 << 20)
                news = answer["jobs"].get(job_id, {})
                told |= news.get("records", {})
                printed += b"".join(
                    base64.b64decode(file["data"])
                    for file in news.get("files", [])
                    if SEGMENT.fullmatch(file["name"])
                )
            await channel.close()
            return told["outcome.json"]["exit_code"], printed.decode()

        code, printed = self.call(end)
        return code, printed

    def free(self, node: str) -> Mapping[str, float]:
        free: Mapping[str, float] = next(
            each for each in self.call(self.gateway.info) if each["node"] == node
        )["free"]
        return free


@contextlib.contextmanager
def connected(portal: BlockingPortal, address: str) -> Iterator[Near]:
    near = Near(portal, RayGateway(lambda: Target(name="ray", kind="ray", address=address)))
    yield near
    for job_id in near.requests:
        near.release(job_id)
    near.call(near.gateway.close)


@pytest.fixture
def near(portal: BlockingPortal, cluster: RayCluster) -> Iterator[Near]:
    with connected(portal, cluster.address) as near:
        yield near


# -- the gateway ------------------------------------------------------------------------------------


# Runs inside the gateway's interpreter. Ray prints like this whenever it likes, or not at all.
NOISE = """
import os, sys, threading, time

def print_like_ray():
    while not getattr(sys.modules.get("ray"), "is_initialized", bool)():
        time.sleep(0.01)
    print("(raylet) printed", flush=True)
    os.write(1, b"(raylet) written\\n")

threading.Thread(target=print_like_ray, daemon=True).start()
"""


def test_nothing_but_answers_is_on_the_stdout_of_the_gateway(cluster: RayCluster, tmp_path: Path) -> None:
    """Ray prints to the stdout of its driver, e.g. that a worker was killed: that goes to stderr."""
    (tmp_path / "sitecustomize.py").write_text(NOISE)
    argv = [sys.executable, "-c", STUB, PACKAGE, cluster.address, "noise", "~/noise"]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", env=environ
    ) as gateway:
        assert gateway.stdin
        assert gateway.stdout
        assert gateway.stderr
        assert json.loads(gateway.stdout.readline())["hello"] == 1
        noise = {b"(raylet) printed\n", b"(raylet) written\n"}
        while noise:
            noise.discard(gateway.stderr.readline())
        words = {"channel": 3, "node": HEAD, "argv": ECHO}
        gateway.stdin.write(json.dumps({"id": 1, "verb": "open", "words": words}).encode() + b"\n")
        gateway.stdin.flush()
        assert json.loads(gateway.stdout.readline()) == {"id": 1, "ok": {"channel": 3}}
        for worker in cluster.nodes[0].machine.named("ray::AgentActor"):
            os.kill(worker, signal.SIGKILL)
        assert json.loads(gateway.stdout.readline()) == {"channel": 3, "end": True}
        gateway.stdin.close()
        assert gateway.stdout.read() == b""


def test_without_ray_it_is_said_how_to_install_it(portal: BlockingPortal, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o700)
    target = Target(name="ray", kind="ray", address="127.0.0.11:1", python=str(bare))
    with pytest.raises(TargetUnreachable, match=r"python has no package ray: pip install 'bgjob\[ray\]'"):
        portal.call(RayGateway(lambda: target).info)


def test_an_address_where_nobody_listens_is_said_at_once(portal: BlockingPortal) -> None:
    target = Target(name="ray", kind="ray", address="127.0.0.11:1")
    with pytest.raises(TargetUnreachable, match=r"no Ray answers at 127\.0\.0\.11:1: .*refused"):
        portal.call(RayGateway(lambda: target).info)


def test_a_gateway_that_was_killed_is_started_again_and_its_leases_are_there(near: Near) -> None:
    job_id, placed = near.submit()
    pipe = near.call(near.gateway.open_pipe, placed["node"], ECHO)
    gateways = _gateways()
    os.kill(gateways[-1], signal.SIGKILL)
    assert near.call(pipe.stdout.read) == b""
    assert near.state(job_id) == placed
    assert _gateways() != gateways


def test_calls_in_flight_learn_that_the_gateway_was_killed(near: Near) -> None:
    near.call(near.gateway.info)
    os.kill(_gateways()[-1], signal.SIGSTOP)

    async def ask_and_kill() -> None:
        import asyncio

        call = asyncio.create_task(near.gateway.info())
        await asyncio.sleep(0)
        os.kill(_gateways()[-1], signal.SIGKILL)
        await call

    with pytest.raises(TargetUnreachable, match="the gateway to Ray has ended"):
        near.call(ask_and_kill)


# -- room ---------------------------------------------------------------------------------------------


def test_a_job_has_its_room_until_it_is_released(near: Near) -> None:
    job_id, placed = near.submit(cpus=2, labels={"kind": "gpu"})
    assert placed == {"state": "placed", "node": WORKER, "environ": {}}
    assert near.free(WORKER).get("CPU", 0) == 0
    near.release(job_id)
    wait_until(lambda: near.free(WORKER).get("CPU") == CPUS_OF_A_NODE, "its room is free")
    assert near.state(job_id)["state"] == "gone"


def test_a_job_that_is_asked_for_twice_has_one_lease(near: Near) -> None:
    job_id, placed = near.submit(cpus=1, labels={"kind": "gpu"})
    assert near.call(near.gateway.submit, job_id, near.requests[job_id]) == placed
    assert near.free(WORKER)["CPU"] == CPUS_OF_A_NODE - 1


@pytest.mark.parametrize(
    ("resources", "why"),
    [
        ({"cpus": 99}, "it asks for 99 CPU, and no node for it has more than 2"),
        ({"labels": {"kind": "tpu"}}, "no node has the labels kind=tpu"),
    ],
)
def test_what_no_node_could_run_is_refused_at_once_with_the_reason(
    near: Near, resources: Any, why: str
) -> None:
    with pytest.raises(ImpossibleRequest, match=why):
        near.submit(**resources)


def test_a_job_without_room_is_queued_and_placed_when_room_comes(near: Near) -> None:
    first, _ = near.submit(cpus=2, labels={"kind": "gpu"})
    second, queued = near.submit(cpus=2, labels={"kind": "gpu"})
    assert queued == {
        "state": "queued",
        "reason": "it waits for room: it asks for 2 CPU, and no node has that free now",
    }
    near.release(first)
    assert near.wait_until("placed", second)["node"] == WORKER


def test_a_queued_job_that_is_released_is_never_placed(near: Near) -> None:
    first, _ = near.submit(cpus=2, labels={"kind": "gpu"})
    second, _ = near.submit(cpus=2, labels={"kind": "gpu"})
    near.release(second)
    assert near.state(second)["state"] == "gone"
    near.release(first)
    wait_until(lambda: near.free(WORKER).get("CPU") == CPUS_OF_A_NODE, "all room is free")


def test_ray_chooses_the_gpus_of_a_job(near: Near) -> None:
    first, _ = near.submit(gpus=1)
    second, _ = near.submit(gpus=1)
    chosen = [near.wait_until("placed", job_id) for job_id in (first, second)]
    assert [placed["node"] for placed in chosen] == [WORKER, WORKER]
    assert {placed["environ"]["CUDA_VISIBLE_DEVICES"] for placed in chosen} == {"0", "1"}


def test_a_lease_that_was_killed_is_taken_again(near: Near, cluster: RayCluster) -> None:
    """The job runs on: its room is not to be given to another one."""
    first, _ = near.submit(cpus=2, labels={"kind": "gpu"})
    second, _ = near.submit(cpus=2, labels={"kind": "gpu"})
    near.release(first)
    node = near.wait_until("placed", second)["node"]
    (worker,) = cluster.nodes[1].machine.named("ray::Lease")
    os.kill(worker, signal.SIGKILL)
    lost = near.wait_until("unleased", second, node)
    assert lost == {
        "state": "unleased",
        "node": node,
        "reason": "its lease was lost, and is taken again",
    }
    assert near.wait_until("placed", second, node)["node"] == node
    assert near.free(WORKER).get("CPU", 0) == 0


def test_a_lease_of_gpus_that_was_killed_is_reported(near: Near, cluster: RayCluster) -> None:
    job_id, _ = near.submit(gpus=1)
    node = near.wait_until("placed", job_id)["node"]
    (worker,) = cluster.nodes[1].machine.named("ray::Lease")
    os.kill(worker, signal.SIGKILL)
    reason = near.wait_until("unleased", job_id, node)["reason"]
    assert reason == "its lease was lost, and cannot be taken again: Ray would choose other GPUs"


# -- jobs ---------------------------------------------------------------------------------------------


def test_a_job_runs_where_it_has_its_room_and_sees_nothing_of_rays_worker(
    near: Near, cluster: RayCluster
) -> None:
    job_id, placed = near.submit(labels={"kind": "gpu"})
    near.start(job_id, placed["node"], "env | grep -E '^(RAY_|OMP_|PYTHONBREAK)'; pwd; exit 7")
    assert near.end_of(job_id, WORKER) == (7, f"RAY_ADDRESS={cluster.address}\n{cluster.home}\n")
    assert (cluster.home / f".local/state/bgjob/ray/{getpass.getuser()}/{WORKER}/jobs/{job_id}").is_dir()


def test_a_queued_job_runs_when_room_comes(near: Near) -> None:
    first, _ = near.submit(cpus=2, labels={"kind": "gpu"})
    second, _ = near.submit(cpus=2, labels={"kind": "gpu"})
    near.release(first)
    node = near.wait_until("placed", second)["node"]
    near.start(second, node, "exit 3")
    assert near.end_of(second, node) == (3, "")


def test_a_job_sees_the_gpus_that_ray_has_chosen(near: Near) -> None:
    job_id, _ = near.submit(gpus=2)
    placed = near.wait_until("placed", job_id)
    near.start(job_id, placed["node"], "echo $CUDA_VISIBLE_DEVICES", placed["environ"])
    assert near.end_of(job_id, WORKER) == (0, "0,1\n")


def test_a_client_of_the_cluster_can_do_the_same(portal: BlockingPortal, cluster: RayCluster) -> None:
    """From a machine that is no node of it."""
    answers: list[tuple[str, dict[str, Any]]] = []
    with connected(portal, cluster.client_address) as near:

        def is_placed() -> bool:  # a busy Ray may fail to start its server for a client: a relay asks again
            with contextlib.suppress(TargetUnreachable):
                answers.append(near.submit())
            return bool(answers)

        wait_until(is_placed, every_s=1.0)
        [(job_id, placed)] = answers
        near.start(job_id, placed["node"], "echo far; exit 5")
        assert near.end_of(job_id, placed["node"]) == (5, "far\n")


FREE_CPUS = "print(ray.available_resources().get('CPU', 0))"


def test_the_room_of_a_job_that_is_over_is_free_though_nobody_is_connected(
    near: Near, cluster: RayCluster, gate: Gate
) -> None:
    job_id, placed = near.submit(cpus=2)
    near.start(job_id, placed["node"], gate.pause)
    gate.wait_until_reached()
    near.call(near.gateway.close)
    assert float(cluster.run(FREE_CPUS)) == CPUS_OF_A_NODE
    gate.open()
    wait_until(lambda: float(cluster.run(FREE_CPUS)) == 2 * CPUS_OF_A_NODE, "its room is free", every_s=0.1)
    assert near.wait_until("over", job_id, placed["node"]) == {"state": "over", "node": placed["node"]}
    assert float(cluster.run(FREE_CPUS)) == 2 * CPUS_OF_A_NODE


KILL_AGENTS = """
for name in ray.util.list_named_actors():
    if name.startswith("bgjob-agent-"): ray.kill(ray.get_actor(name))
"""


def test_a_job_outlives_the_actor_through_which_it_was_started(
    near: Near, cluster: RayCluster, gate: Gate
) -> None:
    job_id, placed = near.submit()
    near.start(job_id, placed["node"], f"{gate.pause}; echo after; exit 6")
    gate.wait_until_reached()
    channel = near.call(near.gateway.open_channel, placed["node"])
    cluster.run(KILL_AGENTS)
    near.call(channel.wait_broken)
    near.call(channel.close)
    gate.open()
    assert near.end_of(job_id, placed["node"]) == (6, "after\n")


def test_a_job_outlives_the_gateway(near: Near, gate: Gate) -> None:
    job_id, placed = near.submit()
    near.start(job_id, placed["node"], f"{gate.pause}; exit 8")
    gate.wait_until_reached()
    os.kill(_gateways()[-1], signal.SIGKILL)
    with contextlib.suppress(TargetUnreachable):  # if its end was not seen yet
        near.state(job_id)
    gate.open()
    assert near.end_of(job_id, placed["node"]) == (8, "")


def test_a_job_outlives_the_raylet_of_its_node(
    portal: BlockingPortal, own_cluster: RayCluster, gate: Gate
) -> None:
    with connected(portal, own_cluster.address) as near:
        job_id, _ = near.submit(labels={"kind": "gpu"})
        near.start(job_id, WORKER, f"{gate.pause}; echo on; exit 9")
        gate.wait_until_reached()
        os.kill(own_cluster.nodes[1].raylet(), signal.SIGKILL)
        assert (
            near.wait_until("unreachable", job_id, WORKER)["reason"] == f"node {WORKER} has left the cluster"
        )
        with pytest.raises(TargetUnreachable, match=f"node {WORKER} is not in the cluster"):
            near.end_of(job_id, WORKER)
        wait_until(lambda: near.free(HEAD)["CPU"] == CPUS_OF_A_NODE, "no other node holds room for it")
        own_cluster.nodes[1].kill_ray()
        own_cluster.nodes[1].start()
        near.wait_until("placed", job_id, WORKER)
        gate.open()
        assert near.end_of(job_id, WORKER) == (9, "on\n")


def test_a_job_is_found_again_in_a_new_cluster(
    portal: BlockingPortal, own_cluster: RayCluster, gate: Gate
) -> None:
    """All of Ray was killed, on all nodes. The homes are found by the addresses of the nodes."""
    with connected(portal, own_cluster.address) as near:
        job_id, placed = near.submit()
        near.start(job_id, placed["node"], f"{gate.pause}; exit 11")
        gate.wait_until_reached()
        for node in own_cluster.nodes:
            node.kill_ray()
        near.call(near.gateway.close)
        with pytest.raises(TargetUnreachable, match="no Ray answers"):
            near.state(job_id, placed["node"])
        for node in own_cluster.nodes:
            node.start()
        assert near.state(job_id, placed["node"])["state"] == "unleased"
        near.wait_until("placed", job_id, placed["node"])
        gate.open()
        assert near.end_of(job_id, placed["node"]) == (11, "")


# -- what runs on the nodes -----------------------------------------------------------------------------


IMPORT_BGJOB = """
def look():
    try: import bgjob
    except ImportError as error: return str(error)
print(ray.get(ray.remote(num_cpus=0)(look).remote()))
"""


def test_the_nodes_have_no_bgjob(cluster: RayCluster) -> None:
    """All that these tests show is shown without it."""
    assert cluster.run(IMPORT_BGJOB) == "bgjob is not installed on the nodes"


MAKE_ACTOR = """
from bgjob.remote import ray_gateway
from bgjob.remote.ray_gateway.actors import AgentActor, Lease
ray.cloudpickle.register_pickle_by_value(ray_gateway)
kind = sys.argv[1]
make = ray.remote({"AgentActor": AgentActor, "Lease": Lease}[kind])
words = ("~/nothing", 0.2) if kind == "AgentActor" else ("1234", "~/nothing", 0.2)
make.options(name=kind, lifetime="detached", max_restarts=-1, num_cpus=0).remote(*words)
"""
NAMES = "print(ray.util.list_named_actors())"


@pytest.mark.parametrize("kind", ["AgentActor", "Lease"])
def test_an_actor_that_nobody_needs_ends(cluster: RayCluster, kind: str) -> None:
    """One without channels and leases; a lease whose job does not come."""
    cluster.run(MAKE_ACTOR, kind)
    wait_until(lambda: kind not in cluster.run(NAMES), f"the {kind} has ended", every_s=0.1)


def _gateways() -> list[int]:
    """Of this process."""
    return [
        pid
        for pid in processes.children(os.getpid())
        if PACKAGE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
