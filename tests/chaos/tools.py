"""Tools from outside: a test that needs one says so. And strace as what it is here: a witness, and an executioner."""

import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from bgjob.system import processes

PATIENCE_S = 30.0
CALL = re.compile(r"^([a-z0-9_]+)\((.*)$", re.MULTILINE)
# Calls that leave nothing behind outside the process: a kill after one of them is a kill before it.
HARMLESS = re.compile(
    r"(brk|mmap|munmap|mprotect|madvise|getpid|gettid|getppid|geteuid|getsockname|getsockopt|prlimit64|umask|chdir|fchdir"
    r"|rt_sigaction|rt_sigprocmask|rt_sigreturn|sigaltstack|clock_nanosleep|poll|getdents64|lseek|pread64|futex|getrandom"
    r"|fstat|newfstatat|readlink|access|statx)\(|openat\(.*O_RDONLY|ioctl\(\d+, (FIOCLEX|FIONREAD|TCGETS)"
    r"|fcntl\(\d+, F_(GETF|SETFD|DUPFD)"
)
DEATH = "+++ killed by SIGKILL +++"


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has guards")


def needs(tool: str) -> pytest.MarkDecorator:
    """Skips where a bare machine lacks the tool. CI installs it: there, not having it is a failure."""
    may_lack = sys.platform != "linux" or not os.environ.get("CI")
    return pytest.mark.skipif(may_lack and shutil.which(tool) is None, reason=f"needs {tool}")


def wait_until(is_so: Callable[[], bool], what: str = "it comes true", then: Callable[[], str] = str) -> None:
    """For what the kernel tells nobody: look, often, with a generous limit. `then` says more when it is over."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"not in {PATIENCE_S:.0f} s: {what}. {then()}"
        time.sleep(0.002)


class Seen(NamedTuple):
    """A process as the kernel shows it."""

    pid: int
    name: str
    state: str
    parent: int


def every_pid() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def seen(pid: int) -> Seen | None:
    """None: it is gone."""
    line = processes.read_if_there(f"/proc/{pid}/stat")
    if not line:
        return None
    name, _, rest = line.decode().partition("(")[2].rpartition(") ")
    state, parent, *_ = rest.split()
    return Seen(pid, name, state, int(parent))


def is_stopped(pid: int) -> bool:
    now = seen(pid)
    return now is not None and now.state == "T"


def go_on(pid: int) -> None:
    """One that is stopped; and, of a shim, the guard that was stopped with it, because it would have continued it."""
    now = seen(pid)
    os.kill(pid, signal.SIGCONT)
    if now and processes.name_of(now.parent) == processes.GUARD:
        os.kill(now.parent, signal.SIGCONT)


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

    def close(self) -> None:
        if self._strace.poll() is None:
            self._strace.kill()
        self._strace.communicate()
