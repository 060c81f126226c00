"""Pages of others: a server on another port of this machine, which a browser also finds as evil.test."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

EVIL = "evil.test"
RESOLVER = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"

# Statements for a server: it writes down what pages of others ask, and how that is answered.
JOURNAL = """
import json
from bgjob.web.page import guard
was = guard.Guard.__call__
async def noting(self, scope, receive, send):
    told = {{name.decode(): value.decode() for name, value in scope["headers"]}}
    ours = told.get("sec-fetch-site", "none") in ("same-origin", "none") and (
        told.get("origin", "").partition("//")[2] in ("", told["host"]))
    asked = [scope["method"], scope["path"]]
    async def note(message):
        if message["type"] == "http.response.start" and not ours:
            with open({path!r}, "a") as file:
                print(json.dumps([*asked, message["status"], "cookie" in told]), file=file)
        await send(message)
    await was(self, scope, receive, note)
guard.Guard.__call__ = noting
"""


class Noted(NamedTuple):
    method: str
    path: str
    status: int
    has_cookie: bool


def journal_in(path: Path) -> str:
    path.touch()
    return JOURNAL.format(path=str(path))


def noted(path: Path) -> list[Noted]:
    lines = path.read_text().splitlines(keepends=True)
    return [Noted(*json.loads(line)) for line in lines if line.endswith("\n")]


class ForeignServer(contextlib.AbstractContextManager["ForeignServer"]):
    def __init__(self, page: str = "") -> None:
        self.page = page
        self.cookies: list[str | None] = []
        """That it was sent: one entry a request."""
        foreign = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                foreign.cookies.append(self.headers.get("cookie"))
                data = foreign.page.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.port = self._server.server_port

    def address(self, host: str, path: str = "/") -> str:
        return f"http://{host}:{self.port}{path}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
