"""A real `bgjob serve`, and a client that sends exactly the bytes it is told to."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Message = dict[str, Any]
Header = tuple[str, str]

PATIENCE_S = 120.0
REVISION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
MEDIA_TYPES = (("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream"))
BGJOB = (sys.executable, "-m", "bgjob")


class Response(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Message:
        message: Message = json.loads(self.body)
        return message

    @property
    def events(self) -> list[Message]:
        lines = self.body.decode().splitlines()
        return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


class HttpServer(contextlib.AbstractContextManager["HttpServer"]):
    def __init__(self, home: Path, *arguments: str, first: str = "", **environment: str) -> None:
        """`first`: statements for the server to run before it starts, e.g. to shorten a limit of time."""
        self.home = home
        self._environment = {**os.environ, "BGJOB_HOME": str(home), **environment}
        place = () if {"--unix", "--port"} & set(arguments) else ("--port", "0")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"{first}\nfrom bgjob.cli import main; main()",
                "serve",
                *place,
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        self.told = self._read_until_listening()
        self.address = self.told[-1].removeprefix("Listening on ")
        self._ask_for_token()

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stderr
        self.process.stderr.close()

    def _read_until_listening(self) -> list[str]:
        told: list[str] = []
        assert self.process.stderr
        for line in self.process.stderr:
            told.append(line.rstrip())
            if line.startswith("Listening on "):
                return told
        raise EOFError(told)

    def _ask_for_token(self) -> None:
        shown = [line for line in self.told if line.startswith("Token ")]
        self.token = shown[0].rpartition(" ")[2] if shown else ""

    def command(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*BGJOB, *arguments],
            env=self._environment | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def add_token(self, name: str, *options: str) -> str:
        return self.command("token", "add", name, *options).stdout.strip()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    # -- HTTP ---------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        return int(self.address.split(":")[2].partition("/")[0])

    def connect(self) -> socket.socket:
        if self.address.startswith("unix:"):
            connected = socket.socket(socket.AF_UNIX)
            connected.settimeout(PATIENCE_S)
            connected.connect(self.address.removeprefix("unix:").partition(" ")[0])
            return connected
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)

    def host(self) -> Header:
        return "Host", "localhost" if self.address.startswith("unix:") else f"127.0.0.1:{self.port}"

    def authorization(self) -> Header:
        return "Authorization", f"Bearer {self.token}"

    def request(
        self, method: str = "POST", path: str = "/mcp", headers: Sequence[Header] = (), body: bytes = b""
    ) -> Response:
        """With these headers and no others, but the length of the body."""
        with self.connect() as connected:
            connected.sendall(head(method, path, [*headers, ("Content-Length", str(len(body)))]) + body)
            return response(connected)

    def post(self, message: object, *more: Header, token: str | None = None) -> Response:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.request(headers=self.headers(*more, token=token), body=body)

    def headers(self, *more: Header, token: str | None = None) -> list[Header]:
        """Those of a proper client; `more` may replace some."""
        usual = [self.host(), ("Authorization", f"Bearer {token or self.token}"), *MEDIA_TYPES]
        replaced = {name for name, _ in more}
        return [*(each for each in usual if each[0] not in replaced), *more]

    # -- MCP ----------------------------------------------------------------------------------------

    def call(self, tool: str, token: str | None = None, **arguments: Any) -> Message:
        message, headers = tool_call(tool, arguments)
        answer = self.post(message, *headers, token=token)
        assert answer.status == 200, answer
        result: Message = (
            answer.json["result"] if answer.body.startswith(b"{") else answer.events[-1]["result"]
        )
        assert not result["isError"], result
        structured: Message = result["structuredContent"]
        return structured

    def execute(self, command: str, token: str | None = None, **options: Any) -> str:
        return str(self.call("execute_command", token, command=command, **options)["job_id"])


def tool_call(tool: str, arguments: Message, progress: str | None = None) -> tuple[Message, list[Header]]:
    """Of 2026-07-28: the message, and the headers that repeat it."""
    token = {"progressToken": progress} if progress else {}
    return stateless("tools/call", name=tool, arguments=arguments, _meta={**META, **token})


def stateless(method: str, **params: Any) -> tuple[Message, list[Header]]:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META, **params}}
    named = [("Mcp-Name", params["name"])] if "name" in params else []
    return message, [("MCP-Protocol-Version", REVISION), ("Mcp-Method", method), *named]


def handshake_request(method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def head(method: str, path: str, headers: Sequence[Header]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def response(connected: socket.socket) -> Response:
    answer = http.client.HTTPResponse(connected)
    answer.begin()
    with answer:
        return Response(answer.status, dict(answer.getheaders()), answer.read())


def send_wait(server: HttpServer, connected: socket.socket, job_id: str) -> None:
    """Returns when its first progress has come: it waits."""
    arguments = {"job_ids": [job_id], "timeout_s": 600}
    message, headers = tool_call("wait_for_job", arguments, progress="p")
    body = json.dumps(message).encode()
    told = [*server.headers(*headers), ("Content-Length", str(len(body)))]
    connected.sendall(head("POST", "/mcp", told) + body)
    while b"notifications/progress" not in connected.recv(65536, socket.MSG_PEEK):
        pass
