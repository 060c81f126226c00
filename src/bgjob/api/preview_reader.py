"""A thread that reads what one job shows, and again whenever that changes."""

import math
import threading
import time
from collections.abc import Callable

from bgjob.api.context import Context
from bgjob.api.preview import Mark, Preview, mark_of, preview
from bgjob.api.snapshot import Snapshot
from bgjob.core.errors import BgjobError
from bgjob.core.frozen import Frozen
from bgjob.system.inotify import Inotify
from bgjob.system.readiness import is_readable
from bgjob.system.waker import Waker

READ_EVERY_S = 0.1
# One part in so many of a processor is taken at most: to draw a screen can take half a second.
SHARE = 5


class Wish(Frozen):
    job_id: str
    lines: int
    follows: bool = True
    """False: as it is now; what is printed later is not looked at."""


class PreviewReader:
    def __init__(self, context: Context, tell: Callable[[], None]) -> None:
        """`tell` is called in the thread when `latest` is new."""
        self.latest: Preview | None = None
        self._context, self._tell = context, tell
        self._wish: Wish | None = None
        self._waker, self._inotify = Waker(), Inotify()
        self._is_closed = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="preview", daemon=True).start()

    def close(self) -> None:
        self._is_closed = True
        self._waker.wake()

    def show(self, wish: Wish | None) -> None:
        """`latest` is the preview of before until this one is read."""
        if wish != self._wish:
            self._wish = wish
            self._waker.wake()

    def _run(self) -> None:
        while not self._is_closed:
            self._waker.take()  # before the wish: a later one wakes us again
            if wish := self._wish:
                self._show(wish)
            else:
                self._inotify.wait(math.inf, [self._waker.fileno()])
        self._inotify.close()

    def _show(self, wish: Wish) -> None:
        """Until there is another wish."""
        store, another, mark = self._context.store, self._waker.fileno(), None
        directories = store.directory(wish.job_id), store.log_directory(wish.job_id)
        while not self._is_closed:
            for directory in directories:
                self._inotify.watch(directory)  # first: what is printed while we read wakes us
            began = time.monotonic()
            mark = self._read(wish, mark)
            pause_s = max(READ_EVERY_S, SHARE * (time.monotonic() - began))
            if is_readable(another, pause_s) or self._inotify.wait(math.inf, [another]):
                break
        for directory in directories:
            self._inotify.forget(directory)

    def _read(self, wish: Wish, seen: Mark | None) -> Mark | None:
        if seen and not wish.follows:
            return seen
        try:
            snapshot = Snapshot(self._context, wish.job_id)
            mark = mark_of(self._context, snapshot)
            if mark == seen:
                return seen
            found = preview(self._context, snapshot, wish.lines)
        except BgjobError as problem:
            mark, found = None, Preview(wish.job_id, wish.lines, problem=str(problem))
        if found != self.latest:
            self.latest = found
            self._tell()
        return mark
