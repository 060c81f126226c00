"""Pipes to agents on the nodes of a Ray cluster. For the gateway process alone.

    gateway ── calls of Ray ── actor on the node ── pipe ── agent

There is one actor for each node, user and version of its code. It outlives the gateway, and is made again where it is
not. That of another version ends when it has been idle for a while.
"""

from __future__ import annotations

import asyncio
import base64
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from bgjob.remote.ray_gateway.actors import AgentActor, version_of_actors
from bgjob.remote.ray_gateway.nodes import Nodes

CALLS_OF_AN_ACTOR = 1000
"""At a time: each channel has one that waits for what its agent says."""
ROOT = "~/.local/state/bgjob/ray/{user}"
"""Below it, the homes of nodes: they may share a file system, and Ray runs as the same user for all of us."""
MOST_TRIES = 3
UP_PATIENCE_S = 30.0
"""Until an actor answers: a worker is started, which a busy machine may take seconds for."""


class NodeAway(Exception):
    """The node is not in the cluster, or does not answer."""


class Channels:
    def __init__(self, say: Callable[[dict[str, Any]], None], user: str) -> None:
        self._say, self._user = say, re.sub(r"[^\w.-]", "_", user)
        self._root = ROOT.format(user=self._user)
        self._version = version_of_actors()
        self._actor = ray.remote(AgentActor)
        self._open: dict[int, Channel] = {}

    async def open(self, channel: int, node: str, argv: list[str], root: str | None = None) -> dict[str, Any]:
        """An agent on this node, started for this channel. Each node has a home of its own below `root`."""
        actor = await self._actor_on(node)
        opened = Channel(channel, actor, self._say)
        await asyncio.wait_for(
            actor.open.remote(opened.key, argv, f"{root or self._root}/{node}"), UP_PATIENCE_S
        )
        self._open[channel] = opened
        opened.start(lambda: self._open.pop(channel, None))
        return {"channel": channel}

    def take(self, message: Mapping[str, Any]) -> None:
        if channel := self._open.get(message["channel"]):
            channel.take(b"" if message.get("end") else base64.b64decode(message["data"]))

    async def _actor_on(self, node: str) -> Any:
        """One that answers, from the node that it is meant for: of a node that was away, the old one may be found."""
        why = ""
        for _ in range(MOST_TRIES):
            node_id = await asyncio.to_thread(lambda: Nodes().id_of(node))
            if node_id is None:
                raise NodeAway(f"node {node} is not in the cluster")
            actor = await asyncio.to_thread(self._named_actor, node, node_id)
            try:
                at = await asyncio.wait_for(actor.where.remote(), UP_PATIENCE_S)
                if at["node_id"] == node_id:
                    return actor
            except (RayError, asyncio.TimeoutError) as error:  # noqa: UP041  not the same on Python 3.10
                why = str(error) or "it does not answer"
            ray.kill(actor)
        raise NodeAway(f"node {node} runs no agent: {why}")

    def _named_actor(self, node: str, node_id: str) -> Any:
        options = self._actor.options(
            name=f"bgjob-agent-{self._user}-{node}-{self._version}",
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            max_restarts=-1,
            max_concurrency=CALLS_OF_AN_ACTOR,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
        )
        return options.remote()


class Channel:
    """One pipe. What is to be sent goes in one call at a time, so that it arrives in order."""

    def __init__(self, number: int, actor: Any, say: Callable[[dict[str, Any]], None]) -> None:
        self.key = uuid.uuid4().hex
        self._number, self._actor, self._say = number, actor, say
        self._unsent = bytearray()
        self._has_unsent = asyncio.Event()
        self._is_ending = False

    def start(self, on_end: Callable[[], Any]) -> None:
        self._work = asyncio.gather(self._send_all(), self._receive_all(), return_exceptions=True)
        self._work.add_done_callback(lambda _: on_end())

    def take(self, data: bytes) -> None:
        """No data: the agent is to end."""
        self._unsent += data
        self._is_ending = self._is_ending or not data
        self._has_unsent.set()

    async def _send_all(self) -> None:
        try:
            while self._unsent or not self._is_ending:
                await self._has_unsent.wait()
                data, self._unsent = bytes(self._unsent), bytearray()
                if data:
                    await self._actor.send.remote(self.key, data)
                elif not self._is_ending:
                    self._has_unsent.clear()
        finally:
            await self._actor.close.remote(self.key)

    async def _receive_all(self) -> None:
        try:
            while data := await self._actor.receive.remote(self.key):
                self._say({"channel": self._number, "data": base64.b64encode(data).decode()})
        finally:
            self._say({"channel": self._number, "end": True})
            self.take(b"")
