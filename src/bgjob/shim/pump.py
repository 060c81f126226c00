"""The job's output, from its pipes into the log.

A pump that rests reads nothing for a while; the shim goes on with all else, such as answers to clients. All
streams rest at once: what is printed meanwhile is read in the same order as without a rest.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import time

from bgjob.home.log_format import STDERR, STDOUT
from bgjob.shim.loop import READABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.home.log_writer import LogWriter
    from bgjob.shim.child import ParentEnds
    from bgjob.shim.loop import Action, Loop, Timer

F_SETPIPE_SZ = 1031
PIPE_BYTES, BUSY_PIPE_BYTES = 1 << 16, 1 << 20  # a user has 64 MiB for all pipes: only busy ones are enlarged
# How much is read before anything else is done: clients wait that long for an answer.
SHARE_BYTES, TERMINAL_SHARE_BYTES = 1 << 20, 1 << 18
FLOOD_BYTES, FLOOD_TIMES = 2 << 30, 8
FLOOD_BYTES_PER_S = 128 << 20
IDLE_S = 2.0
DRAIN_TRIES = 100


class Pump:
    def __init__(self, loop: Loop, log: LogWriter, on_output: Action) -> None:
        self._loop, self._log, self._on_output = loop, log, on_output
        self._streams: dict[int, int] = {}
        self._relay: Relay | None = None
        self._capacity: dict[int, int] = {}
        self._pace = Pace()
        self._rest: Timer | None = None
        self._shrinking = False
        self.last_output_at = 0.0

    def add(self, ends: ParentEnds) -> None:
        if ends.is_terminal:
            self._add_terminal(*ends.descriptors)
        else:
            self.add_pipe(ends.descriptors[1], STDOUT)
            self.add_pipe(ends.descriptors[2], STDERR)

    def add_pipe(self, fd: int, stream: int) -> None:
        self._streams[fd] = stream
        self._capacity[fd] = PIPE_BYTES
        self._loop.watch(fd, READABLE, lambda event: self._on_event(fd, event))

    def _add_terminal(self, terminal: int, relay: int, entry: int) -> None:
        self._relay = Relay(terminal, relay, entry)
        self._streams[self._relay.pipe] = STDOUT
        self._capacity[self._relay.pipe] = BUSY_PIPE_BYTES
        self._loop.watch(terminal, READABLE, self._on_terminal)

    def close(self) -> None:
        """No process is left that could write."""
        self._end_rest()
        for fd in self._relay.descriptors if self._relay else list(self._streams):
            self._loop.forget(fd)
            os.close(fd)
        self._relay = None
        self._streams.clear()

    @property
    def finished(self) -> bool:
        """No process can write any more."""
        return not self._streams

    def drain(self) -> None:
        """Read what is in the pipes now. Not until they are dry: a process left behind may write for ever."""
        before = self._log.end
        if self._relay:
            self._drain_terminal(self._relay)
        for fd in list(self._streams):
            waiting, in_vain = readable_bytes(fd), 0
            while waiting > 0 and in_vain < DRAIN_TRIES:  # a read may fail for a moment
                moved = self._take(fd, waiting)
                waiting -= moved
                in_vain += moved == 0
        if self._log.end > before:
            self.last_output_at = time.monotonic()
            self._on_output()

    def settled_log_end(self) -> int:
        """Where the log ends with everything in it that was printed until now."""
        self.drain()
        return self._log.end

    def _drain_terminal(self, relay: Relay) -> int:
        """A terminal hands over what is on its way when it is read; at most a share of it."""
        moved = self._empty(relay)  # first: a shim that was killed may have left some in it
        while moved < TERMINAL_SHARE_BYTES and relay.fill():
            moved += self._empty(relay)
        return moved

    def _empty(self, relay: Relay) -> int:
        moved = 0
        while count := self._take(relay.pipe, SHARE_BYTES):
            moved += count
        return moved

    def _on_terminal(self, _event: int) -> None:
        self._end_rest()
        relay = self._relay
        if relay is None:
            return
        if moved := self._drain_terminal(relay):
            self.last_output_at = time.monotonic()
            self._on_output()
            self._rest_for(self._flood_rest_s(moved))
        if relay.has_ended and not moved:
            self.close()

    def _on_event(self, fd: int, event: int) -> None:
        if not event & READABLE:  # a hang-up; of a pipe that is not read during a rest, it may be full
            self._end_rest()
            if not readable_bytes(fd):
                return self._close(fd)
        moved = 0
        while moved < SHARE_BYTES and (count := self._take(fd, SHARE_BYTES - moved)):
            moved += count
            if count < PIPE_BYTES:
                break
        if moved:
            self._told(fd, moved)

    def _take(self, fd: int, most: int) -> int:
        try:
            count = self._log.take(fd, self._streams[fd], most)
        except BlockingIOError:
            return 0
        if count >= PIPE_BYTES and self._capacity[fd] == PIPE_BYTES:
            self._resize(fd, BUSY_PIPE_BYTES)  # it was full: the job may have waited for us
        return count

    def _told(self, fd: int, moved: int) -> None:
        self.last_output_at = time.monotonic()
        self._on_output()
        nap_s = self._pace.nap_s(fd, moved > self._capacity[fd] // 2, self.last_output_at)
        self._rest_for(nap_s + self._flood_rest_s(moved))

    def _rest_for(self, rest_s: float) -> None:
        if rest_s > 0:
            self._end_rest()
            self._watch_all_for(0)
            self._rest = self._loop.call_later(rest_s, self._end_rest)

    def _end_rest(self) -> None:
        if self._rest:
            self._rest.cancel()
            self._rest = None
            self._watch_all_for(READABLE)

    def _watch_all_for(self, events: int) -> None:
        for fd in [self._relay.terminal] if self._relay else self._streams:
            self._loop.watch_for(fd, events)

    def _flood_rest_s(self, moved: int) -> float:
        """Most of a flood is never read, and others need the machine: four `yes` would fill two cores."""
        return moved / FLOOD_BYTES_PER_S if self._is_flood() else 0.0

    def _is_flood(self) -> bool:
        return self._log.end > max(FLOOD_BYTES, FLOOD_TIMES * self._log.limit_bytes)

    def _close(self, fd: int) -> None:
        self._loop.forget(fd)
        del self._streams[fd]
        os.close(fd)

    def _resize(self, fd: int, size_bytes: int) -> None:
        try:
            self._capacity[fd] = fcntl.fcntl(fd, F_SETPIPE_SZ, size_bytes)
        except OSError:
            return  # the user's allowance is used up, or a system without
        if size_bytes > PIPE_BYTES and not self._shrinking:
            self._shrinking = True
            self._loop.call_later(IDLE_S, self._shrink_idle)

    def _shrink_idle(self) -> None:
        """Give the user's allowance back when the job has gone quiet."""
        if time.monotonic() - self.last_output_at < IDLE_S:
            self._loop.call_later(IDLE_S, self._shrink_idle)
            return
        self._shrinking = False
        for fd in self._streams:
            self._resize(fd, PIPE_BYTES)


