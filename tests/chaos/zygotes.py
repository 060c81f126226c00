"""Run by the tests as a program of its own: it has imported what a zygote imports, and forks one per order.

    python -I -S -E zygotes.py PACKAGE_ROOT      descriptor 0 is a socket

An order is a role, with the zygote's end of its server's socket, a ticket and a report. Of the processes that come
to be from it, the first in that role takes the ticket, reports its pid and stops: there it can be attached to.
All of them hold the report open; the job does not. When it ends, they are all gone.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

sys.path.append(sys.argv[1])

entry: Any = importlib.import_module("bgjob.shim.entry")
processes: Any = importlib.import_module("bgjob.system.processes")
END = b"end"
PR_SET_PTRACER, ANYBODY = 0x59616D61, -1


def main() -> None:
    orders = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    while True:
        role, descriptors, _, _ = socket.recv_fds(orders, 64, 3)
        if role == END:
            return
        if not role:
            return sweep()
        if os.fork() == 0:
            orders.close()
            be_zygote(role.decode(), *descriptors)
        for fd in descriptors:
            os.close(fd)


def sweep() -> None:
    """Whoever gave the orders was killed. What it had stopped would stay so for ever."""
    mark = f"BGJOB_CHAOS={os.environ['BGJOB_CHAOS']}".encode()
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    for pid in pids:
        if pid != os.getpid() and processes._carries(pid, mark):
            processes.send(pid, signal.SIGKILL)


def be_zygote(role: str, requests: int, ticket: int, report: int) -> None:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(requests, 0)
        os.close(requests)
        for fd in (ticket, report):
            os.set_inheritable(fd, False)
        stop_in(role, lambda: stop_once(ticket, report))
        entry.main(["zygote"])
    finally:
        if sys.exc_info()[0]:
            traceback.print_exc()
        os._exit(0)


def stop_in(role: str, stop: Callable[[], None]) -> None:
    """Before it is called, under_guard is the guard's; when it has returned, it is the shim that goes on."""
    if role == "zygote":
        entry.zygote = stopping_before(entry.zygote, stop)
    elif role == "guard":
        entry.under_guard = stopping_before(entry.under_guard, stop)
    elif role == "shim":
        entry.under_guard = stopping_after(entry.under_guard, stop)


def stopping_before(act: Callable[..., Any], stop: Callable[[], None]) -> Callable[..., Any]:
    def stop_and_act(*arguments: Any) -> Any:
        stop()
        return act(*arguments)

    return stop_and_act


def stopping_after(act: Callable[..., Any], stop: Callable[[], None]) -> Callable[..., Any]:
    def act_and_stop(*arguments: Any) -> Any:
        result = act(*arguments)
        stop()
        return result

    return act_and_stop


def stop_once(ticket: int, report: int) -> None:
    if not os.read(ticket, 1):
        return
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANYBODY, 0, 0, 0)  # Yama lets nobody else attach to an orphan
    os.write(report, b"%d\n" % os.getpid())
    if processes.name_of(os.getppid()) == processes.GUARD:
        os.kill(os.getppid(), signal.SIGSTOP)  # else it would continue us
    os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    main()
