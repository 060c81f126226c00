"""The job's stdin, written by clients: one write at a time, and no faster than the job reads."""

from __future__ import annotations

import fcntl
import os
import sys
import time

from bgjob.shim.child import end_of_file, resize
from bgjob.shim.loop import WRITABLE
from bgjob.shim.pump import readable_bytes
from bgjob.system import processes
from bgjob.system.nested_tty import innermost_wait
from bgjob.system.prompt import is_raw
from bgjob.system.stdin_wait import Input, Wait, input_at, input_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.shim.child import ParentEnds
    from bgjob.shim.control_server import Connection
    from bgjob.shim.handoff import HandoffSender
    from bgjob.shim.loop import Action, Loop, Timer


# opens the other end of a pseudo-terminal, whatever its name is here
TIOCGPTPEER = 0x5441
# the number of a pseudo-terminal
TIOCGPTN = 0x80045430


class StdinWrite:
    """One request to write `left` more bytes, and perhaps to close stdin after them."""

    def __init__(self, connection: Connection, length: int, close_after: bool) -> None:
        self.connection = connection
        self.left = length
        self.close_after = close_after
        self.accepted = 0
        self.log_offset = 0  # where the log ended when the first byte went in
        self.timed_out = False
        self.timer: Timer | None = None


class Stdin:
    """Holds at most one piece of one write in memory; the rest waits in the client's socket."""

    def __init__(
        self,
        loop: Loop,
        ends: ParentEnds,
        handoff: HandoffSender,
        log_offset: Callable[[], int],
        job_pid: Callable[[], int],
        on_typed: Action,
    ) -> None:
        """`log_offset`: where the log ends now. `job_pid`: the first process of the job.

        `on_typed` is called after each write.
        """
        self._loop, self._handoff, self._log_offset = loop, handoff, log_offset
        self.job_pid, self._on_typed = job_pid, on_typed
        self.typed_at = 0.0
        self.typed_beyond = -1
        """Where the log ended when a client typed last."""
        self._before = Wait("no")
        self._switches_before: int | None = None
        self._writes: list[StdinWrite] = []
        self._piece = b""
        self._is_line_begun = False
        """Whether what was written last ends amid a line."""
        self._use(ends)

    def _use(self, ends: ParentEnds) -> None:
        self.fd, self._is_terminal = ends.stdin, ends.is_terminal
        if self.is_open:
            self._loop.watch(self.fd, 0, self._on_event)

    def reopen(self, ends: ParentEnds) -> None:
        """For the next run."""
        self.close()
        self._use(ends)

    @property
    def is_open(self) -> bool:
        return self.fd >= 0

    def unread_bytes(self) -> int | None:
        """What was written and the job has not read yet. None: a terminal does not tell."""
        if self._is_terminal:
            return None
        return readable_bytes(self.fd) if self.is_open else 0

    @property
    def terminal(self) -> int | None:
        return self.fd if self._is_terminal and self.is_open else None

    def collects_lines(self) -> bool:
        """Whether it is a terminal that gives the job whole lines only."""
        return self.terminal is not None and not is_raw(self.terminal)

    def wait(self) -> Wait:
        """Whether a process of the job waits for what is typed: none does once nothing more can be."""
        if not self.is_open:
            return Wait("no")
        return innermost_wait(processes.descendants(os.getpid()), self._source())

    def _source(self) -> Input | None:
        """Not what the job's main process reads just now: `read line <&3` reads something else as its stdin."""
        if not self._is_terminal:
            return input_at(self.fd)
        return _input_behind(self.fd) or input_of(self.job_pid())

    def before_input(self) -> None:
        """Something is about to be typed: remember how the job waits for it.

        What is written to a terminal travels through a queue of the kernel. A process that still waits right
        after the write may have taken nothing, or all; whether it has run since then tells the two apart.
        """
        self.typed_at = time.monotonic()
        if self._is_terminal:
            self._before = self.wait()
            self._switches_before = self._before.switches()

    def was_taken(self) -> bool:
        """Whether the job has read what was typed last."""
        if self.terminal is None:
            return not self.unread_bytes()
        if self._before.answer == "yes":
            return self._before.switches() != self._switches_before
        return not unread_by_slave(self.terminal)

    def resize(self, rows: int, cols: int) -> None:
        if self.terminal is None:
            raise ValueError("the job has no terminal")
        self.before_input()
        resize(self.terminal, rows, cols)

    def add(self, write: StdinWrite, wait_s: float) -> None:
        if not self.is_open:
            return self._answer(write, "stdin is closed")
        self._writes.append(write)
        write.timer = self._loop.call_later(wait_s, lambda: self._time_out(write))
        if self._writes[0] is write:
            self._begin()

    def drop(self, connection: Connection) -> None:
        """The client hung up: forget its writes."""
        for write in [write for write in self._writes if write.connection is connection]:
            self._remove(write)

    def close(self) -> None:
        if not self.is_open:
            return
        if not self._is_terminal:
            self._handoff.stdin_closed()  # as long as the guard has it open, the job does not see its end
        self._loop.forget(self.fd)
        os.close(self.fd)
        self.fd = -1

    def end_all(self, why: str) -> None:
        writes, self._writes, self._piece = self._writes, [], b""
        for write in writes:
            self._answer(write, why)

    def _begin(self) -> None:
        write = self._writes[0]
        write.log_offset = self.typed_beyond = self._log_offset()
        if write.left or write.close_after:
            self.before_input()
        self._next_piece()

    def _next_piece(self) -> None:
        """The last piece is written: get more from the client, or be done."""
        write = self._writes[0]
        if write.left == 0:
            return self._finish(write)
        write.connection.on_payload(write.left, self._take_piece)

    def _take_piece(self, piece: bytes) -> None:
        self._writes[0].left -= len(piece)
        self._piece = piece
        self._write()

    def _write(self) -> None:
        write = self._writes[0]
        try:
            count = os.write(self.fd, self._piece)
        except BrokenPipeError:  # no process can read it any more
            self.close()
            return self.end_all("stdin is closed")
        except OSError:
            count = 0  # the pipe is full, or the machine is short of memory: nothing was written
        write.accepted += count
        self._is_line_begun = self._piece[count - 1 : count] >= b" " if count else self._is_line_begun
        self._piece = self._piece[count:]
        if self._piece:
            return self._loop.watch_for(self.fd, WRITABLE)
        self._loop.watch_for(self.fd, 0)
        self._next_piece()

    def _on_event(self, event: int) -> None:
        if event & WRITABLE and self._piece:
            self._write()
        elif not event & WRITABLE:  # the last reader is gone
            self.close()
            self.end_all("stdin is closed")

    def _finish(self, write: StdinWrite) -> None:
        if write.close_after:
            self._end_of_file()
        self._remove(write)
        self._answer(write, None)

    def _end_of_file(self) -> None:
        """On a terminal it is a character, and the terminal stays open."""
        if not self._is_terminal:
            return self.close()
        character = end_of_file(self.fd)
        try:
            # The first ends an unfinished line, the next one the input.
            os.write(self.fd, 2 * character if self._is_line_begun and self.collects_lines() else character)
            self._is_line_begun = False
        except OSError:
            pass  # its buffer is full: no process reads it, so none would see the end of it

    def _time_out(self, write: StdinWrite) -> None:
        if write in self._writes:
            write.timed_out = True
            self._remove(write)
            self._answer(write, None)

    def _remove(self, write: StdinWrite) -> None:
        was_first = self._writes[0] is write
        self._writes.remove(write)
        if not self.is_open:
            self.end_all("stdin is closed")
        elif was_first:
            self._piece = b""
            self._loop.watch_for(self.fd, 0)
            if self._writes:
                self._begin()

    def _answer(self, write: StdinWrite, error: str | None) -> None:
        if write.timer:
            write.timer.cancel()
        if write.accepted:
            self.typed_at = time.monotonic()
        self._on_typed()
        is_whole = write.left == 0 and not write.timed_out
        (write.connection.answer if is_whole else write.connection.answer_and_leave)(
            ok=error is None,
            error=error,
            accepted=write.accepted,
            unread=self.unread_bytes(),
            at=write.log_offset,
        )


def unread_by_slave(terminal: int) -> int:
    """How many bytes a process that reads this terminal now would get; 0 if the system does not tell."""
    try:
        slave: int = fcntl.ioctl(
            terminal, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
        )
    except OSError:
        return 0
    try:
        return readable_bytes(slave)
    finally:
        os.close(slave)


def _input_behind(terminal: int) -> Input | None:
    """The job's end of a terminal of which we hold the other one; None if the kernel does not tell."""
    try:
        number = int.from_bytes(fcntl.ioctl(terminal, TIOCGPTN, bytes(4)), sys.byteorder)
        return Input(os.stat(f"/dev/pts/{number}"))
    except OSError:
        return None
