"""The client of one request that is being performed: it is told of the progress, and can cancel."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from bgjob.api import Cancellation
from bgjob.core.frozen import NOTHING
from bgjob.home.sessions import Claims
from bgjob.output.cleaner import without_hidden
from bgjob.protocol.jsonrpc import Message
from bgjob.protocol.request import Request
from bgjob.system.client_session import shortened


class Channel(NamedTuple):
    """To a client, at any time."""

    send: Callable[[Message], None]
    drain: Callable[[], None]
    """Waits until the client has taken all that was sent, or is gone."""


class Caller:
    """Its methods may be called from any thread."""

    def __init__(
        self,
        request: Request,
        send: Callable[[Message], None],
        drain: Callable[[], None] | None = None,
        known: Mapping[str, str] = NOTHING,
    ) -> None:
        """`send`: gives a message that belongs to this request to the client. `drain`: as in a Channel.

        `known`: what the server knows of its client by itself: session, cwd.
        """
        self._request, self._known = request, known
        self._send, self._drain = send, drain
        self.most_s: float | None = None
        """How long its call may wait: then the wait goes on as a task. None: as the setting says, and no task."""
        self.keeps_to_time = False
        """A wait that is a task ends when the time is up that was asked for, as a call would."""
        self._mutex = threading.Lock()
        self._cancellation: Cancellation | None = None
        self.is_cancelled = False
        self.claims = Claims()
        """The ends that the answer to this request reports, once it is written."""

    @property
    def by(self) -> dict[str, str]:
        """The caller, as the record of a job names it. (Spec.by)"""
        client = self._request.client
        told = {**self._known, "client": client.name, "version": client.version}
        if session := _session_in(self._request):
            told["session"] = session
        return {word: shortened(text) for word, text in told.items() if text}

    @property
    def session(self) -> str | None:
        return self.by.get("session")

    @property
    def leaves_wait_behind(self) -> bool:
        """A wait that is not over in time becomes a task."""
        return self.most_s is not None and not self.is_cancelled

    def send(self, message: Message) -> None:
        """Nothing is sent about a request that is cancelled. (Patterns, Cancellation.)"""
        with self._mutex:
            if not self.is_cancelled:
                self._send(message)

    def answer(self, send: Callable[[Callable[[], None]], None]) -> None:
        """Answer the request, unless it was cancelled. `send` sends the answer and calls back when it is written."""
        with self._mutex:
            if self.is_cancelled:
                self.claims.give_up()
            else:
                send(self.claims.reported)

    def drain(self) -> None:
        """Not under the mutex: the request can be cancelled meanwhile."""
        if self._drain:
            self._drain()

    def cancel(self) -> None:
        with self._mutex:
            self.is_cancelled = True
            if self._cancellation:
                self._cancellation.is_abandoned = True
                self._cancellation.cancel()

    def end_wait(self) -> None:
        """As if its time were up: it is answered with how things stand."""
        with suppress(OSError):
            self.cancellation.cancel()

    def close(self) -> None:
        """The request has been performed."""
        with self._mutex:
            if self._cancellation:
                self._cancellation.close()
                self._cancellation = None

    @property
    def cancellation(self) -> Cancellation:
        """For a verb of the api that waits."""
        with self._mutex:
            if self._cancellation is None:
                self._cancellation = Cancellation()
                if self.is_cancelled:
                    self._cancellation.is_abandoned = True
                    self._cancellation.cancel()
            return self._cancellation

    def tell(self, passed_s: float, message: str) -> None:
        """Without a total: clients show it as a percentage of the time that a wait may take at most."""
        progress = self._request.progress(passed_s, without_hidden(message))
        if progress:
            with suppress(OSError):  # the client is gone; the call ends by itself
                self.send(progress)


def _session_in(request: Request) -> str | None:
    """Codex names its session in each call."""
    for word in ("sessionId", "threadId"):
        if isinstance(session := request.meta.get(word), str):
            return session
    return None
