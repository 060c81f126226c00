"""All jobs, live, for all pages together: one reader, which runs while a page is open."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterable

from bgjob.api.context import Context
from bgjob.api.events import job_events
from bgjob.api.live_reader import LiveReader
from bgjob.api.wait import Cancellation
from bgjob.core.errors import BgjobError
from bgjob.store.quota import StoreSize
from bgjob.web.page.row_list import RowList
from bgjob.web.page.samples import Samples

# A page that shows something else opens its stream anew: the reader goes on meanwhile.
LINGER_S = 10.0
EVENTS_WAIT_S = 30.0
EVENTS_TOKENS = 100_000
TRY_AGAIN_S = 1.0
# The store is measured a part at a time, and then now and then.
MEASURE_S, MEASURE_ON_S, MEASURE_EVERY_S = 0.05, 0.5, 10.0


class LiveList:
    """The jobs as they stand, from its start until it is closed."""

    def __init__(self, context: Context, size: StoreSize, tell: Callable[[], None]) -> None:
        """`tell` is called in a thread when something is new."""
        self._context, self._size, self._tell = context, size, tell
        self.rows, self.samples = RowList(), Samples()
        self._reader = LiveReader(context, self._update)
        self._is_closed = threading.Event()
        self._cancellation = Cancellation()

    def start(self) -> None:
        self._reader.start()
        for work, name in ((self._follow_events, "page events"), (self._measure_store, "page store")):
            threading.Thread(target=work, name=name, daemon=True).start()

    def close(self) -> None:
        self._is_closed.set()
        self._cancellation.cancel()
        self._reader.close()

    def look_at(self, job_ids: Iterable[str]) -> None:
        """Something has just been done to these jobs."""
        self._reader.look_at(job_ids)

    def look_now(self) -> None:
        """Jobs may have been removed."""
        self._reader.look_now()

    def _update(self) -> None:
        live = self._reader.latest
        self.rows.update(live)
        self.samples.update(live)
        self._tell()

    def _follow_events(self) -> None:
        """What has happened to a job is in its row at once, and not only after the next look at all."""
        cursor = None
        while not self._is_closed.is_set():
            try:
                found = job_events(
                    self._context,
                    cursor,
                    timeout_s=EVENTS_WAIT_S,
                    max_tokens=EVENTS_TOKENS,
                    cancellation=self._cancellation,
                )
            except BgjobError:  # the rows tell the problem
                self._is_closed.wait(TRY_AGAIN_S)
                continue
            cursor = found.cursor
            self._reader.look_at({event.job_id for event in found.events})
        self._cancellation.close()

    def _measure_store(self) -> None:
        while not self._is_closed.is_set():
            wait_s = MEASURE_ON_S
            with contextlib.suppress(BgjobError, OSError):  # the rows tell the problem
                size_bytes = self._size.measure(MEASURE_S)
                if size_bytes is not None:
                    disk, wait_s = os.statvfs(self._context.store.home), MEASURE_EVERY_S
                    self.samples.store = {"bytes": size_bytes, "free_bytes": disk.f_bavail * disk.f_frsize}
            self._is_closed.wait(wait_s)


class SharedLive:
    """Starts with the first stream, and ends after the last. For the event loop, but for what says so."""

    def __init__(self, context: Context, size: StoreSize) -> None:
        self._context, self._size = context, size
        self._list: LiveList | None = None
        self._wakes: frozenset[Callable[[], None]] = frozenset()
        self._end: asyncio.TimerHandle | None = None

    def join(self, wake: Callable[[], None]) -> LiveList:
        """`wake` is called in a thread when something is new."""
        self._wakes |= {wake}
        if self._end:
            self._end.cancel()
            self._end = None
        if self._list is None:
            self._list = LiveList(self._context, self._size, self._tell)
            self._list.start()
        return self._list

    def leave(self, wake: Callable[[], None]) -> None:
        self._wakes -= {wake}
        if not self._wakes and self._end is None:
            self._end = asyncio.get_running_loop().call_later(LINGER_S, self.close)

    def close(self) -> None:
        if self._list:
            self._list.close()
        self._list = self._end = None

    def look_at(self, *job_ids: str) -> None:
        """Something has just been done to these jobs. From any thread."""
        if jobs := self._list:
            jobs.look_at(job_ids)

    def look_now(self) -> None:
        """Jobs may have been removed. From any thread."""
        if jobs := self._list:
            jobs.look_now()

    def _tell(self) -> None:
        for wake in self._wakes:
            wake()
