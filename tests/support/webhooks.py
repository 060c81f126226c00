"""A real HTTP server on loopback that is sent notices, and the programs and terminals that show them."""

import contextlib
import json
import os
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from bgjob.api import Jobs
from bgjob.home import watch_registry
from tests.support.waiting import PATIENCE_S, wait_until

HELD = 0
"""In place of a status: the request is answered when the test says so."""
BROKEN = -1
"""The connection is closed without an answer."""
NO_HTTP = -2


class Posted(NamedTuple):
    path: str
    headers: dict[str, str]
    body: Any


class Receiver:
    """Answers with these statuses one after the other, and from then on with 200."""

    def __init__(self, *answers: int | tuple[int, str], tls: ssl.SSLContext | None = None) -> None:
        self.posted: list[Posted] = []
        self.answers = list(answers)
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = False
        if tls:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a killed client hangs up
        self.port = self._server.server_port
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}/hook?x=1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.posted) >= count, f"{count} notices", lambda: str(self.posted))

    def bodies(self, field: str) -> list[Any]:
        return [posted.body[field] for posted in self.posted]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._answer(self)

            def do_GET(self) -> None:
                receiver.posted.append(Posted(f"GET {self.path}", {}, None))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["content-length"]))
        headers = {name.lower(): value for name, value in request.headers.items()}
        answer = self.answers.pop(0) if self.answers else 200
        self.posted.append(Posted(request.path, headers, json.loads(body)))
        status, location = answer if isinstance(answer, tuple) else (answer, "")
        if status == BROKEN:
            return
        if status == NO_HTTP:
            request.wfile.write(b"220 mail.example.org ESMTP\r\n")
            return
        if status == HELD:
            self._hold(request)
            status = 200
        request.send_response(status)
        if location:
            request.send_header("Location", location)
        request.send_header("Content-Length", "0")
        request.end_headers()

    def _hold(self, request: BaseHTTPRequestHandler) -> None:
        """Keeps a sender waiting who would give up an answer that does not begin."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.released.wait(1.0):
            assert time.monotonic() < deadline
            request.send_response_only(100)
            request.end_headers()


@contextlib.contextmanager
def receiving(*answers: int | tuple[int, str], tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    with contextlib.closing(Receiver(*answers, tls=tls)) as receiver:
        yield receiver


class Desktop:
    """A program called notify-send that writes down its arguments: the real one needs a desktop."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._shown = directory / "shown"
        self.program = directory / "notify-send"
        self.act(f'printf "%s\\0" "$DBUS_SESSION_BUS_ADDRESS" "$@" $\'\\n\' >> {self._shown}')
        self.environment = {
            "PATH": f"{directory}:{os.environ['PATH']}",
            "DBUS_SESSION_BUS_ADDRESS": "unix:abstract=bgjob-test",
        }

    def act(self, script: str) -> None:
        """What the program does."""
        self.program.write_text(f"#!/bin/bash\n{script}\n")
        self.program.chmod(0o755)

    def shown(self) -> list[list[str]]:
        """The arguments of each call; first the address of the bus."""
        text = self._shown.read_bytes().decode() if self._shown.exists() else ""
        return [call.split("\0")[:-1] for call in text.split("\n\0")[:-1]]


def wait_until_all_is_told(jobs: Jobs) -> None:
    """The watcher lets a job go when every event of it was handed over."""
    wait_until(lambda: not watch_registry.registered(jobs.home), "all is told")
