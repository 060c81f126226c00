"""How a shim comes to be: forked from a zygote, or as a fresh interpreter.

    entry.main(["fresh", directory, lock, ready, papers, slots…])   descriptors, inherited
    entry.main(["zygote"])                                               descriptor 0 is a socket
    entry.main(["queue", home])                                          starts what waits in the queue

`ready` tells the starter what happened: "+" as soon as a shim has taken the job (from there on a second
try would run it twice), then a line of JSON when the child is exec'd or could not be. It is a socket, whose other
end the starter shuts when it gives up on us: then the "+" fails, and the job is not ours. In 0.1 it is a pipe.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys

from bgjob.home import home_dir, queue_dir
from bgjob.shim import lifecycle
from bgjob.shim.dispatcher import keep_draining
from bgjob.shim.guard import under_guard
from bgjob.shim.handoff import PAPERS, RIGHTS_MAX_BYTES, HandoffReceiver, HandoffSender, Inherited, unpacked
from bgjob.system import processes

MESSAGE_MAX_BYTES = 1 << 16


def main(arguments: list[str]) -> None:
    umask = make_plain()
    lock = become_drainer(arguments[1]) if arguments[0] == "queue" else None
    if arguments[0] == "queue" and lock is None:
        return
    if os.fork():  # not below the server in the process tree: whoever kills that does not reach the jobs
        os._exit(0)
    os.setsid()
    gc.disable()
    if arguments[0] == "zygote":
        zygote(umask)
    elif lock is not None:
        keep_draining(os.curdir, lock, launch)
    else:
        descriptors = list(map(int, arguments[2:]))
        will = under_guard(descriptors, lambda legacy: go_on(legacy, umask))
        shim(arguments[1], descriptors, umask, will)


def become_drainer(home: str) -> int | None:
    """Its lock, and we work in the home from now on. None: there is one already, or the home is not safe."""
    return queue_dir.become_dispatcher(os.curdir) if home_dir.enter(home) else None


def make_plain() -> int:
    """A plain process: no ignored or blocked signals to hand down, files for us alone. The user's umask."""
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # they are for the shim: it sets handlers of its own
    return os.umask(0o077)


def zygote(umask: int) -> None:
    """Small and pre-imported; ends with its server. One spare shim is forked ahead and takes the next job.

    What it touches between two forks, every guard has a copy of: it does as little as it can.
    """
    requests = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps our guards
    processes.set_process_name("bgjob-zygote")
    gc.collect()
    gc.freeze()
    while True:
        taken, take = os.pipe()
        if os.fork() == 0:
            os.close(taken)
            os.setsid()
            will = under_guard([requests.fileno(), take], lambda legacy: go_on(legacy, umask))
            spare(requests, take, umask, will)
        os.close(take)
        if not os.read(taken, 1) and is_gone(requests):
            return
        os.close(taken)


def launch(directory: str, descriptors: list[int], close: list[int]) -> None:
    """A queued job, from the drainer. It is in nobody's process tree: the drainer may end, and be ended, before it."""
    if os.fork():
        return
    lifecycle.never_returning(directory, lambda: _launched(directory, descriptors, close))


def _launched(directory: str, descriptors: list[int], close: list[int]) -> None:
    for fd in close:
        os.close(fd)
    os.setsid()
    try:
        umask = lifecycle.umask_in(descriptors[PAPERS])
    except (ValueError, EOFError, TypeError, IndexError):
        return _end_without_papers(directory)
    will = under_guard(descriptors, lambda legacy: go_on(legacy, umask))
    shim(directory, descriptors, umask, will)


def _end_without_papers(directory: str) -> None:
    why = "its environment, which waited with it in the queue, cannot be read"
    try:
        queue_dir.end_unstarted(directory, cause="never_started", reason=why)
    except OSError:
        pass  # there is no room to say so: it is tried again


def is_gone(server: socket.socket) -> bool:
    """The spare has ended without a job: because the server has, or by somebody's hand."""
    try:
        return not server.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def spare(requests: socket.socket, take: int, umask: int, will: HandoffSender) -> None:
    """Everything that can be done before the job is known."""
    message, rights, _, _ = requests.recvmsg(MESSAGE_MAX_BYTES, RIGHTS_MAX_BYTES)
    if not message:
        os._exit(0)  # the server is gone
    try:
        os.write(take, b"+")
    except BrokenPipeError:
        pass  # the zygote was killed: this job is ours all the same
    os.close(take)
    requests.close()
    shim(os.fsdecode(message), unpacked(rights), umask, will)


def shim(directory: str, descriptors: list[int], umask: int, will: HandoffSender) -> None:
    processes.set_process_name("bgjob-shim")
    lifecycle.never_returning(
        directory, lambda: lifecycle.begin(directory, Inherited(descriptors), umask, will)
    )


def go_on(legacy: HandoffReceiver, umask: int) -> None:
    """The guard's hour."""
    processes.set_process_name("bgjob-shim")
    directory = legacy.directory or os.curdir
    lifecycle.never_returning(directory, lambda: lifecycle.take_over(directory, legacy, umask))


if __name__ == "__main__":
    main(sys.argv[1:])
