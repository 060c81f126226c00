"""The guard: a process above the shim that holds what the shim holds, and sleeps until the shim is killed.

It is a subreaper: when the shim dies, the job becomes the guard's child, exit code and all. The guard then
does what the shim would have done. When the guard is killed, the shim goes on without one. A shim that is stopped
(SIGSTOP, by its own job perhaps) is continued at once.
"""

from __future__ import annotations

import os
import sys
from _signal import SIG_DFL, SIGCHLD  # type: ignore[import-not-found] # `signal` wraps them too
from _signal import signal as handle_signal
from _socket import (  # `socket` wraps them at 160 KB for each guard
    AF_UNIX,
    MSG_CMSG_CLOEXEC,
    SOCK_SEQPACKET,
    socketpair,
)

from bgjob.shim.handoff import (
    JOB,
    MESSAGE_MAX_BYTES,
    READY,
    RIGHTS_MAX_BYTES,
    STARTED,
    HandoffReceiver,
    HandoffSender,
)
from bgjob.system import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable

    from bgjob.shim.handoff import Received

SAID_BY_ALL = (JOB, STARTED)


def under_guard(close: list[int], take_over: Callable[[HandoffReceiver], None]) -> HandoffSender:
    """Returns in a new process, the shim. The caller becomes its guard and stays here; it closes what is the shim's."""
    if not processes.adopt_orphans():
        return HandoffSender(None)  # a system where orphans go to init: a guard could not take over
    processes.keep_dead_children()
    processes.set_process_name(processes.GUARD)  # before the fork: what is touched now is the shim's too
    guard_pid = os.getpid()
    try:
        line, will = socketpair(AF_UNIX, SOCK_SEQPACKET)
        shim = os.fork()
    except OSError:
        return HandoffSender(None)  # the machine has no room for a guard: the job goes on without one
    if shim == 0:
        line.close()
        os.setsid()
        return HandoffSender(will, guard_pid)
    try:
        will.close()
        for fd in close:
            os.close(fd)
        guard(line, shim, take_over)
    finally:
        os._exit(0)


def guard(line: socket, shim: int, take_over: Callable[[HandoffReceiver], None]) -> None:
    """Each step here costs every idle job memory: what all shims say is kept as it came, and read when it matters."""
    # it has stopped, gone on or died: only the first minds
    handle_signal(SIGCHLD, lambda *_: processes.resume(shim))
    processes.resume(shim)  # it may have stopped before
    heard: list[Received] = []
    while not heard or heard[-1][0][:1] in SAID_BY_ALL:
        heard.append(line.recvmsg(MESSAGE_MAX_BYTES, RIGHTS_MAX_BYTES, MSG_CMSG_CLOEXEC))
        if heard[-1][0][:1] == STARTED:  # its starter may wait until nobody has that pipe any more
            os.close(int.from_bytes(heard[0][1][0][2][4 * READY : 4 * READY + 4], sys.byteorder))
    legacy = HandoffReceiver(heard)
    while legacy.hear(line):
        pass
    # The line is closed when shim and a job just forked by it are gone or exec'd: there is nobody in between.
    status = _end_of(shim)
    if status != 0 and legacy.directory is not None:
        take_over(legacy)


def _end_of(shim: int) -> int:
    """Its status as wait() tells it. From then on its pid may be a stranger's: nobody signals it any more."""
    handle_signal(SIGCHLD, SIG_DFL)
    while os.WIFSTOPPED(status := os.waitpid(shim, os.WUNTRACED)[1]):
        processes.resume(shim)
    return status
