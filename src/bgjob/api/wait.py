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
from bgjob.api.prompt import SHIM_PATIENCE_S, prompt_told
from bgjob.api.results import Waited
from bgjob.api.session import answering, expect, note_told_if_over
from bgjob.api.status import status_of
from bgjob.core.errors import InvalidArgument, StdinIsNull
from bgjob.core.frozen import replace
from bgjob.core.job import Running
from bgjob.core.patterns import Pattern, compile_pattern
from bgjob.link.control import Patience

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
        self.is_abandoned = False
        """True: nobody will read the answer."""

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
    most_s: float | None = None,
    shown: Shown | None = None,
    session: str | None = None,
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
        since=cursors_of(context, job_ids, since),
        timeout_s=timeout_s,
        most_s=most_s,
        shown=shown,
        session=session,
        cancellation=cancellation,
        tell=tell,
    )


def cursors_of(
    context: Context, jobs: Sequence[str], since: str | Mapping[str, str] | None
) -> dict[str, str]:
    """By the id of each job, of those that have one."""
    if isinstance(since, str):
        return dict.fromkeys(ids_of(context, jobs), since)
    return {id_of(context, job): cursor for job, cursor in (since or {}).items()}


def wait_for_conditions(
    context: Context,
    job_ids: Sequence[str],
    conditions: Conditions,
    *,
    mode: Mode = "any",
    since: Mapping[str, str] | None = None,
    timeout_s: float = DEFAULT_WAIT_S,
    most_s: float | None = None,
    shown: Shown | None = None,
    session: str | None = None,
    cancellation: Cancellation | None = None,
    tell: Tell | None = None,
) -> list[Waited]:
    """Each job, with what came true for it in time, and what it printed since its cursor.

    `most_s`: how long this call may wait; None: as the setting says. `session`: it is told of the ends by this
    answer, or later, if the time was up before.
    """
    most_s = context.settings.max_wait_s if most_s is None else most_s
    with (
        answering(context, session, job_ids),
        Wait(context, job_ids, conditions, mode, since or {}) as wait,
    ):
        was_up = wait.run(min(timeout_s, most_s), cancellation, tell)
        waited = wait.result(shown, most_s if was_up and timeout_s > most_s else None)
        if not (cancellation and cancellation.is_abandoned):
            _note(context, session, waited, was_up=was_up)
    return waited


def _note(context: Context, session: str | None, waited: Sequence[Waited], *, was_up: bool) -> None:
    """If the time was up, what goes on may be a task, which tells of all jobs when it ends."""
    for job in (each.status.job for each in waited):
        if not was_up:
            note_told_if_over(context, session, job)
        elif isinstance(job.state, Running):
            expect(context, session, job.id)


def _check_can_be_asked(jobs: Sequence[Awaited], conditions: Conditions) -> None:
    for job in (each.job for each in jobs if conditions.for_input):
        if job.spec.stdin == "null" and isinstance(job.state, Running):
            raise StdinIsNull(job.id)


