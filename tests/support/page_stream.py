"""A page without a browser: a login, its requests, and its stream of events."""

import contextlib
import http.client
import json
import socket
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterator
from typing import Any
from urllib.parse import urlencode

from bgjob.core.scopes import SCOPES
from bgjob.web.page.logins import Logins
from tests.support.http_server import Header, HttpServer, Response, head

Data = dict[str, Any]
Event = tuple[str, Data]
Row = dict[str, Any]


class PageClient:
    """Logged in."""

    def __init__(self, server: HttpServer, scopes: Collection[str] = tuple(SCOPES)) -> None:
        self.server = server
        key = Logins(str(server.home)).add_key(scopes)
        answer = self.post("/api/login", key=key)
        assert answer.status == 204, answer
        self.cookie = answer.headers["set-cookie"].partition(";")[0]

    cookie = ""

    def headers(self) -> list[Header]:
        return [self.server.host(), ("Cookie", self.cookie), ("Sec-Fetch-Site", "same-origin")]

    def post(self, path: str, /, **asked: Any) -> Response:
        host = self.server.host()[1]
        of_page = [("Origin", f"http://{host}"), ("X-Bgjob", "1"), ("Content-Type", "application/json")]
        return self.server.request("POST", path, [*self.headers(), *of_page], json.dumps(asked).encode())

    def get(self, path: str, /, **query: object) -> Response:
        return self.server.request("GET", f"{path}?{urlencode(query)}", self.headers())

    def stream(self, **query: object) -> "PageStream":
        return PageStream(self, **query)


class PageStream(contextlib.AbstractContextManager["PageStream"]):
    """What the page would know: each event is taken as it is read."""

    def __init__(self, client: PageClient, **query: object) -> None:
        self._client, self._viewer = client, str(query.get("viewer", ""))
        self.socket: socket.socket = client.server.connect()
        self.socket.sendall(head("GET", f"/api/stream?{urlencode(query)}", client.headers()))
        self.answer = http.client.HTTPResponse(self.socket)
        self.answer.begin()
        self.rows: dict[str, Row] = {}
        self.position = ""
        self.is_complete = False
        self.samples: dict[str, list[Any]] = {}
        self.view: Data = {}
        self.output, self.at = b"", 0
        """What a terminal was told, from its last screen on, and up to where in the log."""
        self.seen: list[Event] = []

    def __exit__(self, *_: object) -> None:
        self.answer.close()
        self.socket.close()

    # -- down ---------------------------------------------------------------------------------------

    def events(self) -> Iterator[Event]:
        """Until the server ends it."""
        kind = ""
        while line := self.answer.readline():
            name, _, text = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                kind = text
            elif name == "data":
                event = kind, json.loads(text)
                self.seen.append(event)
                self._take(*event)
                yield event

    def wait_for(self, kind: str, is_it: Callable[[Data], bool] = lambda _data: True) -> Data:
        for name, data in self.events():
            if name == kind and is_it(data):
                return data
        raise EOFError(f"no event {kind}; but: {self.seen[-20:]}")

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Reads on until it is; what was read before counts."""
        events = self.events()
        while not is_so():
            if next(events, None) is None:
                raise EOFError(self.seen[-20:])

    def wait_for_row(self, job_id: str, is_it: Callable[[Row], bool] = lambda _row: True) -> Row:
        self.wait_until(lambda: job_id in self.rows and is_it(self.rows[job_id]))
        return self.rows[job_id]

    def wait_for_output(self, text: bytes) -> None:
        self.wait_until(lambda: text in self.output)

    def _take(self, kind: str, data: Data) -> None:
        match kind:
            case "list":
                self.position, self.is_complete = data["position"], data["complete"]
                if data["whole"]:
                    self.rows.clear()
                self.rows |= {row["id"]: row for row in data["rows"]}
                for job_id in data["removed"]:
                    del self.rows[job_id]
            case "samples":
                self.samples = data["jobs"]
            case "view":
                self.view = data
            case "screen":
                self.output, self.at = b64decode(data["data"]), data["at"]
            case "bytes":
                self.output, self.at = self.output + b64decode(data["data"]), data["at"]

    # -- up -----------------------------------------------------------------------------------------

    def type(self, data: bytes) -> Response:
        return self._client.post("/api/type", viewer=self._viewer, data=b64encode(data).decode())

    def resize(self, rows: int, cols: int) -> Response:
        return self._client.post("/api/resize", viewer=self._viewer, rows=rows, cols=cols)

    def hold(self, hold: bool) -> Response:
        return self._client.post("/api/hold", viewer=self._viewer, hold=hold)
