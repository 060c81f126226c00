"""Talks to a job's shim: one JSON line out, one back.

What listens at a job's socket may be a shim that is stopped, or no shim at all: it is heard only if it is of our own
user, says so much and no more, and has said it when the time is up.
"""

import contextlib
import json
import os
import socket
import stat
import struct
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

SOCKET_PATH_MAX_BYTES = 100  # what fits into a sockaddr everywhere
ANSWER_MAX_BYTES, READ_BYTES = 1 << 20, 1 << 16
MOST_BYTES = 1 << 63
CONNECT_PATIENCE_S, KNOCK_AGAIN_S = 2.0, 0.005
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
ROOT = 0


class NoShim(Exception):
    """Nobody answers: the shim has ended, or is ending; or not in words that we know."""


class Answer(dict[str, Any]):
    """What a shim said. It may be of another version: what it does not say, it has not said."""

    def __missing__(self, name: str) -> Any:
        raise NoShim(f"it does not say {name}: {self.get('error', 'it may be of another version')}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_BYTES


RULES: dict[str, Callable[[Any], bool]] = {
    "ok": lambda value: isinstance(value, bool),
    "waits": lambda value: value in ("yes", "no", "unknown"),
    "end": _is_count,
    "at": _is_count,
    "accepted": _is_count,
    "unread": lambda value: value is None or _is_count(value),
    "processes": _is_count,
    "was_running": lambda value: isinstance(value, bool),
}


class Line:
    """A connection to one shim. TimeoutError: it has not answered in time; the job is not touched by that."""

    def __init__(self, path: str) -> None:
        try:
            self._socket = _connect(path)
        except TimeoutError:
            raise
        except OSError as error:
            raise NoShim(str(error)) from error

    def ask(self, patience_s: float, payload: bytes = b"", **request: object) -> Answer:
        self.send(patience_s, payload, **request)
        return self.receive(patience_s)

    def send(self, patience_s: float, payload: bytes = b"", **request: object) -> None:
        """Only ask; `receive` when the descriptor is readable."""
        self._socket.settimeout(patience_s)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has said no: read that
            self._socket.sendall(json.dumps(request).encode() + b"\n" + payload)

    def receive(self, patience_s: float) -> Answer:
        """All of it in that time: a shim that says a byte now and then has not answered."""
        try:
            return _answer(self._read_line(time.monotonic() + patience_s))
        except (ConnectionError, ValueError, RecursionError) as error:
            raise NoShim(str(error)) from error

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def _read_line(self, deadline: float) -> bytes:
        received = bytearray()
        while not received.endswith(b"\n"):
            if len(received) > ANSWER_MAX_BYTES:
                raise NoShim("its answer has no end")
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._socket.settimeout(left_s)
            part = self._socket.recv(READ_BYTES)
            if not part:
                raise NoShim("it hung up")
            received += part
        return bytes(received)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _answer(line: bytes) -> Answer:
    answer = json.loads(line)
    if not isinstance(answer, dict):
        raise NoShim("its answer is none")
    return Answer({name: value for name, value in answer.items() if name not in RULES or RULES[name](value)})


def _connect(path: str) -> socket.socket:
    """TimeoutError: it has not let us in. So it is with a stopped shim at which many have knocked already."""
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise NoShim("something else is in the place of its socket")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.ExitStack() as undo:
        undo.callback(connection.close)
        _knock(connection, path, time.monotonic() + CONNECT_PATIENCE_S)
        if _peer_uid(connection) not in (os.geteuid(), ROOT):
            raise NoShim("another user's process is at its socket")
        undo.pop_all()
    return connection


def _knock(connection: socket.socket, path: str, deadline: float) -> None:
    """A connect that blocks would wait for as long as the other side is stopped."""
    connection.setblocking(False)
    while True:
        try:
            return _reach(connection, path)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError from None
        time.sleep(KNOCK_AGAIN_S)


def _reach(connection: socket.socket, path: str) -> None:
    if len(os.fsencode(path)) <= SOCKET_PATH_MAX_BYTES:
        connection.connect(path)
    else:
        _connect_from_directory(connection, path)


def _peer_uid(connection: socket.socket) -> int:
    """Of whoever listens there."""
    if not hasattr(socket, "SO_PEERCRED"):
        return os.geteuid()  # no such question here: the home is open to nobody else
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return int(CREDENTIALS.unpack(credentials)[1])


def _connect_from_directory(connection: socket.socket, path: str) -> None:
    """Longer than a socket's address may be: go through a descriptor of its directory."""
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
    finally:
        os.close(directory)