class Wait:
    """Waits for several jobs, until enough conditions have come true."""

    def __init__(
        self,
        context: Context,
        job_ids: Sequence[str],
        conditions: Conditions,
        mode: Mode,
        since: Mapping[str, str],
    ) -> None:
        if not 0 < len(job_ids) <= MOST_JOBS:
            raise InvalidArgument(f"job_ids has {len(job_ids)} ids. Give 1 to {MOST_JOBS}.")
        self._context, self._conditions, self._mode, self._since = context, conditions, mode, since
        self.jobs = [Awaited(context, each, since.get(each), conditions) for each in dict.fromkeys(job_ids)]
        _check_can_be_asked(self.jobs, conditions)
        self._told_s, self._until = 0.0, 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for job in self.jobs:
            job.hang_up()

    def run(self, timeout_s: float, cancellation: Cancellation | None, tell: Tell | None) -> bool:
        """True: the time was up. When it returns, the snapshot of each job is of the last round."""
        began, was_up = time.monotonic(), False
        self._until = began + timeout_s + SHIM_PATIENCE_S
        while True:
            checked = self._check()
            passed_s = time.monotonic() - began
            was_up = passed_s >= timeout_s and not self.is_over
            if self.is_over or was_up:
                break
            if tell and passed_s >= self._told_s + TELL_EVERY_S:
                self._told_s = passed_s
                tell(passed_s, self.progress())
            self._arm()
            if self._sleep(min(timeout_s - passed_s, self._nap_s()), cancellation):
                break
            for job in self._pending():
                job.look_again()
        for job in self.jobs:
            if job not in checked:
                job.look_again()
        return was_up

    def look(self) -> None:
        """One round of it, without waiting. What was a prompt at the last look is looked at again."""
        prompts = {job: (job.came, job.log_end) for job in self.asking}
        for job in self.jobs:
            if job.came is None or job.came.is_unasked_prompt:
                job.came = None
                job.look_again()
        self._until = time.monotonic() + SHIM_PATIENCE_S
        self._check()
        for job, (came, log_end) in prompts.items():
            # A shim that is too busy to answer does not make the prompt go away.
            if job.came is None and job.has_silent_shim and job.log_end == log_end:
                job.came = came

    def result(self, shown: Shown | None, cut_to_s: float | None = None) -> list[Waited]:
        shown, patience = shown and shown.shared_by(len(self.jobs)), self._patience(self.jobs)
        return [self._waited(each, shown, cut_to_s, patience.until()) for each in self.jobs]

    def _waited(
        self, awaited: Awaited, shown: Shown | None, cut_to_s: float | None, deadline: float
    ) -> Waited:
        snapshot, since = awaited.snapshot, self._since.get(awaited.job.id)
        # First: it may bring a prompt into the log.
        status = status_of(self._context, snapshot, deadline=deadline)
        if awaited.came and awaited.came.condition == "input" and status.waits_for_input is None:
            # Its host has just reported that it waits, and is too busy to be asked again.
            snapshot.reopen_log()
            status = replace(status, prompt=prompt_told(self._context, snapshot, waits=True))
        return Waited(status, awaited.came, output_of(self._context, snapshot, since, shown), cut_to_s)

    @property
    def asking(self) -> list[Awaited]:
        """The jobs that sit at a prompt, though the wait is not for that."""
        return [job for job in self.jobs if job.came and job.came.is_unasked_prompt]

    @property
    def has_silent_shims(self) -> bool:
        """At the last look a shim did not say whether its job is at a prompt."""
        return any(job.has_silent_shim for job in self._pending())

    @property
    def has_only_prompts(self) -> bool:
        """It would go on if they were answered."""
        others = [job for job in self.jobs if job.came and not job.came.is_unasked_prompt]
        return not others if self._mode == "any" else len(others) < len(self.jobs)

    def _check(self) -> list[Awaited]:
        pending = self._pending()
        patience = self._patience(pending)
        for job in pending:
            job.check(patience.until())
        return pending

    def _arm(self) -> None:
        pending = self._pending()
        patience = self._patience(pending)
        for job in pending:
            job.arm(patience.until())

    def _patience(self, jobs: Sequence[Awaited]) -> Patience:
        """Return the patience with silent shims for one pass over the jobs: half of the time left, for later passes."""
        left_s = self._until - time.monotonic()
        return Patience(min(SHIM_PATIENCE_S, left_s / 2), len(jobs))

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
        return [job for job in self.jobs if job.came is None]

    @property
    def is_over(self) -> bool:
        """A job at a prompt goes on only if its prompt is answered: also a wait for all jobs ends."""
        pending = len(self._pending())
        if self._mode == "any":
            return pending < len(self.jobs)
        return pending == 0 or bool(self.asking)

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

    def progress(self) -> str:
        """Which job is waited for, and its last line."""
        first, *others = self._pending()
        name = first.job.spec.name or first.job.id[:8]
        return f"{name}{f' and {len(others)} more' if others else ''}: {first.last_line()}"
