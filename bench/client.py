"""An MCP server as a client sees it: a process that answers JSON-RPC by the line on its stdio."""

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROTOCOL_VERSION = "2025-06-18"
ANSWER_WITHIN_S = 120.0
END_WITHIN_S = 3.0

Json = dict[str, Any]


class BenchError(Exception):
    """A measurement could not be made; the message says why."""


class ToolFailed(BenchError):
    pass


class Server:
    def __init__(self, name: str, argv: Sequence[str], env: Mapping[str, str], home: Path) -> None:
        self.name, self.home = name, home
        self.last_s = 0.0
        """Seconds from the last request's first byte out to its answer's last byte in."""
        self._errors = home / "stderr"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=env,
                cwd=home,
                bufsize=0,
            )
        assert self._process.stdin
        assert self._process.stdout
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._readable = select.poll()
        self._readable.register(self._out, select.POLLIN)
        self._received = bytearray()
        self._last_id = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def initialize(self) -> None:
        client = {"name": "bench", "version": "1"}
        self.request(
            "initialize", {"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": client}
        )
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> Json:
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise ToolFailed(f"{self.name}: {tool} answered an error: {result['content'][0]['text']}")
        answer: Json = result["structuredContent"]
        return answer

    def request(self, method: str, params: Json) -> Json:
        self._last_id += 1
        line = _line({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        began = time.perf_counter()
        self._write(line)
        while True:
            received = self._read_line(began + ANSWER_WITHIN_S)
            self.last_s = time.perf_counter() - began
            message = json.loads(received)
            if message.get("id") == self._last_id and "method" not in message:
                return self._result(message, method)

    def end(self) -> None:
        """As a client does: close its stdin, then lose patience. Its jobs are not our business here."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
        try:
            self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _result(self, message: Json, method: str) -> Json:
        if "error" in message:
            raise ToolFailed(f"{self.name}: {method} answered an error: {message['error']}")
        result: Json = message["result"]
        return result

    def _send(self, message: Json) -> None:
        self._write(_line(message))

    def _write(self, line: bytes) -> None:
        try:
            while line:
                line = line[os.write(self._in, line) :]
        except BrokenPipeError:
            raise self._gone() from None

    def _read_line(self, deadline: float) -> bytes:
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            self._received += self._read(deadline)
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _read(self, deadline: float) -> bytes:
        left_ms = (deadline - time.perf_counter()) * 1000
        if left_ms <= 0 or not self._readable.poll(left_ms):
            raise BenchError(f"{self.name}: no answer within {ANSWER_WITHIN_S:.0f} s")
        chunk = os.read(self._out, 1 << 18)
        if not chunk:
            raise self._gone()
        return chunk

    def _gone(self) -> BenchError:
        said = self._errors.read_text(errors="replace").strip()[-1000:]
        return BenchError(f"{self.name}: the server ended while we talked to it. Its stderr ends: {said}")


def _line(message: Json) -> bytes:
    return json.dumps(message).encode() + b"\n"
