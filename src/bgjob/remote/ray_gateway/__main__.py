"""The gateway to a Ray cluster: a process of its own, because Ray prints to stdout and ends its process at will.

    python -m bgjob.remote.ray_gateway ADDRESS USER ROOT          a driver of the cluster, until the end of its stdin

`ROOT`: a directory on the nodes; below it each of them has a home of its own, named for its address.

JSON lines on stdin and stdout. First {"hello": 1, "ray": VERSION, ...}, or {"error": {"kind", "text"}} in its place.

    -> {"id": 7, "verb": "place", "words": {...}}         <- {"id": 7, "ok": ...} | {"id": 7, "error": {"kind", "text"}}
    -> {"channel": 3, "data": BASE64}                     <- the same
    -> {"channel": 3, "end": true}                        <- the same

A channel is a pipe to an agent on a node, opened by the verb `open`, with a number that the caller chooses.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

READ_BYTES = 1 << 20
LISTENER_PATIENCE_S = 10.0
MOST_TEXT = 400
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Gateway:
    def __init__(self, say: Callable[[dict[str, Any]], None], user: str, root: str) -> None:
        from bgjob.remote.ray_gateway.agents import Agents
        from bgjob.remote.ray_gateway.channels import Channels
        from bgjob.remote.ray_gateway.leases import Leases
        from bgjob.remote.ray_gateway.room import Room
        from bgjob.remote.ray_gateway.threads import Threads

        threads, agents = Threads(), Agents(user, root)
        room = Room(Leases(root), agents, threads)
        self._say, self._channels = say, Channels(say, agents)
        self._tasks: set[asyncio.Task[None]] = set()
        self._verbs: dict[str, Callable[..., Awaitable[Any]]] = {
            "check": room.check,
            "place": room.place,
            "states": room.states,
            "release": room.release,
            "nodes": lambda: threads.run(_nodes),
            "open": self._channels.open,
            "ping": _ping,
        }

    def take(self, message: dict[str, Any]) -> None:
        if "channel" in message:
            return self._channels.take(message)
        task = asyncio.create_task(self._answer(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, message: dict[str, Any]) -> None:
        try:
            answer = await self._verbs[message["verb"]](**message.get("words", {}))
        except Exception as error:  # noqa: BLE001  whatever Ray says: the caller is told, and decides
            self._say({"id": message["id"], "error": _packed(error)})
        else:
            self._say({"id": message["id"], "ok": answer})


def _packed(error: Exception) -> dict[str, str]:
    """An error of an actor is told as what it was there; what Ray says, on one line and without colours."""
    cause = getattr(error, "cause", None) or error
    words = [line.strip() for line in COLOURS.sub("", str(cause)).splitlines() if line.strip()]
    return {"kind": type(cause).__name__, "text": " ".join(words)[:MOST_TEXT] or type(cause).__name__}


async def _ping() -> None:
    pass


def _nodes() -> list[dict[str, Any]]:
    from bgjob.remote.ray_gateway.nodes import Nodes

    return list(Nodes().all.values())


def _connect(address: str) -> dict[str, Any]:
    """To the cluster. What it says: the first line."""
    import ray

    from bgjob.remote import ray_gateway
    from bgjob.remote.ray_gateway.actors import NAMESPACE

    _need_listener(address)
    ray.init(address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    # bgjob is not installed on the nodes: these classes travel whole, and not as names of a module
    ray.cloudpickle.register_pickle_by_value(ray_gateway)
    return {
        "hello": 1,
        "ray": ray.__version__,
        "address": ray.get_runtime_context().gcs_address,
        "pid": os.getpid(),
    }


def _need_listener(address: str) -> None:
    """Ray itself would try for a minute. An address may also be `auto`, or one of a client."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), LISTENER_PATIENCE_S).close()
        except OSError as error:
            raise ConnectionError(f"no Ray answers at {address}: {error}") from None


async def _serve(source: asyncio.StreamReader, gateway: Gateway) -> None:
    while line := await source.readline():
        gateway.take(json.loads(line))


async def _stdin() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=4 * READ_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
    )
    return reader


def _own_stdout() -> Callable[[dict[str, Any]], None]:
    """Ray prints to descriptor 1: that is stderr from now on."""
    line = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)

    def say(message: dict[str, Any]) -> None:
        data = memoryview(json.dumps(message).encode() + b"\n")
        while data:
            data = data[line.write(data) or 0 :]

    return say


async def _main(address: str, user: str, root: str, say: Callable[[dict[str, Any]], None]) -> None:
    source = await _stdin()
    try:
        hello = await asyncio.to_thread(_connect, address)
    except Exception as error:  # noqa: BLE001  in place of the first line
        return say({"error": _packed(error)})
    gateway = Gateway(say, user, root)
    say(hello)
    await _serve(source, gateway)


def main() -> None:
    say = _own_stdout()
    address, user, root = sys.argv[1:]
    asyncio.run(_main(address, user, root, say))
    os._exit(0)  # our leases and agents stay; threads that wait for Ray do not hold us


if __name__ == "__main__":
    main()
