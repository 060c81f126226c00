"""All that a page is told, as a stream of events (HTML, Server-sent events). Their data is JSON:

    list      position, whole, complete, rows, removed, problem: the rows that have changed
    history   {id: [[at, cpu_percent, memory_bytes]]}: once after the beginning, some jobs at a time
    samples   at, jobs {id: [cpu_percent, memory_bytes]}, store: after each look at the jobs that run
    of the job that the page looks at: see bgjob.web.page.viewer

A page that reads slowly is sent less: of rows and samples only the newest, of a terminal a new screen.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.types import Receive, Send

from bgjob.web.page.event_queue import encoded_event, event
from bgjob.web.page.live import LiveList
from bgjob.web.page.row_list import encoded_changes
from bgjob.web.page.viewer import Viewer
from bgjob.web.replies import COMMENT, KEEP_ALIVE_S, STREAM_HEADERS


class Stream:
    """To one open page. For the event loop, but for what says so."""

    def __init__(self, send: Send, may_go_on: Callable[[], bool]) -> None:
        """`may_go_on`: whether its login is still known."""
        self._send, self._may_go_on = send, may_go_on
        self._loop, self._news, self._is_over = asyncio.get_running_loop(), asyncio.Event(), False

    def wake(self) -> None:
        """There is something new. From any thread."""
        with suppress(RuntimeError):  # the server has stopped
            self._loop.call_soon_threadsafe(self._news.set)

    def end(self) -> None:
        self._is_over = True
        self._news.set()

    async def run(self, receive: Receive, news: Callable[[], bytes]) -> None:
        """Until the client is gone, its login is removed, or the server stops.

        `news`: a part of what is new; b"": that was all.
        """
        async with self._noticing_its_end(receive):
            await self._deliver(news)

    async def _deliver(self, news: Callable[[], bytes]) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        await self._send_part(COMMENT)
        beat_at = self._loop.time() + KEEP_ALIVE_S
        while not self._is_over:
            self._news.clear()
            while (part := news()) and not self._is_over:
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


class News:
    """What a page has been told, and what is new to it."""

    def __init__(self, jobs: LiveList, position: str, sampled_at: float, viewer: Viewer | None) -> None:
        """Up to where the page knows the list, and the samples."""
        self._jobs, self._viewer = jobs, viewer
        self._version = jobs.rows.version_at(position)
        self._standing: tuple[bool, str | None] | None = None
        """Whether the list is complete, and the problem: as it was told; None: it was not told yet."""
        self._sampled_at = sampled_at
        self._history: list[Any] | None = None
        """What is still to be told of earlier samples; None: nothing was told yet."""

    def take(self) -> bytes:
        """A part of it; b"": that was all."""
        of_job = self._viewer.take() if self._viewer else b""
        return of_job + b"".join(self._of_all_jobs())

    def _of_all_jobs(self) -> Iterator[bytes]:
        if self._jobs.rows.is_begun:
            yield from self._rows()
        if self._history or self._jobs.samples.at != self._sampled_at:
            yield self._samples()

    def _rows(self) -> Iterator[bytes]:
        rows = self._jobs.rows
        changes = rows.since(self._version)
        standing = changes.complete, changes.problem
        if changes.version != self._version or standing != self._standing:
            self._version, self._standing = changes.version, standing
            yield encoded_event("list", encoded_changes(changes, rows.position(changes.version)))

    def _samples(self) -> bytes:
        samples = self._jobs.samples
        if self._history is None:
            self._history = samples.history(self._sampled_at)
        if self._history:
            return event("history", self._history.pop(0))
        latest = samples.latest()
        self._sampled_at = latest["at"]
        return event("samples", latest)
