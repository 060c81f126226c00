"""All that a shim holds for its job, and its will: how the guard comes to hold it too, before it is used."""

from __future__ import annotations

import errno
import os
import socket
import struct

from bgjob.home import jobdir
from bgjob.shim.child import ChildEnds, ParentEnds, open_ends
from bgjob.system import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket as RawSocket  # noqa: N812 # what `socket.socket` wraps

    from bgjob.home.jobdir import Record

    Received = tuple[bytes, list[tuple[int, int, bytes]], int, object]
    """As recvmsg gives it."""

MESSAGE_MAX_BYTES, RIGHTS_MAX_BYTES = 1 << 13, 1 << 7
JOB, STARTED, STDIN_CLOSED, STOPPING, PAUSED = b"J", b"R", b"C", b"S", b"P"
NEW_ENDS, NEW_CONTROL = b"E", b"L"
# places among: lock, ready, papers, control, the three ends, slots
READY, PAPERS, CONTROL, STDIN = 1, 2, 3, 4


class Inherited:
    """What a starter hands over with a job's directory."""

    def __init__(self, descriptors: list[int]) -> None:
        self.lock, self.ready, self.papers, *self.slots = descriptors
        for fd in descriptors:
            if fd >= 0:
                os.set_inheritable(fd, False)


class Held:
    """Held by the shim and by its guard: it outlives either of them."""

    def __init__(self, given: Inherited, control: socket.socket, ends: ParentEnds) -> None:
        self.given, self.control, self.ends = given, control, ends

    def descriptors(self) -> list[int]:
        given = self.given
        ours = [self.control.fileno(), *self.ends.descriptors]
        return [given.lock, given.ready, given.papers, *ours, *given.slots]

    def publish(self) -> None:
        """The job is ours: from now on its socket is this one."""
        try:
            publish(self.control)
        except FileNotFoundError:
            pass  # by the shim before us

    def withdraw(self) -> None:
        """The job is not ours, and may be somebody else's."""
        try:
            os.unlink(self.control.getsockname())
        except FileNotFoundError:
            pass  # it was published


def open_held(given: Inherited, spec: Record) -> tuple[Held, ChildEnds]:
    ends, doors = open_ends(spec)
    return Held(given, listen(), ends), doors


def listen() -> socket.socket:
    """Under a name of our own, until the job is ours: who comes too late must not take the place of who has it."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.setblocking(False)
    name = f"{jobdir.CONTROL}.{os.getpid()}"
    try:
        control.bind(name)  # our umask makes it 0600
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        os.unlink(name)  # of another process that had our pid
        control.bind(name)
    control.listen(128)
    return control


def publish(control: socket.socket) -> None:
    """From now on this is the socket of the job."""
    os.rename(control.getsockname(), jobdir.CONTROL)


class HandoffSender:
    """The shim's end. A guard that is gone hears nothing: then the shim goes on alone."""

    def __init__(self, line: RawSocket | None, guard: int = 0) -> None:
        self._line, self._guard = line, guard

    def leave(self, directory: str, estate: Held) -> None:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, _packed(estate.descriptors()))
        self._say(JOB + os.fsencode(directory), [rights])

    def started(self, pid: int, started: float, *, keep_papers: bool = False) -> None:
        self._say(STARTED + b"%d %a %d" % (pid, started, keep_papers))

    def paused(self, pid: int, started: float, until: float) -> None:
        """The job has ended and is to be run again then, by the monotonic clock."""
        self._say(PAUSED + b"%d %a %a" % (pid, started, until))

    def new_ends(self, ends: ParentEnds) -> None:
        """Before the job is run again."""
        self._say(NEW_ENDS, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _packed(ends.descriptors))])

    def new_control(self, fd: int) -> None:
        """Somebody has taken away the socket that others find."""
        self._say(NEW_CONTROL, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _packed([fd]))])

    def stdin_closed(self) -> None:
        self._say(STDIN_CLOSED)

    def stopping(self, cause: str, signal_number: int, strike_at: float) -> None:
        self._say(STOPPING + b"%s %d %a" % (cause.encode(), signal_number, strike_at))

    def _say(self, message: bytes, rights: list[tuple[int, int, bytes]] | None = None) -> None:
        if self._line is not None:
            try:
                self._line.sendmsg([message], rights or [], socket.MSG_DONTWAIT)
            except OSError:
                self._line = None
            self.wake_guard()

    def wake_guard(self) -> None:
        """One that is stopped would keep the job's stdin open, and take nothing over."""
        if self._guard and os.getppid() == self._guard:  # while it is our parent nobody else has its pid
            processes.resume(self._guard)


