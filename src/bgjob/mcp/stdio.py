"""The stdio transport: a message a line over the process's own stdin and stdout. (Transports, stdio.)

The main thread reads, and performs what is quick; what may take long gets a thread. No thread waits for a
client that does not read: its answers are kept, up to a bound, above which no more requests are read.
"""

import fcntl
import os
import select
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple, NoReturn

from bgjob.mcp.caller import Caller, Channel
from bgjob.mcp.complaints import shown
from bgjob.mcp.service import Service
from bgjob.mcp.stderr import report, warn
from bgjob.mcp.workers import Workers
from bgjob.protocol import jsonrpc
from bgjob.protocol.connection import Cancelled, Connection, Response
from bgjob.protocol.jsonrpc import PARSE_ERROR, Message, RequestId, RpcError, decoded, encoded
from bgjob.protocol.request import Request
from bgjob.protocol.server import Server
from bgjob.system.line_reader import lines
from bgjob.system.outbox import Outbox

UNREAD_S = 10.0
"""How long after the end of stdin an answer may wait without a byte of it being read."""
Known = Callable[[str | None], Mapping[str, str]]
"""As in a Caller, of a client that calls itself so."""
TOO_LONG = "This line is longer than 64 MB. Send a file's path instead of its content."


class Wire(NamedTuple):
    """The client, under two descriptors that nothing else in this process knows."""

    read_fd: int
    write_fd: int


def claim() -> Wire:
    """Takes stdin and stdout for the protocol alone: stray reads now get EOF, stray prints go to stderr."""
    wire = Wire(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3), fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    with suppress(OSError):  # without a stderr, stray prints go nowhere
        os.dup2(2, 1)
    os.close(null)
    return wire


def serve(server: Server, service_for: Callable[[Channel], Service], wire: Wire, known: Known) -> NoReturn:
    """Serves until the client is gone, then ends the process: calls may sit in threads that never end.

    `service_for`: makes the service of this client, given how to send to it at any time.
    """
    try:
        _Session(server, service_for, wire, known).run()
    except Exception:  # noqa: BLE001
        report("The server broke")
        _end_process(1)
    _end_process(0)


def _end_process(code: int) -> NoReturn:
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


class _Session:
    def __init__(
        self, server: Server, service_for: Callable[[Channel], Service], wire: Wire, known: Known
    ) -> None:
        self._wire, self._known = wire, known
        self._outbox = Outbox(wire.write_fd, self._wake)
        self._connection = Connection(server, can_notify=True)
        self._service = service_for(Channel(self._send, self._outbox.wait_until_written))
        self._workers = Workers()
        self._in_flight: dict[Caller, RequestId] = {}
        self._woken_by: int | None = None

    def run(self) -> None:
        for line in lines(self._wire.read_fd):
            self._receive(line)
            self._outbox.wait_for_room()
        self._finish()

    def _send(self, message: Message, on_written: Callable[[], None] | None = None) -> None:
        self._outbox.send(encoded(message) + b"\n", on_written)

    # -- requests -----------------------------------------------------------------------------------

    def _receive(self, line: bytes | None) -> None:
        if line is not None and not line.strip():
            return
        try:
            message = self._read(line)
        except RpcError as problem:
            self._send(jsonrpc.error(None, problem))
            return
        for received in self._connection.receive(message):
            match received:
                case Response(answer):
                    self._send(answer)
                case Cancelled(request_id):
                    self._cancel(request_id)
                case Request():
                    self._perform(received)

    def _read(self, line: bytes | None) -> object:
        if line is None:
            raise RpcError(PARSE_ERROR, TOO_LONG)
        try:
            return decoded(line)
        except RpcError:
            warn(f"Not a JSON-RPC message: {shown(line.decode(errors='replace').strip())}")
            raise

    def _perform(self, request: Request) -> None:
        known = self._known(request.client.name)
        caller = Caller(request, self._send, self._outbox.wait_until_written, known)
        self._in_flight[caller] = request.id
        work = partial(self._answer, request, caller)
        if self._service.blocks(request):
            self._workers.start(work)
        else:
            work()

    def _answer(self, request: Request, caller: Caller) -> None:
        try:
            caller.answer(partial(self._send, self._service.perform(request, caller)))
        finally:
            caller.close()
            self._in_flight.pop(caller, None)
            self._wake()

    def _cancel(self, request_id: RequestId) -> None:
        for caller in [each for each, its_id in self._in_flight.copy().items() if its_id == request_id]:
            caller.cancel()
            self._in_flight.pop(caller, None)

    # -- the end ------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """The client sends no more: what it has asked for is still answered, as long as somebody reads."""
        self._service.close()
        readable, self._woken_by = os.pipe()
        poll = select.poll()
        poll.register(self._wire.write_fd, 0)  # tells only that nobody reads any more
        poll.register(readable, select.POLLIN)
        while self._in_flight or not self._outbox.is_empty:
            written_before = self._outbox.written_bytes
            is_unread = not self._outbox.is_empty
            ready = dict(poll.poll(UNREAD_S * 1000 if is_unread else None))
            if self._wire.write_fd in ready or (
                not ready and is_unread and self._outbox.written_bytes == written_before
            ):
                return
            if readable in ready:
                os.read(readable, 4096)

    def _wake(self) -> None:
        """From any thread: a call has been answered, all answers are written, or the client reads no more."""
        if self._outbox.is_broken:
            _end_process(0)
        if self._woken_by is not None:
            os.write(self._woken_by, b".")
