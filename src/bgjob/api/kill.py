"""The end of a job, as somebody wants it: by its shim's hand; else by signals to the shim; else by ours."""

import contextlib
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from bgjob.api.queue import Queueing
from bgjob.api.results import Kill
from bgjob.core.errors import InvalidArgument, JobNotFound, NotSteerable
from bgjob.core.job import Job, Killed, Lost, Running
from bgjob.link import sweep
from bgjob.link.control import Line, NoShim
from bgjob.link.supervisors import Supervisors

SHIM_PATIENCE_S = 10.0
CONNECT_PATIENCE_S = 3.0
LATE_S = 5.0  # after the grace: then the shim does not come to do it
SHIMS_GRACE_S = 5.0  # its own, where it is asked by a signal
KILL_PATIENCE_S = 15.0
WAKE_EVERY_S = 0.25
SETTLED_S, LOOK_AGAIN_S = 0.5, 0.002


class Waking:
    """Continues a job's supervisors, which it may have stopped, while somebody waits for them."""

    def __init__(self, found: Callable[[], Supervisors]) -> None:
        self._found = found
        self._next_at = time.monotonic() + WAKE_EVERY_S

    def now_and_then(self) -> None:
        if time.monotonic() >= self._next_at:
            with self._found() as supervisors:
                supervisors.wake()
            self._next_at = time.monotonic() + WAKE_EVERY_S

    def until_readable(self, line: Line, patience_s: float) -> bool:
        """False: it has not spoken in time."""
        deadline = time.monotonic() + patience_s
        poll = select.poll()
        poll.register(line.fileno(), select.POLLIN)
        while not poll.poll(max(0.0, min(WAKE_EVERY_S, deadline - time.monotonic())) * 1000):
            if time.monotonic() >= deadline:
                return False
            self.now_and_then()
        return True


