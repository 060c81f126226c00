"""What runs on the nodes of a Ray cluster, in workers of Ray: they know nothing of bgjob, whose code is not there.

Ray sends these classes by value. They use the standard library and Ray, and work on Python 3.10 too.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from typing import Any

READ_BYTES = 1 << 20
# Nobody wants the memory of an actor to be held for ever.
IDLE_S, LOOKS = 600.0, 10
# What Ray tells libraries in its workers is not meant for jobs.
OF_THE_WORKER = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT", "SPT_NOENV")


def version_of_actors() -> str:
    """Of this code: an actor that was made with other code is not asked for."""
    with open(__file__, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:8]


class AgentActor:
    """Carries bytes between channels and agents: one process for each channel, which ends when its stdin does.

    An agent is a child of a worker, and killed with it. A shim is not: it leaves the worker's tree by a double fork.
    """

    def __init__(self, idle_s: float = IDLE_S) -> None:
        """`idle_s`: so long it waits for another channel, and then it ends."""
        self._idle_s = idle_s
        self._agents: dict[str, Process] = {}
        self._used_at = time.monotonic()
        self._watch: asyncio.Task[None] | None = None

    async def where(self) -> dict[str, Any]:
        import ray

        if self._watch is None:
            self._watch = asyncio.create_task(self._end_when_idle())
        self._used_at = time.monotonic()
        return {"node_id": ray.get_runtime_context().get_node_id(), "pid": os.getpid()}

    async def open(self, key: str, argv: list[str], home: str) -> None:
        """`argv`: of a program in Python, without the interpreter: that is the one of this worker."""
        self._agents[key] = await asyncio.create_subprocess_exec(
            *(sys.executable, *argv),
            stdin=PIPE,
            stdout=PIPE,
            env=agent_environment(home),
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

    async def _end_when_idle(self) -> None:
        import ray

        while time.monotonic() < self._used_at + self._idle_s:
            await asyncio.sleep(self._idle_s / LOOKS)
            if any(agent.returncode is None for agent in self._agents.values()):
                self._used_at = time.monotonic()
        ray.kill(ray.get_runtime_context().current_actor)


class Lease:
    """Holds the room of one job, and does nothing."""

    def where(self) -> dict[str, Any]:
        import ray

        # the devices that Ray has chosen for this worker: CUDA_VISIBLE_DEVICES and its like
        devices = {name: value for name, value in os.environ.items() if "_VISIBLE_" in name}
        return {"node_id": ray.get_runtime_context().get_node_id(), "environ": devices}


def agent_environment(home: str) -> dict[str, str]:
    """That of this worker, without what Ray has put there for itself; with the cluster, for jobs that use Ray."""
    import ray

    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    for name in OF_THE_WORKER:
        kept.pop(name, None)
    return kept | {
        "RAY_ADDRESS": ray.get_runtime_context().gcs_address,
        "BGJOB_HOME": os.path.expanduser(home),
    }
