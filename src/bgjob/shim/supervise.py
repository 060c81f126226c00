"""One job, from its start to its outcome."""

from __future__ import annotations

import fcntl
import os
import signal
import time

from bgjob import jobdir, processes
from bgjob.log_format import STDERR, STDOUT
from bgjob.log_writer import LogWriter
from bgjob.shim import child, herald
from bgjob.shim.desk import Desk, Visitor, Waiter
from bgjob.shim.feed import Stdin
from bgjob.shim.loop import READABLE, Loop, signal_pipe
from bgjob.shim.pump import Pump
from bgjob.shim.stop import Stop
from bgjob.waiting import input_at, input_of, surely_none_waits, waits_for_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.jobdir import Record
    from bgjob.shim.child import Doors
    from bgjob.shim.estate import Estate, Will
    from bgjob.shim.loop import Timer

RETRY_S = 0.2
DEFAULT_GRACE_S = 5.0
LOOK_AGAIN_S = 0.003


class Supervisor:
    """Runs in the job directory. All that can fail for want of room is made before the child is started."""

    def __init__(self, spec: Record, estate: Estate, will: Will) -> None:
        self._spec, self.estate, self.will = spec, estate, will
        self._pid, self.started = 0, time.monotonic()
        self._outcome: Record | None = None
        self._stop_cause: str | None = None
        self._childless = False
        self._retry: Timer | None = None
        self._waiters: list[Waiter] = []
        self._resizes = _known_resizes() if spec.get("pty") else []
        self._loop = Loop()
        self._log = LogWriter(jobdir.LOG, spec["max_output_bytes"])
        self._pump = Pump(self._loop, self._log, self._on_output)
        self._pump.add(estate.ends)
        self.stdin = Stdin(self._loop, estate.ends, will, self._settled_log_end, self._stir)
        self._question = herald.Question(
            self._loop, self._is_asking, lambda: herald.tell_input(spec, self._log)
        )
        self._stop = Stop(self._loop)
        Desk(self._loop, estate.control, self)
        self._adopts = processes.adopt_orphans()
        self._signals = signal_pipe(signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
        self._loop.watch(self._signals, READABLE, self._on_signal)

    def start(self, script: str | None, environment: dict[str, str], umask: int, doors: Doors) -> int:
        """The pid of the child, once it is exec'd; OSError says why it is not."""
        jobdir.reserve_record(jobdir.OUTCOME)  # a job whose end could not be written down is not started
        self._pid = child.start(self._spec, script, environment, umask, doors)
        self.started = time.monotonic()
        self._watch_child()
        return self._pid

    def resume(
        self, pid: int, started: float, outcome: Record | None, stopping: tuple[str, int, float] | None
    ) -> None:
        """Go on with a job that another shim has started, as far as it had come."""
        self._pid, self.started, self._outcome = pid, started, outcome
        if outcome is None:
            self._reserve_outcome()
            self._watch_child()
        self._pump.drain()  # what is between terminal and log would wake nobody
        if stopping:
            self._stop_cause, signal_number, strike_at = stopping
            self._stop.begin(signal_number, strike_at - time.monotonic())
        if outcome:
            self._announce()  # who waited at the old shim has gone; the slot and the disk may not know yet

    def record_run(self, run: bytes) -> None:
        """Who is who in the process table. The job does not wait for a disk that is full."""
        try:
            jobdir.write_whole(jobdir.RUN, run)
        except OSError:
            self._loop.call_later(RETRY_S, lambda: self.record_run(run))

    def run(self) -> None:
        if self._spec.get("timeout_s") is not None:
            self._loop.call_later(self.started + self._spec["timeout_s"] - time.monotonic(), self._time_out)
        self._reap()
        while not self._is_over():
            self._loop.turn()
        self._pump.drain()
        self._stop.done()
        self._leave()

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
        fcntl.flock(
            self.estate.given.lock, fcntl.LOCK_UN
        )  # at once, though the guard has it for a moment yet

    # -- what visitors ask --------------------------------------------------------------------------

    def status(self) -> Record:
        unread = self.stdin.unread_bytes()
        return {"pid": self._pid, "end": self._log.end, "outcome": self._outcome, "unread": unread}

    def waits_for_input(self) -> str:
        """yes, no or unknown, from the kernel: an ancestor may ask what a stranger may not."""
        fd = self.stdin.fd
        source = input_of(self._pid) if self.estate.ends.is_terminal or fd < 0 else input_at(fd)
        return waits_for_input(processes.descendants(os.getpid()), source).answer

    def wait(self, waiter: Waiter, timeout_s: float | None) -> None:
        self._waiters.append(waiter)
        if timeout_s is not None:
            self._loop.call_later(timeout_s, lambda: self._answer(waiter))
        self._consider(waiter)

    def resize(self, rows: int, cols: int) -> None:
        """Where the log stood is kept too: whoever draws the screen must know its size at every byte."""
        self.stdin.resize(rows, cols)
        self._resizes.append([self._settled_log_end(), rows, cols])
        jobdir.write_record(jobdir.TERMINAL, {"format": jobdir.FORMAT_VERSION, "resizes": self._resizes})

    def signal_all(self, signal_number: int) -> int:
        tree = processes.descendants(os.getpid())
        for pid in tree:
            processes.send(pid, signal_number)
        return len(tree)

    def kill(self, visitor: Visitor, signal_number: int, grace_s: float) -> None:
        self._reap()  # one that has ended by itself was not killed
        self._stop.tell_when_done(visitor, was_running=self._outcome is None)
        self._end_by("killed", signal_number, grace_s)

    def on_leave(self, visitor: Visitor) -> None:
        self._waiters = [waiter for waiter in self._waiters if waiter.visitor is not visitor]
        self.stdin.drop(visitor)
        self._stop.forget(visitor)

    # -- what happens -------------------------------------------------------------------------------

    def _stir(self) -> None:
        self._question.stir()

    def _is_asking(self) -> bool:
        return self.stdin.is_open and not surely_none_waits(self._pid) and self.waits_for_input() == "yes"

    def _on_output(self) -> None:
        self._stir()
        for waiter in self._waiters[:]:
            self._consider(waiter)

    def _on_signal(self, _event: int) -> None:
        arrived = os.read(self._signals, 512)
        self._reap()
        if signal.SIGTERM in arrived:
            self._end_by("killed", signal.SIGTERM, DEFAULT_GRACE_S)

    def _time_out(self) -> None:
        self._reap()
        if self._outcome is None:
            self._end_by("timed_out", signal.SIGTERM, DEFAULT_GRACE_S)

    def _end_by(self, cause: str, signal_number: int, grace_s: float) -> None:
        self._stop_cause = self._stop_cause or cause
        self.will.stopping(self._stop_cause, signal_number, time.monotonic() + grace_s)
        self._stop.begin(signal_number, grace_s)

    # -- the end ------------------------------------------------------------------------------------

    def _reap(self) -> None:
        """Look, record, and only then reap: a code that is reaped and not on disk can be lost."""
        while dead := self._first_dead():
            if dead.pid != self._pid:
                child.reap(dead)
            elif not self._record(dead):
                return

    def _first_dead(self) -> child.Death | None:
        try:
            return child.first_dead()
        except ChildProcessError:
            self._childless = True
            return None

    def _record(self, dead: child.Death) -> bool:
        """The outcome on disk, after the last byte of output. Until that works we keep the zombie and try again."""
        if self._outcome is None and not self._write_outcome(dead):
            self._retry_in(RETRY_S)
            return False
        child.reap(dead)
        return True

    def _retry_in(self, delay_s: float) -> None:
        if self._retry:
            self._retry.cancel()
        self._retry = self._loop.call_later(delay_s, self._reap)

    def _write_outcome(self, dead: child.Death) -> bool:
        self._pump.drain()
        outcome = {
            "format": jobdir.FORMAT_VERSION,
            "cause": self._stop_cause or ("exited" if dead.signal is None else "signaled"),
            "exit_code": dead.exit_code,
            "signal": dead.signal,
            "ended_at": time.time(),
            "duration_s": time.monotonic() - self.started,
            "output_bytes": self._log.end,
            "stdout_bytes": self._log.before[STDOUT],
            "stderr_bytes": self._log.before[STDERR],
        }
        try:
            jobdir.write_record(jobdir.OUTCOME, outcome)
        except FileNotFoundError:
            pass  # somebody has removed the job: nobody will ask how it ended
        except OSError:
            return False
        self._outcome = outcome
        self._announce()
        return True

    def _announce(self) -> None:
        """Visible first, durable right after: the seal tells a reader after a power cut that it was."""
        if self.estate.given.slot is not None:
            fcntl.flock(self.estate.given.slot, fcntl.LOCK_UN)
        self._question.close()
        herald.tell_ended(self._spec, self._outcome or {})  # before those who wait: they may look for it
        self._on_output()
        self.stdin.end_all("the job has ended")
        try:
            jobdir.seal_outcome()
        except OSError:
            pass  # the machine's trouble, and not the job's

    def _settled_log_end(self) -> int:
        """Where the log ends with everything in it that was printed until now."""
        self._pump.drain()
        return self._log.end

    def _consider(self, waiter: Waiter) -> None:
        if waiter not in self._waiters:
            return
        now = time.monotonic()
        quiet_at = waiter.quiet_at(self._log.end, self._pump.last_output_at)
        if self._outcome or (quiet_at is not None and quiet_at <= now and self._is_settled(waiter, now)):
            self._answer(waiter)
        elif quiet_at is not None and not waiter.timed:
            waiter.timed = True
            self._loop.call_later(max(quiet_at - now, LOOK_AGAIN_S), lambda: self._look_again(waiter))

    def _is_settled(self, waiter: Waiter, now: float) -> bool:
        """A job that has printed and waits for input has answered; one that does not may have more to say."""
        if waiter.settle_s is None or now - self._pump.last_output_at >= waiter.settle_s:
            return True
        return self.waits_for_input() == "yes"

    def _answer(self, waiter: Waiter) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)
            waiter.visitor.answer(ok=True, **self.status())

    def _look_again(self, waiter: Waiter) -> None:
        waiter.timed = False
        self._consider(waiter)


def _known_resizes() -> list[list[int]]:
    resizes: list[list[int]] = (jobdir.read_record(jobdir.TERMINAL) or {}).get("resizes", [])
    return resizes