class Killing(Queueing):
    def kill(self, job_id: str, *, grace_s: float = 5.0, signal: str = "TERM") -> Kill:
        number = _signal_number(signal)
        if not 0 <= grace_s < float("inf"):
            raise InvalidArgument(
                f"={grace_s} is not a time. Accepted: seconds, 0 or more.", argument="grace_s"
            )
        try:
            return self._kill(job_id, number, grace_s)
        except JobNotFound:
            return self._kill_removed(job_id, grace_s)

    def _kill(self, job_id: str, number: int, grace_s: float) -> Kill:
        was_running = isinstance(self._store.load(job_id).state, Running)
        deadline = time.monotonic() + SHIM_PATIENCE_S
        while (done := self._try_kill(job_id, number, grace_s, was_running)) is None:
            if time.monotonic() > deadline:
                raise NotSteerable(job_id, "whoever is about to start it does not come to it")
            time.sleep(LOOK_AGAIN_S)
        return done

    def _try_kill(self, job_id: str, number: int, grace_s: float, was_running: bool) -> Kill | None:
        """None: it is not over, and nobody answers for it; perhaps it was just being taken from the queue."""
        if cancelled := self._cancel(job_id):
            return Kill("killed", 0, cancelled)
        answer = self._ask_to_kill(job_id, number, grace_s)
        job = self._settled(job_id)
        if answer and not self._store.has_shim(job_id):
            is_ours = answer["was_running"] or (was_running and isinstance(job.state, Killed))
            return Kill("killed" if is_ours else "already_terminated", answer["processes"], job)
        if self._store.has_shim(job_id) or isinstance(job.state, Running | Lost):
            with self._supervisors(job_id) as supervisors:
                if supervisors:
                    count = self._kill_by_signals(job_id, supervisors, grace_s)
                    is_ours = was_running or isinstance(job.state, Lost)
                    return Kill("killed" if is_ours else "already_terminated", count, self._settled(job_id))
        return None if isinstance(job.state, Running) else self._kill_without_shim(job, was_running)

    def _ask_to_kill(self, job_id: str, number: int, grace_s: float) -> dict[str, Any] | None:
        """None if there is no shim any more, or none that answers. One that is killed over it has a guard: ask that."""
        began = time.monotonic()
        deadline, last = began + CONNECT_PATIENCE_S, began + grace_s + KILL_PATIENCE_S
        waking = Waking(lambda: self._supervisors(job_id))
        while self._store.has_shim(job_id) and time.monotonic() < deadline:
            asked_at = time.monotonic()
            left_s = max(0.0, began + grace_s - asked_at)
            with contextlib.suppress(NoShim, TimeoutError), Line(self._store.control_path(job_id)) as shim:
                shim.send(CONNECT_PATIENCE_S, op="kill", signal=number, grace_s=left_s)
                return self._answer(job_id, shim, waking, left_s)
            if time.monotonic() > asked_at + CONNECT_PATIENCE_S:  # it was one that listened
                deadline = min(time.monotonic() + CONNECT_PATIENCE_S, last)
            waking.now_and_then()
            time.sleep(LOOK_AGAIN_S)
        return None

    def _answer(self, job_id: str, shim: Line, waking: Waking, grace_s: float) -> dict[str, Any]:
        killed = 0
        if not waking.until_readable(shim, grace_s + LATE_S):
            with self._supervisors(job_id) as supervisors:
                killed = supervisors.kill_job()
            if not waking.until_readable(shim, KILL_PATIENCE_S):
                raise self._stuck(job_id)
        if killed:
            return {"was_running": True, "processes": killed}  # whoever it was that did not answer
        answer = shim.receive(CONNECT_PATIENCE_S)
        return {name: answer[name] for name in ("was_running", "processes")}

    def _kill_by_signals(self, job_id: str, supervisors: Supervisors, grace_s: float) -> int:
        """For a shim that cannot be asked: its socket is gone or another's, or it does not come to answer. It gives the
        job a grace of its own, which may be too long. How many processes that were."""
        count = len(supervisors.job_processes())
        supervisors.terminate()
        if not supervisors.are_gone(grace_s if grace_s < SHIMS_GRACE_S else SHIMS_GRACE_S + LATE_S):
            supervisors.kill_job()
            if not supervisors.are_gone(KILL_PATIENCE_S):
                raise self._stuck(job_id)
        self._store.forget(job_id)
        return max(count, sweep.kill(job_id))

    def _kill_removed(self, job_id: str, grace_s: float) -> Kill:
        """A job without a directory can still have processes: it may have removed it itself."""
        try:
            with self._supervisors(job_id) as supervisors:
                if supervisors:
                    return Kill("killed", self._kill_by_signals(job_id, supervisors, grace_s), None)
        except JobNotFound:
            return Kill("not_found", 0, None)  # that was no id
        left = 0 if sweep.are_supervised(sweep.members(job_id)) else sweep.kill(job_id)
        return Kill("killed" if left else "not_found", left, None)

    def _kill_without_shim(self, job: Job, was_running: bool) -> Kill:
        """It has ended, perhaps while we asked for it; or nobody watches it, and what is left of it must go."""
        left = sweep.kill(job.id, self._first(job)) if isinstance(job.state, Lost) else 0
        self._store.forget_groups(job.id)
        is_ours = left or (was_running and isinstance(job.state, Killed))
        return Kill("killed" if is_ours else "already_terminated", left, job)

    def _stuck(self, job_id: str) -> NotSteerable:
        with self._supervisors(job_id) as supervisors:
            left = len(supervisors.job_processes())
        if left:
            return NotSteerable(job_id, f"{left} of its processes do not die, not even of SIGKILL")
        return NotSteerable(
            job_id, "its processes are dead, but its shim does not go on: something stops or traces it"
        )

    def _settled(self, job_id: str) -> Job:
        """A dying shim's socket closes a moment before its lock is free, or its guard has written down the end."""
        deadline = time.monotonic() + SETTLED_S
        while self._store.has_shim(job_id) and time.monotonic() < deadline:
            time.sleep(LOOK_AGAIN_S)
        return self._store.load(job_id)


def _signal_number(name: str) -> int:
    full = name.upper() if name.upper().startswith("SIG") else f"SIG{name.upper()}"
    if full not in signal.Signals.__members__:
        raise InvalidArgument(
            f"={name[:40]!r} is not a signal. Accepted: names such as TERM, INT, HUP, KILL.",
            argument="signal",
        )
    return signal.Signals[full]
