"""Run by the tests as a program of its own: it has imported what a server imports, and forks one per order.

    python servers.py      descriptor 0 is a socket

An order is an environment, with the server's end of a line and, unless it shall boot its own, a zygote's socket.
A server executes what it is told on its line, until that ends. The first word on a line may be "stop": the server
then stops itself, and can be attached to.
"""

import ctypes
import gc
import json
import os
import signal
import socket
import sys
import traceback
from typing import Any

from bgjob.api import Jobs, open_jobs
from bgjob.core.errors import BgjobError
from bgjob.system import processes

NAME = "chaos-server"
END = b"end"
PR_SET_PTRACER, ANYBODY = 0x59616D61, -1
MESSAGE_MAX_BYTES = 1 << 17


def main() -> None:
    orders = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    while True:
        order, descriptors, _, _ = socket.recv_fds(orders, MESSAGE_MAX_BYTES, 2)
        if order in (b"", END):
            return
        if os.fork() == 0:
            orders.close()
            be_server(json.loads(order), *descriptors)
        for fd in descriptors:
            os.close(fd)


def be_server(order: dict[str, Any], line: int, zygote: int = -1) -> None:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        processes.set_process_name(NAME)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.close(null)
        for fd in (line, zygote):
            if fd >= 0:
                os.set_inheritable(fd, False)
        jobs = open_jobs(order["environment"], many=order["many"])
        if zygote >= 0:
            jobs.context.spawner._requests = socket.socket(fileno=zygote)
        serve(jobs, socket.socket(fileno=line))
    finally:
        if sys.exc_info()[0]:
            traceback.print_exc()
        os._exit(0)


def serve(jobs: Jobs, line: socket.socket) -> None:
    line.send(b"%d" % os.getpid())
    while order := line.recv(MESSAGE_MAX_BYTES):
        if order == b"stop":
            ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANYBODY, 0, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            line.send(json.dumps(execute(jobs, json.loads(order))).encode())


def execute(jobs: Jobs, order: dict[str, Any]) -> dict[str, str]:
    try:
        return {"id": jobs.execute(order["command"], **order["options"]).id}
    except BgjobError as error:
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
