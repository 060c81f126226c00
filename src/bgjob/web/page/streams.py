"""The streams of all open pages, and what a page does in the job that its stream shows.

GET  /api/stream    list=POSITION, sampled=AT: up to where it knows all jobs;
                    job=ID, view=log|terminal, at=OFFSET, size=ROWSxCOLS, viewer=NAME: the job it looks at
POST /api/type      {viewer, data}: bytes, as base64
POST /api/resize    {viewer, rows, cols}
POST /api/hold      {viewer, hold}: take the job over, or give it back
"""

import binascii
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from bgjob.api.attach import Size
from bgjob.api.context import Context
from bgjob.core.errors import BgjobError, InvalidArgument
from bgjob.core.scopes import SCOPES
from bgjob.terminal.size import drawable
from bgjob.web.access import Refused
from bgjob.web.page.endpoint import Asked, failure, post
from bgjob.web.page.live import SharedLive
from bgjob.web.page.logins import Login, Logins
from bgjob.web.page.stream import News, Stream
from bgjob.web.page.viewer import Viewer, ViewName, Wanted

MOST_ROWS_OR_COLS = (1 << 16) - 1
ViewerName = tuple[Login, str]
VIEWS: tuple[ViewName, ...] = ("log", "terminal")


class NoSuchViewer(BgjobError):
    def __init__(self) -> None:
        super().__init__(
            "This page does not look at the job any more, so nothing was done.", "Load it again."
        )


class Streams:
    """The stream is an ASGI application of its own."""

    def __init__(self, context: Context, live: SharedLive, logins: Logins) -> None:
        self._context, self._live, self._logins = context, live, logins
        self._open: set[Stream] = set()
        self._viewers: dict[ViewerName, Viewer] = {}
        self._is_stopping = False

    def routes(self) -> list[Route]:
        return [
            Route("/api/stream", self, methods=["GET"]),
            post("/api/type", self._type, "run"),
            post("/api/resize", self._resize, "run"),
            post("/api/hold", self._hold, "run"),
        ]

    def stop(self) -> None:
        """All streams end now."""
        self._is_stopping = True
        for stream in self._open:
            stream.end()
        self._live.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        login: Login = scope["state"]["login"]
        if "read" not in login.scopes:
            raise Refused(403, f"This login may not {SCOPES['read']}.")
        asked = Asked(dict(Request(scope).query_params), login)
        try:
            known = asked.text("list", ""), asked.seconds("sampled", 0.0)
            wanted = _wanted(asked) if asked.has("job") else None
        except InvalidArgument as problem:
            await failure(problem)(scope, receive, send)
            return
        stream = Stream(send, lambda: self._logins.is_known(login))
        viewer = self._viewer(wanted, stream) if wanted else None
        with self._opened(stream), self._attended(viewer, (login, asked.text("viewer", ""))):
            news = News(self._live.join(stream.wake), *known, viewer)
            await stream.run(receive, news.take)

    def _viewer(self, wanted: Wanted, stream: Stream) -> Viewer:
        return Viewer(self._context, wanted, stream.wake, lambda: self._live.look_at(wanted.job_id))

    @contextmanager
    def _opened(self, stream: Stream) -> Iterator[None]:
        self._open.add(stream)
        if self._is_stopping:
            stream.end()
        try:
            yield
        finally:
            self._open.discard(stream)
            self._live.leave(stream.wake)

    @contextmanager
    def _attended(self, viewer: Viewer | None, name: ViewerName) -> Iterator[None]:
        """A page that opens its stream anew may be back before the end of the old one was noticed."""
        if viewer is None:
            yield
            return
        if before := self._viewers.get(name):
            before.close()
        self._viewers[name] = viewer
        self._live.join(viewer.on_change)
        viewer.start()
        try:
            yield
        finally:
            viewer.close()
            self._live.leave(viewer.on_change)
            if self._viewers.get(name) is viewer:
                del self._viewers[name]

    # -- what a page does in the job ----------------------------------------------------------------

    def _named(self, asked: Asked) -> Viewer:
        viewer = self._viewers.get((asked.login, asked.text("viewer")))
        if viewer is None:
            raise NoSuchViewer
        return viewer

    def _type(self, asked: Asked) -> None:
        try:
            data = b64decode(asked.text("data"), validate=True)
        except (binascii.Error, ValueError):
            raise InvalidArgument(" must be base64.", argument="data") from None
        self._named(asked).type(data)

    def _resize(self, asked: Asked) -> None:
        self._named(asked).resize(_size(asked))

    def _hold(self, asked: Asked) -> None:
        viewer = self._named(asked)
        viewer.take_over() if asked.flag("hold") else viewer.give_back()


def _wanted(asked: Asked) -> Wanted:
    view = next((view for view in VIEWS if view == asked.text("view", "log")), None)
    if view is None:
        raise InvalidArgument(f" must be one of {', '.join(VIEWS)}.", argument="view")
    size = None
    if asked.has("size"):
        rows, _, cols = asked.text("size").partition("x")
        size = _size(Asked({"rows": rows, "cols": cols}, asked.login))
    return Wanted(asked.text("job"), view, asked.number("at", 0), size, "run" in asked.login.scopes)


def _size(asked: Asked) -> Size:
    """Cut to what can be drawn."""
    most = MOST_ROWS_OR_COLS
    return drawable(asked.number("rows", least=1, most=most), asked.number("cols", least=1, most=most))
