"""The job's process, with limits set before it is exec'd. By fork: `posix_spawn` sets no limits.

The child reports what fails before the exec through a pipe that the exec closes.
"""

from __future__ import annotations

import errno
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Actions = Sequence[tuple[Any, ...]]
    """As posix_spawn takes them."""

NEVER_EXECED = 127
FAILED, NOT_JOINED = b"F", b"J"


class Bounds:
    """The limits that a process sets and the control groups that it joins before it becomes the job."""

    def __init__(self, rlimits: list[tuple[str, int, int]], join: list[str]) -> None:
        self.rlimits, self.join = rlimits, join
        self.not_joined: list[str] = []
        """Those of `join` that it could not join; known once it is exec'd."""


def spawn(arguments: list[str], environment: dict[str, str], actions: Actions, bounds: Bounds) -> int:
    """The pid, once the exec has succeeded; OSError says why it has not."""
    reports, report_to = os.pipe()
    try:
        pid = _forked(arguments, environment, actions, bounds, report_to)
    finally:
        os.close(report_to)
    try:
        for line in _all_of(reports).splitlines():
            number = int(line[1:])
            if line[:1] == FAILED:
                os.waitpid(pid, 0)
                raise OSError(number, os.strerror(number), arguments[0])
            bounds.not_joined.append(bounds.join[number])
    finally:
        os.close(reports)
    return pid


def _forked(
    arguments: list[str], environment: dict[str, str], actions: Actions, bounds: Bounds, report_to: int
) -> int:
    """No signal reaches the shim's handlers in the child: they would write into the shim's pipe."""
    ours = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _become(arguments, environment, actions, bounds, report_to)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, ours)
    return pid


def _become(
    arguments: list[str], environment: dict[str, str], actions: Actions, bounds: Bounds, report_to: int
) -> None:
    try:
        os.setsid()
        _act(actions)
        for number, path in enumerate(bounds.join):
            if not _joined(path):
                os.write(report_to, NOT_JOINED + b"%d\n" % number)
        for name, soft, hard in bounds.rlimits:
            _limit(name, soft, hard)
        _plain_signals()
        os.execve(arguments[0], arguments, environment)
    except (OSError, ValueError, ImportError, MemoryError) as error:
        os.write(report_to, FAILED + b"%d\n" % (getattr(error, "errno", None) or errno.EINVAL))
    finally:
        os._exit(NEVER_EXECED)


def _act(actions: Actions) -> None:
    for kind, *action in actions:
        if kind == os.POSIX_SPAWN_OPEN:
            number, path, flags, mode = action
            fd = os.open(path, flags, mode)
            os.dup2(fd, number)
            os.close(fd)
        else:
            os.dup2(*action)


def _joined(path: str) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            return os.write(fd, b"0") == 1
        finally:
            os.close(fd)
    except OSError:
        return False


def _limit(name: str, soft: int, hard: int) -> None:
    """The hard limit too: programs may raise their soft limits. Never above our own."""
    import resource  # in the child alone: no shim pays for it

    kind: int = getattr(resource, name)
    _, most = resource.getrlimit(kind)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(kind, (soft, hard))


def _plain_signals() -> None:
    """Default actions first, then unblocked: a signal that came meanwhile is the job's."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _all_of(fd: int) -> bytes:
    data = b""
    while part := os.read(fd, 1 << 12):
        data += part
    return data
