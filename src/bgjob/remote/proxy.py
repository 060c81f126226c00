"""The socket of a job of a target: what is asked at it is asked of the job's shim, on its own machine.

An answer of the shim is handed on once the output and the outcome that it speaks of are here, too. While the
machine cannot be reached, a connection waits: the caller knows how long it wants to.
"""

import asyncio
import contextlib
import json
import os
import socket

from bgjob.core.errors import TargetUnreachable
from bgjob.home.jobdir import CONTROL
from bgjob.remote import background
from bgjob.remote.channel import Stream
from bgjob.remote.engine import Engine
from bgjob.remote.replica import Replica
from bgjob.system.peer_users import is_own, unix_peer

PIECE_BYTES, ANSWER_MAX_BYTES = 1 << 16, 8 << 20
# From the end of a shim until all that it wrote is here. If its guard takes over, nothing ends.
ENDS_S = 1.0
LAST_ANSWERS_S = 5.0


class ControlProxy:
    def __init__(self, replica: Replica, engine: Engine) -> None:
        self._replica, self._engine = replica, engine
        self._server: asyncio.Server | None = None
        self._is_closed = False
        self._connections: set[asyncio.Task[None]] = set()
        # Those of them by which the shim was asked something.
        self._asking: set[asyncio.Task[None]] = set()
        self._ending: asyncio.Task[None] | None = None

    async def listen(self) -> None:
        path = f"{self._replica.directory}/{CONTROL}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # of a relay that was killed
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(path)
        self._server = await asyncio.start_unix_server(self._on_connection, sock=listening)
        if self._is_closed:  # meanwhile: the job was killed
            self.close()

    def close(self) -> None:
        self._is_closed = True
        if self._server is None:
            return
        server, self._server = self._server, None
        close_server(server)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._replica.directory}/{CONTROL}")
        for each in self._connections - self._asking:
            each.cancel()
        self._ending = background.start(self._end_connections())

    async def _end_connections(self) -> None:
        """The shim is gone, and its last answers may be on their way."""
        if self._connections:
            await asyncio.wait(set(self._connections), timeout=LAST_ANSWERS_S)
        for each in self._connections:
            each.cancel()

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:  # it was accepted as we closed: nobody would end it
            return writer.close()
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        try:
            if is_ours(writer):
                await self._serve(task, reader, writer)
        except (TargetUnreachable, ConnectionError, asyncio.CancelledError):
            pass  # the caller sees that the connection ends, and asks again or looks at the disk
        finally:
            self._connections.discard(task)
            self._asking.discard(task)
            writer.close()

    async def _serve(
        self, task: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        first = await reader.read(PIECE_BYTES)
        if not first:
            return
        host = self._engine.steered_through(self._replica)
        if host is None:
            return  # it waits for a machine
        stream = (await host.ready()).connect(self._replica.id)
        self._asking.add(task)
        await stream.write(first)
        ways = [
            asyncio.create_task(_forward(reader, stream)),
            asyncio.create_task(self._answer(stream, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if not ways[0].done():
                # the shim has hung up: if the job has ended, who asks finds that on our disk
                await self._replica.until_over(ENDS_S)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)  # also if there is no shim any more
            with contextlib.suppress(TargetUnreachable):
                stream.close()

    async def _answer(self, stream: Stream, writer: asyncio.StreamWriter) -> None:
        received = b""
        while (piece := await stream.read()) and len(received) <= ANSWER_MAX_BYTES:
            *lines, received = (received + piece).split(b"\n")
            for line in lines:
                await self._caught_up(line)
                writer.write(line + b"\n")
            await writer.drain()

    async def _caught_up(self, line: bytes) -> None:
        with contextlib.suppress(ValueError, RecursionError):
            answer = json.loads(line)
            copier = self._engine.host_of(self._replica)
            if copier and isinstance(answer, dict) and isinstance(answer.get("end"), int):
                await copier.copied(self._replica, answer["end"], outcome=bool(answer.get("outcome")))


async def _forward(reader: asyncio.StreamReader, stream: Stream) -> None:
    while piece := await reader.read(PIECE_BYTES):
        await stream.write(piece)


def close_server(server: asyncio.Server) -> None:
    """Accept nothing from here on.

    The server itself is closed in the next turn of the loop, after the tasks of asyncio that take up what was just
    accepted: without a server they would leave that open, unanswered.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    loop.call_soon(server.close)


def is_ours(writer: asyncio.StreamWriter) -> bool:
    return is_own(unix_peer(writer.get_extra_info("socket")))
