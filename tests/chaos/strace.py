"""strace as what it is here: a witness, and an executioner."""

import collections
import re
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.support.process_table import go_on, is_stopped
from tests.support.waiting import PATIENCE_S, wait_until

CALL = re.compile(r"^([a-z0-9_]+)\((.*)$", re.MULTILINE)
# Calls that leave nothing behind outside the process: a kill after one of them is a kill before it.
HARMLESS = re.compile(
    r"(brk|mmap|munmap|mprotect|madvise|getpid|gettid|getppid|geteuid|getsockname|getsockopt|prlimit64|umask|chdir|fchdir"
    r"|rt_sigaction|rt_sigprocmask|rt_sigreturn|sigaltstack|clock_nanosleep|poll|getdents64|lseek|pread64|futex|getrandom"
    r"|fstat|newfstatat|readlink|access|statx)\(|openat\(.*O_RDONLY|ioctl\(\d+, (FIOCLEX|FIONREAD|TCGETS)"
    r"|fcntl\(\d+, F_(GETF|SETFD|DUPFD)"
)
DEATH = "+++ killed by SIGKILL +++"


class Point(NamedTuple):
    """The nth time that a process makes this system call."""

    call: str
    nth: int

    def __str__(self) -> str:
        return f"{self.call}#{self.nth}"


class Tracer:
    """strace, attached to one stopped process: it kills it at a point, or lists what it calls."""

    def __init__(self, pid: int, point: Point | None, notes: Path) -> None:
        self._notes = notes
        what = ["-e", f"trace={point.call if point else 'all'}"]
        if point:
            what += ["-e", f"inject={point.call}:signal=SIGKILL:when={point.nth}"]
        self._strace = subprocess.Popen(
            ["strace", "-o", str(notes), *what, "-p", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert self._strace.stderr is not None
        first_words = self._strace.stderr.readline()
        assert b"attached" in first_words, first_words
        go_on(pid)

    @property
    def is_over(self) -> bool:
        """The process is gone."""
        return self._strace.poll() is not None

    def struck(self) -> bool:
        """Whether it has killed; once the process is gone, one way or the other."""
        return DEATH in self._seen()

    def points(self, every: bool) -> list[Point]:
        counts: collections.Counter[str] = collections.Counter()
        found = []
        nothing_new = False
        for call in CALL.finditer(self._seen()):
            name = call[1]
            counts[name] += 1
            if every or not nothing_new:
                found.append(Point(name, counts[name]))
            nothing_new = bool(HARMLESS.match(call[0]))
        return found

    def _seen(self) -> str:
        self._strace.communicate(timeout=PATIENCE_S)
        return self._notes.read_text()

    def hold(self) -> None:
        """The process stops at its next system call and cannot be continued, until close()."""
        self._strace.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_stopped(self._strace.pid), "strace stops")

    def close(self) -> None:
        if self._strace.poll() is None:
            self._strace.kill()
        self._strace.communicate()
