"""The answer to a request: as JSON, or as a stream of events where there is more to send than the answer.

the answer is all, and comes within 15 s   application/json
else                                       text/event-stream: notifications, comments, the answer
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from starlette.types import Receive, Send

from bgjob.protocol.jsonrpc import Message, encoded
from bgjob.web.metrics import Meters, outcome_of

KEEP_ALIVE_S = 15.0
MOST_UNSENT = 1000
"""Messages that a slow client may leave unread; then its request is cancelled."""
COMMENT = b":\n\n"
JSON_HEADERS = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
STREAM_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
CANCELLED = "cancelled"


class Last(NamedTuple):
    """How the answer ends the exchange."""

    status: int
    outcome: str


class Reply(NamedTuple):
    data: bytes
    last: Last | None = None


SILENCE = Reply(b"")
GONE = Reply(b"", Last(0, CANCELLED))
"""The client is."""
ENDED = Reply(b"", Last(200, CANCELLED))
"""The stream is, without an answer."""


class Replies:
    """From the thread that performs a request to its client."""

    def __init__(self, send: Send, meters: Meters) -> None:
        self._send, self._meters = send, meters
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Reply] = asyncio.Queue()
        self._is_stream = False
        self._changed = threading.Condition()
        self._unsent = 0
        self._is_over = False

    # -- from any thread ----------------------------------------------------------------------------

    def put(self, message: Message) -> None:
        with self._changed:
            self._unsent += 1
            unsent = self._unsent
        if unsent <= MOST_UNSENT + 1:
            self._put(Reply(encoded(message)) if unsent <= MOST_UNSENT else ENDED)

    def drain(self) -> None:
        """Waits until the client has taken all that was put, or is gone."""
        with self._changed:
            self._changed.wait_for(lambda: self._unsent == 0 or self._is_over)

    def put_last(self, message: Message, status: int) -> None:
        self._put(Reply(encoded(message), Last(status, outcome_of(message))))

    def _put(self, reply: Reply) -> None:
        with suppress(RuntimeError):  # the server has stopped
            self._loop.call_soon_threadsafe(self._queue.put_nowait, reply)

    # -- on the event loop --------------------------------------------------------------------------

    async def deliver(self, receive: Receive, may_go_on: Callable[[], bool]) -> str:
        """Until the answer is sent, or the client is gone: how it ended, in a word."""
        try:
            async with self._noticing_its_end(receive):
                return await self._deliver(await self._next(), may_go_on)
        finally:
            self._meters.streams_open -= self._is_stream
            self._note(is_over=True)

    async def _deliver(self, reply: Reply, may_go_on: Callable[[], bool]) -> str:
        if reply.last and reply is not GONE:
            await send_json(self._send, reply.data, reply.last.status)
        elif not reply.last:
            await self._begin_stream()
        while True:
            if self._is_stream and reply is not GONE:
                await self._send_event(reply)
            if reply.last:
                return reply.last.outcome
            reply = await self._next()
            if reply is SILENCE and not may_go_on():
                reply = ENDED

    async def _next(self) -> Reply:
        try:
            async with asyncio.timeout(KEEP_ALIVE_S):
                return await self._queue.get()
        except TimeoutError:
            return SILENCE

    async def _begin_stream(self) -> None:
        self._is_stream = True
        self._meters.streams_open += 1
        await self._send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})

    async def _send_event(self, reply: Reply) -> None:
        """A comment keeps proxies and clients from ending a connection on which nothing is said."""
        event = b"event: message\ndata: %b\n\n" % reply.data if reply.data else COMMENT
        await self._send({"type": "http.response.body", "body": event, "more_body": reply.last is None})
        if reply.data and not reply.last:
            self._note(sent=1)

    def _note(self, *, sent: int = 0, is_over: bool = False) -> None:
        with self._changed:
            self._unsent -= sent
            self._is_over = self._is_over or is_over
            self._changed.notify_all()

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
        self._queue.put_nowait(GONE)


async def send_json(send: Send, data: bytes, status: int, *more: tuple[bytes, bytes]) -> None:
    headers = [*JSON_HEADERS, (b"content-length", b"%d" % len(data)), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})


async def send_empty(send: Send, status: int) -> None:
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body"})
