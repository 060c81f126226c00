"""One wait instead of polling: for one job or many, until a condition is true. Sleeps on shims' sockets."""

import contextlib
import selectors
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Self, TypedDict, Unpack

from bgjob.api.conditions import Awaited, Conditions
from bgjob.api.context import Context
from bgjob.api.find import id_of, ids_of
from bgjob.api.output import NO_SHIM_S, STREAMS, Shown, output_of
from bgjob.api.results import Waited
from bgjob.api.status import status_of
from bgjob.core.errors import InvalidArgument, StdinIsNull
from bgjob.core.job import Running
from bgjob.core.patterns import Pattern, compile_pattern

Mode = Literal["any", "all"]
Tell = Callable[[float, str], None]

DEFAULT_WAIT_S = 45.0
MOST_JOBS = 100
POLL_EVERY_S = 0.1  # for what the kernel does not tell by itself: ports, a process that waits for input
BREATHER_S = 0.01  # between two looks at a job that prints without pause
TELL_EVERY_S = 1.0


class Cancellation:
    """Ends a wait from another thread. The jobs go on."""

    def __init__(self) -> None:
        self._ours, self.signal = socket.socketpair()

    def cancel(self) -> None:
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._ours.close()
        self.signal.close()


class Until(TypedDict, total=False):
    """Conditions, as a caller words them."""

    pattern: str | None
    literal: bool
    stop_pattern: str | None
    stream: Literal["stdout", "stderr"] | None
    port: int | None
    silence_s: float | None
    for_input: bool


def conditions_of(**until: Unpack[Until]) -> Conditions:
    """InvalidArgument: a pattern is not valid."""
    literal = until.get("literal", False)

    def compiled(text: str | None) -> Pattern | None:
        return None if text is None else compile_pattern(text, literal=literal)

    return Conditions(
        pattern=compiled(until.get("pattern")),
        stop_pattern=compiled(until.get("stop_pattern")),
        streams=STREAMS[until.get("stream")],
        port=until.get("port"),
        silence_s=until.get("silence_s"),
        for_input=until.get("for_input", False),
    )


def wait_for_jobs(
    context: Context,
    jobs: Sequence[str],
    *,
    mode: Mode = "any",
    since: str | Mapping[str, str] | None = None,
    timeout_s: float = DEFAULT_WAIT_S,
    shown: Shown | None = None,
    cancellation: Cancellation | None = None,
    tell: Tell | None = None,
    **until: Unpack[Until],
) -> list[Waited]:
    """`wait_for_conditions`, as a caller words them. `jobs`: ids, beginnings of ids, names."""
    job_ids = ids_of(context, jobs)
    return wait_for_conditions(
        context,
        job_ids,
        conditions_of(**until),
        mode=mode,
        since=dict.fromkeys(job_ids, since) if isinstance(since, str) else _by_id(context, since or {}),
        timeout_s=timeout_s,
        shown=shown,
        cancellation=cancellation,
        tell=tell,
    )


def _by_id(context: Context, cursors: Mapping[str, str]) -> dict[str, str]:
    return {id_of(context, job): cursor for job, cursor in cursors.items()}


def wait_for_conditions(
    context: Context,
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
    cursors, most_s = dict(since or {}), context.settings.max_wait_s
    jobs = [Awaited(context, job_id, cursors.get(job_id), conditions) for job_id in dict.fromkeys(job_ids)]
    _check_can_be_asked(jobs, conditions)
    with Wait(jobs, conditions, mode) as wait:
        was_up = wait.run(min(timeout_s, most_s), cancellation, tell)
    cut_to_s = most_s if was_up and timeout_s > most_s else None
    shown = shown and shown.shared_by(len(jobs))
    return [_waited(context, each, cursors.get(each.job.id), shown, cut_to_s) for each in jobs]


def _check_can_be_asked(jobs: Sequence[Awaited], conditions: Conditions) -> None:
    for job in (each.job for each in jobs if conditions.for_input):
        if job.spec.stdin == "null" and isinstance(job.state, Running):
            raise StdinIsNull(job.id)


def _waited(
    context: Context, awaited: Awaited, since: str | None, shown: Shown | None, cut_to_s: float | None
) -> Waited:
    status = status_of(context, awaited.snapshot)  # first: it may bring a prompt into the log
    return Waited(status, awaited.came, output_of(context, awaited.snapshot, since, shown), cut_to_s)


class Wait:
    """Waits for several jobs, until enough conditions have come true."""

    def __init__(self, jobs: list[Awaited], conditions: Conditions, mode: Mode) -> None:
        self._jobs, self._conditions, self._mode = jobs, conditions, mode
        self._told_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for job in self._jobs:
            job.hang_up()

    def run(self, timeout_s: float, cancellation: Cancellation | None, tell: Tell | None) -> bool:
        """True: the time was up. When it returns, the snapshot of each job is of the last round."""
        began, was_up = time.monotonic(), False
        while True:
            checked = self._check()
            passed_s = time.monotonic() - began
            was_up = passed_s >= timeout_s and not self._is_over()
            if self._is_over() or was_up:
                break
            if tell and passed_s >= self._told_s + TELL_EVERY_S:
                self._told_s = passed_s
                tell(passed_s, self._progress())
            for job in self._pending():
                job.arm()
            if self._sleep(min(timeout_s - passed_s, self._nap_s()), cancellation):
                break
            for job in self._pending():
                job.look_again()
        for job in self._jobs:
            if job not in checked:
                job.look_again()
        return was_up

    def _check(self) -> list[Awaited]:
        pending = self._pending()
        for job in pending:
            job.check()
        return pending

    def _sleep(self, nap_s: float, cancellation: Cancellation | None) -> bool:
        """Until a shim speaks, or so long; True if the wait was cancelled."""
        with selectors.DefaultSelector() as selector:
            if cancellation:
                selector.register(cancellation.signal, selectors.EVENT_READ)
            for job in self._pending():
                if job.line:
                    selector.register(job.line, selectors.EVENT_READ, job)
            woken = selector.select(nap_s)
        for key, _ in woken:
            if key.data is None:
                return True
            key.data.hear()
        if woken and self._conditions.want_output:
            time.sleep(BREATHER_S)
        return False

    def _pending(self) -> list[Awaited]:
        return [job for job in self._jobs if job.came is None]

    def _is_over(self) -> bool:
        """A job at a prompt goes on only if its prompt is answered: also a wait for all jobs ends."""
        pending = len(self._pending())
        if self._mode == "any":
            return pending < len(self._jobs)
        return pending == 0 or any(job.came and job.came.is_unasked_prompt for job in self._jobs)

    def _nap_s(self) -> float:
        pending = self._pending()
        if any(job.line is None and not job.is_left_running for job in pending):
            return NO_SHIM_S
        silence_s, naps = self._conditions.silence_s, [TELL_EVERY_S]
        if silence_s is not None:
            naps.append(max(silence_s / 10, BREATHER_S))
        if self._conditions.need_looking or any(job.is_left_running for job in pending):
            naps.append(POLL_EVERY_S)
        # a job asks soon after it has printed, if it does: the longer it is silent, the more rarely we look
        naps += [max(POLL_EVERY_S, job.silent_s() / 4) for job in pending]
        return min(naps)

    def _progress(self) -> str:
        """Which job is waited for, and its last line."""
        first, *others = self._pending()
        name = first.job.spec.name or first.job.id[:8]
        return f"{name}{f' and {len(others)} more' if others else ''}: {first.last_line()}"
