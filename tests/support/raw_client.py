"""A client that writes exactly the bytes it is told to, and keeps every line that comes back."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Message = dict[str, Any]

SERVE = (sys.executable, "-m", "bgjob", "mcp")
HANDSHAKE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}


class RawClient(contextlib.AbstractContextManager["RawClient"]):
    def __init__(self, home: Path, command: Sequence[str] = SERVE, **environment: str) -> None:
        self._stderr = home.parent / f"stderr-{os.urandom(4).hex()}"
        with self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, "BGJOB_HOME": str(home), **environment},
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.lines: list[bytes] = []
        self._asked = 0

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        self.stdout.close()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def write(self, line: bytes) -> None:
        self.stdin.write(line + b"\n")
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

    def answer_to(self, request: int) -> Message:
        while line := self.stdout.readline():
            self.lines.append(line)
            message: Message = json.loads(line)
            if message.get("id") == request:
                return message
        raise EOFError(self.stderr)

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
        self.stdin.close()
