"""The process that is the job: on pipes or on a terminal, in its own session, without descriptors of ours.

`posix_spawn` and not `subprocess`: that imports `threading`, whose hook after each fork touches four hundred
kilobytes, and every job has two forked processes of ours.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import termios

from bgjob.home import jobdir
from bgjob.shim.cause import EXITED, SIGNALED
from bgjob.system import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.home.jobdir import Record
    from bgjob.shim.limited_child import Bounds

TERMINAL_TYPE = "xterm-256color"
IUTF8 = 0o40000  # on Linux and macOS; `termios` lacks it
# a start that fails by one of these may work in a moment
TRANSIENT = (*jobdir.OUR_TROUBLE, errno.ENOSPC, errno.EDQUOT)
OURS_ALONE = (signal.SIGPIPE, signal.SIGXFSZ)  # the interpreter ignores them; a job must not


class ParentEnds:
    """The shim's ends of stdin and output. A terminal is both; its output goes through a pipe of ours.

    A stdin that is closed, or was /dev/null from the start, is -1.
    """

    def __init__(self, descriptors: list[int], is_terminal: bool) -> None:
        self.descriptors, self.is_terminal = descriptors, is_terminal
        self.stdin = os.dup(descriptors[0]) if is_terminal else descriptors[0]  # to write; the other to read
        for fd in descriptors:
            if fd >= 0:
                os.set_blocking(fd, False)

    def close(self) -> None:
        for fd in {*self.descriptors, self.stdin}:
            if fd >= 0:
                os.close(fd)


class ChildEnds:
    """The job's ends: the descriptors it is started on, or the name of its terminal."""

    def __init__(self, descriptors: list[int], terminal: str | None = None) -> None:
        self._descriptors, self._terminal = descriptors, terminal

    def actions(self) -> list[tuple[int, ...] | tuple[int, int, str, int, int]]:
        """A session leader's first terminal is the one that controls its session."""
        if self._terminal is not None:
            opened = (os.POSIX_SPAWN_OPEN, 0, self._terminal, os.O_RDWR, 0)
            return [opened, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
        return [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(self._descriptors)]

    def close(self) -> None:
        for fd in self._descriptors:
            os.close(fd)


def open_ends(spec: Record) -> tuple[ParentEnds, ChildEnds]:
    if not spec.get("pty"):
        is_null = spec.get("stdin") == "null"
        their_stdin, stdin = (os.open(os.devnull, os.O_RDONLY), -1) if is_null else os.pipe()
        stdout, their_stdout = os.pipe()
        stderr, their_stderr = os.pipe()
        return ParentEnds([stdin, stdout, stderr], False), ChildEnds(
            [their_stdin, their_stdout, their_stderr]
        )
    terminal, theirs = os.openpty()
    resize(terminal, spec["rows"], spec["cols"])
    _expect_utf8(terminal)
    relay, entry = os.pipe()
    return ParentEnds([terminal, relay, entry], True), ChildEnds([theirs], os.ttyname(theirs))


def start(
    spec: Record,
    script: str | None,
    environment: dict[str, str],
    umask: int,
    child_ends: ChildEnds,
    bounds: Bounds | None = None,
) -> int:
    """The pid, once the exec has succeeded; OSError says why it has not."""
    if spec.get("pty"):
        environment.setdefault("TERM", TERMINAL_TYPE)
    arguments = [spec["shell"], script] if script else [spec["shell"], "-c", "--", spec["command"]]
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    ours = os.umask(umask)
    try:
        os.chdir(spec["cwd"])
        if bounds:
            from bgjob.shim import limited_child  # few jobs are

            return limited_child.spawn(arguments, environment, child_ends.actions(), bounds)
        return os.posix_spawn(
            arguments[0],
            arguments,
            environment,
            file_actions=child_ends.actions(),
            setsid=True,
            setsigmask=(),
            setsigdef=OURS_ALONE,
        )
    finally:
        os.umask(ours)
        _return_to(here)
        os.close(here)
        child_ends.close()


def _return_to(directory: int) -> None:
    """The job runs by now. If it has taken our right to enter, its start must not look like a failure."""
    try:
        os.fchdir(directory)
    except PermissionError:
        os.fchmod(directory, 0o700)
        os.fchdir(directory)


def resize(terminal: int, rows: int, cols: int) -> None:
    """The kernel tells the job by SIGWINCH."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))


def _expect_utf8(terminal: int) -> None:
    """Backspace removes a whole character, and not its last byte."""
    settings = termios.tcgetattr(terminal)
    settings[0] |= IUTF8
    termios.tcsetattr(terminal, termios.TCSANOW, settings)


def end_of_file(terminal: int) -> bytes:
    """The end-of-file character of this terminal."""
    character: bytes = termios.tcgetattr(terminal)[6][termios.VEOF]
    return character


class Exit:
    def __init__(self, pid: int, exit_code: int | None, signal: int | None) -> None:
        self.pid, self.exit_code, self.signal = pid, exit_code, signal
        self.cause = EXITED if signal is None else SIGNALED
        """The cause, unless we ended it."""


if hasattr(os, "waitid"):

    def first_dead() -> Exit | None:
        """A child that has ended and can still be looked at; ChildProcessError if we have no children."""
        dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if dead is None:
            return None
        if dead.si_code == os.CLD_EXITED:
            return Exit(dead.si_pid, dead.si_status, None)
        return Exit(dead.si_pid, None, dead.si_status)

    def reap(dead: Exit) -> None:
        os.waitpid(dead.pid, 0)

else:  # a system that cannot look without reaping: a kill -9 before the record is written loses the code

    def first_dead() -> Exit | None:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return None
        code = os.waitstatus_to_exitcode(status)
        return Exit(pid, code, None) if code >= 0 else Exit(pid, None, -code)

    def reap(dead: Exit) -> None:
        pass


RUN_RECORD = b'{"format": %d, "pid": %d, "shim_pid": %d, "started_at": %a, "boot_id": %s}'


def run_record(pid: int, started_at: float) -> bytes:
    """By hand: the first use of `json` touches a fifth of all that an idle shim takes."""
    boot_id = processes.boot_id()
    quoted = b"null" if boot_id is None else b'"%s"' % boot_id.encode()
    return RUN_RECORD % (jobdir.FORMAT_VERSION, pid, os.getpid(), started_at, quoted)
