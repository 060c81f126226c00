"""A target that is one machine, reached by ssh: its own home has the jobs, and its slots are the limit."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from bgjob.core.errors import BgjobError, TargetUnreachable
from bgjob.core.targets import Target
from bgjob.remote.channel import Channel
from bgjob.remote.engine import (
    ANSWER_PATIENCE_S,
    CONNECT_PATIENCE_S,
    Forget,
    Note,
    note_end,
    order_of,
    request_start,
)
from bgjob.remote.host import Host
from bgjob.remote.replica import Replica
from bgjob.remote.transport import ssh


class SshEngine:
    def __init__(self, target: Callable[[], Target], note: Note, forget: Forget) -> None:
        """`target`: as it is now. Its file may change while the relay runs."""
        self._target, self._forget = target, forget
        self._host = Host(target().name, "", self._connect, note, self._resume, self._on_end)

    async def _connect(self) -> Channel:
        target = self._target()
        options = [word for option in target.ssh_options for word in ("-o", option)]
        return await Channel.open(ssh(str(target.host), options), order_of(target))

    def host_of(self, _replica: Replica) -> Host:
        return self._host

    steered_through = host_of

    async def start(self, replica: Replica) -> None:
        channel = await self._host.ready(CONNECT_PATIENCE_S)
        if replica.is_over:
            return
        self._host.replicas[replica.id] = replica  # before: its first events may come before the answer
        try:
            await request_start(replica, channel)
            await self._host.follow(replica)
        except TargetUnreachable:
            await replica.until_accepted(ANSWER_PATIENCE_S)
        except BgjobError:
            del self._host.replicas[replica.id]
            raise

    async def check(self, start: Mapping[str, Any], _resources: Mapping[str, Any]) -> None:
        await (await self._host.ready(CONNECT_PATIENCE_S)).call("check", **start)

    async def follow(self, replica: Replica) -> None:
        await self._host.follow(replica)

    async def _resume(self, replica: Replica, channel: Channel) -> None:
        """Whoever asked for the job was told that it is not known: so the refusal is its end."""
        try:
            await request_start(replica, channel)
        except TargetUnreachable:
            raise
        except BgjobError as error:
            replica.end(cause="never_started", reason=str(error))
            self._forget(replica)

    async def _on_end(self, replica: Replica, news: Mapping[str, Any]) -> None:
        if note_end(self._host, replica, news):
            self._forget(replica)

    async def kill(self, replica: Replica, words: Mapping[str, Any]) -> Mapping[str, Any]:
        channel = await self._host.ready(CONNECT_PATIENCE_S)
        answer: Mapping[str, Any] = await channel.call("kill", job=replica.id, **words)
        return answer

    async def drop(self, replica: Replica) -> None:
        self._forget(replica)

    async def check_entry(self) -> None:
        """Connect once more: that needs a Python that runs the agent, and a safe home."""
        target = self._target().name
        try:
            async with asyncio.timeout(CONNECT_PATIENCE_S):
                channel = await self._connect()
        except TimeoutError:
            why = f"no connection within {CONNECT_PATIENCE_S:g} s"
            raise TargetUnreachable(target, why, trouble="no_answer") from None
        except TargetUnreachable:
            raise
        except BgjobError as error:
            raise TargetUnreachable(target, str(error), trouble=error.trouble) from None
        await channel.close()

    async def info(self) -> Mapping[str, Any]:
        channel = await self._host.ready(CONNECT_PATIENCE_S)
        return {"nodes": [{"node": channel.hello.get("host"), **await channel.call("info")}]}

    async def close(self) -> None:
        await self._host.close()
