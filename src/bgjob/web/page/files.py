"""The files of the page, as they are sent: with headers that let the browser run nothing else."""

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

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
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}


class File(NamedTuple):
    data: bytes
    media_type: str
    tag: str


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
    """The browser asks each time whether its copy is current: after an upgrade it shows the new page at once."""
    if (file := load().get(name)) is None:
        raise Refused(404, "There is nothing here.")
    headers = {"ETag": file.tag}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.data, headers=headers, media_type=file.media_type)


@cache
def load() -> Mapping[str, File]:
    """Read once: a server that runs during an upgrade goes on with its own page."""
    top = Path(str(resources.files("bgjob.web.page") / "static"))
    return {path.relative_to(top).as_posix(): _read(path) for path in top.rglob("*") if path.suffix in TYPES}


def _read(path: Path) -> File:
    """The tag is a hash: an installer may give the files of two versions the same time."""
    data = path.read_bytes()
    return File(data, TYPES[path.suffix], f'"{hashlib.sha256(data).hexdigest()[:32]}"')
