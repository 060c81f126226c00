"""What runs on the nodes of a Ray cluster, in workers of Ray: they know nothing of bgjob, whose code is not there.

Ray sends these classes by value, with all that they use of this folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time
from asyncio.subprocess import PIPE, Process
from typing import Any

from bgjob.remote.ray_gateway.held import CLAIM_S, HeldLeases, job_directory

NAMESPACE = "bgjob"
READ_BYTES = 1 << 20
LOOK_S = 1.0
IDLE_S = 600.0
"""So long an actor stays without channels and leases: nobody wants its memory to be held for ever."""
# What Ray tells libraries in its workers is not meant for jobs.
OF_THE_WORKER = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT", "SPT_NOENV")


class AgentActor:
    """Carries bytes between channels and agents: one process for each channel, which ends when its stdin does.

    An agent is a child of a worker, and killed with it. A shim is not: it leaves the worker's tree by a double fork.
    The actor also gives back the leases of jobs that are over, whether anybody is connected or not.
    """

    def __init__(self, home: str, idle_s: float = IDLE_S, claim_s: float = CLAIM_S) -> None:
        self._home, self._idle_s = os.path.expanduser(home), idle_s
        self._held = HeldLeases(self._home, claim_s)
        self._agents: dict[str, Process] = {}
        self._used_at = time.monotonic()
        threading.Thread(target=self._look_after, daemon=True).start()

    async def where(self) -> dict[str, Any]:
        import ray

        self._used_at = time.monotonic()
        return {"node_id": ray.get_runtime_context().get_node_id(), "pid": os.getpid()}

    # -- channels -----------------------------------------------------------------------------------

    async def open(self, key: str, argv: list[str]) -> None:
        """`argv`: of a program in Python, without the interpreter: that is the one of this worker."""
        self._agents[key] = await asyncio.create_subprocess_exec(
            *(sys.executable, *argv),
            stdin=PIPE,
            stdout=PIPE,
            env=agent_environment(self._home),
            cwd=os.environ.get("HOME", "/"),
            start_new_session=True,
            limit=READ_BYTES,
        )

    async def send(self, key: str, data: bytes) -> None:
        """One call at a time, for each channel."""
        stdin = self._agents[key].stdin
        assert stdin
        stdin.write(data)
        await stdin.drain()

    async def receive(self, key: str) -> bytes:
        """Some bytes, once there are any; none: it has ended."""
        stdout = self._agents[key].stdout
        assert stdout
        data = await stdout.read(READ_BYTES)
        if not data:
            await self._agents.pop(key).wait()
        return data

    async def close(self, key: str) -> None:
        """The agent finishes what it has begun, and goes."""
        if agent := self._agents.get(key):
            assert agent.stdin
            with contextlib.suppress(OSError):
                agent.stdin.close()

    # -- leases -------------------------------------------------------------------------------------

    async def hold(self, job_id: str) -> None:
        """This lease is on this node: from now on it is looked after."""
        self._held.note(job_id)

    async def is_over(self, job_id: str) -> bool:
        return self._held.is_over(job_id)

    def _look_after(self) -> None:
        from ray.exceptions import RayError

        while True:
            time.sleep(LOOK_S)
            with contextlib.suppress(RayError, OSError):  # the cluster is not there now, or the disk is full
                self._release_useless()
                self._end_if_idle()

    def _release_useless(self) -> None:
        for job_id in self._held.useless():
            release_lease(job_id)
            self._held.forget(job_id)

    def _end_if_idle(self) -> None:
        if self._held.noted() or any(agent.returncode is None for agent in list(self._agents.values())):
            self._used_at = time.monotonic()
        elif time.monotonic() > self._used_at + self._idle_s:
            end_this_actor()


class Lease:
    """Holds the room of one job, and does nothing. `root`: has the homes of the nodes."""

    def __init__(self, job_id: str, root: str, claim_s: float = CLAIM_S) -> None:
        self._job_id, self._root = job_id, os.path.expanduser(root)
        timer = threading.Timer(claim_s, self._end_if_unclaimed)
        timer.daemon = True
        timer.start()

    def where(self) -> dict[str, Any]:
        import ray

        # the devices that Ray has chosen for this worker: CUDA_VISIBLE_DEVICES and its like
        devices = {name: value for name, value in os.environ.items() if "_VISIBLE_" in name}
        return {"node_id": ray.get_runtime_context().get_node_id(), "environ": devices}

    def _end_if_unclaimed(self) -> None:
        """Who asked for the room is away, and does not know that it is here."""
        import ray

        if not os.path.isdir(job_directory(f"{self._root}/{ray.util.get_node_ip_address()}", self._job_id)):
            end_this_actor()


def agent_environment(home: str) -> dict[str, str]:
    """That of this worker, without what Ray has put there for itself; with the cluster, for jobs that use Ray."""
    import ray

    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    for name in OF_THE_WORKER:
        kept.pop(name, None)
    return kept | {"RAY_ADDRESS": ray.get_runtime_context().gcs_address, "BGJOB_HOME": home}


def lease_name(job_id: str) -> str:
    return f"bgjob-{job_id}"


def release_lease(job_id: str) -> None:
    """Nothing happens if there is none."""
    import ray
    from ray.util.placement_group import get_placement_group, remove_placement_group

    with contextlib.suppress(ValueError):  # there is none
        remove_placement_group(get_placement_group(lease_name(job_id)))
    with contextlib.suppress(ValueError):
        ray.kill(ray.get_actor(lease_name(job_id), NAMESPACE))


def end_this_actor() -> None:
    """For good: Ray does not start it again."""
    import ray

    ray.kill(ray.get_runtime_context().current_actor)
