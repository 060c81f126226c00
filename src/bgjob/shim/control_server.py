"""The shim's socket: one JSON line in, one out. What a line may ask is in requests.py."""

from __future__ import annotations

import _socket as socket  # `socket` wraps it: 2 ms of each start
import json
import os

from bgjob.shim.loop import READABLE
from bgjob.system.peer_users import is_own, unix_peer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.home.jobdir import Record
    from bgjob.shim.loop import Loop

    Serve = Callable[["Connection", Record], None]

REQUEST_MAX_BYTES = 1 << 16
PIECE_BYTES = 1 << 16
MOST_IDLE, MOST_CONNECTIONS = 64, 1024
REST_S = 0.1


class ControlServer:
    """Accepts connections, and closes some so that descriptors are left for the job.

    Of the connections that ask nothing the longest idle is closed when others come. Those that wait for an
    answer are closed only when half of all descriptors are connections.
    """

    def __init__(
        self,
        loop: Loop,
        listening: socket.socket,
        serve: Serve,
        on_leave: Callable[[Connection], None],
    ) -> None:
        """`serve` does what a request asks, and raises KeyError where there is no such request."""
        self._loop, self._socket, self.serve, self._on_leave = loop, listening, serve, on_leave
        # first the one whose last answer, or arrival, is longest ago
        self._connections: dict[Connection, None] = {}
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
        self._on_leave(connection)

    def _on_accept(self, _event: int) -> None:
        accepted = self._accepted()
        if accepted is None:
            return
        if not is_own(unix_peer(accepted)):
            return accepted.close()
        self._make_room()
        self._connections[Connection(self._loop, accepted, self)] = None

    def _accepted(self) -> socket.socket | None:
        try:
            fd, _ = self._socket._accept()  # type: ignore[attr-defined] # typeshed lacks it
            return socket.socket(fileno=fd)
        except (BlockingIOError, ConnectionAbortedError):
            return None  # the client has gone already
        except OSError:
            # No descriptor or no memory is left. The client still waits, and poll would return at once.
            if not self._close_first(self._idle() or list(self._connections)):
                self._rest()
            return None

    def _make_room(self) -> None:
        idle = self._idle()
        if len(idle) >= MOST_IDLE:
            self._close_first(idle)
        elif len(self._connections) >= most_connections():
            self._close_first(list(self._connections))

    def _idle(self) -> list[Connection]:
        return [each for each in self._connections if not (each.is_owed_an_answer or each.is_kept)]

    def _close_first(self, connections: list[Connection]) -> bool:
        """False: there is none. Its client may connect again, and ask again."""
        if connections:
            connections[0].leave()
        return bool(connections)

    def _rest(self) -> None:
        """There is no connection to close: accept none for a moment, until descriptors or memory are free."""
        self._loop.watch_for(self._socket.fileno(), 0)
        self._loop.call_later(REST_S, lambda: self._loop.watch_for(self._socket.fileno(), READABLE))


def most_connections() -> int:
    """Half of the descriptors that this process may have."""
    most = os.sysconf("SC_OPEN_MAX")
    return min(most // 2, MOST_CONNECTIONS) if most > 0 else MOST_CONNECTIONS


class Connection:
    """One client, which makes one request after the other. Each is answered once, perhaps later."""

    def __init__(self, loop: Loop, accepted: socket.socket, server: ControlServer) -> None:
        self._loop, self._socket, self._server = loop, accepted, server
        self._fd = accepted.fileno()
        self._received = b""
        self._payload_left = 0
        self._take_payload: Callable[[bytes], None] | None = None
        self.is_owed_an_answer = False  # while it is, nothing more is read from it
        self.is_kept = False
        """Not closed for being idle: a person is attached by it."""
        self._consuming = False
        accepted.setblocking(False)
        loop.watch(self._fd, READABLE, self._on_event)

    def answer(self, **answer: object) -> None:
        self.is_owed_an_answer = False
        if self._send(answer):
            self._server.on_answer(self)
            self._read_on()

    def answer_and_leave(self, **answer: object) -> None:
        """For a client whose further bytes have no meaning any more."""
        if self._send(answer):
            self.leave()

    def _send(self, answer: Record) -> bool:
        if self._fd < 0:
            return False
        try:
            self._socket.send(json.dumps(answer).encode() + b"\n")
        except OSError:
            self.leave()  # the client hung up, or does not read: one answer always fits into its buffer
            return False
        return True

    def on_payload(self, most: int, take: Callable[[bytes], None]) -> None:
        """Call `take` once, with the next piece of the payload that this client sends."""
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
        """A loop, not a recursion: a thousand requests may come in one piece."""
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
            self._loop.watch_for(self._fd, 0)  # no more is read until the job's stdin has taken this
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
            self._server.serve(self, json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError):
            self.answer(ok=False, error=f"not a request: {line[:80]!r}")
