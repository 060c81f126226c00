"""One wait instead of polling: for one job or many, until something comes true. Sleeps on the shims' sockets."""

import contextlib
import selectors
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Self

from bgjob.api.conditions import Conditions, Watch
from bgjob.api.output import STREAMS, Reading, Shown
from bgjob.api.results import Waited
from bgjob.core.errors import InvalidArgument
from bgjob.core.patterns import compile_pattern
from bgjob.output import excerpt

Mode = Literal["any", "all"]
Tell = Callable[[float, str], None]

DEFAULT_WAIT_S = 45.0
MOST_JOBS = 100
LOOK_EVERY_S = 0.1  # for what the kernel does not tell by itself: ports, a process that waits for input
BREATHER_S = 0.01  # a job that prints without pause is looked at so often, not at each of its writes
TELL_EVERY_S = 1.0
NO_SHIM_S = 0.02  # a job that is about to start, or whose shim is about to be gone


class Cancellation:
    """Ends a wait from another thread. The job is not touched by it."""

    def __init__(self) -> None:
        self._ours, self.signal = socket.socketpair()

    def cancel(self) -> None:
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._ours.close()
        self.signal.close()


class Waiting(Reading):
    def wait(
        self,
        job_ids: Sequence[str],
        conditions: Conditions,
        *,
        mode: Mode = "any",
        since: Mapping[str, str] | None = None,
        timeout_s: float = DEFAULT_WAIT_S,
        shown: Shown | None = None,
        cancellation: Cancellation | None = None,
        tell: Tell | None = None,
    ) -> list[Waited]:
        """Each job, with what came true for it in time, and what it printed since its cursor."""
        if not 0 < len(job_ids) <= MOST_JOBS:
            raise InvalidArgument(f"job_ids has {len(job_ids)} ids. Give 1 to {MOST_JOBS}.")
        cursors = dict(since or {})
        watches = [self._watch(job_id, cursors.get(job_id), conditions) for job_id in dict.fromkeys(job_ids)]
        with Vigil(watches, conditions, mode) as vigil:
            vigil.keep(min(timeout_s, self._settings.max_wait_s), cancellation, tell)
        return [self._waited(watch, cursors.get(watch.job_id), shown) for watch in watches]

    def wait_for(
        self,
        job_ids: Sequence[str],
        *,
        pattern: str | None = None,
        literal: bool = False,
        stop_pattern: str | None = None,
        stream: str | None = None,
        port: int | None = None,
        silence_s: float | None = None,
        for_input: bool = False,
        mode: Mode = "any",
        since: str | Mapping[str, str] | None = None,
        timeout_s: float = DEFAULT_WAIT_S,
        shown: Shown | None = None,
        cancellation: Cancellation | None = None,
        tell: Tell | None = None,
    ) -> list[Waited]:
        """`wait`, as a caller words it."""
        conditions = Conditions(
            pattern=compile_pattern(pattern, literal=literal) if pattern is not None else None,
            stop_pattern=compile_pattern(stop_pattern, literal=literal) if stop_pattern is not None else None,
            streams=STREAMS[stream],
            port=port,
            silence_s=silence_s,
            for_input=for_input,
        )
        return self.wait(
            job_ids,
            conditions,
            mode=mode,
            since=dict.fromkeys(job_ids, since) if isinstance(since, str) else since,
            timeout_s=timeout_s,
            shown=shown,
            cancellation=cancellation,
            tell=tell,
        )

    def _watch(self, job_id: str, since: str | None, conditions: Conditions) -> Watch:
        start = 0 if since is None else excerpt.window(since, 1 << 62).start
        return Watch(self, job_id, start, conditions)

    def _waited(self, watch: Watch, since: str | None, shown: Shown | None) -> Waited:
        return Waited(self.look(watch.job_id), watch.met, self.output(watch.job_id, since, shown))


class Vigil:
    """Several watches, until enough of them have come true."""

    def __init__(self, watches: list[Watch], conditions: Conditions, mode: Mode) -> None:
        self._watches, self._conditions, self._mode = watches, conditions, mode
        self._told_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for watch in self._watches:
            watch.hang_up()

    def keep(self, timeout_s: float, cancellation: Cancellation | None, tell: Tell | None) -> None:
        began = time.monotonic()
        while True:
            for watch in self._pending():
                watch.arm()  # ask first, look then: what happens in between wakes us
                watch.check()
            passed_s = time.monotonic() - began
            if self._is_over() or passed_s >= timeout_s:
                return
            if tell and passed_s >= self._told_s + TELL_EVERY_S:
                self._told_s = passed_s
                tell(passed_s, self._news())
            if self._sleep(min(timeout_s - passed_s, self._nap_s()), cancellation):
                return

    def _sleep(self, nap_s: float, cancellation: Cancellation | None) -> bool:
        """Until a shim speaks, or so long; True if the wait was cancelled."""
        with selectors.DefaultSelector() as selector:
            if cancellation:
                selector.register(cancellation.signal, selectors.EVENT_READ)
            for watch in self._pending():
                if watch.line:
                    selector.register(watch.line, selectors.EVENT_READ, watch)
            woken = selector.select(nap_s)
        for key, _ in woken:
            if key.data is None:
                return True
            key.data.hear()
        if woken and self._conditions.want_output:
            time.sleep(BREATHER_S)
        return False

    def _pending(self) -> list[Watch]:
        return [watch for watch in self._watches if watch.met is None]

    def _is_over(self) -> bool:
        pending = len(self._pending())
        return pending == 0 if self._mode == "all" else pending < len(self._watches)

    def _nap_s(self) -> float:
        if any(watch.line is None for watch in self._pending()):
            return NO_SHIM_S
        silence_s = self._conditions.silence_s
        nap_s = LOOK_EVERY_S if self._conditions.need_looking else TELL_EVERY_S
        return nap_s if silence_s is None else min(nap_s, max(silence_s / 10, BREATHER_S))

    def _news(self) -> str:
        """Who is waited for, and its last line."""
        first, *others = self._pending()
        name = first.job.spec.name or first.job_id[:8]
        return f"{name}{f' and {len(others)} more' if others else ''}: {first.last_line()}"
