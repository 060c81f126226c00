"""Where a trial takes place: a home, a zygote (or a server) of its own, and one of its processes under a tracer.

Processes are forked from two that have imported everything before: a fresh interpreter per trial would cost
more than the trial.
"""

import contextlib
import itertools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from bgjob.api import Jobs, open_jobs
from bgjob.home import jobdir
from bgjob.store.records import read_groups
from bgjob.system import processes
from bgjob.system.own_argv import PACKAGE_ROOT
from tests.chaos.servers import END
from tests.chaos.strace import Point, Tracer
from tests.support.process_table import every_pid, is_stopped
from tests.support.waiting import PATIENCE_S, wait_until

Role = Literal["starter", "zygote", "guard", "shim"]
Launch = Literal["zygote running", "zygote to boot", "fresh"]
HERE = Path(__file__).parent
MARK = "BGJOB_CHAOS"
IN_MEMORY = Path("/dev/shm")


class Violation(Exception):
    """An invariant does not hold."""


class Template:
    """A process that forks others on order. Without the last one it knows that we were killed, and cleans up."""

    def __init__(self, *argv: str) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._mutex = threading.Lock()
        with theirs:
            self._process = subprocess.Popen([sys.executable, *argv], stdin=theirs.fileno())

    def order(self, message: bytes, *descriptors: int) -> None:
        with self._mutex:
            socket.send_fds(self._orders, [message], descriptors)

    def close(self) -> None:
        self.order(END)
        self._orders.close()
        self._process.wait(PATIENCE_S)


class Zygote:
    """One of a trial's own, and through its report all that came to be from it."""

    def __init__(self, template: Template, role: Role | None) -> None:
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ticket, ticket_office = os.pipe()
        self._report, report = os.pipe()
        template.order((role or "none").encode(), theirs.fileno(), ticket, report)
        if role:
            os.write(ticket_office, b"1")
        theirs.close()
        for fd in (ticket, ticket_office, report):
            os.close(fd)

    def stopped_pid(self) -> int:
        """Of the one in the role."""
        pid = int(self._hear())
        wait_until(lambda: is_stopped(pid), f"{pid} stops")
        return pid

    def wait_until_all_are_gone(self) -> None:
        if left := self._hear():
            raise Violation(f"a second process has reported: {left!r}")

    def _hear(self) -> bytes:
        if not select.select([self._report], [], [], PATIENCE_S)[0]:
            raise Violation("a zygote, guard or shim is left")
        return os.read(self._report, 100)

    def close(self) -> None:
        self.requests.close()
        os.close(self._report)


