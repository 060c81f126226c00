"""The processes between a caller and a job on an ssh host: found, and killed -9."""

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bgjob.system import processes
from tests.clusters.engine import Ssh
from tests.clusters.target import Target, relays
from tests.support.process_table import parent_of, wait_until_gone
from tests.support.waiting import wait_until

NOTICED_S = 120.0
"""How long a silence may take to be noticed, on a busy machine."""


class FarSide:
    """Of one target by ssh."""

    def __init__(self, target: Target) -> None:
        assert isinstance(target.engine, Ssh)
        self.target, self.host, self.hosts = target, target.engine.host, target.engine.hosts

    def kill(self, who: str, job_id: str) -> None:
        """kill -9, by the name of a method below; returns when they are gone."""
        pids: list[int] = getattr(self, who)(job_id)
        assert pids, f"there is no {who}"
        for pid in pids:
            processes.send(pid, signal.SIGKILL)
        for pid in pids:
            wait_until_gone(pid)

    # -- here -----------------------------------------------------------------------------------------

    def relay(self, _job_id: str) -> list[int]:
        return self._keeper_and_relay()[1:]

    def keeper(self, _job_id: str) -> list[int]:
        return self._keeper_and_relay()[:1]

    def keeper_and_relay(self, _job_id: str) -> list[int]:
        """In this order: a keeper would start another relay."""
        return self._keeper_and_relay()

    def _keeper_and_relay(self) -> list[int]:
        found: list[int] = []

        def are_alone() -> bool:
            """One that was started beside them ends."""
            with contextlib.suppress(OSError):  # gone meanwhile
                pids = relays(self.target.home)
                found[:] = sorted(pids, key=lambda pid: parent_of(pid) in pids)
                return len(pids) == 2
            return False

        wait_until(are_alone, "there are a relay and its keeper")
        return found

    def client(self, _job_id: str) -> list[int]:
        return self.hosts.clients()

    # -- there ------------------------------------------------------------------------------------------

    def session(self, _job_id: str) -> list[int]:
        return self.host.sessions()

    def agent(self, _job_id: str) -> list[int]:
        return self.host.agents()

    def shim(self, job_id: str) -> list[int]:
        return [self.host.machine.pid_here(self._run(job_id)["shim_pid"])]

    def _run(self, job_id: str) -> Mapping[str, Any]:
        path = self.target.far_home / "jobs" / job_id / "run.json"
        wait_until(path.exists, "the job has a record of its run over there")
        record: Mapping[str, Any] = json.loads(path.read_text())
        return record

    # -- what is said of it -----------------------------------------------------------------------------

    def is_reachable(self, job_id: str) -> bool:
        remote = self.target.jobs.status(job_id).job.remote
        return remote is not None and remote.unreachable is None

    def wait_until_unreachable(self, job_id: str) -> None:
        wait_until(lambda: not self.is_reachable(job_id), "it is said that it is away", within_s=NOTICED_S)

    def wait_until_reachable(self, job_id: str) -> None:
        wait_until(lambda: self.is_reachable(job_id), "it is reached again", within_s=NOTICED_S)


@contextlib.contextmanager
def disturbed(by: Callable[[], object], after_ms: float) -> Iterator[None]:
    """Meanwhile, so long from now, it is done once; when it is over, it has been done."""
    timer = threading.Timer(after_ms / 1000, by)
    timer.start()
    try:
        yield
    finally:
        timer.join()


@contextlib.contextmanager
def decoy(job_id: str) -> Iterator[int]:
    """A process of this machine whose environment says that it is of the job. It must be alive in the end."""
    marked = {**os.environ, processes.JOB_ID_VARIABLE: job_id}
    with subprocess.Popen(["sleep", "1000"], env=marked) as innocent:
        yield innocent.pid
        assert innocent.poll() is None
        innocent.kill()
