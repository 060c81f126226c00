"""A connection to a job's socket, for who is at the other end of our pipe."""

import re
import select
import socket
import threading
import time
from collections.abc import Callable

from bgjob.system.waker import Waker

READ_BYTES, REQUEST_BYTES = 1 << 16, 100
# What a shim has not read yet. Callers wait for answers: more than this is no caller of ours.
UNSENT_MAX_BYTES = 64 << 20
# Requests that a shim forgets if who has asked hangs up before the answer.
CHANGING = re.compile(rb'\{"op": ?"(?:stdin|kill|signal)"')
FINISH_S = 10.0


class Tunnel:
    """Any thread may send; `run` moves the bytes, in a thread that may wait."""

    def __init__(self, connect: Callable[[], socket.socket], tell: Callable[[bytes], None]) -> None:
        self._connect, self._tell = connect, tell
        self._mutex, self._waker = threading.Lock(), Waker()
        self._unsent = bytearray()
        self._is_over = False
        # What was sent first since the last answer: a request.
        self._asked = b""
        self._ends_at: float | None = None
        self._awaits_answer = False

    def send(self, data: bytes) -> None:
        with self._mutex:
            if not self._is_over:
                self._unsent += data
                self._asked = self._asked or bytes(data[:REQUEST_BYTES])
                if len(self._unsent) > UNSENT_MAX_BYTES:
                    self._ends_at = time.monotonic()
                self._waker.wake()

    def end(self, *, finish: bool = False) -> None:
        """Nobody is there any more: what was sent is still passed on. With `finish`, who has sent it did not
        want to leave: input that was begun is waited for."""
        with self._mutex:
            if not self._is_over:
                self._ends_at = time.monotonic() + FINISH_S
                self._awaits_answer = finish and CHANGING.match(self._asked) is not None
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
        if self._is_done():
            return False
        left_s = None if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())
        poll = select.poll()
        poll.register(self._waker, select.POLLIN)
        poll.register(connection, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        ready = dict(poll.poll(None if left_s is None else left_s * 1000))
        if self._waker.fileno() in ready:
            self._waker.take()
        try:
            return self._pass(connection, ready.get(connection.fileno(), 0))
        except OSError:
            return False  # the shim has left

    def _is_done(self) -> bool:
        """Nobody is there any more, and what was sent has arrived or is given up."""
        if self._ends_at is None:
            return False
        is_answered = not (self._awaits_answer and self._asked)
        return (is_answered and not self._unsent) or time.monotonic() >= self._ends_at

    def _pass(self, connection: socket.socket, ready: int) -> bool:
        if ready & select.POLLOUT:
            with self._mutex:
                del self._unsent[: connection.send(self._unsent[:READ_BYTES])]
        if ready & ~select.POLLOUT:
            data = connection.recv(READ_BYTES)
            if data:
                self._asked = b""
                self._tell(data)
            return bool(data)
        return True

    def _close(self) -> None:
        with self._mutex:
            self._is_over = True
            self._unsent.clear()
            self._waker.close()
