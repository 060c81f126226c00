"""Whether a job waits for input, by what the kernel tells of its sleeping threads.

    /proc/PID/syscall   which call a thread is blocked in, on which descriptor    the exact answer
    /proc/PID/wchan     the kernel function that it sleeps in                     if the first cannot be read

The first needs the right to trace the process. Under Yama's usual ptrace_scope=1 only ancestors have that
right: the shim of a job has, another process of the same user has not. Of another user's process (sudo)
neither can be read. The shim imports this module.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
import struct

from bgjob.system.processes import read, read_if_there, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Literal

    How = Literal["reading", "watching"]
    Readiness = Literal["reading", "watching", "timed", "unknown", "no"]
    Call = Literal["read", "poll", "select", "epoll", "splice", "restart", "io_uring"]

X86_64: Mapping[int, Call] = {
    **dict.fromkeys((0, 17, 19, 295, 327), "read"),  # read, pread64, readv, preadv, preadv2
    **dict.fromkeys((7, 271), "poll"),  # poll, ppoll
    **dict.fromkeys((23, 270), "select"),  # select, pselect6
    **dict.fromkeys((232, 281, 441), "epoll"),  # epoll_wait, epoll_pwait, epoll_pwait2
    **dict.fromkeys((275, 276), "splice"),  # splice, tee
    219: "restart",
    426: "io_uring",
}
GENERIC: Mapping[int, Call] = {  # aarch64, riscv64, loongarch64
    **dict.fromkeys((63, 65, 67, 69, 286), "read"),
    73: "poll",
    72: "select",
    **dict.fromkeys((22, 441), "epoll"),
    **dict.fromkeys((76, 77), "splice"),
    128: "restart",
    426: "io_uring",
}
TABLE_WITH_READ_AS = {0: X86_64, 63: GENERIC}

# Every number that one of these calls has on some processor, 32-bit processors too.
PERHAPS = (
    b" 0 3 7 17 19 22 23 63 65 67 69 72 73 76 77 82 128 142 145 168 219 232 256 270 271 275 276 281 286 295 308 "
    b"309 327 426 441 "
)

TIME_ARGUMENT: Mapping[Call, int] = {"poll": 2, "select": 4, "epoll": 3}
# poll, epoll_wait and epoll_pwait of x86-64; epoll_pwait elsewhere.
TIMED_BY_NUMBER = (7, 232, 281, 22)

# A lower stack is that of a 32-bit program, whose calls have other numbers.
LOWEST_64_BIT_STACK = 1 << 32
# The bits above are a tag.
ADDRESS_BITS = (1 << 56) - 1
# POLLIN, POLLPRI, POLLRDNORM, POLLRDBAND; the same for epoll.
POLL_FOR_INPUT = 0x1 | 0x2 | 0x40 | 0x80
MOST_POLLED = 1 << 16
EPOLL_NESTING = 5
DEV_TTY = (5, 0)
STRENGTH: Sequence[Readiness] = ("reading", "watching", "timed", "unknown", "no")


class Wait:
    """`answer` is "yes", "no" or "unknown"; with "yes", which thread of which process waits, and how.

    "reading": blocked until input comes. "watching": woken by input, and perhaps by other things: an editor
    or a REPL at its prompt, but also a server that listens for keys. `is_timed`: one that watches wakes by
    itself too, when its time is up. `is_nested`: at a terminal that a process of the job has made.
    """

    __slots__ = ("answer", "how", "is_nested", "is_timed", "pid", "thread")

    def __init__(
        self,
        answer: Literal["yes", "no", "unknown"],
        pid: int | None = None,
        how: How | None = None,
        thread: str = "",
        is_timed: bool = False,
    ) -> None:
        self.answer, self.pid, self.how, self.thread = answer, pid, how, thread
        self.is_timed, self.is_nested = is_timed, False

    def switches(self) -> int | None:
        """How often the thread has gone to sleep so far: it has run since if this has changed."""
        status = read_if_there(f"/proc/{self.pid}/task/{self.thread}/status") or b""
        count = status.partition(b"\nvoluntary_ctxt_switches:")[2].split(None, 1)
        return int(count[0]) if count else None


class Input:
    """The file that a job gets its input from, recognised under any descriptor of any process."""

    __slots__ = ("inode", "terminal")

    def __init__(self, status: os.stat_result) -> None:
        self.inode = (status.st_dev, status.st_ino)
        self.terminal = status.st_rdev if stat.S_ISCHR(status.st_mode) else None


def input_at(fd: int) -> Input:
    """For the holder of the other end. `fd` is either end of a pipe, or the job's end of a terminal."""
    return Input(os.fstat(fd))