class Server:
    """Executes what it is told; may die at any time."""

    def __init__(
        self, template: Template, environment: Mapping[str, str], zygote: socket.socket | None, many: bool
    ) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(PATIENCE_S)
        order = json.dumps({"environment": dict(environment), "many": many})
        with theirs:
            descriptors = [theirs.fileno()] + ([zygote.fileno()] if zygote else [])
            template.order(order.encode(), *descriptors)
        if zygote:
            zygote.close()
        self.pid = int(self._line.recv(100) or b"0")  # 0: killed before it could say; its answers are none

    def stop(self) -> None:
        self._line.send(b"stop")
        wait_until(lambda: is_stopped(self.pid), f"server {self.pid} stops")

    def ask(self, command: str, options: Mapping[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # it is dead, and so is its answer
            self._line.send(json.dumps({"command": command, "options": dict(options)}).encode())

    def answer(self) -> dict[str, str]:
        """The job's id, or an error; nothing if the server has died."""
        try:
            answer = self._line.recv(1 << 17)
        except ConnectionResetError:
            answer = b""
        return dict(json.loads(answer)) if answer else {}

    def close(self) -> None:
        self._line.close()


class Scene:
    """One trial: its directory, its home, and the processes that it has."""

    def __init__(self, stage: "Stage", directory: Path, settings: Mapping[str, str]) -> None:
        self._stage, self.directory = stage, directory
        directory.mkdir()
        self.home = directory / "home"
        self.gate = directory / "gate"
        os.mkfifo(self.gate)
        own = {"BGJOB_HOME": str(self.home), "GATE": str(self.gate)}
        self.environment = {**os.environ, **own, **settings}
        self.jobs: Jobs = open_jobs(self.environment, many=False)
        self.zygote: Zygote | None = None
        self.server: Server | None = None
        self.leave = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind:
            self._end_all_jobs()
        self.leave.close()

    def with_zygote(self, role: Role | None) -> Zygote:
        self.zygote = Zygote(self._stage.zygotes, role)
        self.leave.callback(self.zygote.close)
        self.jobs.context.spawner._wants_zygote = True
        self.jobs.context.spawner._requests = self.zygote.requests
        self.leave.callback(self.jobs.close)
        return self.zygote

    def with_server(self, launch: Launch) -> Server:
        zygote = self.with_zygote(None) if launch == "zygote running" else None
        return self.with_server_of(zygote, many=launch != "fresh")

    def with_server_of(self, zygote: Zygote | None, *, many: bool = True) -> Server:
        requests = zygote.requests if zygote else None
        self.jobs.context.spawner._requests = None  # it is the server's
        self.server = Server(self._stage.servers, self.environment, requests, many)
        self.leave.callback(self.server.close)
        return self.server

    def trace(self, pid: int, point: Point | None) -> None:
        self.traced = Tracer(pid, point, self.directory / "trace")
        self.leave.callback(self.traced.close)

    def dismiss(self) -> None:
        """The server goes, and with it all that is only there for the next job."""
        self.jobs.close()
        if self.server:
            self.server.close()
        if self.zygote:
            self.zygote.wait_until_all_are_gone()

    def job_ids(self) -> list[str]:
        return sorted(entry.name for entry in (self.home / "jobs").iterdir())

    def check_nothing_is_left(self) -> None:
        self.check_nothing_is_held()
        for job_id in self.job_ids():
            if left := processes.marked(job_id):
                raise Violation(f"processes are left: {left}")
            if groups := [name for name in read_groups(f"{self.home}/jobs/{job_id}") if Path(name).exists()]:
                raise Violation(f"control groups are left: {groups}")

    def check_nothing_is_held(self) -> None:
        """Who has been killed closes what it had one by one: it may take a moment."""
        wait_until(lambda: not self._held(), "everything is free", then=lambda: f"held: {self._held()}")
        for bug in self.home.glob("jobs/*/shim-error.txt"):
            raise Violation(f"a shim met a bug of its own: {bug.read_text().splitlines()[-1]}")

    def _held(self) -> list[str]:
        """Slots, drafts and jobs that somebody has locked."""
        locks = [*(self.home / "slots").iterdir(), *self.home.glob("*/*/spec.json")]
        return [str(path.relative_to(self.home)) for path in locks if jobdir.is_locked(str(path))]

    def _end_all_jobs(self) -> None:
        """Whatever happened: a trial leaves no process of a job behind."""
        for job_id in self.job_ids():
            if processes.marked(job_id):
                self.jobs.kill(job_id, grace_s=0)


class Stage:
    """Whatever is started while it stands carries its mark, and is gone when it closes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mark = f"{MARK}={directory}"
        self._scenes = itertools.count()
        os.environ[MARK] = str(directory)
        self.zygotes = Template("-I", "-S", "-E", str(HERE / "zygotes.py"), PACKAGE_ROOT)
        self.servers = Template(str(HERE / "servers.py"))

    def scene(self, **settings: str) -> Scene:
        return Scene(self, self.directory / str(next(self._scenes)), settings)

    def everybody(self) -> list[int]:
        return [
            pid for pid in every_pid() if pid != os.getpid() and processes._carries(pid, self.mark.encode())
        ]

    def close(self) -> None:
        self.zygotes.close()
        self.servers.close()
        del os.environ[MARK]
        try:
            wait_until(lambda: not self.everybody(), "all are gone", then=lambda: f"left: {self.everybody()}")
        finally:
            for pid in self.everybody():
                processes.send(pid, signal.SIGKILL)


@contextlib.contextmanager
def built_stage() -> Iterator[Stage]:
    """In memory where that is possible: homes are made and removed by the thousand."""
    directory = tempfile.mkdtemp(prefix="bgjob-", dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None)
    try:
        with contextlib.closing(Stage(Path(directory))) as stage:
            yield stage
    finally:
        if not os.environ.get("BGJOB_CHAOS_KEEP"):  # what violated an invariant, to look at
            shutil.rmtree(directory)
