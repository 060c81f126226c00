"""What jobs run on, as the tests of targets see it: one class for each kind, the same words for all."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from bgjob.remote.ray_process import STUB
from bgjob.system import processes
from tests.clusters.ray_cluster import RayCluster
from tests.clusters.ssh_hosts import SshHost, SshHosts
from tests.support.process_table import every_pid, wait_until_gone


class Engine(Protocol):
    """A host or a cluster that is up."""

    kind: str
    whole: Mapping[str, object]
    """The options of a job that leaves no room for another one, where the target has one slot."""

    def table(self, home: Path, max_jobs: int) -> Mapping[str, object]:
        """The entry of the target in targets.toml, with this home over there; empty: jobs are local."""

    def cut_line(self) -> None:
        """Whoever talks to the target loses the connection, and can make a new one."""

    def unreachable(self) -> contextlib.AbstractContextManager[None]:
        """Meanwhile the target cannot be reached. Its jobs run on."""

    def pid_here(self, job_id: str, pid_there: int) -> int:
        """The number that a process over there has on this machine."""


class Local:
    """No target: the jobs run on this machine."""

    kind = "local"
    whole: Mapping[str, object] = {}

    def table(self, home: Path, max_jobs: int) -> Mapping[str, object]:
        return {}

    def cut_line(self) -> None:
        pass

    def unreachable(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def pid_here(self, job_id: str, pid_there: int) -> int:
        return pid_there


class Ssh:
    """A host: `h1`, or `h2`, whose login shell prints."""

    kind = "ssh"
    whole: Mapping[str, object] = {}

    def __init__(self, hosts: SshHosts, name: str = "h1") -> None:
        self.hosts = hosts
        self.host: SshHost = getattr(hosts, name)

    def table(self, home: Path, max_jobs: int) -> Mapping[str, object]:
        return {
            "kind": "ssh",
            "host": self.host.name,
            "ssh_options": self.hosts.options(self.host),
            "home": str(home),
            "settings": {"max_jobs": max_jobs},
        }

    def cut_line(self) -> None:
        self.host.line.cut()

    @contextlib.contextmanager
    def unreachable(self) -> Iterator[None]:
        with self.host.line.refused():
            yield

    def pid_here(self, job_id: str, pid_there: int) -> int:
        return self.host.machine.pid_here(pid_there)


class Ray:
    """A cluster whose head has most of its CPUs, which are only counted."""

    kind = "ray"
    whole: Mapping[str, object] = {"cpus": 60}
    nodes: tuple[Mapping[str, str], ...] = (
        {"num-cpus": "100"},
        {"num-cpus": "8", "num-gpus": "2", "labels": "kind=gpu"},
    )

    def __init__(self, cluster: RayCluster) -> None:
        self.cluster = cluster
        self._away = cluster.directory / "away"
        self._python = cluster.directory / "python"
        self._python.write_text(f'#!/bin/sh\n[ ! -e {self._away} ] && exec {sys.executable} "$@"\n')
        self._python.chmod(0o700)

    def table(self, home: Path, max_jobs: int) -> Mapping[str, object]:
        return {
            "kind": "ray",
            "address": self.cluster.address,
            "home": str(home),
            "python": str(self._python),
        }

    def cut_line(self) -> None:
        for pid in self.gateways():
            os.kill(pid, signal.SIGKILL)
            wait_until_gone(pid)

    @contextlib.contextmanager
    def unreachable(self) -> Iterator[None]:
        """No gateway can be started."""
        self._away.touch()
        try:
            self.cut_line()
            yield
        finally:
            self._away.unlink()

    def gateways(self) -> list[int]:
        """To this cluster, of any relay."""
        words = {
            pid: (processes.read_if_there(f"/proc/{pid}/cmdline") or b"").split(b"\0") for pid in every_pid()
        }
        return [
            pid
            for pid, argv in words.items()
            if STUB.encode() in argv and self.cluster.address.encode() in argv
        ]

    def pid_here(self, job_id: str, pid_there: int) -> int:
        return pid_there
