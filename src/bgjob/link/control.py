"""Talks to a job's shim: one JSON line out, one back.

The process at a job's socket may be a stopped shim, or no shim at all. Its answer counts only if the process
is of our own user, the answer is not too long, and it is complete in time.
"""

import contextlib
import json
import math
import os
import socket
import stat
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from bgjob.system.peer_users import is_own, unix_peer

# Fits into a sockaddr everywhere.
SOCKET_PATH_MAX_BYTES = 100
ANSWER_MAX_BYTES, READ_BYTES = 1 << 20, 1 << 16
MOST_BYTES = 1 << 63
# The last second that can be shown as a date, in the year 9892.
MOST_SECONDS = 2.5e11
HOLDER_CHARACTERS = 100
CONNECT_PATIENCE_S, CONNECT_AGAIN_S = 2.0, 0.005
# Parts of a call's patience if its jobs are not counted beforehand.
SOME = 4


class NoShim(Exception):
    """The shim has ended or is ending, or its answer is not one that we know."""


class Answer(dict[str, Any]):
    """The answer of a shim. A shim of another version may leave out what we ask for: that raises NoShim."""

    def __missing__(self, name: str) -> Any:
        raise NoShim(f"it does not say {name}: {self.get('error', 'it may be of another version')}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_BYTES


def _is_size(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(_is_count(number) for number in value)


def _is_hold(value: object) -> bool:
    if not isinstance(value, dict) or not _is_name(value.get("by")):
        return False
    return all(_is_time(value.get(word)) for word in ("since", "typed_at"))


def _is_name(value: object) -> bool:
    """Return whether it is the name of a person, as a shim cuts it."""
    return isinstance(value, str) and len(value) <= HOLDER_CHARACTERS and value.isprintable()


def _is_time(value: object) -> bool:
    """Return whether it is a time that can be shown as a date. NaN is not between any two numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST_SECONDS


RULES: dict[str, Callable[[Any], bool]] = {
    "ok": lambda value: isinstance(value, bool),
    "waits": lambda value: value in ("yes", "no", "unknown"),
    "prompt": lambda value: isinstance(value, bool),
    "quiet": lambda value: isinstance(value, bool),
    "end": _is_count,
    "at": _is_count,
    "accepted": _is_count,
    "unread": lambda value: value is None or _is_count(value),
    "processes": _is_count,
    "unrecorded": lambda value: isinstance(value, dict),
    "was_running": lambda value: isinstance(value, bool),
    "viewer": _is_count,
    "in_control": lambda value: value is None or _is_count(value),
    "size": lambda value: value is None or _is_size(value),
    "held": lambda value: value is None or _is_hold(value),
}


class Patience:
    """How long one call waits for silent shims: no longer for all of its jobs together than for one.

    Each job gets a part of what is left, so a few silent shims do not use up the time of those that answer.
    """

    def __init__(self, seconds: float, parts: int = 1) -> None:
        self._deadline, self._parts = time.monotonic() + seconds, max(1, parts)

    def until(self) -> float:
        """Return when to give up on the next job, by the monotonic clock."""
        now = time.monotonic()
        return now + max(0.0, self._deadline - now) / self._parts


class ShimConnection:
    """A connection to one shim. TimeoutError: the shim has not answered in time; the job is not affected."""

    def __init__(self, path: str, deadline: float = math.inf) -> None:
        """`deadline`: when to stop trying to connect, by the monotonic clock; soon in any case."""
        try:
            self._socket = _connect(path, deadline)
        except TimeoutError:
            raise
        except OSError as error:
            raise NoShim(str(error)) from error

    def ask(self, patience_s: float, payload: bytes = b"", **request: object) -> Answer:
        deadline = time.monotonic() + patience_s
        self.send(max(0.001, patience_s), payload, **request)  # 0: without blocking
        return self.receive(deadline - time.monotonic())

    def send(self, patience_s: float, payload: bytes = b"", **request: object) -> None:
        """Send a request; the caller receives when the descriptor is readable."""
        self._socket.settimeout(patience_s)
        with contextlib.suppress(
            BrokenPipeError, ConnectionResetError
        ):  # the shim has refused: its answer says why
            self._socket.sendall(json.dumps(request).encode() + b"\n" + payload)

    def receive(self, patience_s: float) -> Answer:
        """A whole answer in that time: a byte now and then is none."""
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


def ask_shim(path: str, deadline: float, **request: object) -> Answer:
    """Query one shim, which must answer by this time of the monotonic clock: else TimeoutError, or NoShim."""
    if time.monotonic() >= deadline:
        raise TimeoutError
    with ShimConnection(path, deadline) as shim:
        shim.send(max(0.001, deadline - time.monotonic()), b"", **request)  # 0: without blocking
        return shim.receive(deadline - time.monotonic())


def _answer(line: bytes) -> Answer:
    answer = json.loads(line)
    if not isinstance(answer, dict):
        raise NoShim("its answer is none")
    return Answer({name: value for name, value in answer.items() if name not in RULES or RULES[name](value)})


def _connect(path: str, deadline: float = math.inf) -> socket.socket:
    """TimeoutError: the shim does not accept. So it is if the shim is stopped and its backlog is full."""
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise NoShim("something else is in the place of its socket")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.ExitStack() as undo:
        undo.callback(connection.close)
        _connect_in_time(connection, path, min(deadline, time.monotonic() + CONNECT_PATIENCE_S))
        if not is_own(unix_peer(connection)):
            raise NoShim("another user's process is at its socket")
        undo.pop_all()
    return connection


def _connect_in_time(connection: socket.socket, path: str, deadline: float) -> None:
    """Without blocking: that would wait for as long as the other side is stopped."""
    connection.setblocking(False)
    while True:
        try:
            return _reach(connection, path)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError from None
        time.sleep(CONNECT_AGAIN_S)


def _reach(connection: socket.socket, path: str) -> None:
    if len(os.fsencode(path)) <= SOCKET_PATH_MAX_BYTES:
        connection.connect(path)
    else:
        _connect_from_directory(connection, path)


def _connect_from_directory(connection: socket.socket, path: str) -> None:
    """By a descriptor of the directory: the path is longer than the address of a socket may be."""
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
    finally:
        os.close(directory)
