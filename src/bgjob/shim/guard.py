"""The guard: a process above the shim that holds what the shim holds, and sleeps until the shim is killed.

It is a subreaper: when the shim dies, the job becomes the guard's child, exit code and all. The guard then
does what the shim would have done. When the guard is killed, the shim goes on without one.
"""

from __future__ import annotations

import os
from _socket import AF_UNIX, SOCK_SEQPACKET, socketpair  # `socket` wraps them at 160 KB for each guard

from bgjob import processes
from bgjob.shim.estate import Legacy, Will

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable


def under_guard(close: list[int], take_over: Callable[[Legacy], None]) -> Will:
    """Returns in a new process, the shim. The caller becomes its guard and stays here; it closes what is the shim's."""
    if not processes.adopt_orphans():
        return Will(None)  # a system where orphans go to init: a guard could not take over
    processes.keep_dead_children()
    processes.set_process_name("bgjob-guard")  # before the fork: what is touched now is the shim's too
    try:
        line, will = socketpair(AF_UNIX, SOCK_SEQPACKET)
        shim = os.fork()
    except OSError:
        return Will(None)  # the machine has no room for a guard: the job goes on without one
    if shim == 0:
        line.close()
        os.setsid()
        return Will(will)
    try:
        will.close()
        for fd in close:
            os.close(fd)
        guard(line, shim, take_over)
    finally:
        os._exit(0)


def guard(line: socket, shim: int, take_over: Callable[[Legacy], None]) -> None:
    legacy = Legacy()
    while legacy.hear(line):
        pass
    # The line is closed when shim and a job just forked by it are gone or exec'd: there is nobody in between.
    _, status = os.waitpid(shim, 0)
    if status != 0 and legacy.directory is not None:
        take_over(legacy)
