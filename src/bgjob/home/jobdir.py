"""One job's directory: the only module that knows the names of its files.

    spec.json      what to run                written once by the starter, before the job is visible;
                   flocked by the starter, then by shim and guard: alive = locked
    script         a command too long to be an argument     likewise written by the starter
    papers         the launch file            likewise, while it waits in the queue; see queue_dir
    papers.taken   the same                   while a shim starts the job that it has from the queue
    run.json       pids, start time, boot     written by the shim when the child is exec'd, by a guard that takes over
    runs.json      the runs before this one   rewritten whole by the shim each time it runs the job again
    outcome.json   how it ended               written once by the shim, after the last byte of output
    limits.json    how its limits are kept    written by the shim before the child is exec'd, if it has limits
    terminal.json  the sizes of its terminal  rewritten whole by the shim at each resize
    watch.json     how far its watches have looked         rewritten whole by the watcher
    remote.json    how it stands at its target             written by the starter, then by the target's relay
    request.json   what is asked of the target             written by the starter, removed by the relay
    ctl            the shim's socket
    log/           the output, see log_format
    output.txt     the output as one file     written whole by readers, if the log has several segments; can be deleted

Every record is written whole or not at all; to a reader, an empty or torn record is missing. The files of a
job of a target are copies of those that its shim writes on its own machine. Here the target's relay writes
them, holds the lock and listens at the socket.
The shim imports this module: it stays small.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time

from bgjob.home.home_dir import is_ours
from bgjob.home.layout import READ_ONLY
from bgjob.system import processes

# Type checkers know this name; importing typing would take 5 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Record = dict[str, Any]

FORMAT_VERSION = 1
SPEC, SCRIPT, LAUNCH, LAUNCH_TAKEN = "spec.json", "script", "papers", "papers.taken"
RUN, RUNS, OUTCOME = "run.json", "runs.json", "outcome.json"
TERMINAL, LIMITS, WATCH = "terminal.json", "limits.json", "watch.json"
REMOTE, REQUEST = "remote.json", "request.json"
CONTROL, LOG, MERGED = "ctl", "log", "output.txt"
HOW_ENDED = {
    "killed": "was killed",
    "timed_out": "timed out",
    "out_of_memory": "went over its memory limit",
    "never_started": "did not start",
    "lost": "was lost",
}
RESERVED_BYTES = 1024
SEAL = b"\n"
# Errors of our own process, which tell nothing about the file.
OUR_TROUBLE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
# A spec holds its command. A record that is read takes many times as much memory.
RECORD_MAX_BYTES = 8 << 20


def write_record(path: str, record: Record, *, durable: bool = False) -> None:
    write_whole(path, json.dumps(record).encode(), durable=durable)


def write_whole(path: str, data: bytes, *, durable: bool = False) -> None:
    """A reader sees the old record or the new one, never half of one."""
    draft = f"{path}.new"
    fd = _open_draft(draft)
    try:
        _overwrite(fd, data)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(draft, path)
    if durable:
        sync_directory(os.path.dirname(path) or os.curdir)


def _open_draft(path: str) -> int:
    """O_NONBLOCK: a FIFO in its place is an error, and does not block us."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    os.set_blocking(fd, True)
    return fd


def unstarted(**how: object) -> Record:
    """The outcome of a job that was never started."""
    when = {"ended_at": time.time(), "duration_s": 0.0, "output_bytes": 0}
    return {"format": FORMAT_VERSION, **how, **when}


def how_ended(end: Record) -> str:
    """A few words that follow the name of the job. An outcome and the event of an end have the same keys."""
    cause, code, number = end.get("cause"), end.get("exit_code"), end.get("signal")
    if cause == "exited":
        return "completed" if code == 0 else f"failed with exit code {code}"
    if cause == "signaled" and isinstance(number, int):
        return f"was killed by {processes.signal_name(number)}"
    if cause == "over_limit":
        return f"went over its {end.get('limit')} limit"
    return HOW_ENDED.get(str(cause), f"ended ({cause})")


def reserve_record(path: str) -> None:
    """Reserve the room of a record: on a full disk a file can be overwritten, but not created."""
    fd = _open_draft(f"{path}.new")
    try:
        os.write(fd, b" " * RESERVED_BYTES)
    finally:
        os.close(fd)


