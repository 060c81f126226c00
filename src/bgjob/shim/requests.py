"""What clients may ask of a shim, one JSON object each. A client that may open the socket may steer the job.

{"op": "status"}                            pid, end of the log, the outcome if there is one; "canonical":
                                            whether the job's terminal collects lines until Enter
{"op": "wait", "beyond": N, "quiet_s": Q, "timeout_s": S}   answered at the end of the job, or once the log
                                            is longer than N and then (with Q) has not grown for Q seconds,
                                            at the latest after S seconds
                                            with "settle_s": once the job has worked off what was typed into
                                            it (settling.py), with "prompt" as below
                                            with "viewer" and "size": also once the terminal has another size
{"op": "waits"}                             "waits": whether the job waits for input, yes, no or unknown;
                                            "prompt": whether it sits at a prompt; "quiet": whether it has
                                            been silent long enough for that to count; what it has printed by
                                            then is in the log, up to "end"
{"op": "stdin", "length": N, "close": B, "wait_s": S}   N bytes follow; how many the job's stdin took
                                            with "reply": the terminal of a viewer sends it, not the person
{"op": "resize", "rows": N, "cols": N}      the job's terminal; of a viewer: what its own terminal has
{"op": "attach", "by": WHO, "looks": B, "rows": N, "cols": N, "held_since": T, "typed_bytes": N}   a person looks
                                            and types by this connection from now on, and is a "viewer"
                                            (viewers.py); rows and cols of the person's terminal if there is
                                            one; the last two if the shim before this one was killed
{"op": "signal", "signal": N, "group": B}   to every process of the job; with B to those of its main group,
                                            as ctrl-c does
{"op": "kill", "signal": N, "grace_s": S}   answered when no process is left

While a person holds the job, what others would type is refused, with "held": {"by", "since", "typed_at"}.
"""

from __future__ import annotations

import os
import signal

from bgjob.home.log_format import PROMPT_BYTES
from bgjob.shim.phase import Over
from bgjob.shim.settling import Settling
from bgjob.shim.stdin import StdinWrite
from bgjob.shim.terminal_size import TerminalSize
from bgjob.shim.viewers import Viewer, Viewers
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

