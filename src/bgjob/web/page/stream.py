"""GET /api/stream: all that a page is told, as a stream of events; docs/page.md lists them.

A page that reads slowly is sent less: of rows and samples only the newest, of a terminal a new screen.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from bgjob.core.errors import BgjobError
from bgjob.web.access import Refused
from bgjob.web.page.endpoint import Asked, failure
from bgjob.web.page.live import LiveList, SharedLive
from bgjob.web.page.logins import Logins
from bgjob.web.page.row_list import encoded_changes
from bgjob.web.replies import COMMENT, KEEP_ALIVE_S, STREAM_HEADERS


def event(kind: str, data: Any) -> bytes:
    return encoded_event(kind, json.dumps(data, separators=(",", ":")).encode())


def encoded_event(kind: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


class Streams:
    """The endpoint: an ASGI application."""

    def __init__(self, live: SharedLive, logins: Logins) -> None:
        self._live, self._logins = live, logins
        self._open: set[Stream] = set()
        self._is_stopping = False

    def routes(self) -> list[Route]:
        return [Route("/api/stream", self, methods=["GET"])]

    def stop(self) -> None:
        """All streams end now."""
        self._is_stopping = True
        for stream in self._open:
            stream.end()
        self._live.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        login = scope["state"]["login"]
        if "read" not in login.scopes:
            raise Refused(403, "This login may not read.")
        asked = Asked(dict(Request(scope).query_params), login)
        try:
            stream = Stream(send, asked, lambda: self._logins.is_known(login))
        except BgjobError as problem:
            await failure(problem)(scope, receive, send)
            return
        self._open.add(stream)
        if self._is_stopping:
            stream.end()
        try:
            await stream.run(receive, self._live)
        finally:
            self._open.discard(stream)


class Stream:
    """One open page."""

    def __init__(self, send: Send, asked: Asked, may_go_on: Callable[[], bool]) -> None:
        """`may_go_on`: whether its login is still known."""
        self._send, self._may_go_on = send, may_go_on
        self._loop, self._news, self._is_over = asyncio.get_running_loop(), asyncio.Event(), False
        self._position = asked.text("list", "")
        self._sampled_at = asked.seconds("sampled", 0.0)

    def wake(self) -> None:
        """There is something new. From any thread."""
        with suppress(RuntimeError):  # the server has stopped
            self._loop.call_soon_threadsafe(self._news.set)

    def end(self) -> None:
        self._is_over = True
        self._news.set()

    async def run(self, receive: Receive, live: SharedLive) -> None:
        """Until the client is gone, its login is removed, or the server stops."""
        jobs = live.join(self.wake)
        try:
            async with self._noticing_its_end(receive):
                await self._deliver(Told(jobs, self._position, self._sampled_at))
        finally:
            live.leave(self.wake)

    async def _deliver(self, told: "Told") -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        await self._send_part(COMMENT)
        beat_at = self._loop.time() + KEEP_ALIVE_S
        while not self._is_over:
            self._news.clear()
            while (part := b"".join(told.news())) and not self._is_over:
                await self._send_part(part)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(beat_at):
                    await self._news.wait()
            if self._loop.time() >= beat_at:
                beat_at = self._loop.time() + KEEP_ALIVE_S
                if not self._may_go_on():
                    break
                await self._send_part(COMMENT)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_part(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    @asynccontextmanager
    async def _noticing_its_end(self, receive: Receive) -> AsyncIterator[None]:
        watching = asyncio.create_task(self._watch(receive))
        try:
            yield
        finally:
            watching.cancel()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end()


class Told:
    """What a page has been told of all jobs, and what is new to it."""

    def __init__(self, jobs: LiveList, position: str, sampled_at: float) -> None:
        """Up to where the page knows the list, and the samples."""
        self._jobs = jobs
        self._version = jobs.rows.version_at(position)
        self._standing: tuple[bool, str | None] | None = None
        """Whether the list is complete, and the problem: as it was told; None: it was not told yet."""
        self._sampled_at, self._is_history_due = sampled_at, True

    def news(self) -> Iterator[bytes]:
        """A part of it; nothing: that was all."""
        if self._jobs.rows.is_begun:
            yield from self._rows()
        if self._jobs.samples.at != self._sampled_at:
            yield from self._samples()

    def _rows(self) -> Iterator[bytes]:
        rows = self._jobs.rows
        changes = rows.since(self._version)
        standing = changes.complete, changes.problem
        if changes.version != self._version or standing != self._standing:
            self._version, self._standing = changes.version, standing
            yield encoded_event("list", encoded_changes(changes, rows.position(changes.version)))

    def _samples(self) -> Iterator[bytes]:
        samples = self._jobs.samples
        if self._is_history_due:
            yield event("history", samples.history(self._sampled_at))
        self._is_history_due, latest = False, samples.latest()
        self._sampled_at = latest["at"]
        yield event("samples", latest)