class Relay:
    """A terminal's output, through a pipe of our own: `splice` wants one on one side."""

    def __init__(self, terminal: int, pipe: int, entry: int) -> None:
        self.terminal, self.pipe, self._entry = terminal, pipe, entry
        self.descriptors = (terminal, pipe, entry)
        self.has_ended = False

    def fill(self) -> bool:
        """Move some output into the pipe; False: there is none now, or no process has the terminal open."""
        try:
            return self._move() > 0
        except BlockingIOError:
            return False
        except OSError:
            return self._copy()

    def _move(self) -> int:
        if hasattr(os, "splice"):
            return os.splice(self.terminal, self._entry, PIPE_BYTES)
        return os.write(self._entry, os.read(self.terminal, PIPE_BYTES))

    def _copy(self) -> bool:
        """A splice may fail for want of memory. Only a read tells that every process has closed it."""
        try:
            data = os.read(self.terminal, PIPE_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # EIO
            self.has_ended = True
            return False
        return os.write(self._entry, data) > 0


class Pace:
    """Whether to let a busy pipe fill before it is read again: else each of a chatty job's writes wakes us.

    Never while stdout and stderr alternate: then the order of wake-ups is the order of the log. And rarely while
    the pipe fills in that time: then the job would wait for us.
    """

    HOT_WAKES = 16
    NAP_S = 0.001  # the shortest that the loop can wait

    def __init__(self) -> None:
        self._hot = 0
        self._last_fd = -1
        self._last_at = 0.0
        self._slack = 1.0  # from 0: the pipe is full whenever it is read, to 1: it never is

    def nap_s(self, fd: int, filled: bool, now: float) -> float:
        quick = fd == self._last_fd and now - self._last_at < 2 * self.NAP_S
        self._hot = self._hot + 1 if quick else 0
        self._last_fd, self._last_at = fd, now
        if self._hot <= self.HOT_WAKES:
            return 0.0
        self._slack = max(self._slack / 4, 0.02) if filled else min(self._slack * 1.2, 1.0)
        if self._slack < 0.5:
            return 0.0
        self._last_at += self.NAP_S
        return self.NAP_S


def readable_bytes(fd: int) -> int:
    """How much is in the pipe; works on either end of it."""
    count: int = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0]
    return count
