"""The wire: JSON-RPC, a message a line, over the process's own stdin and stdout.

The SDK's stdio_server spends three thread hops on a call, longer than most calls take; this one spends one.
"""

import asyncio
import fcntl
import json
import logging
import os
import select
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import anyio
import anyio.to_thread
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import BaseModel, ValidationError

from bgjob.home.jobdir import write_all
from bgjob.mcp.schema import shown

LAST_ANSWERS_S = 1.0
"""How long calls may go on after the client closed our stdin: it may still read their answers."""
STUCK_S = 1.5
"""When the process ends even if the loop is stuck."""
UNDELIVERED = 64
"""How many messages may wait for the loop before the reader waits too."""

NO_REQUEST = ErrorData(
    code=INVALID_REQUEST,
    message="This cannot be read as a request. Send one JSON-RPC 2.0 object a line: a method, params that are an "
    "object and not nested too deep, and an id that is text or a whole number.",
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wire:
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


def serve(server: Server[Any], wire: Wire) -> NoReturn:
    """Serves until the client is gone, then ends the process: calls may sit in threads that never end."""
    try:
        anyio.run(_Connection(wire).run, server)
    except Exception:
        log.exception("The server broke")
    _end_process(1)


def _end_process(code: int = 0) -> NoReturn:
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


class NoMessage:
    """A line that is no message, and the requests in it that wait for an answer."""

    def __init__(self, read: object = None) -> None:
        objects = [each for each in (read if isinstance(read, list) else [read]) if isinstance(each, dict)]
        requests = [each for each in objects if not {"result", "error"} & each.keys()]
        self.ids = [_usable(each["id"]) for each in requests if each.get("id") is not None]
        """None for an id of a kind that no id may have."""


def _usable(request_id: object) -> RequestId | None:
    return request_id if isinstance(request_id, int | str) and not isinstance(request_id, bool) else None


class _Connection:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._room = threading.Semaphore(UNDELIVERED)
        self._inbox, self._received = anyio.create_memory_object_stream[SessionMessage | Exception](
            float("inf")
        )
        self._outbox, self._answers = anyio.create_memory_object_stream[SessionMessage](0)
        self._unanswered: set[RequestId | None] = set()
        self._client_gone = False

    async def run(self, server: Server[Any]) -> None:
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="stdin", daemon=True).start()
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._write)
            await server.run(self._received, self._outbox, server.create_initialization_options())

    def _read(self) -> None:
        """A thread, because no other way of reading works alike on pipes, sockets, files and terminals."""
        try:
            with open(self._wire.read_fd, "rb", buffering=1 << 16, closefd=False) as lines:
                for line in lines:
                    self._room.acquire()
                    self._loop.call_soon_threadsafe(self._deliver, parsed(line))
        except OSError:
            log.warning("stdin broke", exc_info=True)
        finally:
            self._loop.call_soon_threadsafe(self._end_of_input)
            time.sleep(STUCK_S)
            _end_process()

    def _deliver(self, received: SessionMessage | NoMessage) -> None:
        self._room.release()
        if isinstance(received, NoMessage):
            self._refuse(received)
        else:
            self._note(received.message)
            self._inbox.send_nowait(received)

    def _refuse(self, line: NoMessage) -> None:
        for request_id in line.ids:
            self._unanswered.add(request_id)
            refusal = JSONRPCError(jsonrpc="2.0", id=request_id, error=NO_REQUEST)
            self._tasks.start_soon(self._outbox.send, SessionMessage(refusal))

    def _note(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            self._unanswered.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._unanswered -= {_usable((message.params or {}).get("requestId"))}

    def _end_of_input(self) -> None:
        self._client_gone = True
        self._loop.call_later(LAST_ANSWERS_S if self._unanswered else 0, _end_process)

    async def _write(self) -> None:
        async for answer in self._answers:
            line = answer.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            try:
                await self._send(line)
            except OSError:
                _end_process()  # the client does not read any more
            if isinstance(answer.message, JSONRPCResponse | JSONRPCError):
                self._unanswered.discard(answer.message.id)
            if self._client_gone and not self._unanswered:
                _end_process()

    async def _send(self, line: bytes) -> None:
        """At once where it cannot block, else in a thread: a client that reads slowly stops no other call."""
        if len(line) <= select.PIPE_BUF and _writable(self._wire.write_fd):
            write_all(self._wire.write_fd, line)
        else:
            await anyio.to_thread.run_sync(write_all, self._wire.write_fd, line)


def _writable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))


def parsed(line: bytes) -> SessionMessage | NoMessage:
    """The message, or what is to be refused; the server goes on either way."""
    with suppress(ValidationError):
        return _message(line)
    try:
        read = _mended(line)
        with suppress(ValidationError):
            return _message(read)
        no_message = NoMessage(json.loads(read))
    except (ValueError, RecursionError):
        no_message = NoMessage()
    log.warning("Not a JSON-RPC message: %s", shown(line.decode(errors="replace").strip()))
    return no_message


def _message(line: bytes) -> SessionMessage:
    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    if isinstance(message, JSONRPCNotification):
        _WithoutId.model_validate_json(line)
    return SessionMessage(message)


class _WithoutId(BaseModel):
    """A request whose id is a fraction or a list looks like a notification, but its client waits."""

    id: None = None


def _mended(line: bytes) -> bytes:
    """Half an emoji is JSON to JavaScript but not to pydantic; better a `?` than a call without an answer."""
    message = json.loads(line.decode("utf-8-sig", errors="replace"), parse_int=_whole)
    return json.dumps(message, ensure_ascii=False).encode(errors="replace")


def _whole(digits: str) -> float:
    """More digits than Python reads are as good as infinite."""
    return int(digits) if len(digits) < 4000 else float("inf")
