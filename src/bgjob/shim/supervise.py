"""One job, from its start to its outcome. What the job is at is one value, the phase.

    event                                   handler             may end in
    a process of the job has ended          _reap               Pausing, Over
    a client kills the job                  _kill               Over, once its processes have ended
    SIGTERM came to the shim                _on_signal          the same
    the holder of its allocation has ended  _on_holder_end      the same
    the job's directory was removed         _on_removed         the same
    the job's time is up                    _time_out           the same
    a limit is hit                          _end_by             Pausing, Over, once its processes have ended
    a pause is over                         _start_next_run     Running, Pausing, Over
    the job has printed                     _on_output          as before, or a limit is hit

Over is the last phase. The shim stays while processes of the job live, so that their output is kept and a kill
reaches them.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time

from bgjob.home import jobdir, queue_dir
from bgjob.home.layout import HOME
from bgjob.home.log_writer import LogWriter
from bgjob.shim import child, events
from bgjob.shim.cause import KILLED, TIMED_OUT, Cause
from bgjob.shim.control_server import ControlServer
from bgjob.shim.loop import READABLE, Loop, signal_pipe
from bgjob.shim.outcome import make_durable, outcome_of, reserve_outcome, seal_outcome, write_outcome
from bgjob.shim.phase import Over, Pausing, Running, Unrecorded
from bgjob.shim.prompts import PromptDetector
from bgjob.shim.pump import Pump
from bgjob.shim.requests import Requests
from bgjob.shim.rerun import Rerun
from bgjob.shim.stdin import Stdin
from bgjob.shim.stop import Stop
from bgjob.shim.terminal_size import TerminalSize
from bgjob.shim.upkeep import Upkeep
from bgjob.system import cgroup, processes
from bgjob.system.allocation import Allocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.home.jobdir import Record
    from bgjob.shim.child import ChildEnds, Exit
    from bgjob.shim.handoff import HandoffSender, Held
    from bgjob.shim.limited_child import Bounds
    from bgjob.shim.limits import Limits
    from bgjob.shim.loop import Timer
    from bgjob.shim.phase import Phase

    Spawn = Callable[[ChildEnds, Bounds | None], int]
    Stopping = tuple[str, int, float]
    """A cause, a signal, and when SIGKILL follows."""

# Pauses between attempts to write a record; each is twice the last.
RETRY_S, LONGEST_RETRY_S = 0.2, 30.0
# the caller, who has been answered meanwhile, may go on at once with the next job
DURABLE_AFTER_S = 0.02
# a client that kills the job is answered first, if the other processes of the job end so soon
SEAL_AFTER_S = 0.005
DEFAULT_GRACE_S = 5.0
# As a shell tells that a SIGKILL has ended its child.
KILLED_CODE = 137


class Supervisor:
    """Runs in the job directory. All that can fail for want of room is made before the child is started."""

    def __init__(self, spec: Record, held: Held, handoff: HandoffSender, spawn: Spawn) -> None:
        self._spec, self._held, self._handoff, self._spawn = spec, held, handoff, spawn
        self._phase: Phase = Running(0)
        self._has_children = True
        self.is_durable = False
        """Of a queued job, before it starts."""
        self._is_sealed = False
        self.started = time.monotonic()
        self._retry: Timer | None = None
        self._retry_s = RETRY_S
        self._loop = loop = Loop()
        stops = spec.get("on_output_limit") == "stop"
        self._limits = self._made_limits() if spec.get("limits") or stops else None
        self._log = log = LogWriter(jobdir.LOG, spec["max_output_bytes"], keeps_first=stops)
        self._pump = pump = Pump(loop, log, self._on_output)
        pump.add(held.ends)
        self._stdin = stdin = Stdin(
            loop, held.ends, handoff, pump.settled_log_end, lambda: self._phase.pid, self._on_typed
        )
        self._prompts = PromptDetector(loop, stdin, log, lambda: events.tell_input(spec, log))
        self._stop = Stop(loop)
        self._rerun = self._made_rerun() if spec.get("restart") else None
        self._requests = requests = Requests(
            loop,
            log,
            pump,
            self._prompts,
            stdin,
            self._stop,
            lambda: self._phase,
            self._kill,
            TerminalSize(spec, stdin, pump.settled_log_end),
            lambda by, count: events.tell_typed(spec, by, count),
        )
        self._waiters = requests.waiters
        server = ControlServer(loop, held.control, requests.serve, requests.forget)
        self._upkeep = Upkeep(spec["id"], loop, held, handoff, server, self._on_removed)
        self._adopts = processes.adopt_orphans()
        self._signals = signal_pipe(signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
        loop.watch(self._signals, READABLE, self._on_signal)
        if Allocation.holder is not None:
            loop.watch(Allocation.holder, READABLE, self._on_holder_end)
        # An engine makes a group for each allocation: what is counted there before its one job starts is none.
        self._kills_before = cgroup.kills_for_memory() if Allocation.is_shared else 0

    def _made_limits(self) -> Limits:
        from bgjob.shim.limits import Limits  # few jobs have some

        return Limits(self._spec, self._loop, self._end_by)

    def _made_rerun(self) -> Rerun:
        start, finish = self._start_next_run, self._end_pause
        return Rerun(self._spec, self._loop, self._log, self._handoff, start, finish)

    # -- the beginning ------------------------------------------------------------------------------

    def start(self, child_ends: ChildEnds) -> int:
        """The pid of the child, once it is exec'd; OSError says why it is not."""
        pid = self._begin_run(child_ends)
        self.started = time.monotonic()
        return pid

    def _begin_run(self, child_ends: ChildEnds) -> int:
        if self._limits is None:
            pid = self._spawn(child_ends, None)
        else:
            pid = self._limits.around(lambda bounds: self._spawn(child_ends, bounds))
        self._phase, self._has_children = Running(pid), True
        if self._rerun:
            self._rerun.on_start()
        self._watch_child(pid)
        return pid

    def _start_next_run(self) -> None:
        ends, child_ends = child.open_ends(self._spec)
        self._pump.close()
        self._held.ends = ends
        self._pump.add(ends)
        self._stdin.reopen(ends)
        self._requests.begin_run()
        self._handoff.new_ends(ends)
        pid = self._begin_run(child_ends)
        events.tell_started(self._spec, pid)
        self.record_run(child.run_record(pid, time.time()))
        self._handoff.started(pid, self.started, keep_launch_file=True)
        self._upkeep.gather_soon()
        self._reap()

    def resume(self, pid: int, started: float, outcome: Record | None, stopping: Stopping | None) -> None:
        """Go on with a job that another shim has started, as far as it had come."""
        self.started = started
        self._phase = Running(pid) if outcome is None else Over(pid, outcome)
        if outcome is None:
            reserve_outcome()
            self._watch_child(pid)
        self._pump.drain()  # no event tells of what is between terminal and log
        if stopping:
            self._resume_stop(*stopping)
        if self._limits:
            self._limits.resume(self._phase.stopping)
        if outcome is not None:
            self._announce(outcome)  # the slot and the disk may not know yet

    def resume_pause(self, last_pid: int, started: float, until: float, stopping: Stopping | None) -> None:
        """Go on with a job that is between two runs."""
        self.started = started
        self._rerun = self._rerun or self._made_rerun()
        self._phase = self._rerun.resume_pause(last_pid, until)
        reserve_outcome()
        if stopping:
            self._resume_stop(*stopping)
        else:
            self._stop.begin(signal.SIGTERM, DEFAULT_GRACE_S)

    def resume_unrecorded(self, outcome: Record, why: str) -> None:
        """The shim before this one knew how the job has ended: that stays, however late it is written down."""
        if not isinstance(self._phase, Over):
            self._phase.unrecorded = Unrecorded(outcome, why)

    def _resume_stop(self, cause: str, signal_number: int, kill_at: float) -> None:
        self._phase.stopping = Cause(cause)
        self._stop.begin(signal_number, kill_at - time.monotonic())

    def record_run(self, run: bytes, retry_s: float = RETRY_S) -> None:
        """Who is who in the process table. The job does not wait for a disk that is full."""
        try:
            jobdir.write_whole(jobdir.RUN, run)
        except OSError:
            later_s = min(2 * retry_s, LONGEST_RETRY_S)
            self._loop.call_later(retry_s, lambda: self.record_run(run, later_s))

    def _watch_child(self, pid: int) -> None:
        """SIGCHLD tells of its end too, but its byte in our pipe takes memory, and may get lost."""
        try:
            end = os.pidfd_open(pid)
        except (AttributeError, OSError):
            return  # a system without; or no descriptor left
        self._loop.watch(end, READABLE, lambda _event: self._on_child_end(end))

    def run(self) -> None:
        """Until nothing of the job is left."""
        if self._spec.get("timeout_s") is not None:
            self._loop.call_later(self.started + self._spec["timeout_s"] - time.monotonic(), self._time_out)
        if self._limits:
            self._limits.watch(lambda: self._pump.last_output_at, lambda: isinstance(self._phase, Running))
        self._loop.call_later(DURABLE_AFTER_S, self._make_durable)
        self._upkeep.begin(may_group=self._limits is None)
        self._reap()
        while not self._is_finished():
            self._loop.turn()
        self._pump.drain()
        if self._limits:
            self._limits.close()
        self._upkeep.close()
        self._leave()
        self._stop.done()  # a client that is told of the end may rely on all of it, but for a power cut
        self._seal()

    def _is_finished(self) -> bool:
        is_over = isinstance(self._phase, Over)
        return is_over and not self._has_children and (self._adopts or self._pump.finished)

    def _leave(self) -> None:
        try:
            os.unlink(jobdir.CONTROL)
        except FileNotFoundError:
            pass
        # by hand: the guard has the descriptor for a moment yet
        fcntl.flock(self._held.inherited.lock, fcntl.LOCK_UN)

    # -- events -------------------------------------------------------------------------------------

    def _on_output(self) -> None:
        if self._limits:
            self._limits.on_output(self._log.end)
        self._prompts.on_activity()
        self._waiters.on_output()

    def _on_typed(self) -> None:
        self._prompts.on_activity()

    def _on_child_end(self, pidfd: int) -> None:
        self._loop.forget(pidfd)
        os.close(pidfd)
        self._reap()

    def _on_signal(self, _event: int) -> None:
        arrived = os.read(self._signals, 512)
        self._reap()
        if signal.SIGHUP in arrived:
            self._upkeep.look_now()
        if signal.SIGTERM in arrived:
            self._end_by(KILLED, signal.SIGTERM, DEFAULT_GRACE_S)

    def _on_holder_end(self, _event: int) -> None:
        """The engine takes the allocation for free: nothing may run in it any more."""
        if Allocation.holder is not None:
            self._loop.forget(Allocation.holder)
        self._end_by(KILLED, signal.SIGTERM, DEFAULT_GRACE_S)

    def _on_removed(self) -> None:
        """The job's directory is gone: no client can ask for the job, steer it or read what it prints."""
        if self._phase.stopping != KILLED:
            self._end_by(KILLED, signal.SIGTERM, DEFAULT_GRACE_S)

    def _time_out(self) -> None:
        self._reap()
        if not isinstance(self._phase, Over) and not self._phase.unrecorded:
            self._end_by(TIMED_OUT, signal.SIGTERM, DEFAULT_GRACE_S)

    def _kill(self, signal_number: int, grace_s: float) -> bool:
        """Whether the job was running. A job that has ended by itself was not killed."""
        self._reap()
        was_running = not isinstance(self._phase, Over) and not self._phase.unrecorded
        self._end_by(KILLED, signal_number, grace_s)
        if self._phase.unrecorded:
            self._retry_in(0.0)  # this answers the client
        return was_running

    def _end_by(self, cause: Cause, signal_number: int, grace_s: float) -> None:
        """The first cause counts; but the end of one run is replaced by the end of a job with several."""
        phase = self._phase
        if phase.unrecorded or (isinstance(phase, Pausing) and cause.ends_one_run):
            return self._stop.begin(signal_number, grace_s)  # its run has ended already
        if phase.stopping is None or (self._rerun and phase.stopping.ends_one_run):
            phase.stopping = cause
        self._handoff.stopping(phase.stopping, signal_number, time.monotonic() + grace_s)
        self._stop.begin(signal_number, grace_s)
        self._go_on()

    # -- the end ------------------------------------------------------------------------------------

    def _reap(self) -> None:
        """Look, record, and only then reap: a code that is reaped and not on disk can be lost."""
        while dead := self._first_dead():
            phase = self._phase
            if isinstance(phase, Running) and dead.pid == phase.pid and not self._record(phase, dead):
                return self._retry_later()  # the zombie is kept until then
            child.reap(dead)
        self._go_on()

    def _first_dead(self) -> Exit | None:
        try:
            return child.first_dead()
        except ChildProcessError:
            self._has_children = False
            return None

    def _record(self, running: Running, dead: Exit) -> bool:
        """Whether the end of this run, after its last byte of output, is on disk."""
        self._pump.drain()  # what was printed last may be over a limit, before the kernel has said so
        if self._limits and not running.stopping:
            self._limits.end_by_kernel(dead)  # the kernel ended one process: the others end too
        if Allocation.is_ours and not running.stopping and self._lacked_memory(dead):
            self._end_by(Cause.over_limit("memory"), signal.SIGKILL, 0.0)
        cause = running.stopping or dead.cause
        if self._rerun is None or not self._rerun.follows(dead, cause):
            return self._write_outcome(dead, cause)
        self._phase = self._rerun.begin_pause(dead, cause, self.started)
        self._stdin.end_all("the job has ended, and is about to be run again")
        self._stop.begin(signal.SIGTERM, DEFAULT_GRACE_S)
        return True

    def _lacked_memory(self, dead: Exit) -> bool:
        """Of several jobs in one allocation, it was one that a SIGKILL has ended, as its shell tells, too."""
        if Allocation.is_shared and dead.signal != signal.SIGKILL and dead.exit_code != KILLED_CODE:
            return False
        return cgroup.kills_for_memory() > self._kills_before

    def _go_on(self) -> None:
        if self._rerun and isinstance(self._phase, Pausing) and not self._has_children:
            if self._phase.stopping is None:
                self._stop.reset()
            self._rerun.on_childless(self._phase)

    def _end_pause(self, pausing: Pausing) -> None:
        if not self._write_outcome(pausing.last, pausing.stopping or pausing.cause):
            self._retry_later()

    def _retry_later(self) -> None:
        self._retry_in(self._retry_s)
        self._retry_s = min(2 * self._retry_s, LONGEST_RETRY_S)

    def _retry_in(self, delay_s: float) -> None:
        if self._retry:
            self._retry.cancel()
        self._retry = self._loop.call_later(delay_s, self._reap)

    def _write_outcome(self, dead: Exit, cause: Cause) -> bool:
        self._pump.drain()
        outcome = self._outcome(dead, cause)
        if why := write_outcome(outcome):
            self._tell_unrecorded(Unrecorded(outcome, why))
            return False
        self._phase = Over(self._phase.pid, outcome, self._phase.stopping)
        self._announce(outcome)
        return True

    def _outcome(self, dead: Exit, cause: Cause) -> Record:
        if self._phase.unrecorded:
            return self._phase.unrecorded.outcome
        return outcome_of(dead, cause, time.monotonic() - self.started, self._log, self._limits)

    def _tell_unrecorded(self, unrecorded: Unrecorded) -> None:
        """Answer clients that wait for the end without waiting for the disk; slot and outcome wait for it."""
        assert not isinstance(self._phase, Over)
        if not self._phase.unrecorded:
            self._handoff.unrecorded(unrecorded.outcome, unrecorded.why)
        self._phase.unrecorded = unrecorded
        self._waiters.on_end()
        if not processes.alive(processes.descendants(os.getpid())):
            self._stop.done(unrecorded=unrecorded.told())
            self._stop.reset()  # a zombie that is kept is not killed again and again

    def _announce(self, outcome: Record) -> None:
        """Visible first, durable right after."""
        for slot in self._held.inherited.slots:
            fcntl.flock(slot, fcntl.LOCK_UN)
        queue_dir.wake(HOME)
        self._prompts.close()
        events.tell_ended(self._spec, outcome)  # before the waiters: they may look for it
        self._waiters.on_end()
        self._stdin.end_all("the job has ended")
        self._loop.call_later(SEAL_AFTER_S, self._seal)

    def _seal(self) -> None:
        if not self._is_sealed:
            self._is_sealed = True
            self._make_durable()
            seal_outcome()

    def _make_durable(self) -> None:
        if not self.is_durable:
            self.is_durable = True
            make_durable(self._held.inherited.lock)
