"""Talks to a job's shim: one JSON line out, one back."""

import contextlib
import json
import os
import socket
import struct
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

CONNECT_PATIENCE_S = 2
SOCKET_PATH_MAX_BYTES = 100  # what fits into a sockaddr everywhere


class NoShim(Exception):
    """Nobody answers: the shim has ended, or is ending; or not in words that we know."""


class Answer(dict[str, Any]):
    """What a shim said. It may be of another version: what it does not say, it has not said."""

    def __missing__(self, name: str) -> Any:
        raise NoShim(f"it does not say {name}: {self.get('error', 'it may be of another version')}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 0


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
        except OSError as error:
            raise NoShim(str(error)) from error

    def ask(self, patience_s: float, payload: bytes = b"", **request: object) -> Answer:
        self.send(patience_s, payload, **request)
        return self.receive()

    def send(self, patience_s: float, payload: bytes = b"", **request: object) -> None:
        """Only ask; `receive` when the descriptor is readable."""
        self._socket.settimeout(patience_s)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has said no: read that
            self._socket.sendall(json.dumps(request).encode() + b"\n" + payload)

    def receive(self) -> Answer:
        try:
            return self._answer()
        except (ConnectionError, ValueError, RecursionError) as error:
            raise NoShim(str(error)) from error

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def _answer(self) -> Answer:
        received = b""
        while not received.endswith(b"\n"):
            part = self._socket.recv(1 << 16)
            if not part:
                raise NoShim("it hung up")
            received += part
        answer = json.loads(received)
        if not isinstance(answer, dict):
            raise NoShim("its answer is none")
        return Answer(
            {name: value for name, value in answer.items() if name not in RULES or RULES[name](value)}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Blocking, and not for ever: a shim that stands still takes nobody in, one that is busy does in a moment.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", CONNECT_PATIENCE_S, 0))
    with contextlib.ExitStack() as undo:
        undo.callback(connection.close)
        if len(os.fsencode(path)) <= SOCKET_PATH_MAX_BYTES:
            connection.connect(path)
        else:
            _connect_from_directory(connection, path)
        undo.pop_all()
    return connection


def _connect_from_directory(connection: socket.socket, path: str) -> None:
    """Longer than a socket's address may be: go through a descriptor of its directory."""
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
    finally:
        os.close(directory)
