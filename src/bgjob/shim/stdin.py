"""The job's stdin, from whoever steers: one feed at a time, and no faster than the job reads."""

from __future__ import annotations

import os

from bgjob.shim.child import end_of_file, resize
from bgjob.shim.loop import WRITABLE
from bgjob.shim.pump import readable_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.shim.child import ParentEnds
    from bgjob.shim.control_server import Connection
    from bgjob.shim.handoff import HandoffSender
    from bgjob.shim.loop import Action, Loop


class Feed:
    """One request to write `left` more bytes, and perhaps to close stdin after them."""

    def __init__(self, visitor: Connection, length: int, close_after: bool) -> None:
        self.visitor = visitor
        self.left = length
        self.close_after = close_after
        self.accepted = 0
        self.log_offset = 0  # where the log ended when the first byte went in
        self.timed_out = False


class Stdin:
    """Holds at most one piece of one feed in memory; the rest waits in the visitor's socket."""

    def __init__(
        self,
        loop: Loop,
        ends: ParentEnds,
        will: HandoffSender,
        log_offset: Callable[[], int],
        on_typed: Action,
    ) -> None:
        self._loop, self._will, self._log_offset, self._on_typed = loop, will, log_offset, on_typed
        self.fd, self._is_terminal = ends.stdin, ends.is_terminal
        self._feeds: list[Feed] = []
        self._piece = b""
        if self.is_open:
            loop.watch(self.fd, 0, self._on_event)

    @property
    def is_open(self) -> bool:
        return self.fd >= 0

    def unread_bytes(self) -> int | None:
        """What was written and the job has not read yet; a terminal does not tell."""
        if self._is_terminal:
            return None
        return readable_bytes(self.fd) if self.is_open else 0

    def resize(self, rows: int, cols: int) -> None:
        if not self._is_terminal or not self.is_open:
            raise ValueError("the job has no terminal")
        resize(self.fd, rows, cols)

    def add(self, feed: Feed, wait_s: float) -> None:
        if not self.is_open:
            return self._answer(feed, "stdin is closed")
        self._feeds.append(feed)
        self._loop.call_later(wait_s, lambda: self._time_out(feed))
        if self._feeds[0] is feed:
            self._begin()

    def drop(self, visitor: Connection) -> None:
        """The visitor hung up: forget what it has not yet handed over."""
        for feed in [feed for feed in self._feeds if feed.visitor is visitor]:
            self._remove(feed)

    def close(self) -> None:
        if not self.is_open:
            return
        if not self._is_terminal:
            self._will.stdin_closed()  # as long as the guard has it, the job does not see its end
        self._loop.forget(self.fd)
        os.close(self.fd)
        self.fd = -1

    def end_all(self, why: str) -> None:
        feeds, self._feeds, self._piece = self._feeds, [], b""
        for feed in feeds:
            self._answer(feed, why)

    def _begin(self) -> None:
        feed = self._feeds[0]
        feed.log_offset = self._log_offset()
        self._next_piece()

    def _next_piece(self) -> None:
        """Called with nothing in hand: get more from the visitor, or be done."""
        feed = self._feeds[0]
        if feed.left == 0:
            return self._finish(feed)
        feed.visitor.on_payload(feed.left, self._take_piece)

    def _take_piece(self, piece: bytes) -> None:
        self._feeds[0].left -= len(piece)
        self._piece = piece
        self._write()

    def _write(self) -> None:
        feed = self._feeds[0]
        try:
            count = os.write(self.fd, self._piece)
        except BrokenPipeError:  # nobody will ever read it
            self.close()
            return self.end_all("stdin is closed")
        except OSError:
            count = 0  # it is full, or the machine is short of memory: nothing went in
        feed.accepted += count
        self._piece = self._piece[count:]
        if self._piece:
            return self._loop.watch_for(self.fd, WRITABLE)
        self._loop.watch_for(self.fd, 0)
        self._next_piece()

    def _on_event(self, event: int) -> None:
        if event & WRITABLE and self._piece:
            self._write()
        elif not event & WRITABLE:  # the last reader is gone
            self.close()
            self.end_all("stdin is closed")

    def _finish(self, feed: Feed) -> None:
        if feed.close_after:
            self._end_of_file()
        self._remove(feed)
        self._answer(feed, None)

    def _end_of_file(self) -> None:
        """A terminal stays open: there it is a character."""
        if not self._is_terminal:
            return self.close()
        try:
            os.write(self.fd, end_of_file(self.fd))
        except OSError:
            pass  # its buffer is full: nobody reads it, so nobody would see the end of it

    def _time_out(self, feed: Feed) -> None:
        if feed in self._feeds:
            feed.timed_out = True
            self._remove(feed)
            self._answer(feed, None)

    def _remove(self, feed: Feed) -> None:
        was_first = self._feeds[0] is feed
        self._feeds.remove(feed)
        if not self.is_open:
            self.end_all("stdin is closed")
        elif was_first:
            self._piece = b""
            self._loop.watch_for(self.fd, 0)
            if self._feeds:
                self._begin()

    def _answer(self, feed: Feed, error: str | None) -> None:
        self._on_typed()
        is_whole = feed.left == 0 and not feed.timed_out
        (feed.visitor.answer if is_whole else feed.visitor.answer_and_leave)(
            ok=error is None,
            error=error,
            accepted=feed.accepted,
            unread=self.unread_bytes(),
            at=feed.log_offset,
        )
