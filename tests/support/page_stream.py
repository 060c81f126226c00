"""The stream of events of a page, as a page without a browser takes it."""

import contextlib
import http.client
import json
import socket
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

from tests.support.http_server import Response, head
from tests.support.page_login import PageLogin

Data = dict[str, Any]
Event = tuple[str, Data]


class PageStream(contextlib.AbstractContextManager["PageStream"]):
    """What the page would know: each event is taken as it is read."""

    def __init__(self, login: PageLogin, **query: object) -> None:
        self._login, self._viewer = login, str(query.get("viewer", ""))
        self.socket: socket.socket = login.server.connect()
        path = f"{login.placed('/api/stream')}?{urlencode(query)}"
        self.socket.sendall(head("GET", path, [login.server.host(), login.cookie]))
        self.answer = http.client.HTTPResponse(self.socket)
        self.answer.begin()
        self.rows: dict[str, Data] = {}
        self.position = ""
        self.is_complete = False
        self.view: Data = {}
        self.output, self.at = b"", 0
        """What a terminal was told, from its last screen on, and from where on it can be told more."""
        self.seen: list[Event] = []

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
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
        """The next of this kind."""
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

    def wait_for_row(self, job_id: str, is_it: Callable[[Data], bool] = lambda _row: True) -> Data:
        self.wait_until(lambda: job_id in self.rows and is_it(self.rows[job_id]))
        return self.rows[job_id]

    def wait_for_output(self, text: bytes) -> None:
        self.wait_until(lambda: text in self.output)

    def of_job(self) -> list[Event]:
        """What was told of the job that the page looks at."""
        return [event for event in self.seen if event[0] not in ("list", "samples", "history")]

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.of_job()]

    def _take(self, kind: str, data: Data) -> None:
        match kind:
            case "list":
                self.position, self.is_complete = data["position"], data["complete"]
                if data["whole"]:
                    self.rows.clear()
                self.rows |= {row["id"]: row for row in data["rows"]}
                for job_id in data["removed"]:
                    self.rows.pop(job_id, None)  # it may have come and gone meanwhile
            case "view":
                self.view = data
            case "screen":
                self.output, self.at = b64decode(data["data"]), data["at"]
            case "bytes":
                self.output, self.at = self.output + b64decode(data["data"]), data["at"]

    # -- up -----------------------------------------------------------------------------------------

    def type(self, data: bytes) -> Response:
        return self._post("type", data=b64encode(data).decode())

    def resize(self, rows: int, cols: int) -> Response:
        return self._post("resize", rows=rows, cols=cols)

    def hold(self, hold: bool) -> Response:
        return self._post("hold", hold=hold)

    def _post(self, act: str, **asked: object) -> Response:
        return self._login.post(f"/api/{act}", {"viewer": self._viewer, **asked})