def input_of(pid: int) -> Input | None:
    """For other processes: the present stdin of a job's main process; None if the kernel does not tell.

    After `exec < file` in the job's own shell this is that file, not what the job was started with.
    """
    try:
        return Input(os.stat(f"/proc/{pid}/fd/0"))
    except OSError:
        return None


def waits_for_input(pids: Iterable[int], stdin: Input | None) -> Wait:
    """Whether one of these processes is blocked until something comes from `stdin`."""
    found: dict[Readiness, Wait] = {}
    for pid in pids:
        verdict, thread = _verdict(pid, stdin) if stdin else ("no" if _is_gone(pid) else "unknown", "")
        if verdict == "reading":
            found.setdefault(verdict, Wait("yes", pid, "reading", thread))
        elif verdict == "watching" or verdict == "timed":
            found.setdefault(verdict, Wait("yes", pid, "watching", thread, verdict == "timed"))
        elif verdict == "unknown":
            found[verdict] = Wait("unknown")
        if verdict == "reading":
            break
    return next((found[verdict] for verdict in STRENGTH if verdict in found), Wait("no"))


def none_waits_for_input(root: int) -> bool:
    """Whether this process and all below it have one thread each, in calls that neither read nor watch.

    A shim calls this again and again, and must stay small: each function that it touches is a page of memory
    of its own. So this is one function, and in doubt the answer is False.
    """
    todo = [root]
    try:
        for pid in todo:
            if os.stat(b"/proc/%d/task" % pid).st_nlink != 3:
                return False
            for path in (b"/proc/%d/syscall" % pid, b"/proc/%d/task/%d/children" % (pid, pid)):
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                data = os.read(fd, 4096)
                os.close(fd)
                if path.endswith(b"syscall"):
                    if b" %b " % data.split()[0] in PERHAPS:
                        return False
                elif len(data) > 2048:
                    return False  # the list may be longer
                else:
                    todo += map(int, data.split())
    except (OSError, IndexError):
        return False
    return True


def _verdict(pid: int, stdin: Input) -> tuple[Readiness, str]:
    """Of that thread of the process which says most."""
    try:
        verdicts = [(_thread_verdict(f"/proc/{pid}", thread, stdin), thread) for thread in threads(pid)]
    except OSError:
        return "no" if _is_gone(pid) else "unknown", ""
    return min(verdicts, key=lambda found: STRENGTH.index(found[0]), default=("no", ""))


def _thread_verdict(process: str, thread: str, stdin: Input) -> Readiness:
    task = f"{process}/task/{thread}"
    calls = _calls()
    try:
        if calls is None:
            return _by_wait_channel(process, task, stdin)
        try:
            return _by_call(process, task, stdin, calls)
        except (PermissionError, _OtherNumbers):
            return _by_wait_channel(process, task, stdin)
    except (FileNotFoundError, ProcessLookupError):
        return "no"  # the thread has just ended
    except OSError:
        return "unknown"


