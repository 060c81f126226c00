"""A browser that is logged in to the page, as far as HTTP goes: its cookie, its path, its headers."""

import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from tests.support.http_server import Header, HttpServer, Response

PAGE = "Page (opens once): "
JSON: Header = "Content-Type", "application/json"
POSTED: Header = "X-Bgjob", "1"


class PageLogin:
    def __init__(self, server: HttpServer, key: str | None = None) -> None:
        """With the key that the server told at its start, unless another is given."""
        self.server = server
        answer = log_in(server, first_key(server) if key is None else key)
        assert answer.status == 200, answer
        self.set_cookie = answer.headers["set-cookie"]
        self.cookie: Header = "Cookie", self.set_cookie.partition(";")[0]
        self.path: str = answer.json["path"]

    def placed(self, path: str) -> str:
        """/api/… as it is asked by this login."""
        return path.replace("/api/", self.path, 1)

    def get(self, path: str, *more: Header, **query: object) -> Response:
        asked = f"{self.placed(path)}?{urlencode(query)}" if query else self.placed(path)
        return self.server.request("GET", asked, [self.server.host(), self.cookie, *more])

    def post(self, path: str, body: Any = None, *more: Header) -> Response:
        sent = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
        headers = [*posting(self.server), self.cookie]
        return self.server.request("POST", self.placed(path), replaced(headers, more), sent)


def log_in(server: HttpServer, key: str) -> Response:
    return server.request("POST", "/api/login", posting(server), json.dumps({"key": key}).encode())


def first_key(server: HttpServer) -> str:
    return key_in(next(line for line in server.told if line.startswith(PAGE)))


def key_in(address: str) -> str:
    found = re.search(r"#key=([\w-]+)$", address.strip())
    assert found, address
    return found[1]


def origin(server: HttpServer) -> Header:
    return "Origin", f"http://127.0.0.1:{server.port}"


def posting(server: HttpServer) -> list[Header]:
    """The headers with which the page posts."""
    return [server.host(), origin(server), POSTED, JSON]


def replaced(headers: Sequence[Header], more: Sequence[Header]) -> list[Header]:
    names = {name for name, _ in more}
    return [*(each for each in headers if each[0] not in names), *more]
