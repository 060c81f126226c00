"""One job, from its start to its outcome."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time

from bgjob.home import jobdir, queue_dir
from bgjob.home.layout import HOME
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.home.log_writer import LogWriter
from bgjob.shim import child, events
from bgjob.shim.control_server import Connection, ControlServer
from bgjob.shim.loop import READABLE, Loop, signal_pipe
from bgjob.shim.pump import Pump
from bgjob.shim.restarts import Restarts, ends_one_run, limit_in
from bgjob.shim.stdin import Stdin
from bgjob.shim.stop import Stop
from bgjob.shim.upkeep import Upkeep
from bgjob.shim.waiters import Waiters
from bgjob.system import processes
from bgjob.system.stdin_wait import input_at, input_of, none_waits_for_input, waits_for_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.home.jobdir import Record
    from bgjob.shim.child import ChildEnds
    from bgjob.shim.handoff import HandoffSender, Held
    from bgjob.shim.limited_child import Bounds
    from bgjob.shim.limits import Limits
    from bgjob.shim.loop import Timer
    from bgjob.shim.waiters import Waiter

    Spawn = Callable[[ChildEnds, Bounds | None], int]

RETRY_S = 0.2
DEFAULT_GRACE_S = 5.0
TRANSIENT = (*jobdir.OUR_TROUBLE, errno.ENOSPC, errno.EDQUOT)


class Pause:
    """Between two runs of a job."""

    def __init__(self, last: child.Exit, cause: str, until: float) -> None:
        self.last, self.cause, self.until = last, cause, until
        self.is_timed = False


class Supervisor:
    """Runs in the job directory. All that can fail for want of room is made before the child is started."""

    def __init__(self, spec: Record, held: Held, handoff: HandoffSender, spawn: Spawn) -> None:
        self._spec, self.held, self.handoff, self._spawn = spec, held, handoff, spawn
        self._pid, self.started = 0, time.monotonic()
        self._outcome: Record | None = None
        self._stop_cause: str | None = None
        self._childless = False
        self._retry: Timer | None = None
        self._resizes = _known_resizes() if spec.get("pty") else []
        self._loop = Loop()
        stops = spec.get("on_output_limit") == "stop"
        self._limits = self._made_limits() if spec.get("limits") or stops else None
        self._log = LogWriter(jobdir.LOG, spec["max_output_bytes"], keeps_first=stops)
        self._pump = Pump(self._loop, self._log, self._on_output)
        self._pump.add(held.ends)
        self._waiters = Waiters(self._loop, self._log, self._pump, self.tell_status, self.waits_for_input)
        self.stdin = Stdin(self._loop, held.ends, handoff, self.settled_log_end, self._on_activity)
        self._prompts = events.PromptDetector(
            self._loop, self._is_asking, lambda: events.tell_input(spec, self._log)
        )
        self._stop = Stop(self._loop)
        self._restarts = Restarts(spec)
        self._pause: Pause | None = None
        server = ControlServer(self._loop, held.control, self)
        self._upkeep = Upkeep(spec["id"], self._loop, held, handoff, server, self._on_removed)
        self._adopts = processes.adopt_orphans()
        self._signals = signal_pipe(signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
        self._loop.watch(self._signals, READABLE, self._on_signal)

    def start(self, child_ends: ChildEnds) -> int:
        """The pid of the child, once it is exec'd; OSError says why it is not."""
        self._pid = self._started(child_ends)
        self.started = time.monotonic()
        self._restarts.begin(self._log.end)
        self._watch_child()
        return self._pid

    def _started(self, child_ends: ChildEnds) -> int:
        if self._limits is None:
            return self._spawn(child_ends, None)
        return self._limits.around(lambda bounds: self._spawn(child_ends, bounds))

    def _made_limits(self) -> Limits:
        from bgjob.shim.limits import Limits  # few jobs have some

        return Limits(self._spec, self._loop, self._end_by)

    def resume(
        self, pid: int, started: float, outcome: Record | None, stopping: tuple[str, int, float] | None
    ) -> None:
        """Go on with a job that another shim has started, as far as it had come."""
        self._pid, self.started, self._outcome = pid, started, outcome
        self._upkeep.resume()
        if outcome is None:
            self._reserve_outcome()
            self._watch_child()
        self._pump.drain()  # what is between terminal and log would wake nobody
        if stopping:
            self._resume_stop(*stopping)
        if self._limits:
            self._limits.resume(self._stop_cause)
        if outcome:
            self._announce()  # who waited at the old shim has gone; the slot and the disk may not know yet

    def resume_pause(
        self, last_pid: int, started: float, until: float, stopping: tuple[str, int, float] | None
    ) -> None:
        """Go on with a job that is between two runs."""
        self.started = started
        self._upkeep.resume()
        self._reserve_outcome()
        self._pause = Pause(*self._restarts.last(last_pid), until)
        if stopping:
            self._resume_stop(*stopping)
        else:
            self._stop.begin(signal.SIGTERM, DEFAULT_GRACE_S)

    def _resume_stop(self, cause: str, signal_number: int, kill_at: float) -> None:
        self._stop_cause = cause
        self._stop.begin(signal_number, kill_at - time.monotonic())

    def record_run(self, run: bytes) -> None:
        """Who is who in the process table. The job does not wait for a disk that is full."""
        try:
            jobdir.write_whole(jobdir.RUN, run)
        except OSError:
            self._loop.call_later(RETRY_S, lambda: self.record_run(run))

    def run(self) -> None:
        """Until nothing of the job is left."""
        if self._spec.get("timeout_s") is not None:
            self._loop.call_later(self.started + self._spec["timeout_s"] - time.monotonic(), self._time_out)
        if self._limits:
            self._limits.watch(lambda: self._pump.last_output_at, self._is_running)
        self._upkeep.begin(may_group=self._limits is None)
        self._reap()
        while not self._is_over():
            self._loop.turn()
        self._pump.drain()
        if self._limits:
            self._limits.close()
        self._upkeep.close()
        self._leave()
        self._stop.done()  # last: whoever hears that it is over may rely on it

    def _is_running(self) -> bool:
        return self._outcome is None and self._pause is None

    def _reserve_outcome(self) -> None:
        try:
            jobdir.reserve_record(jobdir.OUTCOME)
        except OSError:
            pass  # the disk is full already: it will be tried again when there is an outcome

    def _watch_child(self) -> None:
        """A signal's byte in our pipe takes memory, and may get lost; this cannot."""
        try:
            end = os.pidfd_open(self._pid)
        except (AttributeError, OSError):
            return  # a system without; or no descriptor left
        self._loop.watch(end, READABLE, lambda _event: self._on_end(end))

    def _on_end(self, end: int) -> None:
        self._loop.forget(end)
        os.close(end)
        self._reap()

    def _is_over(self) -> bool:
        return self._outcome is not None and self._childless and (self._adopts or self._pump.finished)

    def _leave(self) -> None:
        try:
            os.unlink(jobdir.CONTROL)
        except FileNotFoundError:
            pass
        # at once, though the guard has it for a moment yet
        fcntl.flock(self.held.inherited.lock, fcntl.LOCK_UN)

    # -- what visitors ask --------------------------------------------------------------------------

    def tell_status(self, connection: Connection) -> None:
        unread = self.stdin.unread_bytes()
        connection.answer(ok=True, pid=self._pid, end=self._log.end, outcome=self._outcome, unread=unread)

    def waits_for_input(self) -> str:
        """yes, no or unknown, from the kernel: an ancestor may ask what a stranger may not."""
        fd = self.stdin.fd
        source = input_of(self._pid) if self.held.ends.is_terminal or fd < 0 else input_at(fd)
        return waits_for_input(processes.descendants(os.getpid()), source).answer

    def settled_log_end(self) -> int:
        """Where the log ends with everything in it that was printed until now."""
        self._pump.drain()
        return self._log.end

    def wait(self, waiter: Waiter, timeout_s: float | None) -> None:
        if self._outcome:
            self.tell_status(waiter.connection)
        else:
            self._waiters.add(waiter, timeout_s)

    def resize(self, rows: int, cols: int) -> None:
        """Where the log stood is kept too: whoever draws the screen must know its size at every byte."""
        self.stdin.resize(rows, cols)
        self._resizes.append([self.settled_log_end(), rows, cols])
        jobdir.write_record(jobdir.TERMINAL, {"format": jobdir.FORMAT_VERSION, "resizes": self._resizes})

    def signal_all(self, signal_number: int) -> int:
        tree = processes.descendants(os.getpid())
        for pid in tree:
            processes.send(pid, signal_number)
        return len(tree)

    def kill(self, connection: Connection, signal_number: int, grace_s: float) -> None:
        self._reap()  # one that has ended by itself was not killed
        self._stop.tell_when_done(connection, was_running=self._outcome is None)
        self._end_by("killed", signal_number, grace_s)

    def on_leave(self, connection: Connection) -> None:
        self._waiters.forget(connection)
        self.stdin.drop(connection)
        self._stop.forget(connection)

    # -- what happens -------------------------------------------------------------------------------

    def _on_activity(self) -> None:
        self._prompts.on_activity()

    def _is_asking(self) -> bool:
        return (
            self._pid > 0
            and self.stdin.is_open
            and not none_waits_for_input(self._pid)
            and self.waits_for_input() == "yes"
        )

    def _on_output(self) -> None:
        if self._limits:
            self._limits.on_output(self._log.end)
        self._on_activity()
        self._waiters.on_output()

    def _on_signal(self, _event: int) -> None:
        arrived = os.read(self._signals, 512)
        self._reap()
        if signal.SIGHUP in arrived:
            self._upkeep.look_now()
        if signal.SIGTERM in arrived:
            self._end_by("killed", signal.SIGTERM, DEFAULT_GRACE_S)

    def _on_removed(self) -> None:
        """The job's directory is gone: nobody can ever ask for it, steer it or read what it prints."""
        if self._stop_cause != "killed":
            self._end_by("killed", signal.SIGTERM, DEFAULT_GRACE_S)

    def _time_out(self) -> None:
        self._reap()
        if self._outcome is None:
            self._end_by("timed_out", signal.SIGTERM, DEFAULT_GRACE_S)

    def _end_by(self, cause: str, signal_number: int, grace_s: float) -> None:
        """The first cause counts, but for one that would have ended one run of several."""
        if self._pause and ends_one_run(cause):
            return self._stop.begin(signal_number, grace_s)  # that of a run which has ended already
        if self._stop_cause is None or (self._restarts and ends_one_run(self._stop_cause)):
            self._stop_cause = cause
        self.handoff.stopping(self._stop_cause, signal_number, time.monotonic() + grace_s)
        self._stop.begin(signal_number, grace_s)
        self._go_on()

    # -- the end ------------------------------------------------------------------------------------

    def _reap(self) -> None:
        """Look, record, and only then reap: a code that is reaped and not on disk can be lost."""
        while dead := self._first_dead():
            if dead.pid != self._pid:
                child.reap(dead)
            elif not self._record(dead):
                return
        self._go_on()

    def _first_dead(self) -> child.Exit | None:
        try:
            return child.first_dead()
        except ChildProcessError:
            self._childless = True
            return None

    def _record(self, dead: child.Exit) -> bool:
        """The outcome on disk, after the last byte of output. Until that works we keep the zombie and try again."""
        if self._limits and self._outcome is None:
            self._end_what_the_kernel_began(self._limits, dead)
        if self._outcome is None and self._is_to_run_again(dead):
            self._begin_pause(dead)
        elif self._outcome is None and not self._write_outcome(dead):
            self._retry_in(RETRY_S)
            return False
        child.reap(dead)
        return True

    def _end_what_the_kernel_began(self, limits: Limits, dead: child.Exit) -> None:
        """Of a job over its limit it ended one process. The others go too, and our guard knows it, before we say so."""
        self._pump.drain()  # what it printed last may be over a limit too, and was so first
        if not self._stop_cause:
            limits.end_by_kernel(dead)

    def _retry_in(self, delay_s: float) -> None:
        if self._retry:
            self._retry.cancel()
        self._retry = self._loop.call_later(delay_s, self._reap)

    def _write_outcome(self, dead: child.Exit) -> bool:
        self._pump.drain()
        cause, _, limit = self._cause(dead).partition(":")
        outcome = {
            "format": jobdir.FORMAT_VERSION,
            "cause": cause,
            "exit_code": dead.exit_code,
            "signal": dead.signal,
            "ended_at": time.time(),
            "duration_s": time.monotonic() - self.started,
            "output_bytes": self._log.end,
            "stdout_bytes": self._log.before[STDOUT],
            "stderr_bytes": self._log.before[STDERR],
        }
        if limit and self._limits:
            outcome |= {"limit": limit, "peak_memory_bytes": self._limits.peak_memory_bytes()}
        try:
            jobdir.write_record(jobdir.OUTCOME, outcome)
        except FileNotFoundError:
            pass  # somebody has removed the job: nobody will ask how it ended
        except OSError:
            return False
        self._outcome = outcome
        self._announce()
        return True

    def _cause(self, dead: child.Exit) -> str:
        """Why it has ended; what a limit did has its name behind a colon."""
        if self._pause:
            return self._stop_cause or self._pause.cause
        return self._stop_cause or dead.cause

    def _announce(self) -> None:
        """Visible first, durable right after: the seal tells a reader after a power cut that it was."""
        for slot in self.held.inherited.slots:
            fcntl.flock(slot, fcntl.LOCK_UN)
        queue_dir.wake(HOME)
        self._prompts.close()
        events.tell_ended(self._spec, self._outcome or {})  # before those who wait: they may look for it
        self._waiters.on_end()
        self.stdin.end_all("the job has ended")
        try:
            jobdir.seal_outcome()
        except OSError:
            pass  # the machine's trouble, and not the job's

    # -- once more ----------------------------------------------------------------------------------

    def _is_to_run_again(self, dead: child.Exit) -> bool:
        if not self._restarts:
            return False
        self._pump.drain()  # what it printed last is of this run
        cause = self._cause(dead)
        return ends_one_run(cause) and self._restarts.wanted_after(dead, cause)

    def _begin_pause(self, dead: child.Exit) -> None:
        """What the run has left behind goes first: it may hold what the next one needs."""
        cause = self._cause(dead)
        limit = limit_in(cause)
        pause_s = self._restarts.note(dead, limit, self._log.end)
        self._pause = Pause(dead, cause, time.monotonic() + pause_s)
        self._pid, self._stop_cause = 0, None
        events.tell_restarting(self._spec, self._restarts.count, dead, limit, pause_s)
        self.handoff.paused(dead.pid, self.started, self._pause.until)
        self.stdin.end_all("the job has ended, and is about to be run again")
        self._stop.begin(signal.SIGTERM, DEFAULT_GRACE_S)

    def _go_on(self) -> None:
        """Between two runs, once nothing of the last is left: wait for the next; or end, if somebody wants that."""
        if self._pause is None or not self._childless:
            return
        if self._stop_cause is not None:
            self._end_pause(self._pause.last)
        elif not self._pause.is_timed:
            self._stop.rest()
            self._pause.is_timed = True
            self._loop.call_later(self._pause.until - time.monotonic(), self._run_again)

    def _end_pause(self, last: child.Exit) -> None:
        if self._write_outcome(last):
            self._pause = None
        else:
            self._retry_in(RETRY_S)

    def _run_again(self) -> None:
        if self._pause is None or self._stop_cause is not None:
            return
        try:
            self._begin_run()
        except OSError as error:
            if error.errno in TRANSIENT:
                self._loop.call_later(RETRY_S, self._run_again)
            else:  # its directory or its shell is gone: then it has ended as its last run has
                self._end_pause(self._pause.last)

    def _begin_run(self) -> None:
        ends, child_ends = child.open_ends(self._spec)
        self.stdin.close()
        self._pump.close()
        self.held.ends = ends
        self._pump.add(ends)
        self.stdin = Stdin(self._loop, ends, self.handoff, self.settled_log_end, self._on_activity)
        self.handoff.new_ends(ends)
        self._pid = self._started(child_ends)
        self._pause, self._childless = None, False
        self._restarts.begin(self._log.end)
        events.tell_started(self._spec, self._pid)
        self.record_run(child.run_record(self._pid, time.time()))
        self.handoff.started(self._pid, self.started, keep_launch_file=True)
        self._upkeep.gather_soon()
        self._watch_child()
        self._reap()


def _known_resizes() -> list[list[int]]:
    resizes: list[list[int]] = (jobdir.read_record(jobdir.TERMINAL) or {}).get("resizes", [])
    return resizes