def _is_gone(pid: int) -> bool:
    """A process that exists and is not visible to us is not gone."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


# -- by the call a thread is in ---------------------------------------------------------------------


class _OtherNumbers(Exception):
    """A 32-bit program on a 64-bit kernel."""


@functools.cache
def _calls() -> Mapping[int, Call] | None:
    """The numbers of the calls on this machine, by that of read(): the call in which we read this file."""
    try:
        return TABLE_WITH_READ_AS.get(int(read("/proc/thread-self/syscall").split()[0]))
    except (OSError, ValueError, IndexError):
        return None


def _by_call(process: str, task: str, stdin: Input, calls: Mapping[int, Call]) -> Readiness:
    line = read(f"{task}/syscall")
    fields = line.split()
    if len(fields) < 9:  # the line says "running", or the thread sleeps outside of any call
        return "no"
    number, arguments, stack = int(fields[0]), [int(field, 16) for field in fields[1:7]], int(fields[7], 16)
    if stack < LOWEST_64_BIT_STACK:
        raise _OtherNumbers
    call = calls.get(number)
    if call == "restart":  # after a stop and a continue, poll is listed as this call
        call = "poll" if "poll" in _wait_channel(task) else None
    if call is None:
        return "no"
    verdict = _verdict_on_call(process, task, stdin, call, arguments)
    if verdict == "watching" and _is_timed(number, call, arguments):
        verdict = "timed"
    is_unmoved = _is_asleep(task) and read(f"{task}/syscall") == line
    return verdict if is_unmoved else "no"


def _verdict_on_call(
    process: str, task: str, stdin: Input, call: Call, arguments: Sequence[int]
) -> Readiness:
    if call == "io_uring":  # the requests are in memory that is shared with the kernel
        return "unknown" if _holds(process, stdin) else "no"
    waited_for = list(_waited_for(process, call, arguments))
    if not any(_leads_to(process, fd, stdin) for fd in waited_for):
        return "no"
    if call == "splice":  # either end may block it
        channel = _wait_channel(task)
        return "no" if "writ" in channel else "reading" if "read" in channel else "unknown"
    return "reading" if call == "read" else "watching"


def _is_timed(number: int, call: Call, arguments: Sequence[int]) -> bool:
    """The time is a number of milliseconds, below 0 for ever; or, in newer calls, where it stands in memory."""
    time = arguments[TIME_ARGUMENT[call]]
    return not time >> 31 & 1 if number in TIMED_BY_NUMBER else time != 0


def _waited_for(process: str, call: Call, arguments: Sequence[int]) -> Iterable[int]:
    """The descriptors that wake this call by becoming readable."""
    if call == "poll":
        entries = _memory(process, arguments[0], 8 * min(arguments[1] & 0xFFFFFFFF, MOST_POLLED))
        return [fd for fd, events, _ in struct.iter_unpack("=ihh", entries) if events & POLL_FOR_INPUT]
    if call == "select":
        count = arguments[0] & 0xFFFFFFFF
        bits = int.from_bytes(
            _memory(process, arguments[1], min(count + 63, MOST_POLLED) // 64 * 8), "little"
        )
        return [fd for fd in range(min(count, MOST_POLLED)) if bits >> fd & 1]
    return [arguments[0] & 0xFFFFFFFF]


def _leads_to(process: str, fd: int, stdin: Input, nesting: int = EPOLL_NESTING) -> bool:
    """Whether a descriptor is the input, or an epoll that watches the input."""
    try:
        status = os.stat(f"{process}/fd/{fd}")
    except FileNotFoundError:
        return False
    if _is_input(process, status, stdin):
        return True
    is_anonymous = stat.S_IFMT(status.st_mode) == 0
    if not is_anonymous or not nesting:
        return False
    return any(
        _leads_to(process, target, stdin, nesting - 1) for target in _epoll_targets(process, fd, stdin)
    )


def _epoll_targets(process: str, fd: int, stdin: Input) -> Iterable[int]:
    """What an epoll watches for input, without what cannot be the job's: a server may watch thousands."""
    wanted = b"ino:%x " % stdin.inode[1]
    # All anonymous files, other epolls among them, have one inode.
    own = b""
    for line in read(f"{process}/fdinfo/{fd}").splitlines():
        if line.startswith(b"ino:"):
            own = b"ino:%x " % int(line[4:])
        if not line.startswith(b"tfd:"):
            continue
        # Older kernels do not say which file it is.
        is_told = own and b" ino:" in line
        if is_told and stdin.terminal is None and wanted not in line and own not in line:
            continue
        words = line.split()
        if int(words[3], 16) & POLL_FOR_INPUT:
            yield int(words[1])


