"""The client's end of a shim's socket: every call comes to an end, whatever process is at the other end."""

import contextlib
import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bgjob.link import control
from bgjob.link.control import ANSWER_MAX_BYTES, NoShim, ShimConnection
from tests.support.requires import linux_only

BUFFERED_BYTES = 8 << 20  # far more than the kernel holds between two ends
# the process that calls listen is the peer that a client sees
LISTEN_AS_NOBODY = """
import os, socket, sys
os.setresuid(65534, 65534, 65534)
socket.socket(fileno=int(sys.argv[1])).listen()
"""


@pytest.fixture
def ctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # its path may be too long for a socket's
    return Path("ctl")


@contextlib.contextmanager
def listening(ctl: Path, attend: Callable[[socket.socket], None]) -> Iterator[None]:
    """A server that accepts one connection."""

    def serve() -> None:
        with contextlib.suppress(OSError):  # we have hung up
            connection, _ = listener.accept()
            with connection:
                attend(connection)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(ctl))
        listener.listen()
        server = threading.Thread(target=serve)
        server.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            server.join()


def test_a_shim_that_says_a_byte_now_and_then_has_not_answered(ctl: Path) -> None:
    def drip(connection: socket.socket) -> None:
        while True:
            connection.sendall(b" ")
            time.sleep(0.02)

    with listening(ctl, drip), ShimConnection(str(ctl)) as shim, pytest.raises(TimeoutError):
        shim.ask(0.2, op="status")


HELD = {"by": "x" * 100, "since": 1e9, "typed_at": 2}


@pytest.mark.parametrize(
    "wrong",
    [
        *({"since": value} for value in (1e300, math.nan, -1, True, 10**400, "1")),
        *({"typed_at": value} for value in (math.inf, None)),
        *({"by": value} for value in ("x" * 101, "a\nb", "\x1b[2J", 7)),
    ],
    ids=lambda wrong: repr(wrong)[:30],
)
def test_a_hold_that_nobody_can_have_is_none(wrong: dict[str, object]) -> None:
    """The answer may come from the shim of another machine."""
    for held, is_known in ((HELD, True), ({**HELD, **wrong}, False)):
        answer = control._answer(json.dumps({"ok": False, "held": held}).encode())
        assert ("held" in answer) == is_known


def test_a_shim_that_never_ends_its_answer_is_none(ctl: Path) -> None:
    sent = 0

    def flood(connection: socket.socket) -> None:
        nonlocal sent
        while sent < 2 * BUFFERED_BYTES:
            sent += connection.send(b"[" * (1 << 16))

    with listening(ctl, flood), ShimConnection(str(ctl)) as shim, pytest.raises(NoShim, match="no end"):
        shim.ask(30.0, op="status")
    assert sent < ANSWER_MAX_BYTES + BUFFERED_BYTES


def test_an_answer_may_be_long_and_come_in_parts(ctl: Path) -> None:
    word = b"x" * (ANSWER_MAX_BYTES // 2)

    def answer(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        for part in (b'{"ok": true, "error": "', word, b'"}', b"\n"):
            connection.sendall(part)

    with listening(ctl, answer), ShimConnection(str(ctl)) as shim:
        assert shim.ask(30.0, op="status") == {"ok": True, "error": word.decode()}


def is_accepted(connection: socket.socket, ctl: Path) -> bool:
    connection.setblocking(False)
    return connection.connect_ex(str(ctl)) == 0


@linux_only
def test_no_client_waits_for_ever_at_a_stopped_shim_with_a_full_backlog(
    ctl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "CONNECT_PATIENCE_S", 0.1)
    with contextlib.ExitStack() as connected, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(ctl))
        listener.listen(1)  # and no process accepts
        while is_accepted(connected.enter_context(socket.socket(socket.AF_UNIX)), ctl):
            pass
        with pytest.raises(TimeoutError):
            ShimConnection(str(ctl))


@linux_only
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_users_process_at_the_socket_is_not_spoken_to(ctl: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(ctl))
        number = listener.fileno()
        subprocess.run([sys.executable, "-c", LISTEN_AS_NOBODY, str(number)], pass_fds=[number], check=True)
        with pytest.raises(NoShim, match="another user"):
            ShimConnection(str(ctl))


@pytest.mark.parametrize("what", ["a file", "a symlink to a socket"])
def test_only_a_socket_in_its_place_is_one(ctl: Path, what: str) -> None:
    with listening(ctl, lambda connection: None):
        there = Path("there")
        if what == "a file":
            there.touch()
        else:
            there.symlink_to(ctl)
        with pytest.raises(NoShim, match="something else"):
            ShimConnection(str(there))
        ShimConnection(str(ctl)).close()
