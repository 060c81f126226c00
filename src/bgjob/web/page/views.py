"""What a page is shown of a job: its terminal, or that its log has grown.

A view shows a part of what is new, and says in how many seconds there may be more; None: when the job prints
more.
"""

import math
import time
from base64 import b64encode

from bgjob.api.attach import Attachment
from bgjob.api.context import Context
from bgjob.api.snapshot import Snapshot
from bgjob.api.terminal_feed import Begin, TerminalFeed
from bgjob.api.terminal_state import TerminalState
from bgjob.terminal.live import LiveOutput
from bgjob.web.page.event_queue import EventQueue

# So far behind, a page gets a new screen instead of all that it has missed.
MOST_BEHIND_BYTES = 1 << 18
# After so many bytes at once, or a new screen in their place, the browser gets the time to draw.
MUCH_BYTES = 1 << 12
FRAME_S, SCREEN_S = 0.016, 0.1
GROWN_EVERY_S = 0.1


class TerminalView:
    """First what the job's terminal shows now, then what it prints, without what acts beyond the screen."""

    def __init__(self, context: Context, attachment: Attachment, events: EventQueue, at: int) -> None:
        """`at`: up to where in the log the page has been told; 0: it begins anew."""
        self._attachment, self._events = attachment, events
        self._feed = TerminalFeed(context, attachment, MOST_BEHIND_BYTES)
        self._feed.go_on_from(at)
        self._live = LiveOutput(titles=True)
        self._is_place_known = True
        self._next_at = 0.0

    def show(self) -> float | None:
        if not self._events.has_room:
            return math.inf
        if (rest_s := self._next_at - time.monotonic()) > 0:
            return rest_s
        piece = self._feed.next()
        if not piece:
            return None
        if isinstance(piece, Begin):
            self._begin(piece.state)
            rest_s = SCREEN_S if len(piece.missed) > MUCH_BYTES else 0.0
        else:
            self._pass_on(piece)
            rest_s = FRAME_S if len(piece) > MUCH_BYTES else 0.0
        self._next_at = time.monotonic() + rest_s
        return rest_s

    def _begin(self, state: TerminalState) -> None:
        self._live, begun = LiveOutput(titles=True), state.terminal.begun()
        self._is_place_known = not begun
        put_screen(self._events, state, self._live.feed(begun), self._place())

    def _pass_on(self, data: bytes) -> None:
        passed = self._live.feed(data)
        self._is_place_known = self._is_place_known or self._live.withheld_bytes == 0
        if passed:
            self._events.put("bytes", {"at": self._place(), "data": b64encode(passed).decode()})

    def _place(self) -> int:
        """From where on a page that opens its stream anew is to be told; 0: that is not known."""
        return self._attachment.at - self._live.withheld_bytes if self._is_place_known else 0


class LogView:
    def __init__(self, attachment: Attachment, events: EventQueue) -> None:
        self._attachment, self._events = attachment, events
        self._end: int | None = None
        self._next_at = 0.0

    def show(self) -> float | None:
        if self._attachment.log_end == self._end:
            return None
        if (rest_s := self._next_at - time.monotonic()) > 0:
            return rest_s
        self._end = self._attachment.at = self._attachment.log_end
        self._events.put("grown", {"end": self._end})
        self._next_at = time.monotonic() + GROWN_EVERY_S
        return None


def put_screen(events: EventQueue, state: TerminalState, begun: bytes = b"", at: int = 0) -> None:
    rows, cols = state.size
    data = b64encode(state.painted() + begun).decode()
    events.put("screen", {"at": at, "rows": rows, "cols": cols, "data": data})


def log_end(context: Context, job_id: str) -> int:
    return Snapshot(context, job_id).read(lambda log: log.end)
