"""Pipes to agents on the nodes of a Ray cluster. For the gateway process alone.

gateway ── calls of Ray ── actor on the node ── pipe ── agent
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from bgjob.remote.ray_gateway.agents import PATIENCE_S, Agents


class Channels:
    def __init__(self, say: Callable[[dict[str, Any]], None], agents: Agents) -> None:
        self._say, self._agents = say, agents
        self._open: dict[int, Channel] = {}

    async def open(self, channel: int, node: str, argv: list[str]) -> dict[str, Any]:
        """An agent on this node, started for this channel."""
        actor = await self._agents.on(node)
        opened = Channel(channel, actor, self._say)
        await asyncio.wait_for(actor.open.remote(opened.key, argv), PATIENCE_S)
        self._open[channel] = opened
        opened.start(lambda: self._open.pop(channel, None))
        return {"channel": channel}

    def take(self, message: Mapping[str, Any]) -> None:
        if channel := self._open.get(message["channel"]):
            channel.take(b"" if message.get("end") else base64.b64decode(message["data"]))


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
