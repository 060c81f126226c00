"""A browser's requests to the page, without a browser: logged in, with the headers that the page sends."""

import json
from http.client import HTTPConnection, HTTPResponse
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tests.support.http_server import PATIENCE_S, HttpServer

PAGE = "Page (opens once): "


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    """By their names in small letters."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class PageClient:
    def __init__(self, server: HttpServer, key: str | None = None) -> None:
        """`key`: of another address than the one that the server told."""
        self._server = server
        told = next(line for line in server.told if line.startswith(PAGE))
        self._cookie = ""
        answer = self.post("/api/login", key=key or told.rpartition("#key=")[2])
        assert answer.status == 204, answer
        self._cookie = answer.headers["set-cookie"].partition(";")[0]

    def get(self, path: str, **query: object) -> Answer:
        return self._ask("GET", f"{path}?{urlencode(query)}")

    def read(self, path: str, **query: object) -> Any:
        """What a request is answered that must not fail."""
        answer = self.get(path, **query)
        assert answer.status == 200, answer
        return answer.json

    def post(self, path: str, **body: object) -> Answer:
        headers = {"Content-Type": "application/json", "X-Bgjob": "1"}
        return self._ask("POST", path, json.dumps(body).encode(), headers)

    def _ask(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        port = self._server.port
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        try:
            own = {"Cookie": self._cookie} if self._cookie else {}
            origin = {"Origin": f"http://127.0.0.1:{port}"} if method == "POST" else {}
            connection.request(method, path, body or None, {**own, **origin, **(headers or {})})
            response: HTTPResponse = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()
