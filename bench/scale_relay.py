"""The real relay of a target, with its machines at the other end of sockets. python -m bench.scale_relay HOME SOCKET"""

import asyncio
import os
import resource
import sys
from collections.abc import Mapping
from typing import Any

from bgjob.core.targets import Target
from bgjob.home import target_dir
from bgjob.remote.channel import Channel, Order
from bgjob.remote.engine import Forget, Note, note_end
from bgjob.remote.host import Host
from bgjob.remote.messages import LINE_MAX_BYTES
from bgjob.remote.relay import Relay
from bgjob.remote.replica import Replica
from bgjob.store.store import Store

TARGET = Target(name="many", kind="ssh", host="many")


class SocketPipe:
    """What a process of asyncio is to a channel."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.stdin, self.stdout = writer, reader

    async def wait(self) -> object:
        await self.stdin.wait_closed()
        return None

    def kill(self) -> None:
        self.stdin.transport.abort()


class ManyMachines:
    """An engine whose jobs are where their records say. Nothing is started: the jobs are there."""

    def __init__(self, path: str, note: Note, forget: Forget) -> None:
        self._path, self._note, self._forget = path, note, forget
        self._hosts: dict[str, Host] = {}

    def _host(self, key: str) -> Host:
        if key not in self._hosts:

            async def on_end(replica: Replica, news: Mapping[str, Any]) -> None:
                if note_end(self._hosts[key], replica, news):
                    self._forget(replica)

            async def resume(_replica: Replica, _channel: Channel) -> None:
                pass

            connect = lambda: self._connect(key)  # noqa: E731
            self._hosts[key] = Host(TARGET.name, key, connect, self._note, resume, on_end)
        return self._hosts[key]

    async def _connect(self, key: str) -> Channel:
        reader, writer = await asyncio.open_unix_connection(self._path, limit=LINE_MAX_BYTES)
        order = Order(target=TARGET.name, environ={"BGJOB_HOME": key})
        return await Channel.over(SocketPipe(reader, writer), order)

    def host_of(self, replica: Replica) -> Host:
        return self._host(str(replica.get("host")))

    steered_through = host_of

    async def start(self, replica: Replica) -> None:
        raise NotImplementedError

    async def follow(self, replica: Replica) -> None:
        await self.host_of(replica).follow(replica)

    async def kill(self, replica: Replica, words: Mapping[str, Any]) -> Mapping[str, Any]:
        raise NotImplementedError

    async def check(self, start: Mapping[str, Any], resources: Mapping[str, Any]) -> None:
        pass

    async def check_entry(self) -> None:
        pass

    async def drop(self, replica: Replica) -> None:
        pass

    async def info(self) -> Mapping[str, Any]:
        return {"nodes": []}

    async def close(self) -> None:
        for host in self._hosts.values():
            await host.close()


class SimulatedRelay(Relay):
    def __init__(self, store: Store, path: str, lock: int) -> None:
        super().__init__(store, TARGET.name, lock)
        self._engine = ManyMachines(path, self._note, self._forget)


def main(home: str, path: str) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.chdir(home)
    lock = target_dir.take_lock(os.curdir, TARGET.name)
    assert lock is not None
    asyncio.run(SimulatedRelay(Store(home), path, lock).run())


if __name__ == "__main__":
    main(*sys.argv[1:])
