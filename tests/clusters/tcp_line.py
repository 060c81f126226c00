"""A TCP line between a client and a server on loopback, which a test can cut, refuse or let fall silent."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from functools import partial

READ_BYTES = 1 << 16
RESET_WHEN_CLOSED = struct.pack("ii", 1, 0)
"""For SO_LINGER: the peer is told at once, and what it has not read yet is lost."""


class TcpLine(contextlib.AbstractContextManager["TcpLine"]):
    """Forwards connections to `port` of it to `to`."""

    def __init__(self, to: int) -> None:
        self._to, self._mutex = to, threading.Lock()
        self._forwards = threading.Event()
        self._forwards.set()
        self._ends: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.accepted = 0
        """How many connections there have been."""
        self._listen(self._listener)

    def __exit__(self, *_: object) -> None:
        self._stop_listening()
        self._forwards.set()
        self.cut()

    def cut(self) -> None:
        """Both ends of each connection learn it at once. New connections are accepted."""
        with self._mutex:
            for end in self._ends:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_WHEN_CLOSED)
                    end.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """A hole in the network: nothing comes through, and no end is told. What was sent comes afterwards."""
        self._forwards.clear()
        try:
            yield
        finally:
            self._forwards.set()

    @contextlib.contextmanager
    def refused(self) -> Iterator[None]:
        """Connections are cut, and new ones refused: the host is there, and no server."""
        self._stop_listening()
        self.cut()
        try:
            yield
        finally:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self._listen(self._listener)

    def _stop_listening(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()

    def _listen(self, listener: socket.socket) -> None:
        _in_background(partial(self._accept, listener))

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                self.accepted += 1
                _in_background(partial(self._connect, near))

    def _connect(self, near: socket.socket) -> None:
        self._forwards.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._to))
        except OSError:
            near.close()
            return
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._mutex:
            self._ends |= {near, far}
        other_way = _in_background(partial(self._pump, far, near))
        self._pump(near, far)
        other_way.join()
        with self._mutex:
            self._ends -= {near, far}
        near.close()
        far.close()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(READ_BYTES):
                self._forwards.wait()
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


def _in_background(work: partial[None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
