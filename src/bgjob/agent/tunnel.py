"""A connection to a job's socket, for who is at the other end of our pipe."""

import select
import socket
import threading
from collections.abc import Callable

from bgjob.system.waker import Waker

READ_BYTES = 1 << 16
# What a shim has not read yet. Callers wait for answers: more than this is no caller of ours.
UNSENT_MAX_BYTES = 64 << 20


class Tunnel:
    """Any thread may send; `run` moves the bytes, in a thread that may wait."""

    def __init__(self, connect: Callable[[], socket.socket], tell: Callable[[bytes], None]) -> None:
        self._connect, self._tell = connect, tell
        self._mutex, self._waker = threading.Lock(), Waker()
        self._unsent = bytearray()
        self._is_ending = self._is_over = False

    def send(self, data: bytes) -> None:
        with self._mutex:
            if not self._is_over:
                self._unsent += data
                self._is_ending |= len(self._unsent) > UNSENT_MAX_BYTES
                self._waker.wake()

    def end(self) -> None:
        """Nobody is there any more: what was sent is still passed on."""
        with self._mutex:
            if not self._is_over:
                self._is_ending = True
                self._waker.wake()

    def run(self) -> None:
        """Until either side ends. NoShim: it cannot be connected."""
        try:
            with self._connect() as connection:
                connection.setblocking(False)
                while self._move(connection):
                    pass
        finally:
            self._close()

    def _move(self, connection: socket.socket) -> bool:
        """False: one side has ended."""
        if self._is_ending and not self._unsent:
            return False
        poll = select.poll()
        poll.register(self._waker, select.POLLIN)
        poll.register(connection, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        ready = dict(poll.poll())
        if self._waker.fileno() in ready:
            self._waker.take()
        try:
            return self._pass(connection, ready.get(connection.fileno(), 0))
        except OSError:
            return False  # the shim has left

    def _pass(self, connection: socket.socket, ready: int) -> bool:
        if ready & select.POLLOUT:
            with self._mutex:
                del self._unsent[: connection.send(self._unsent[:READ_BYTES])]
        if ready & ~select.POLLOUT:
            data = connection.recv(READ_BYTES)
            if data:
                self._tell(data)
            return bool(data)
        return True

    def _close(self) -> None:
        with self._mutex:
            self._is_over = True
            self._unsent.clear()
            self._waker.close()
