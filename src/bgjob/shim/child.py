"""The process that is the job: started on pipes or on a terminal, in its own session, with nothing of ours."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.jobdir import Record

TERMINAL_TYPE = "xterm-256color"


class Child:
    """Started and exec'd. subprocess is never asked to reap it: how it ended is recorded first."""

    def __init__(
        self, process: subprocess.Popen[bytes], stdin: int, stdout: int, stderr: int | None = None
    ) -> None:
        self._process = process
        self.pid = process.pid
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.is_on_terminal = stderr is None
        self.reaped = False
        for fd in filter(None, (stdin, stdout, stderr)):
            os.set_blocking(fd, False)


def start(spec: Record, script: str | None, environment: dict[str, str], umask: int) -> Child:
    """Returns once the exec has succeeded; OSError says why it has not."""
    if spec.get("pty"):
        environment.setdefault("TERM", TERMINAL_TYPE)
        theirs, ours = _terminal(spec["rows"], spec["cols"])
    else:
        theirs, ours = _pipes()
    try:
        process = subprocess.Popen(
            [spec["shell"], script] if script else [spec["shell"], "-c", "--", spec["command"]],
            stdin=theirs[0],
            stdout=theirs[1],
            stderr=theirs[2],
            cwd=spec["cwd"],
            env=environment,
            umask=umask,
            start_new_session=True,
            preexec_fn=_take_terminal if spec.get("pty") else None,  # noqa: PLW1509 # a shim has no threads
        )
    finally:
        for fd in set(theirs):
            os.close(fd)
    return Child(process, *ours)


def _pipes() -> tuple[list[int], list[int]]:
    """(their ends, our ends) of stdin, stdout and stderr."""
    their_stdin, stdin = os.pipe()
    stdout, their_stdout = os.pipe()
    stderr, their_stderr = os.pipe()
    return [their_stdin, their_stdout, their_stderr], [stdin, stdout, stderr]


def _terminal(rows: int, cols: int) -> tuple[list[int], list[int]]:
    """The same; ours are one to write and one to read."""
    terminal, theirs = os.openpty()
    resize(terminal, rows, cols)
    return [theirs] * 3, [os.dup(terminal), terminal]


def _take_terminal() -> None:
    """In the child: its stdin becomes the terminal that controls its session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def resize(terminal: int, rows: int, cols: int) -> None:
    """The kernel tells the job by SIGWINCH."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))


def end_of_file(terminal: int) -> bytes:
    """The character that means it, on this terminal."""
    character: bytes = termios.tcgetattr(terminal)[6][termios.VEOF]
    return character


class Death:
    def __init__(self, pid: int, exit_code: int | None, signal: int | None) -> None:
        self.pid, self.exit_code, self.signal = pid, exit_code, signal


if hasattr(os, "waitid"):

    def first_dead() -> Death | None:
        """A child that has ended and can still be looked at; ChildProcessError if we have no children."""
        dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if dead is None:
            return None
        if dead.si_code == os.CLD_EXITED:
            return Death(dead.si_pid, dead.si_status, None)
        return Death(dead.si_pid, None, dead.si_status)

    def reap(dead: Death) -> None:
        os.waitpid(dead.pid, 0)

else:  # a system that cannot look without reaping: a kill -9 in between loses the code

    def first_dead() -> Death | None:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return None
        code = os.waitstatus_to_exitcode(status)
        return Death(pid, code, None) if code >= 0 else Death(pid, None, -code)

    def reap(dead: Death) -> None:
        pass