def _is_input(process: str, status: os.stat_result, stdin: Input) -> bool:
    if (status.st_dev, status.st_ino) == stdin.inode:
        return True
    if stdin.terminal is None or not stat.S_ISCHR(status.st_mode):
        return False
    is_dev_tty = (os.major(status.st_rdev), os.minor(status.st_rdev)) == DEV_TTY
    return is_dev_tty and int(_stat_fields(process)[4]) & 0xFFFFFFFF == stdin.terminal


def _memory(process: str, address: int, size_bytes: int) -> bytes:
    if not address or not size_bytes:
        return b""
    fd = os.open(f"{process}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.pread(fd, size_bytes, address & ADDRESS_BITS)
    finally:
        os.close(fd)
    if len(data) < size_bytes:
        raise OSError(errno.EIO, "its memory ends here")
    return data


# -- by the kernel function that a thread sleeps in
# ---------------------------------------------------------------


def _by_wait_channel(process: str, task: str, stdin: Input) -> Readiness:
    """What follows from the kernel function and from the files that the process has open; else unknown."""
    if not _is_asleep(task):
        return "no"
    channel = _wait_channel(task)
    if channel in ("", "0"):
        return "unknown" if _holds(process, stdin) else "no"
    if "pipe_read" in channel:
        return _all_or_none("reading", [_is_input(process, pipe, stdin) for pipe in _pipes(process)])
    if "ep_poll" in channel or "epoll" in channel:
        epolls = _epolls(process)
        return _all_or_none("watching", [_leads_to(process, fd, stdin) for fd in epolls])
    could_be = ("pipe", "tty", "woken", "poll", "select", "io_", "sched")
    is_elsewhere = "writ" in channel or not any(word in channel for word in could_be)
    return "no" if is_elsewhere or not _holds(process, stdin) else "unknown"


def _all_or_none(if_all: Readiness, are_input: Sequence[bool]) -> Readiness:
    """The process waits for one of these files, and we do not know for which."""
    if not any(are_input):
        return "no"
    return if_all if all(are_input) else "unknown"


def _open_for_reading(process: str) -> Iterable[tuple[int, os.stat_result]]:
    for fd in map(int, os.listdir(f"{process}/fd")):
        path = f"{process}/fd/{fd}"
        try:
            if os.lstat(path).st_mode & stat.S_IRUSR:
                yield fd, os.stat(path)
        except FileNotFoundError:
            continue  # closed meanwhile


def _holds(process: str, stdin: Input) -> bool:
    return any(_is_input(process, status, stdin) for _, status in _open_for_reading(process))


def _pipes(process: str) -> list[os.stat_result]:
    return [status for _, status in _open_for_reading(process) if stat.S_ISFIFO(status.st_mode)]


def _epolls(process: str) -> list[int]:
    anonymous = [fd for fd, status in _open_for_reading(process) if stat.S_IFMT(status.st_mode) == 0]
    return [fd for fd in anonymous if os.readlink(f"{process}/fd/{fd}") == "anon_inode:[eventpoll]"]


# -- small files ------------------------------------------------------------------------------------


def _wait_channel(task: str) -> str:
    return read(f"{task}/wchan").decode()


def _is_asleep(task: str) -> bool:
    """False for a stopped thread: it keeps the call that it was in."""
    return _stat_fields(task)[0] == b"S"


def _stat_fields(task: str) -> list[bytes]:
    """From the state on: state, parent, group, session, terminal, ..."""
    return read(f"{task}/stat").rpartition(b") ")[2].split()
