"""A held allocation: jobs that are started through it are below the process that holds it, and outlive whoever asked.

    holds/<allocation>         what its jobs find in their environment, e.g. which GPUs are theirs;
                               locked by those who start a job now; by the holder, for good, when it ends
    holds/<allocation>.socket  the holder listens there, and gives each connection a zygote

An agent runs in a step of the allocation, and ends with that step: what it forked would end too.
"""

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator, Mapping

from bgjob.home import home_dir, jobdir
from bgjob.system.peer_users import is_own, unix_peer

HOLDS = "holds"
BACKLOG = 16


class HoldEnds(OSError):
    """Nothing was started: the allocation is being given back."""

    def __init__(self) -> None:
        super().__init__("the held allocation is at its end")


class Hold:
    """The holder's end. `environ`: of its jobs, what only the engine could tell."""

    def __init__(self, home: str, allocation: str, environ: Mapping[str, str]) -> None:
        home_dir.make_inside(home, [HOLDS])
        self._path = path_of(home, allocation)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        self._lock = os.open(self._path, flags, 0o600)
        jobdir.write_all(self._lock, json.dumps(dict(environ)).encode())
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        draft = f"{self._path}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)  # of a holder that was killed
        with _in_directory(draft) as address:
            self.listener.bind(address)
        self.listener.listen(BACKLOG)
        # Last: a starter that finds a socket at which nobody listens yet takes the allocation for ended.
        os.rename(draft, f"{self._path}.socket")

    def accepted(self) -> Iterator[socket.socket]:
        """Yield the next starter's connection, open inside the loop only; nothing if it is another user's."""
        with self.listener.accept()[0] as starter:
            if is_own(unix_peer(starter)):
                yield starter

    def close_for_good(self) -> bool:
        """From now on nothing is started. False: a job is being started now."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def reopen(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def remove(self) -> None:
        for path in (f"{self._path}.socket", self._path):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def path_of(home: str, allocation: str) -> str:
    return f"{home}/{HOLDS}/{allocation}"


def environ_of(path: str) -> Mapping[str, str]:
    """What the jobs of this allocation find in their environment; empty if it is at its end."""
    return jobdir.read_record(path) or {}


def connected(path: str) -> socket.socket:
    """For a starter: a zygote of its own, below the holder."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with _in_directory(f"{path}.socket") as address:
            line.connect(address)
        if not is_own(unix_peer(line)):
            raise PermissionError("another user's process is at the socket of the holder")
    except OSError:
        line.close()
        raise HoldEnds from None
    return line


@contextlib.contextmanager
def starting(path: str) -> Iterator[None]:
    """The allocation is held meanwhile."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        raise HoldEnds from None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise HoldEnds from None
    finally:
        os.close(lock)


@contextlib.contextmanager
def _in_directory(path: str) -> Iterator[str]:
    """As an address, by a descriptor of the directory: the path may be longer than an address may be."""
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{os.path.basename(path)}"
    finally:
        os.close(directory)