LONGEST_NAME = 100
HELD = "a person who is attached holds the job"


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
        size: TerminalSize,
        tell_typed: Callable[[str, int], None],
    ) -> None:
        """`kill` ends the job by a signal and, after a grace, SIGKILL. True: the job was running.

        `tell_typed`: a person has typed so many bytes.
        """
        self._log, self._pump, self._prompts, self._stdin, self._stop = log, pump, prompts, stdin, stop
        self._phase, self._kill_job = phase, kill
        self._size = size
        self._was_asking = False
        """Whether the job's last line was unfinished when a client typed."""
        self.waiters = Waiters(loop, log, pump, self._tell_waiter)
        self._viewers = Viewers(self._take_size, lambda viewer: tell_typed(viewer.by, viewer.typed_bytes))

    def serve(self, connection: Connection, request: Record) -> None:
        """KeyError: there is no such operation."""
        operation: Callable[[Requests, Connection, Record], None] = _OPERATIONS[request["op"]]
        self._viewers.heard(connection)
        try:
            operation(self, connection, request)
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            connection.answer(ok=False, error=f"{type(error).__name__}: {error}")

    def forget(self, connection: Connection) -> None:
        self.waiters.forget(connection)
        self._viewers.forget(connection)
        self._stdin.drop(connection)
        self._stop.forget(connection)

    def _status(self, connection: Connection, _request: Record) -> None:
        view = self._view() if self._viewers.get(connection) else {}
        self._tell_status(connection, canonical=self._stdin.collects_lines(), **view)

    def _tell_status(self, connection: Connection, **more: object) -> None:
        phase = self._phase()
        outcome = phase.outcome if isinstance(phase, Over) else None
        unread = self._stdin.unread_bytes()
        if phase.unrecorded:
            more["unrecorded"] = phase.unrecorded.told()
        connection.answer(ok=True, pid=phase.pid, end=self._log.end, outcome=outcome, unread=unread, **more)

    def _tell_waiter(self, waiter: Waiter) -> None:
        if waiter.size is not None:
            self._tell_status(waiter.connection, **self._view())
        elif waiter.settling and not isinstance(self._phase(), Over):
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
        size = [int(_amount(number)) for number in request["size"]] if request.get("size") else None
        waiter = Waiter(connection, beyond, quiet_s or 0.0, settling, size)
        if isinstance(self._phase(), Over) or (size and size != list(self._size.now() or size)):
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
        quiet, held = self._prompts.is_quiet(wait), self._viewers.holds()
        return {"waits": wait.answer, "prompt": sits_at_prompt, "quiet": quiet, "held": held}

    def _write_stdin(self, connection: Connection, request: Record) -> None:
        viewer, length = self._viewers.get(connection), int(_amount(request["length"]))
        if self._refuses(connection):
            return connection.answer_and_leave(ok=False, error=HELD, held=self._viewers.holds())
        if viewer and not request.get("reply"):
            self._viewers.typed(viewer, length)
        self._was_asking = any(map(is_unfinished, self._log.stream_ends(PROMPT_BYTES)))
        write = StdinWrite(connection, length, bool(request.get("close")))
        self._stdin.add(write, _amount(request["wait_s"]))

    def _refuses(self, connection: Connection) -> bool:
        """While a person holds the job, only people type who are attached, and not only look."""
        viewer = self._viewers.get(connection)
        return viewer.only_looks if viewer else self._viewers.holder is not None

    def _resize(self, connection: Connection, request: Record) -> None:
        viewer, size = self._viewers.get(connection), _size(request)
        if viewer:
            self._viewers.resized(viewer, size)
        elif self._refuses(connection):
            return connection.answer(ok=False, error=HELD, held=self._viewers.holds())
        else:
            self._take_size(size)
        connection.answer(ok=True)

    def _take_size(self, size: tuple[int, int]) -> None:
        self._size.change(*size)
        self.waiters.on_resize()

    def begin_run(self) -> None:
        """The job has a new terminal."""
        self._size.begin_run()
        self._viewers.take_size()

    def _attach(self, connection: Connection, request: Record) -> None:
        size = _size(request) if request.get("rows") and self._size.now() else None
        by, looks = _name(request["by"]), bool(request.get("looks"))
        viewer = Viewer(by, looks, size, beats=bool(request.get("beats")))
        if not looks and request.get("held_since"):
            viewer.go_on(_amount(request["held_since"]), int(_amount(request["typed_bytes"])))
        self._viewers.add(connection, viewer)
        self._tell_status(connection, viewer=viewer.number, **self._view())

    def _view(self) -> Record:
        """What a viewer has to know of the terminal, and of the other viewers."""
        control = self._viewers.in_control
        return {
            "size": self._size.now(),
            "in_control": control and control.number,
            "held": self._viewers.holds(),
        }

    def _signal(self, connection: Connection, request: Record) -> None:
        number = _signal_number(request["signal"])
        tree = processes.alive(processes.descendants(os.getpid()))
        if request.get("group") and self._refuses(connection):
            return connection.answer(ok=False, error=HELD, held=self._viewers.holds())
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
    "attach": Requests._attach,
    "signal": Requests._signal,
    "kill": Requests._kill,
}


def _number(request: Record, name: str) -> float | None:
    return None if request.get(name) is None else _amount(request[name])


def _size(request: Record) -> tuple[int, int]:
    return int(_amount(request["rows"])), int(_amount(request["cols"]))


def _name(value: object) -> str:
    """Return the name as others are shown it: on one line, and not longer than their rules allow."""
    return "".join(filter(str.isprintable, str(value)))[:LONGEST_NAME]


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
