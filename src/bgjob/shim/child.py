"""The process that is the job: started with pipes, in its own session, with nothing of ours."""

from __future__ import annotations

import os
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.jobdir import Record


class Child:
    """Started and exec'd. subprocess is never asked to reap it: how it ended is recorded first."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: int, stdout: int, stderr: int) -> None:
        self._process = process
        self.pid = process.pid
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.reaped = False


def start(spec: Record, script: str | None, environment: dict[str, str], umask: int) -> Child:
    """Returns once the exec has succeeded; OSError says why it has not."""
    their_stdin, stdin = os.pipe()
    stdout, their_stdout = os.pipe()
    stderr, their_stderr = os.pipe()
    try:
        process = subprocess.Popen(
            [spec["shell"], script] if script else [spec["shell"], "-c", "--", spec["command"]],
            stdin=their_stdin,
            stdout=their_stdout,
            stderr=their_stderr,
            cwd=spec["cwd"],
            env=environment,
            umask=umask,
            start_new_session=True,
        )
    finally:
        for fd in (their_stdin, their_stdout, their_stderr):
            os.close(fd)
    for fd in (stdin, stdout, stderr):
        os.set_blocking(fd, False)
    return Child(process, stdin, stdout, stderr)


class Death:
    def __init__(self, pid: int, exit_code: int | None, signal: int | None) -> None:
        self.pid, self.exit_code, self.signal = pid, exit_code, signal


if hasattr(os, "waitid"):

    def first_dead() -> Death | None:
        """A child that has ended and is still there to be looked at; ChildProcessError if we have no children."""
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
