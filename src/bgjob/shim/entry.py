"""How a shim comes to be: forked from a zygote, or as a fresh interpreter.

    entry.main(["fresh", directory, lock, ready, environment, slot])     descriptors, inherited; slot may be -1
    entry.main(["zygote"])                                               descriptor 0 is a socket

`ready` tells the starter what happened: "+" as soon as a shim has taken the job (from there on a second
try would run it twice), then a line of JSON when the child is exec'd or could not be.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import time

from bgjob import jobdir, processes
from bgjob.shim.supervise import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.jobdir import Record

MESSAGE_MAX_BYTES = 1 << 16


def main(arguments: list[str]) -> None:
    if os.fork():  # not below the server in the process tree: whoever kills that does not reach the jobs
        os._exit(0)
    os.setsid()
    gc.disable()
    if arguments[0] == "zygote":
        zygote()
    else:
        lock, ready, environment, slot = map(int, arguments[2:])
        umask = make_ready()
        run(arguments[1], [lock, ready, environment] + ([slot] if slot >= 0 else []), umask)


def zygote() -> None:
    """Small and pre-imported; ends with its server. One spare shim is forked ahead and takes the next job."""
    requests = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps our shims
    processes.set_process_name("bgjob-zygote")
    needed, need = os.pipe()
    gc.collect()
    gc.freeze()
    while True:
        pid = os.fork()
        if pid == 0:
            os.close(needed)
            spare(requests, need)
        if not wait_for_need(needed, requests, pid):
            return


def spare(requests: socket.socket, need: int) -> None:
    """Everything that can be done before the job is known."""
    os.setsid()
    umask = make_ready()
    json.loads(json.dumps({"touch": ["these pages now, not when it counts"]}))
    message, descriptors, _, _ = socket.recv_fds(requests, MESSAGE_MAX_BYTES, 4)
    if not message:
        os._exit(0)  # the server is gone
    os.write(need, b"+")
    os.close(need)
    requests.close()
    run(message.decode(errors="surrogateescape"), descriptors, umask)


def wait_for_need(needed: int, requests: socket.socket, spare_pid: int) -> bool:
    """True when another spare is needed: this one has taken a job, or is dead. False when the server is gone."""
    poll = select.poll()
    poll.register(needed, select.POLLIN)
    poll.register(requests, 0)  # a hang-up only
    try:
        death = os.pidfd_open(spare_pid)
    except ProcessLookupError:
        return True
    try:
        poll.register(death, select.POLLIN)
        happened = dict(poll.poll())
    finally:
        os.close(death)
    if needed in happened:
        os.read(needed, 1)
    return requests.fileno() not in happened


def make_ready() -> int:
    """A plain process: no ignored or blocked signals to hand down, orphans come to us. The old umask."""
    for number in signal.valid_signals() - {
        signal.SIGPIPE,
        signal.SIGXFSZ,
    }:  # we live on; subprocess resets them
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    processes.set_process_name("bgjob-shim")
    return os.umask(0o077)


def run(directory: str, descriptors: list[int], umask: int) -> None:
    """One job; whatever happens, this process never returns into its parent's code."""
    for fd in descriptors:
        os.set_inheritable(fd, False)
    _lock, ready, environment, *slot = descriptors
    status = 1
    try:
        os.chdir(directory)
        if is_wanted(ready):
            supervise(directory, ready, read_environment(environment), slot[0] if slot else None, umask)
        status = 0
    finally:
        if status:
            leave_traceback()
        os._exit(status)


def is_wanted(ready: int) -> bool:
    """Take the job; False if the starter has given up on us."""
    try:
        return os.write(ready, b"+") == 1
    except BrokenPipeError:
        return False


def supervise(directory: str, ready: int, environment: dict[str, str], slot: int | None, umask: int) -> None:
    spec = jobdir.read_record(jobdir.SPEC)
    if spec is None:
        raise ValueError("no readable spec")
    environment[processes.JOB_ID_VARIABLE] = spec["id"]
    script = f"{directory}/{jobdir.SCRIPT}" if os.path.exists(jobdir.SCRIPT) else None
    try:
        supervisor = Supervisor(spec, slot)
        pid = supervisor.start(script, environment, umask)
    except (OSError, ValueError) as error:
        return tell(ready, record_failure(f"{type(error).__name__}: {error}"))
    environment.clear()  # secrets do not rest with us
    tell(ready, record_run(pid))
    supervisor.run()


def record_run(pid: int) -> Record:
    run_record = {
        "format": jobdir.FORMAT_VERSION,
        "pid": pid,
        "shim_pid": os.getpid(),
        "started_at": time.time(),
        "boot_id": processes.boot_id(),
    }
    jobdir.write_record(jobdir.RUN, run_record)
    return run_record


def record_failure(reason: str) -> Record:
    outcome = {
        "format": jobdir.FORMAT_VERSION,
        "cause": "never_started",
        "reason": reason,
        "ended_at": time.time(),
        "duration_s": 0.0,
        "output_bytes": 0,
    }
    jobdir.write_record(jobdir.OUTCOME, outcome, durable=True)
    return {"error": reason}


def tell(ready: int, answer: Record) -> None:
    try:
        os.write(ready, json.dumps(answer).encode())
    except BrokenPipeError:
        pass  # the starter was killed: the job goes on all the same
    os.close(ready)


def read_environment(fd: int) -> dict[str, str]:
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        environment: dict[str, str] = json.load(file)
    return environment


def leave_traceback() -> None:
    import traceback

    with open("shim-error.txt", "a") as file:
        traceback.print_exc(file=file)


if __name__ == "__main__":
    main(sys.argv[1:])
