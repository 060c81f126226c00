"""The guard: a process above the shim that holds what the shim holds, and sleeps until the shim is killed.

The guard is a subreaper: when the shim dies, the job becomes the guard's child, exit code and all, and the
guard becomes the shim. When the guard is killed, the shim goes on without one. A shim that is stopped (SIGSTOP,
by its own job perhaps) is continued at once.
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

    from bgjob.shim.handoff import Message

SENT_BY_ALL = (JOB, STARTED)
INT_BYTES = 4


def under_guard(close: list[int], take_over: Callable[[HandoffReceiver], None]) -> HandoffSender:
    """Returns in a new process, the shim. The caller closes `close`, becomes its guard and stays here."""
    if not processes.adopt_orphans():
        return HandoffSender(None)  # a system where orphans go to init: a guard could not take over
    processes.keep_dead_children()
    processes.set_process_name(processes.GUARD)  # before the fork: what is touched now is the shim's too
    guard_pid = os.getpid()
    try:
        channel, shims_end = socketpair(AF_UNIX, SOCK_SEQPACKET)
        shim = os.fork()
    except OSError:
        return HandoffSender(None)  # the machine has no room for a guard: the job goes on without one
    if shim == 0:
        channel.close()
        os.setsid()
        return HandoffSender(shims_end, guard_pid)
    try:
        shims_end.close()
        for fd in close:
            os.close(fd)
        guard(channel, shim, take_over)
    finally:
        os._exit(0)


def guard(channel: socket, shim: int, take_over: Callable[[HandoffReceiver], None]) -> None:
    """Each step costs every idle job memory: messages that all shims send are read only when needed."""
    # The shim has stopped, gone on or died: only a stopped one notices the signal.
    handle_signal(SIGCHLD, lambda *_: processes.resume(shim))
    processes.resume(shim)  # it may have stopped before
    messages: list[Message] = []
    kind = JOB
    while kind in SENT_BY_ALL:
        messages.append(channel.recvmsg(MESSAGE_MAX_BYTES, RIGHTS_MAX_BYTES, MSG_CMSG_CLOEXEC))
        kind = messages[-1][0][:1]
        if kind == STARTED:
            _close_ready(messages[0])
    received = HandoffReceiver(messages)
    while received.receive(channel):
        pass
    # The channel closes when the shim, and a child that it has forked and that has not exec'd yet, are gone.
    status = _end_of(shim)
    if status != 0 and received.directory is not None:
        take_over(received)


def _close_ready(job: Message) -> None:
    """The starter may wait until no process has its pipe open. Without `struct`, which costs memory."""
    [(_level, _type, descriptors)] = job[1]
    at = READY * INT_BYTES
    os.close(int.from_bytes(descriptors[at : at + INT_BYTES], sys.byteorder))


def _end_of(shim: int) -> int:
    """The shim's status as wait() tells it. After that its pid may be reused: it is signalled no more."""
    handle_signal(SIGCHLD, SIG_DFL)
    while os.WIFSTOPPED(status := os.waitpid(shim, os.WUNTRACED)[1]):
        processes.resume(shim)
    return status
