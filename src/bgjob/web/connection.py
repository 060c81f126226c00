"""One connection: clients that are slow or idle are ended.

before a request   the head must be there 10 s after its first byte, or after the connection was made
after an answer    30 s until the next request (uvicorn's own limit)
the body           bgjob.web.body
the answer         some of it must be read every 30 s
"""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S, IDLE_S, UNREAD_S = 10.0, 30, 30.0
MOST_REQUESTS = 1000
"""At once: more are answered with 503."""
MOST_CONNECTIONS = 2 * MOST_REQUESTS
"""Also those that ask for nothing: more are closed at once."""


class TimedConnection(H11Protocol):
    _head_timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._time_head()

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
        is_within_request = bool(self.cycle) and not self.cycle.response_complete
        if is_within_request and self._head_timer:
            self._head_timer.cancel()
            self._head_timer = None
        elif not is_within_request and self._head_timer is None:
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
