"""Threads for requests that may take long."""

import threading
from collections import deque
from collections.abc import Callable

MOST = 1000

Work = Callable[[], None]


class Workers:
    """Each piece of work gets a thread of its own; beyond MOST, work waits until another is done."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._count = 0
        self._waiting: deque[Work] = deque()

    def start(self, work: Work) -> None:
        with self._mutex:
            if self._count >= MOST:
                self._waiting.append(work)
                return
            self._count += 1
        try:
            threading.Thread(target=self._run, args=(work,), daemon=True).start()
        except RuntimeError:
            self._do_without_thread(work)

    def _do_without_thread(self, work: Work) -> None:
        """The machine gives no more threads: the work waits for one of ours, or is done right here."""
        with self._mutex:
            self._count -= 1
            if self._count:
                self._waiting.append(work)
                return
        work()

    def _run(self, work: Work | None) -> None:
        while work:
            work()
            with self._mutex:
                work = self._waiting.popleft() if self._waiting else None
                self._count -= work is None