def release_record(path: str) -> None:
    """Give up a reservation: the record will not be written."""
    try:
        os.unlink(f"{path}.new")
    except OSError:
        pass


def is_reserved(path: str) -> bool:
    try:
        return os.lstat(f"{path}.new").st_size > 0
    except OSError:
        return False


def _overwrite(fd: int, data: bytes) -> None:
    """In place, padded with spaces to the reserved size: JSON allows that."""
    there = os.fstat(fd).st_size
    view = memoryview(data.ljust(min(there, RESERVED_BYTES)))
    if there > len(view):
        os.ftruncate(fd, len(view))  # the draft of a writer that was killed
    write_all(fd, view)


def write_all(fd: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_record(path: str) -> Record | None:
    """None if there is no record that can be read; OSError if our own process lacks resources to tell."""
    fd = _opened(path)
    if fd is None:
        return None
    try:
        record = json.loads(_whole(fd))
    except (OSError, ValueError, RecursionError):
        return None
    finally:
        os.close(fd)
    return record if isinstance(record, dict) else None


def _whole(fd: int) -> bytes:
    """Empty if it is no plain file, another user's, or too large."""
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode) or info.st_size > RECORD_MAX_BYTES or not is_ours(info):
        return b""
    parts, left = [], info.st_size
    while left > 0 and (part := os.read(fd, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _opened(path: str) -> int | None:
    try:
        return os.open(path, READ_ONLY)
    except OSError as error:
        if error.errno in OUR_TROUBLE:
            raise
        return None


def is_of_this_boot(spec: Record) -> bool:
    """A spec without a boot_id counts as of this boot."""
    return "boot_id" not in spec or processes.is_this_boot(spec["boot_id"])


def create_locked(path: str, record: Record) -> int:
    """A new record and its lock, which is free when no process has the descriptor any more."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _overwrite(fd, json.dumps(record).encode())
    except OSError:
        os.close(fd)
        raise
    return fd


def is_locked(path: str) -> bool:
    """Whether a process holds the lock: right after a reuse of pids and after a reboot, unlike a pid."""
    fd = _opened(path)
    if fd is None:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def sync_directory(path: str) -> None:
    """Make its names survive a power cut. Some file systems do that by themselves, and refuse this call."""
    try:
        _sync(path)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def make_durable(lock: int, directory: str = os.curdir) -> None:
    """After this the job survives a power cut: its spec, the spec's name and the job's name are on disk.
    Its script, its place in the index and its run are not needed for that."""
    os.fsync(lock)
    sync_directory(directory)
    sync_directory(f"{directory}/{os.pardir}")


def seal_outcome(directory: str = os.curdir) -> None:
    """Sync all that the outcome speaks of, then write its last byte: after a seal, the log is on disk.

    The seal is one byte, in place: it cannot be torn, and needs no room on a full disk.
    """
    _sync_log(f"{directory}/{LOG}")
    for name in (RUN, RUNS, TERMINAL):
        if os.path.exists(f"{directory}/{name}"):
            _sync(f"{directory}/{name}")
    # Before the seal: a log whose own name is not on disk is lost.
    sync_directory(directory)
    _seal(f"{directory}/{OUTCOME}")


def is_sealed(path: str) -> bool:
    """Only a sealed outcome counts after a power cut: an unsealed one may be ahead of the log."""
    try:
        fd = os.open(path, READ_ONLY)
    except OSError:
        return False
    try:
        return os.pread(fd, 1, max(0, os.fstat(fd).st_size - 1)) == SEAL
    except OSError:
        return False
    finally:
        os.close(fd)


def _sync_log(directory: str) -> None:
    """Every segment, as closed ones too may be in memory only; then their names."""
    if os.path.isdir(directory):  # a silent job has none
        for name in os.listdir(directory):
            _sync(f"{directory}/{name}")
        sync_directory(directory)


def _seal(path: str) -> None:
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        end = os.fstat(fd).st_size
        room = os.pread(fd, 1, end - 1) in (b" ", SEAL)
        os.pwrite(fd, SEAL, end - room)
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync(path: str) -> None:
    fd = os.open(path, READ_ONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
