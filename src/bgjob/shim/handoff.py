"""The descriptors that a shim holds for its job, and how the guard gets them too, before they are used."""

from __future__ import annotations

import _socket as socket  # `socket` wraps it: 2 ms of each start
import errno
import json
import os
import struct

from bgjob.home import jobdir
from bgjob.shim.child import ChildEnds, ParentEnds, open_ends
from bgjob.system import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.home.jobdir import Record

    Message = tuple[bytes, list[tuple[int, int, bytes]], int, object]
    """As recvmsg returns it: data, rights, flags, address."""

MESSAGE_MAX_BYTES, RIGHTS_MAX_BYTES = 1 << 13, 1 << 7
JOB, STARTED, STDIN_CLOSED, STOPPING, PAUSED = b"J", b"R", b"C", b"S", b"P"
NEW_ENDS, NEW_CONTROL, UNRECORDED = b"E", b"L", b"U"
# places among: lock, ready, launch file, control, the three ends, slots
READY, LAUNCH_FILE, CONTROL, STDIN = 1, 2, 3, 4


class Inherited:
    """The descriptors that a starter passes along with a job's directory."""

    def __init__(self, descriptors: list[int]) -> None:
        self.lock, self.ready, self.launch_file, *self.slots = descriptors
        for fd in descriptors:
            if fd >= 0:
                os.set_inheritable(fd, False)


class Held:
    """All descriptors of a job. The shim and its guard both have them: they outlive either process."""

    def __init__(self, inherited: Inherited, control: socket.socket, ends: ParentEnds) -> None:
        self.inherited, self.control, self.ends = inherited, control, ends

    def descriptors(self) -> list[int]:
        inherited = self.inherited
        ours = [self.control.fileno(), *sendable(self.ends)]
        return [inherited.lock, inherited.ready, inherited.launch_file, *ours, *inherited.slots]

    def publish(self) -> None:
        """Give our socket the name under which clients look for it: the job is ours."""
        try:
            publish(self.control)
        except FileNotFoundError:
            pass  # a shim before us has published it

    def withdraw(self) -> None:
        """Remove our socket's temporary name: the job is not ours, and another shim may have it."""
        try:
            os.unlink(self.control.getsockname())
        except FileNotFoundError:
            pass  # it was published


def open_held(inherited: Inherited, spec: Record) -> tuple[Held, ChildEnds]:
    ends, child_ends = open_ends(spec)
    return Held(inherited, listen(), ends), child_ends


def listen() -> socket.socket:
    """Under a temporary name: a shim that comes too late must not replace the socket of the job's shim."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.setblocking(False)
    name = f"{jobdir.CONTROL}.{os.getpid()}"
    try:
        control.bind(name)  # our umask makes it 0600
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        os.unlink(name)  # left by an earlier process with our pid
        control.bind(name)
    control.listen(128)
    return control


def publish(control: socket.socket) -> None:
    """From now on clients of the job connect to this socket."""
    os.rename(control.getsockname(), jobdir.CONTROL)


class HandoffSender:
    """The shim's end. Without a guard nothing is sent, and the shim goes on alone."""

    def __init__(self, channel: socket.socket | None, guard: int = 0) -> None:
        self._channel, self._guard = channel, guard

    def give(self, directory: str, held: Held) -> None:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, _packed(held.descriptors()))
        self._send(JOB + os.fsencode(directory), [rights])

    def started(self, pid: int, started: float, *, keep_launch_file: bool = False) -> None:
        self._send(STARTED + b"%d %a %d" % (pid, started, keep_launch_file))

    def paused(self, pid: int, started: float, until: float) -> None:
        """The run has ended; the next begins at `until`, by the monotonic clock."""
        self._send(PAUSED + b"%d %a %a" % (pid, started, until))

    def new_ends(self, ends: ParentEnds) -> None:
        """Before the job is run again."""
        self._send(NEW_ENDS, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _packed(sendable(ends)))])

    def new_control(self, fd: int) -> None:
        """The published socket was removed or replaced; this is the new one."""
        self._send(NEW_CONTROL, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _packed([fd]))])

    def stdin_closed(self) -> None:
        self._send(STDIN_CLOSED)

    def stopping(self, cause: str, signal_number: int, kill_at: float) -> None:
        self._send(STOPPING + b"%s %d %a" % (cause.encode(), signal_number, kill_at))

    def unrecorded(self, outcome: Record, why: str) -> None:
        """The job has ended, and that cannot be written down yet."""
        self._send(UNRECORDED + json.dumps([outcome, why]).encode())

    def _send(self, message: bytes, rights: list[tuple[int, int, bytes]] | None = None) -> None:
        if self._channel is not None:
            try:
                self._channel.sendmsg([message], rights or [], socket.MSG_DONTWAIT)
            except OSError:
                self._channel = None
            self.wake_guard()

    def wake_guard(self) -> None:
        """A stopped guard would keep the job's stdin open, and take nothing over."""
        if self._guard and os.getppid() == self._guard:  # while it is our parent, its pid is not reused
            processes.resume(self._guard)


class HandoffReceiver:
    """The guard's end: what the shim has handed over so far."""

    def __init__(self, messages: list[Message]) -> None:
        self._facts: dict[bytes, bytes] = {}
        self._descriptors: list[int] = []
        for message, rights, *_ in messages:
            self._take(message, rights)

    def receive(self, channel: socket.socket) -> bool:
        """The next message; False when the shim is gone."""
        message, rights, *_ = channel.recvmsg(MESSAGE_MAX_BYTES, RIGHTS_MAX_BYTES, socket.MSG_CMSG_CLOEXEC)
        self._take(message, rights)
        return bool(message)

    def _take(self, message: bytes, rights: list[tuple[int, int, bytes]]) -> None:
        tag = message[:1]
        self._facts[tag] = message[1:]
        if tag == JOB:
            self._descriptors = unpacked(rights)
        elif tag == STARTED:
            self._descriptors[READY] = -1  # the guard closes it as soon as this message comes
            if not message.endswith(b" 1"):
                self._drop(LAUNCH_FILE)
            self._facts.pop(PAUSED, None)
        elif tag == PAUSED:
            self._facts.pop(STARTED, None)
            self._facts.pop(STOPPING, None)  # it was about the run that has ended
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
        """Why, by which signal, and when SIGKILL follows."""
        if STOPPING not in self._facts:
            return None
        cause, number, moment = self._facts[STOPPING].split()
        return cause.decode(), int(number), float(moment)

    def unrecorded(self) -> tuple[Record, str] | None:
        """The outcome of a job that has ended, and why it is not on disk."""
        if UNRECORDED not in self._facts:
            return None
        outcome, why = json.loads(self._facts[UNRECORDED])
        return outcome, why

    def held(self, spec: Record) -> Held:
        if spec.get("stdin") == "null":
            self._drop(STDIN)
        lock, ready, launch_file, control, *rest = self._descriptors
        inherited = Inherited([lock, ready, launch_file, *rest[3:]])
        return Held(
            inherited, socket.socket(fileno=control), ParentEnds(rest[:3], is_terminal=bool(spec.get("pty")))
        )


def sendable(ends: ParentEnds) -> list[int]:
    """A message carries open descriptors only: in the place of a stdin that there is not goes stdout."""
    stdin, stdout, stderr = ends.descriptors
    return [stdin if stdin >= 0 else stdout, stdout, stderr]


def _packed(descriptors: list[int]) -> bytes:
    return struct.pack(f"{len(descriptors)}i", *descriptors)


def unpacked(rights: list[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors that came with a message."""
    return [fd for _, _, data in rights for (fd,) in struct.iter_unpack("i", data)]
