"""The files of the page, as they are sent: with headers that let the browser run nothing else."""

import mimetypes
import os
from collections.abc import Mapping
from functools import cache
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bgjob.web.access import Refused

PREFIX = "/page/"
INDEX = "index.html"
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def is_file(path: str) -> bool:
    """Open to all: the page itself knows nothing."""
    return path == "/" or path.startswith(PREFIX)


def routes() -> list[Route]:
    return [Route("/", _index, methods=["GET"]), Route(PREFIX + "{name:path}", _file, methods=["GET"])]


async def _index(request: Request) -> Response:
    return _sent(INDEX, request)


async def _file(request: Request) -> Response:
    return _sent(request.path_params["name"], request)


def _sent(name: str, request: Request) -> Response:
    if name not in _names():
        raise Refused(404, "There is nothing here.")
    path = os.path.join(_directory(), name)
    info = os.stat(path)
    tag = f'"{info.st_mtime_ns:x}-{info.st_size:x}"'
    headers = {**HEADERS, "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    with open(path, "rb") as file:
        return Response(file.read(), headers=headers, media_type=_type(name))


def _type(name: str) -> str:
    return TYPES.get(os.path.splitext(name)[1]) or mimetypes.guess_type(name)[0] or "application/octet-stream"


def _directory() -> str:
    return str(resources.files("bgjob.web.page") / "static")


@cache
def _names() -> frozenset[str]:
    top = _directory()
    found = (
        os.path.relpath(os.path.join(folder, name), top)
        for folder, _, names in os.walk(top)
        for name in names
    )
    return frozenset(name for name in found if os.path.splitext(name)[1] in (*TYPES, ".html"))
