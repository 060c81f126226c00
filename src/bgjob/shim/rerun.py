"""Running a job again: the pause after a run, and the start of the next.

A pause has two parts. First the processes that the run has left behind are ended: they may hold what the
next run needs. Then the rest of the time goes by.
"""

from __future__ import annotations

import time

from bgjob.shim import events
from bgjob.shim.child import TRANSIENT
from bgjob.shim.phase import Pausing
from bgjob.shim.restarts import Restarts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.home.jobdir import Record
    from bgjob.home.log_writer import LogWriter
    from bgjob.shim.cause import Cause
    from bgjob.shim.child import Exit
    from bgjob.shim.handoff import HandoffSender
    from bgjob.shim.loop import Loop

TRY_AGAIN_S = 0.2


class Rerun:
    def __init__(
        self,
        spec: Record,
        loop: Loop,
        log: LogWriter,
        handoff: HandoffSender,
        start: Callable[[], None],
        finish: Callable[[Pausing], None],
    ) -> None:
        """`start` begins the next run, or raises OSError; `finish` ends the job as its last run ended."""
        self._spec, self._loop, self._log, self._handoff = spec, loop, log, handoff
        self._start, self._finish = start, finish
        self._restarts = Restarts(spec)

    def on_start(self) -> None:
        """A run has begun."""
        self._restarts.begin(self._log.end)

    def follows(self, dead: Exit, cause: Cause) -> bool:
        """Whether another run follows one that ended so."""
        return cause.ends_one_run and self._restarts.wanted_after(dead, cause)

    def begin_pause(self, dead: Exit, cause: Cause, started: float) -> Pausing:
        pause_s = self._restarts.note(dead, cause.limit, self._log.end)
        until = time.monotonic() + pause_s
        events.tell_restarting(self._spec, self._restarts.count, dead, cause.limit, pause_s)
        self._handoff.paused(dead.pid, started, until)
        return Pausing(dead, cause, until)

    def resume_pause(self, last_pid: int, until: float) -> Pausing:
        return Pausing(*self._restarts.last(last_pid), until)

    def on_childless(self, pausing: Pausing) -> None:
        """No process of the last run is left: wait for the next run, or end if that is wanted by now."""
        if pausing.stopping is not None:
            self._finish(pausing)
        elif pausing.timer is None:
            self._run_at(pausing.until - time.monotonic(), pausing)

    def _run_at(self, delay_s: float, pausing: Pausing) -> None:
        pausing.timer = self._loop.call_later(delay_s, lambda: self._run(pausing))

    def _run(self, pausing: Pausing) -> None:
        if pausing.stopping is not None:
            return
        try:
            self._start()
        except OSError as error:
            if error.errno in TRANSIENT:
                return self._run_at(TRY_AGAIN_S, pausing)
            # The job's directory or its shell is gone: the job ends as its last run ended.
            pausing.stopping = pausing.cause
            self._finish(pausing)
