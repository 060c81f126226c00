"""One connection. It is closed if its client is slow or idle, and if it is the oldest idle one of too many.

before a request   the head must be there 10 s after its first byte, or after the connection was made
after an answer    30 s until the next request (uvicorn's own limit)
the body           bgjob.web.body
the answer         some of it must be read every 30 s
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from bgjob.web.listen import Handshakes

HEAD_S, IDLE_S, UNREAD_S = 10.0, 30, 30.0
MOST_REQUESTS = 1000
"""Maximum at a time: more are answered with 503. Beyond as many connections, idle ones are closed."""


class TimedConnection(H11Protocol):
    _head_timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None
    idle_since = 0.0

    def __init__(self, handshakes: Handshakes, **rest: Any) -> None:
        super().__init__(**rest)
        self._handshakes = handshakes

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        self._handshakes.end(transport.get_extra_info("socket").fileno())
        self._make_room()
        super().connection_made(transport)
        self.idle_since = self.loop.time()
        self._time_head()

    def on_response_complete(self) -> None:
        self.idle_since = self.loop.time()
        super().on_response_complete()

    @property
    def is_within_request(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete

    def _make_room(self) -> None:
        """Close the connection that has been idle longest. If all are busy, the next request is answered with 503."""
        idle = [
            each
            for each in self.connections
            if isinstance(each, TimedConnection) and not each.is_within_request
        ]
        if len(self.connections) >= MOST_REQUESTS and idle:
            oldest = min(idle, key=lambda each: each.idle_since)
            self.connections.discard(oldest)  # at once: it must not count until the loop has closed it
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head_timer, self._unread_timer):
            if timer:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._time_head()

    def _time_head(self) -> None:
        """Until a request has begun; more bytes of its head give no more time."""
        if self.is_within_request and self._head_timer:
            self._head_timer.cancel()
            self._head_timer = None
        elif not self.is_within_request and self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._time_reader(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        if self._unread_timer:
            self._unread_timer.cancel()
        super().resume_writing()

    def _time_reader(self, unread_bytes: int) -> None:
        self._unread_timer = self.loop.call_later(UNREAD_S, self._check_reader, unread_bytes)

    def _check_reader(self, before_bytes: int) -> None:
        unread_bytes = self.transport.get_write_buffer_size()
        if unread_bytes < before_bytes:
            self._time_reader(unread_bytes)
        else:
            self.transport.abort()
