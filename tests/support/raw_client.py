"""A client that writes exactly the bytes it is told to, and keeps every line that comes back."""

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.wires import Wire, pipes

Message = dict[str, Any]

SERVE = (sys.executable, "-m", "bgjob", "mcp")
HANDSHAKE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}


class RawClient(contextlib.AbstractContextManager["RawClient"]):
    def __init__(
        self, home: Path, command: Sequence[str] = SERVE, wire: Wire | None = None, /, **environment: str
    ) -> None:
        self._stderr = home.parent / f"stderr-{os.urandom(4).hex()}"
        wire = wire or pipes()
        with self._stderr.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=wire.stdin,
                stdout=wire.stdout,
                stderr=log if wire.stderr is None else wire.stderr,
                env={**os.environ, "BGJOB_HOME": str(home), **environment},
            )
        os.close(wire.stdin)
        os.close(wire.stdout)
        self.stdin = open(wire.write, "wb")  # noqa: PTH123, SIM115 - a descriptor
        self.stdout = open(wire.read, "rb")  # noqa: PTH123, SIM115
        self.lines: list[bytes] = []
        self._asked = 0

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(OSError):
            self.stdin.close()
        self.stdout.close()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def write(self, line: bytes) -> None:
        self.write_bytes(line + b"\n")

    def write_bytes(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def send(self, method: str, params: str | Message | None = None) -> int:
        """A request whose params may be JSON text of our own making; its id."""
        self._asked += 1
        text = params if isinstance(params, str) else json.dumps(params or {})
        self.write(
            b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}'
            % (self._asked, method.encode(), text.encode())
        )
        return self._asked

    def ask(self, method: str, params: str | Message | None = None) -> Message:
        return self.answer_to(self.send(method, params))

    def answer_to(self, request: int | str) -> Message:
        while (message := self.next_message()).get("id") != request:
            pass
        return message

    def next_message(self) -> Message:
        line = self.stdout.readline()
        if not line:
            raise EOFError(self.stderr)
        self.lines.append(line)
        message: Message = json.loads(line)
        return message

    def rest(self) -> list[Message]:
        """Everything until the server closes its stdout."""
        rest = self.stdout.readlines()
        self.lines.extend(rest)
        return [json.loads(line) for line in rest]

    def shake_hands(self) -> Message:
        answer = self.ask("initialize", HANDSHAKE)
        self.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return answer

    def tools(self) -> list[Message]:
        return list(self.ask("tools/list")["result"]["tools"])

    def call(self, tool: str, arguments: str | Message | None = None) -> Message:
        return dict(self.answer_to(self.send_call(tool, arguments))["result"])

    def send_call(self, tool: str, arguments: str | Message | None = None) -> int:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
        return self.send("tools/call", f'{{"name":{json.dumps(tool)},"arguments":{text}}}')

    def execute(self, command: str) -> str:
        return str(self.call("execute_command", {"command": command})["structuredContent"]["job_id"])

    def hang_up(self) -> None:
        """Of a socket for both directions, only this one is closed."""
        if stat.S_ISSOCK(os.fstat(self.stdin.fileno()).st_mode):
            with socket.socket(fileno=os.dup(self.stdin.fileno())) as end:
                end.shutdown(socket.SHUT_WR)
        self.stdin.close()
