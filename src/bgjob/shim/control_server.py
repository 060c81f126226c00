"""The shim's socket: one JSON line in, one out. Whoever may open it may steer the job.

{"op": "status"}                            pid, end of the log, the outcome if there is one
{"op": "wait", "beyond": N, "quiet_s": Q, "timeout_s": S}   answered at the end of the job, or once the log
                                            is longer than N and then (with Q) has not grown for Q seconds,
                                            at the latest after S seconds
                                            with "settle_s": not before the job waits for input, or is quiet so long
{"op": "waits"}                             whether the job waits for input: yes, no or unknown; what it has printed
                                            by then is in the log, up to "end"
{"op": "stdin", "length": N, "close": B, "wait_s": S}   N bytes follow; how many the job's stdin took
{"op": "resize", "rows": N, "cols": N}      the job's terminal
{"op": "signal", "signal": N}               to every process of the job
{"op": "kill", "signal": N, "grace_s": S}   answered when no process is left
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys

from bgjob.shim.loop import READABLE
from bgjob.shim.stdin import StdinWrite
from bgjob.shim.waiters import Waiter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.home.jobdir import Record
    from bgjob.shim.loop import Loop
    from bgjob.shim.supervise import Supervisor

REQUEST_MAX_BYTES = 1 << 16
PIECE_BYTES = 1 << 16
MOST_ROWS_OR_COLS = (1 << 16) - 1
MOST_IDLE, MOST_CONNECTIONS = 64, 1024
REST_S = 0.1


class ControlServer:
    """Takes visitors in. What they ask is done by the supervisor.

    Each costs a descriptor, and the shim needs some for its job: whoever asks nothing goes when others come, and of
    those who wait there are so many that descriptors are left.
    """

    def __init__(self, loop: Loop, listening: socket.socket, supervisor: Supervisor) -> None:
        self._loop, self._socket, self.supervisor = loop, listening, supervisor
        self._connections: dict[
            Connection, None
        ] = {}  # first the one whose last answer, or arrival, is longest ago
        loop.watch(listening.fileno(), READABLE, self._on_accept)

    def move_to(self, listening: socket.socket) -> None:
        self._loop.forget(self._socket.fileno())
        self._socket.close()
        self._socket = listening
        self._loop.watch(listening.fileno(), READABLE, self._on_accept)

    def on_answer(self, connection: Connection) -> None:
        if connection in self._connections:
            del self._connections[connection]
            self._connections[connection] = None

    def on_leave(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self.supervisor.on_leave(connection)

    def _on_accept(self, _event: int) -> None:
        accepted = self._accepted()
        if accepted is None:
            return
        if _peer_uid(accepted) not in (os.geteuid(), 0):
            return accepted.close()
        self._make_place()
        self._connections[Connection(self._loop, accepted, self)] = None

    def _accepted(self) -> socket.socket | None:
        try:
            return self._socket.accept()[0]
        except (BlockingIOError, ConnectionAbortedError):
            return None  # it has gone already
        except OSError:
            # no descriptor is left, or no memory: who knocks is still there, and wakes us again at once
            if not self._dismiss(self._idle() or list(self._connections)):
                self._rest()
            return None

    def _make_place(self) -> None:
        idle = self._idle()
        if len(idle) >= MOST_IDLE:
            self._dismiss(idle)
        elif len(self._connections) >= most_connections():
            self._dismiss(list(self._connections))

    def _idle(self) -> list[Connection]:
        return [connection for connection in self._connections if not connection.is_owed_an_answer]

    def _dismiss(self, connections: list[Connection]) -> bool:
        """The first of them, if there is one. It may come again, and ask again."""
        if connections:
            connections[0].leave()
        return bool(connections)

    def _rest(self) -> None:
        """There is nobody to dismiss: knocks are not heard for a moment, after which there may be what is missing."""
        self._loop.watch_for(self._socket.fileno(), 0)
        self._loop.call_later(REST_S, lambda: self._loop.watch_for(self._socket.fileno(), READABLE))


def most_connections() -> int:
    """Half of the descriptors that we may have."""
    most = os.sysconf("SC_OPEN_MAX")
    return min(most // 2, MOST_CONNECTIONS) if most > 0 else MOST_CONNECTIONS


class Connection:
    """One connection. Asks one thing after the other; each is answered once, perhaps later."""

    def __init__(self, loop: Loop, accepted: socket.socket, server: ControlServer) -> None:
        self._loop, self._socket, self._server = loop, accepted, server
        self._fd = accepted.fileno()
        self._received = b""
        self._payload_left = 0
        self._take_payload: Callable[[bytes], None] | None = None
        self.is_owed_an_answer = False  # nothing more is read until it has it
        self._consuming = False
        accepted.setblocking(False)
        loop.watch(self._fd, READABLE, self._on_event)

    def answer(self, **answer: object) -> None:
        self.is_owed_an_answer = False
        if self._send(answer):
            self._server.on_answer(self)
            self._read_on()

    def answer_and_leave(self, **answer: object) -> None:
        """For one whose further bytes have no meaning any more."""
        if self._send(answer):
            self.leave()

    def _send(self, answer: Record) -> bool:
        if self._fd < 0:
            return False
        try:
            self._socket.send(json.dumps(answer).encode() + b"\n")
        except OSError:
            self.leave()  # it hung up, or does not read: one answer always fits into its buffer
            return False
        return True

    def on_payload(self, most: int, take: Callable[[bytes], None]) -> None:
        """Hand over the next piece of this visitor's payload, once, when it is there."""
        self._payload_left, self._take_payload = most, take
        self._read_on()

    def leave(self) -> None:
        if self._fd < 0:
            return
        self._loop.forget(self._fd)
        self._socket.close()
        self._fd = -1
        self._server.on_leave(self)

    def _read_on(self) -> None:
        if self._fd >= 0:
            self._loop.watch_for(self._fd, READABLE)
            self._consume()

    def _on_event(self, event: int) -> None:
        if not event & READABLE:
            return self.leave()
        try:
            data = self._socket.recv(PIECE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            return self.leave()
        self._received += data
        self._consume()

    def _consume(self) -> None:
        """A loop, and not a call within a call for each of a thousand requests that came in one breath."""
        if self._consuming:
            return
        self._consuming = True
        while self._fd >= 0 and self._consume_one():
            pass
        self._consuming = False

    def _consume_one(self) -> bool:
        if self._take_payload and self._received:
            take, self._take_payload = self._take_payload, None
            piece, self._received = self._received[: self._payload_left], self._received[self._payload_left :]
            self._loop.watch_for(self._fd, 0)  # the job must have read this before we read more
            take(piece)
            return True
        if not self._take_payload and not self.is_owed_an_answer and b"\n" in self._received:
            line, _, self._received = self._received.partition(b"\n")
            self.is_owed_an_answer = True
            self._loop.watch_for(self._fd, 0)
            self._ask(line)
            return True
        if not self._take_payload and not self.is_owed_an_answer and len(self._received) > REQUEST_MAX_BYTES:
            self.leave()
        return False

    def _ask(self, line: bytes) -> None:
        try:
            request = json.loads(line)
            act = _OPERATIONS[request["op"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            return self.answer(ok=False, error=f"not a request: {line[:80]!r}")
        try:
            act(self._server.supervisor, self, request)
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            self.answer(ok=False, error=f"{type(error).__name__}: {error}")


def _status(supervisor: Supervisor, connection: Connection, _request: Record) -> None:
    supervisor.tell_status(connection)


def _wait(supervisor: Supervisor, connection: Connection, request: Record) -> None:
    numbers = (_number(request, name) for name in ("beyond", "quiet_s", "settle_s"))
    waiter = Waiter(connection, *numbers)
    supervisor.wait(waiter, _number(request, "timeout_s"))


def _number(request: Record, name: str) -> float | None:
    return None if request.get(name) is None else _amount(request[name])


def _amount(value: object) -> float:
    amount = float(value)  # type: ignore[arg-type]
    if not amount >= 0:
        raise ValueError(f"{value} is not a number from 0 on")
    return amount


def _signal_number(value: object) -> int:
    number = int(_amount(value))
    if number not in signal.valid_signals():
        raise ValueError(f"{value} is not a signal")
    return number


def _waits(supervisor: Supervisor, connection: Connection, _request: Record) -> None:
    connection.answer(ok=True, waits=supervisor.waits_for_input(), end=supervisor.settled_log_end())


def _stdin(supervisor: Supervisor, connection: Connection, request: Record) -> None:
    write = StdinWrite(connection, int(_amount(request["length"])), bool(request.get("close")))
    supervisor.stdin.add(write, _amount(request["wait_s"]))


def _resize(supervisor: Supervisor, connection: Connection, request: Record) -> None:
    rows, cols = (min(max(1, int(_amount(request[name]))), MOST_ROWS_OR_COLS) for name in ("rows", "cols"))
    supervisor.resize(rows, cols)
    connection.answer(ok=True)


def _signal(supervisor: Supervisor, connection: Connection, request: Record) -> None:
    connection.answer(ok=True, processes=supervisor.signal_all(_signal_number(request["signal"])))


def _kill(supervisor: Supervisor, connection: Connection, request: Record) -> None:
    supervisor.kill(connection, _signal_number(request["signal"]), _amount(request["grace_s"]))


_OPERATIONS = {
    "status": _status,
    "wait": _wait,
    "waits": _waits,
    "stdin": _stdin,
    "resize": _resize,
    "signal": _signal,
    "kill": _kill,
}


def _peer_uid(accepted: socket.socket) -> int:
    if sys.platform != "linux":
        return os.geteuid()  # the directory is 0700: nobody else gets here
    credentials = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", credentials)[1]
    return uid
