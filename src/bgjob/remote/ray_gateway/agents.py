"""The actors that run agents: one for each node, user, place of homes, and version of their code.

For the gateway process alone. An actor outlives it, and is made again where it is not. One of another version ends
when it is idle.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import hashlib
import inspect
import re
import time
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from bgjob.remote.ray_gateway import actors, held
from bgjob.remote.ray_gateway.actors import AgentActor
from bgjob.remote.ray_gateway.nodes import Nodes

CALLS_OF_AN_ACTOR = 1000
"""At a time: each channel has one that waits for what its agent says."""
MOST_TRIES = 3
PATIENCE_S = 30.0
"""Until an actor answers: a worker is started, which a busy machine may take seconds for."""
LOOK_S = 1.0


class NodeAway(Exception):
    """The node is not in the cluster, or does not answer."""


class Agents:
    def __init__(self, user: str, root: str) -> None:
        self._user, self._root = re.sub(r"[^\w.-]", "_", user), root
        code = inspect.getsource(actors) + inspect.getsource(held)
        self._version = hashlib.sha256(f"{root}\n{code}".encode()).hexdigest()[:8]
        self._actor = ray.remote(AgentActor)
        self._known: dict[str, tuple[str, Any]] = {}
        """By the node: its id, and the actor that has answered last."""
        self._turns: dict[str, asyncio.Lock] = collections.defaultdict(asyncio.Lock)

    async def on(self, node: str) -> Any:
        """One that answers, from the node that it is meant for. NodeAway: there is none."""
        async with self._turns[node]:
            if await self._is_where_it_was(node):
                return self._known[node][1]
            return await self._that_answers(node)

    async def _is_where_it_was(self, node: str) -> bool:
        if node not in self._known:
            return False
        node_id, actor = self._known.pop(node)
        with contextlib.suppress(RayError, NodeAway):
            if await self._node_of(actor, node) == node_id:
                self._known[node] = node_id, actor
        return node in self._known

    async def _that_answers(self, node: str) -> Any:
        """Of a node that was away, the actor from before may be found: it is made again."""
        why = ""
        for _ in range(MOST_TRIES):
            node_id = await self._id_of(node)
            if node_id is None:
                raise NodeAway(f"node {node} is not in the cluster")
            actor = await asyncio.to_thread(self._named, node, node_id)
            try:
                if await self._node_of(actor, node) == node_id:
                    self._known[node] = node_id, actor
                    return actor
            except (RayError, NodeAway) as error:
                why = str(error)
            ray.kill(actor)
        raise NodeAway(f"node {node} runs no agent: {why}")

    async def _node_of(self, actor: Any, node: str) -> str:
        """The id of the node from which the actor answers. Meanwhile its own may be found to be dead."""
        answer = asyncio.ensure_future(actor.where.remote())
        deadline = time.monotonic() + PATIENCE_S
        while not (await asyncio.wait({answer}, timeout=LOOK_S))[0]:
            if await self._id_of(node) is None or time.monotonic() > deadline:
                answer.cancel()
                raise NodeAway("it does not answer")
        return str(answer.result()["node_id"])

    async def _id_of(self, node: str) -> str | None:
        return await asyncio.to_thread(lambda: Nodes().id_of(node))

    def _named(self, node: str, node_id: str) -> Any:
        options = self._actor.options(
            name=f"bgjob-agent-{self._user}-{node}-{self._version}",
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            max_restarts=-1,
            max_concurrency=CALLS_OF_AN_ACTOR,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
        )
        return options.remote(f"{self._root}/{node}")
