"""What clients may ask of a shim, one JSON object each. A client that may open the socket may steer the job.

{"op": "status"}                            pid, end of the log, the outcome if there is one; "canonical":
                                            whether the job's terminal collects lines until Enter
{"op": "wait", "beyond": N, "quiet_s": Q, "timeout_s": S}   answered at the end of the job, or once the log
                                            is longer than N and then (with Q) has not grown for Q seconds,
                                            at the latest after S seconds
                                            with "settle_s": once the job has worked off what was typed into
                                            it (settling.py), with "prompt" as below
{"op": "waits"}                             "waits": whether the job waits for input, yes, no or unknown;
                                            "prompt": whether it sits at a prompt; "quiet": whether it has
                                            been silent long enough for that to count; what it has printed by
                                            then is in the log, up to "end"
{"op": "stdin", "length": N, "close": B, "wait_s": S}   N bytes follow; how many the job's stdin took
{"op": "resize", "rows": N, "cols": N}      the job's terminal
{"op": "signal", "signal": N, "group": B}   to every process of the job; with B to those of its main group
{"op": "kill", "signal": N, "grace_s": S}   answered when no process is left
"""

from __future__ import annotations

import os
import signal

from bgjob.home import jobdir
from bgjob.home.log_format import PROMPT_BYTES
from bgjob.shim.phase import Over
from bgjob.shim.settling import Settling
from bgjob.shim.stdin import StdinWrite
from bgjob.shim.waiters import Waiter, Waiters
from bgjob.system import processes
from bgjob.system.prompt import is_unfinished

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.home.jobdir import Record
    from bgjob.home.log_writer import LogWriter
    from bgjob.shim.control_server import Connection
    from bgjob.shim.loop import Loop
    from bgjob.shim.phase import Phase
    from bgjob.shim.prompts import PromptDetector
    from bgjob.shim.pump import Pump
    from bgjob.shim.stdin import Stdin
    from bgjob.shim.stop import Stop
    from bgjob.system.stdin_wait import Wait

MOST_ROWS_OR_COLS = (1 << 16) - 1


class Requests:
    def __init__(
        self,
        loop: Loop,
        log: LogWriter,
        pump: Pump,
        prompts: PromptDetector,
        stdin: Stdin,
        stop: Stop,
        phase: Callable[[], Phase],
        kill: Callable[[int, float], bool],
    ) -> None:
        """`kill` ends the job by a signal and, after a grace, SIGKILL. True: the job was running."""
        self._log, self._pump, self._prompts, self._stdin, self._stop = log, pump, prompts, stdin, stop
        self._phase, self._kill_job = phase, kill
        self._resizes: list[list[int]] | None = None
        self._was_asking = False
        """Whether the job's last line was unfinished when a client typed."""
        self.waiters = Waiters(loop, log, pump, self._tell_waiter)

    def serve(self, connection: Connection, request: Record) -> None:
        """KeyError: there is no such operation."""
        operation: Callable[[Requests, Connection, Record], None] = _OPERATIONS[request["op"]]
        try:
            operation(self, connection, request)
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            connection.answer(ok=False, error=f"{type(error).__name__}: {error}")

    def forget(self, connection: Connection) -> None:
        self.waiters.forget(connection)
        self._stdin.drop(connection)
        self._stop.forget(connection)

    def _status(self, connection: Connection, _request: Record) -> None:
        self._tell_status(connection, canonical=self._stdin.collects_lines())

    def _tell_status(self, connection: Connection, **more: object) -> None:
        phase = self._phase()
        outcome = phase.outcome if isinstance(phase, Over) else None
        unread = self._stdin.unread_bytes()
        connection.answer(ok=True, pid=phase.pid, end=self._log.end, outcome=outcome, unread=unread, **more)

    def _tell_waiter(self, waiter: Waiter) -> None:
        if waiter.settling and not isinstance(self._phase(), Over):
            self._tell_status(waiter.connection, **self._standing(waiter.settling.wait))
        else:
            self._tell_status(waiter.connection)

    def _wait(self, connection: Connection, request: Record) -> None:
        beyond, quiet_s, settle_s, timeout_s = (
            _number(request, name) for name in ("beyond", "quiet_s", "settle_s", "timeout_s")
        )
        settling = None
        if settle_s is not None:
            settling = Settling(
                self._stdin, self._pump, self._log, beyond or 0, quiet_s or 0.0, settle_s, self._was_asking
            )
        waiter = Waiter(connection, beyond, quiet_s or 0.0, settling)
        if isinstance(self._phase(), Over):
            self._tell_waiter(waiter)
        else:
            self.waiters.add(waiter, timeout_s)

    def _waits(self, connection: Connection, _request: Record) -> None:
        connection.answer(ok=True, **self._standing(), end=self._log.end)

    def _standing(self, wait: Wait | None = None) -> Record:
        """First the look, then the output: what a job printed before it waited is in the log then."""
        wait = wait or self._stdin.wait()
        self._pump.drain()
        sits_at_prompt = self._prompts.sits_at_prompt(wait)
        return {"waits": wait.answer, "prompt": sits_at_prompt, "quiet": self._prompts.is_quiet(wait)}

    def _write_stdin(self, connection: Connection, request: Record) -> None:
        self._was_asking = any(map(is_unfinished, self._log.stream_ends(PROMPT_BYTES)))
        write = StdinWrite(connection, int(_amount(request["length"])), bool(request.get("close")))
        self._stdin.add(write, _amount(request["wait_s"]))

    def _resize(self, connection: Connection, request: Record) -> None:
        """Where the log stood is kept too: a screen is drawn with the size that it had at each byte."""
        rows, cols = (
            min(max(1, int(_amount(request[word]))), MOST_ROWS_OR_COLS) for word in ("rows", "cols")
        )
        self._stdin.resize(rows, cols)
        if self._resizes is None:
            self._resizes = (jobdir.read_record(jobdir.TERMINAL) or {}).get("resizes", [])
        self._resizes.append([self._pump.settled_log_end(), rows, cols])
        jobdir.write_record(jobdir.TERMINAL, {"format": jobdir.FORMAT_VERSION, "resizes": self._resizes})
        connection.answer(ok=True)

    def _signal(self, connection: Connection, request: Record) -> None:
        number = _signal_number(request["signal"])
        tree = processes.alive(processes.descendants(os.getpid()))
        if request.get("group"):
            group = processes.group_of(self._phase().pid)
            tree = [pid for pid in tree if processes.group_of(pid) == group]
        self._stdin.before_input()
        for pid in tree:
            processes.send(pid, number)
        connection.answer(ok=True, processes=len(tree))

    def _kill(self, connection: Connection, request: Record) -> None:
        number, grace_s = _signal_number(request["signal"]), _amount(request["grace_s"])
        self._stop.tell_when_done(connection, was_running=self._kill_job(number, grace_s))


_OPERATIONS = {
    "status": Requests._status,
    "wait": Requests._wait,
    "waits": Requests._waits,
    "stdin": Requests._write_stdin,
    "resize": Requests._resize,
    "signal": Requests._signal,
    "kill": Requests._kill,
}


def _number(request: Record, name: str) -> float | None:
    return None if request.get(name) is None else _amount(request[name])


def _amount(value: object) -> float:
    amount = float(value)  # type: ignore[arg-type]
    if not amount >= 0:
        raise ValueError(f"{value} is not a number from 0 on")
    return amount


def _signal_number(value: object) -> int:
    number = int(_amount(value))
    if number not in signal.valid_signals():
        raise ValueError(f"{value} is not a signal")
    return number