class HandoffReceiver:
    """The guard's end: what the shim has left so far."""

    def __init__(self, heard: list[Received]) -> None:
        self._facts: dict[bytes, bytes] = {}
        self._descriptors: list[int] = []
        for message, rights, *_ in heard:
            self._take(message, rights)

    def hear(self, line: RawSocket) -> bool:
        """The next message; False when the shim is gone."""
        message, rights, *_ = line.recvmsg(MESSAGE_MAX_BYTES, RIGHTS_MAX_BYTES, socket.MSG_CMSG_CLOEXEC)
        self._take(message, rights)
        return bool(message)

    def _take(self, message: bytes, rights: list[tuple[int, int, bytes]]) -> None:
        tag = message[:1]
        self._facts[tag] = message[1:]
        if tag == JOB:
            self._descriptors = unpacked(rights)
        elif tag == STARTED:
            self._descriptors[READY] = -1  # the guard has closed it when it heard this
            if not message.endswith(b" 1"):
                self._drop(PAPERS)
            self._facts.pop(PAUSED, None)
        elif tag == PAUSED:
            self._facts.pop(STARTED, None)
            self._facts.pop(STOPPING, None)  # of the run that has ended
        elif tag == NEW_ENDS:
            self._facts.pop(PAUSED, None)
            self._replace(STDIN, unpacked(rights))
        elif tag == NEW_CONTROL:
            self._replace(CONTROL, unpacked(rights))
        elif tag == STDIN_CLOSED:
            self._drop(STDIN)

    def _replace(self, first: int, descriptors: list[int]) -> None:
        for place, fd in enumerate(descriptors, first):
            self._drop(place)
            self._descriptors[place] = fd

    def _drop(self, place: int) -> None:
        if self._descriptors[place] >= 0:
            os.close(self._descriptors[place])
            self._descriptors[place] = -1

    @property
    def directory(self) -> str | None:
        """None if the shim had no job yet."""
        return os.fsdecode(self._facts[JOB]) if JOB in self._facts else None

    def started(self) -> tuple[int, float] | None:
        """The job's pid, and when by the monotonic clock."""
        if STARTED not in self._facts:
            return None
        pid, moment, *_ = self._facts[STARTED].split()
        return int(pid), float(moment)

    def paused(self) -> tuple[int, float, float] | None:
        """The job's last pid, when it was first started, and when it is to run again."""
        if PAUSED not in self._facts:
            return None
        pid, moment, until = self._facts[PAUSED].split()
        return int(pid), float(moment), float(until)

    def stopping(self) -> tuple[str, int, float] | None:
        """Why, by which signal, and when by SIGKILL."""
        if STOPPING not in self._facts:
            return None
        cause, number, moment = self._facts[STOPPING].split()
        return cause.decode(), int(number), float(moment)

    def estate(self, is_terminal: bool) -> Held:
        lock, ready, papers, control, *rest = self._descriptors
        given = Inherited([lock, ready, papers, *rest[3:]])
        return Held(given, socket.socket(fileno=control), ParentEnds(rest[:3], is_terminal))


def _packed(descriptors: list[int]) -> bytes:
    return struct.pack(f"{len(descriptors)}i", *descriptors)


def unpacked(rights: list[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors that came with a message."""
    return [fd for _, _, data in rights for (fd,) in struct.iter_unpack("i", data)]
