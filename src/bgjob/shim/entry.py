"""How a shim comes to be: forked from a zygote, or as a fresh interpreter.

    entry.main(["fresh", directory, lock, ready, launch_file, slots…])   descriptors, inherited
    entry.main(["zygote"])                                               descriptor 0 is a socket
    entry.main(["queue", home])                                          becomes the dispatcher of the queue
    entry.main(["below", …])                the same in the process tree of the starter, see system.allocation

`ready` tells the starter what happened: "+" as soon as a shim owns the job (from then on a second try would
run it twice), another "+" when its guard would go on with it and there is room for its outcome (the starter may
leave), then a line of JSON when the child is exec'd or could not be. `ready` is a socket. A starter that gives up
waiting shuts its end: then the first "+" fails, and the job is not ours. In 0.1 it is a pipe.
"""

from __future__ import annotations

import _socket as socket  # `socket` wraps it: 2 ms of each start
import gc
import os
import select
import signal
import sys

from bgjob.home import home_dir, queue_dir
from bgjob.shim import launch_file, lifecycle
from bgjob.shim.guard import under_guard
from bgjob.shim.handoff import (
    LAUNCH_FILE,
    RIGHTS_MAX_BYTES,
    HandoffReceiver,
    HandoffSender,
    Inherited,
    unpacked,
)
from bgjob.system import allocation, processes
from bgjob.system.open_files import restore_limit

MESSAGE_MAX_BYTES = 1 << 16
# a fork takes a core for a millisecond, which the start of the job that was just taken needs more
FORK_AFTER_MS = 4


def main(arguments: list[str]) -> None:
    umask = become_plain()
    if stays := arguments[0] == "below":
        arguments = arguments[1:]
        allocation.enter(is_shared=arguments[0] == "zygote")
    lock = become_dispatcher(arguments[1]) if arguments[0] == "queue" else None
    if arguments[0] == "queue" and lock is None:
        return
    if not stays and os.fork():  # not below the server in the process tree: its kill does not reach the jobs
        os._exit(0)
    os.setsid()
    gc.disable()
    if arguments[0] == "zygote":
        zygote(umask)
    elif lock is not None:
        from bgjob.shim import limited_child, limits  # noqa: F401  # as the zygote
        from bgjob.shim.dispatcher import keep_dispatching

        keep_dispatching(os.curdir, lock, start_queued)
    else:
        descriptors = list(map(int, arguments[2:]))
        handoff = under_guard(descriptors, lambda received: take_over(received, umask))
        shim(arguments[1], descriptors, umask, handoff)


def become_dispatcher(home: str) -> int | None:
    """Enter the home, and take the dispatcher's lock. None: it is held, or the home is not safe."""
    return queue_dir.become_dispatcher(os.curdir) if home_dir.enter(home) else None


def become_plain() -> int:
    """No signal stays ignored or blocked: the job would inherit that. Returns the user's umask."""
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # only the shim acts on these, by handlers of its own
    restore_limit()
    return os.umask(0o077)


def zygote(umask: int) -> None:
    """Forks shims for one server, and ends with it. One spare shim is forked ahead and takes the next job.

    Memory that a zygote touches between two forks is copied for every guard: it does as little as it can.
    """
    requests = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps our guards
    processes.set_process_name("bgjob-zygote")
    # now, and not when a job needs them: the package may be replaced by another version while we run
    from bgjob.shim import limited_child, limits  # noqa: F401

    next_request = select.poll()
    next_request.register(requests.fileno(), select.POLLIN)
    gc.collect()
    gc.freeze()
    while True:
        taken, take = os.pipe()
        if os.fork() == 0:
            os.close(taken)
            os.setsid()
            handoff = under_guard([requests.fileno(), take], lambda received: take_over(received, umask))
            spare(requests, take, umask, handoff)
        os.close(take)
        if not os.read(taken, 1) and server_is_gone(requests):
            return
        os.close(taken)
        next_request.poll(FORK_AFTER_MS)


def start_queued(directory: str, descriptors: list[int], close: list[int]) -> None:
    """For the dispatcher. The shim leaves its process tree: a kill of that tree does not reach the job."""
    if os.fork():
        return
    lifecycle.never_returning(directory, lambda: _begin_queued(directory, descriptors, close))


def _begin_queued(directory: str, descriptors: list[int], close: list[int]) -> None:
    for fd in close:
        os.close(fd)
    os.setsid()
    try:
        umask = launch_file.read_umask(descriptors[LAUNCH_FILE])
    except (ValueError, EOFError, TypeError, IndexError):
        return _end_unreadable(directory)
    handoff = under_guard(descriptors, lambda received: take_over(received, umask))
    shim(directory, descriptors, umask, handoff)


def _end_unreadable(directory: str) -> None:
    why = "its environment, which waited with it in the queue, cannot be read"
    try:
        queue_dir.end_unstarted(directory, cause="never_started", reason=why)
    except OSError:
        pass  # a full disk: the dispatcher tries this job again


def server_is_gone(server: socket.socket) -> bool:
    """Why a spare shim has ended without a job: with the server, or (False) because it was killed."""
    try:
        return not server.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def spare(requests: socket.socket, take: int, umask: int, handoff: HandoffSender) -> None:
    """Waits for a job, with all done that can be done before the job is known."""
    try:
        lifecycle.rehearse()
    except OSError:
        pass  # no descriptors are left now: there may be some when a job comes
    message, rights, _, _ = requests.recvmsg(MESSAGE_MAX_BYTES, RIGHTS_MAX_BYTES)
    if not message:
        os._exit(0)  # the server is gone
    try:
        os.write(take, b"+")
    except BrokenPipeError:
        pass  # the zygote was killed: this job is ours all the same
    os.close(take)
    requests.close()
    shim(os.fsdecode(message), unpacked(rights), umask, handoff)


def shim(directory: str, descriptors: list[int], umask: int, handoff: HandoffSender) -> None:
    processes.set_process_name("bgjob-shim")
    lifecycle.never_returning(
        directory, lambda: lifecycle.begin(directory, Inherited(descriptors), umask, handoff)
    )


def take_over(received: HandoffReceiver, umask: int) -> None:
    """Runs in the guard after its shim was killed: the guard becomes the shim."""
    processes.set_process_name("bgjob-shim")
    directory = received.directory or os.curdir
    lifecycle.never_returning(directory, lambda: lifecycle.take_over(directory, received, umask))


if __name__ == "__main__":
    main(sys.argv[1:])
