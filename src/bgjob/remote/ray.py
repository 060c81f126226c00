"""A Ray cluster, as a relay sees it: room for jobs, and pipes to its nodes.

    relay ── pipe ── gateway, which alone imports Ray ── Ray ── actor on the node ── pipe ── agent

The gateway is started on first use, and again on the next use after its end: what it knows is in the cluster.
"""

import asyncio
import getpass
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from bgjob.core.errors import TargetUnreachable
from bgjob.core.targets import Target
from bgjob.remote.channel import Channel
from bgjob.remote.loader import RUN, Order
from bgjob.remote.ray_process import Pipe, Process

ANSWER_PATIENCE_S = 30.0
JUST_S = 2.0
ROOT = "~/.local/state/bgjob/ray/{user}"
"""Below it, the homes of nodes: they may share a file system, and Ray runs as the same user for all of us."""
# Ray says how many jobs a node has room for, and nobody else.
SETTINGS = {"MCP_BG_MAX_JOBS": "1000"}


class RayGateway:
    """`target`: as it is now. A gateway that is started later goes by it; it may have changed meanwhile."""

    def __init__(self, target: Callable[[], Target]) -> None:
        self._target = target
        self._process: Process | None = None
        self._starting = asyncio.Lock()

    async def ready(self) -> None:
        """The cluster answers; a gateway that has ended meanwhile is not its fault. TargetUnreachable: it does not."""
        if self._has_just_answered:
            return
        try:
            await self._ask("nodes")
        except TargetUnreachable:
            if self._process is None or not self._process.why_ended:
                raise
            await self._ask("nodes")

    @property
    def _has_just_answered(self) -> bool:
        process = self._process
        return bool(process and not process.why_ended and time.monotonic() < process.answered_at + JUST_S)

    async def check(self, resources: Mapping[str, Any]) -> None:
        """Take no lease. ImpossibleRequest: no node could ever run a job with these resources."""
        await self._ask("check", request=dict(resources))

    async def submit(self, job_id: str, resources: Mapping[str, Any]) -> dict[str, Any]:
        """Its state, as in `states`. Asked twice it is the same lease. ImpossibleRequest: no node could ever run it."""
        state: dict[str, Any] = await self._ask("place", job_id=job_id, request=dict(resources))
        return state

    async def states(self, jobs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """{id: {"state", "node", "environ", "reason"}} of {id: {"request": resources, "node": where it was placed}}.

        placed, queued, over (it has ended there, and its room was given back), unleased (it was placed there, and its
        room is not held any more), unreachable (its node has left the cluster), gone (it was never placed, and its
        lease is not there).
        """
        states: dict[str, dict[str, Any]] = await self._ask("states", jobs=dict(jobs))
        return states

    async def release(self, job_id: str) -> None:
        """Its room is free again. Also: a job that is queued will not be placed."""
        await self._ask("release", job_id=job_id)

    cancel = release

    async def info(self) -> list[dict[str, Any]]:
        """The nodes: node, host, alive, total, free, labels."""
        nodes: list[dict[str, Any]] = await self._ask("nodes")
        return nodes

    async def open_channel(self, node: str) -> Channel:
        """To an agent on that node, with a home of its own."""
        target = self._target()
        pipe = await self.open_pipe(node, ["-I", "-S", "-c", RUN])
        return await Channel.over(pipe, Order(target=target.name, environ={**SETTINGS, **target.settings}))

    async def open_pipe(self, node: str, argv: list[str]) -> Pipe:
        """A program in Python on that node, run by the interpreter of Ray's workers."""
        process = await self._running()
        return await process.open_pipe(node, argv)

    async def _ask(self, verb: str, **words: Any) -> Any:
        return await (await self._running()).ask(verb, ANSWER_PATIENCE_S, **words)

    async def _running(self) -> Process:
        async with self._starting:
            if self._process is None or self._process.why_ended:
                self._process = await Process.start(self._target().name, *self._argv())
            return self._process

    def _argv(self) -> list[str]:
        """The interpreter, and the arguments of the gateway."""
        target, user = self._target(), getpass.getuser()
        python = os.path.expanduser(target.python or sys.executable)
        return [python, str(target.address), user, target.home or ROOT.format(user=user)]

    async def close(self) -> None:
        if self._process:
            await self._process.close()
