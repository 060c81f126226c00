"""Real `bgjob mcp` servers at the price of a fork: the second of imports is paid once.

    python model_servers.py      descriptor 0 is a socket

An order is an environment and how to begin, with the server's end of its client's socket, and its stderr.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

PATIENCE_S = 120.0
ORDER_MAX_BYTES = 1 << 17
SERVE = [sys.executable, "-m", "bgjob", "mcp"]
HANDSHAKE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "model", "version": "1"},
}
Answer = dict[str, Any]


class Refused(Exception):
    """What a model would read."""


class Server:
    """One `bgjob mcp`, and its client."""

    def __init__(self, pid: int, wire: socket.socket) -> None:
        self.pid, self._wire = pid, wire
        self._life = os.pidfd_open(pid)
        self._wire.settimeout(PATIENCE_S)
        self._lines = wire.makefile("rb")
        self._asked = 0
        self._answer_to(self._send("initialize", HANDSHAKE))
        self._write({"method": "notifications/initialized"})
        self.most_descriptors = self.descriptors() + len(["its zygote's socket"])

    def call(self, tool: str, **arguments: Any) -> Answer:
        return self.answer(self.ask(tool, **arguments))

    def ask(self, tool: str, **arguments: Any) -> int:
        """Only the question: much can happen before its `answer` is read."""
        return self._send("tools/call", {"name": tool, "arguments": arguments})

    def answer(self, request: int) -> Answer:
        result = self._answer_to(request)["result"]
        if result.get("isError"):
            raise Refused("".join(part["text"] for part in result["content"]))
        return dict(result["structuredContent"])

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208

    def held(self) -> list[str]:
        """What its descriptors are."""
        return [os.readlink(each.path) for each in os.scandir(f"/proc/{self.pid}/fd")]  # noqa: PTH115

    def kill(self) -> None:
        """SIGKILL: no cleanup, no goodbye."""
        signal.pidfd_send_signal(self._life, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """Its client goes away, and so does the server."""
        self._lines.close()
        self._wire.close()
        try:
            assert select.select([self._life], [], [], PATIENCE_S)[0], "the server outlives its client"
        finally:
            os.close(self._life)

    def _send(self, method: str, params: Answer) -> int:
        self._asked += 1
        self._write({"id": self._asked, "method": method, "params": params})
        return self._asked

    def _write(self, message: Answer) -> None:
        self._wire.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def _answer_to(self, request: int) -> Answer:
        while line := self._lines.readline():
            message: Answer = json.loads(line)
            if message.get("id") == request:
                return message
        raise EOFError(f"server {self.pid} hung up")


class ServerRoom(contextlib.AbstractContextManager["ServerRoom"]):
    """Where servers come from. Not from a fork of the test itself: that has threads."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen([sys.executable, __file__], stdin=theirs.fileno())

    def __exit__(self, *_: object) -> None:
        self._orders.close()
        assert self._process.wait(PATIENCE_S) == 0

    def server(self, environment: dict[str, str], stderr: Path, *, executed: bool) -> Server:
        """Executed as a client does it, or forked with everything imported."""
        ours, theirs = socket.socketpair()
        order = json.dumps({"environment": environment, "executed": executed}).encode()
        with theirs, stderr.open("ab") as log:
            socket.send_fds(self._orders, [order], [theirs.fileno(), log.fileno()])
        return Server(int(self._orders.recv(100)), ours)


def main() -> None:
    from bgjob.mcp import server  # before the first fork

    orders = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the servers
    gc.freeze()
    while True:
        order, descriptors, _, _ = socket.recv_fds(orders, ORDER_MAX_BYTES, 2)
        if not order:
            return
        pid = os.fork()
        if pid == 0:
            orders.close()
            be_plain(*descriptors)
            begin(server.serve, **json.loads(order))
        for fd in descriptors:
            os.close(fd)
        orders.send(str(pid).encode())


def be_plain(wire: int, stderr: int) -> None:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, fd in enumerate((wire, wire, stderr)):
        os.dup2(fd, number)
    os.close(wire)
    os.close(stderr)


def begin(serve: Any, environment: dict[str, str], executed: bool) -> None:
    if executed:
        os.execve(SERVE[0], SERVE, environment)
    os.environ.clear()
    os.environ.update(environment)
    serve(os.environ)


if __name__ == "__main__":
    main()
