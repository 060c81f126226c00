"""A small Ray on this machine: a head and further raylets, each on a loopback address and ports of its own.

Whatever it starts is below a process that ends it, by pid; `ray stop` would end every Ray of the machine.
"""

import contextlib
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bgjob.system import processes
from tests.clusters.machine import Machine
from tests.support.waiting import wait_until

# A raylet gives up when a helper process of its own is not ready within 15 s, which a busy machine may need
# (ray-project/ray#65983): it is started again, and that is said.
MOST_STARTS = 4
STORE_BYTES = 80_000_000
# below the ports that the kernel hands out by itself
FIRST_PORT, LAST_PORT, PORTS_OF_A_NODE, MOST_NODES = 20_000, 32_000, 100, 4
PORTS_OF_THE_HEAD = ("ray-client-server-port", "port")
NAMED_PORTS = (
    "metrics-export-port",
    "dashboard-agent-grpc-port",
    "dashboard-agent-listen-port",
    "runtime-env-agent-port",
    "node-manager-port",
    "object-manager-port",
    *PORTS_OF_THE_HEAD,
)

# What a process of Ray is called: a worker has no other name, all others have the path of the package.
OF_RAY = re.compile(rb"^ray::|/site-packages/ray/")

# The nodes run the interpreter of the tests, where bgjob is installed: they do not see it.
WITHOUT_BGJOB = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "bgjob":
            raise ModuleNotFoundError("bgjob is not installed on the nodes", name=name)
sys.meta_path.insert(0, Hidden())
"""


@dataclass
class Node:
    """One raylet, as it was started: it can be killed, and started again at the same place."""

    ip: str
    machine: Machine
    argv: list[str]
    log: Path

    def start(self) -> None:
        for attempt in range(1, MOST_STARTS + 1):
            if self.machine.run(self.argv, str(self.log)) == 0:
                return
            print(f"Ray at {self.ip} did not start ({attempt} of {MOST_STARTS}).", file=sys.stderr)
            self.kill_ray()
        raise RuntimeError(f"Ray at {self.ip} does not start: {self.log.read_text()[-2000:]}")

    def raylet(self) -> int:
        (pid,) = self.machine.named("raylet")
        return pid

    def kill_ray(self) -> None:
        """All of Ray on this machine, and nothing else: its jobs run on."""
        wait_until(self._has_killed_ray, "nothing of Ray is left")

    def _has_killed_ray(self) -> bool:
        left = [pid for pid in self.machine.processes() if OF_RAY.search(_command_of(pid))]
        for pid in left:
            processes.send(pid, signal.SIGKILL)
        return not left


@dataclass
class RayCluster:
    """`nodes[0]` is the head."""

    address: str
    client_address: str
    """For drivers on machines that are no nodes of it."""
    directory: Path
    nodes: list[Node] = field(default_factory=list)

    @property
    def home(self) -> Path:
        """The home directory of all nodes, as on a shared file system. Ray opens its own directory to everybody."""
        return self.directory / "home"

    @property
    def environ(self) -> dict[str, str]:
        """Of its nodes, which share a home directory, and on which bgjob is not installed."""
        return {"HOME": str(self.home), "PYTHONPATH": str(self.directory / "without")}

    def make_directories(self) -> None:
        self.home.mkdir()
        hidden = self.directory / "without" / "sitecustomize.py"
        hidden.parent.mkdir()
        hidden.write_text(WITHOUT_BGJOB)

    def run(self, program: str, *arguments: str) -> str:
        """What a driver of its own prints, as the last line: no test imports Ray."""
        connect = f"ray.init({self.address!r}, namespace='bgjob', log_to_driver=False, logging_level='ERROR')"
        argv = [sys.executable, "-c", f"import ray, sys\n{connect}\n{program}", *arguments]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60, env=environ())
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout.strip().rpartition("\n")[2]


def _command_of(pid: int) -> bytes:
    return processes.read_if_there(f"/proc/{pid}/cmdline") or b""


def environ() -> dict[str, str]:
    """Without the words of another Ray."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return kept | {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DISABLE_IMPORT_WARNING": "1",
        # a node that does not answer is given up after 5 s, not after 15
        "RAY_health_check_period_ms": "1000",
    }


@contextlib.contextmanager
def ray_cluster(directory: Path, *options: Mapping[str, str]) -> Iterator[RayCluster]:
    """A node for each of `options`: words of `ray start`, by name. `directory` has a short path: it has sockets."""
    with contextlib.ExitStack() as stack:
        ports = stack.enter_context(_free_ports())
        client = f"ray://127.0.0.11:{ports['ray-client-server-port']}"
        cluster = RayCluster(f"127.0.0.11:{ports['port']}", client, directory)
        cluster.make_directories()
        for place, words in enumerate(options):
            machine = stack.enter_context(Machine(environ() | cluster.environ))
            node = Node(
                f"127.0.0.{11 + place}",
                machine,
                _argv(cluster, place, ports, words),
                directory / f"node{place}.log",
            )
            cluster.nodes.append(node)
            node.start()
        yield cluster


def _argv(cluster: RayCluster, place: int, ports: Mapping[str, int], words: Mapping[str, str]) -> list[str]:
    shift = PORTS_OF_A_NODE * place
    own = {
        name: str(port + shift) for name, port in ports.items() if not (place and name in PORTS_OF_THE_HEAD)
    }
    given = {
        "node-ip-address": f"127.0.0.{11 + place}",
        "num-cpus": "2",
        "object-store-memory": str(STORE_BYTES),
        "temp-dir": str(cluster.directory / "ray"),
        # it would send what workers print to drivers: nobody here asks for that
        "include-log-monitor": "false",
        **({"address": cluster.address} if place else {"include-dashboard": "false"}),
        **own,
        **words,
    }
    flags = ["--disable-usage-stats", *([] if place else ["--head"])]
    ray = Path(sys.executable).with_name("ray")
    return [
        str(ray),
        "start",
        *flags,
        *itertools.chain(*((f"--{name}", word) for name, word in given.items())),
    ]


@contextlib.contextmanager
def _free_ports() -> Iterator[dict[str, int]]:
    """The ports of the first node, by name; those of the others follow at a distance. They stay ours meanwhile."""
    span = PORTS_OF_A_NODE * MOST_NODES
    for first in range(FIRST_PORT, LAST_PORT, span):
        # whoever has its last port has the whole span
        with socket.socket() as reserved:
            if not (_is_bound(reserved, first + span - 1) and _all_free(range(first, first + span - 1))):
                continue
            named = {name: first + number for number, name in enumerate(NAMED_PORTS)}
            workers = {"min-worker-port": first + 10, "max-worker-port": first + PORTS_OF_A_NODE - 2}
            yield named | workers
            return
    raise RuntimeError(f"no {span} free ports between {FIRST_PORT} and {LAST_PORT}")


def _all_free(ports: range) -> bool:
    for port in ports:
        with socket.socket() as probe:
            if not _is_bound(probe, port):
                return False
    return True


def _is_bound(listener: socket.socket, port: int) -> bool:
    try:
        listener.bind(("", port))
    except OSError:
        return False
    return True
