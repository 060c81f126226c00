"""A private Slurm: a controller, munge and several node daemons on this one host, all below one directory.

As root. Ports are free ones and node names are this cluster's own, so that several can be up at once: by its
name a node has a control group. Daemons are our children; what they start carries SLURM_CONF in its environment,
and by that it is found when the cluster ends.
"""

import contextlib
import os
import random
import secrets
import signal
import socket
import stat
import subprocess
from pathlib import Path
from typing import Literal, Self

from bgjob.system import cgroup, processes
from tests.clusters.installed import program
from tests.support.waiting import wait_until

Track = Literal["linuxproc", "cgroup"]
"""How Slurm knows which processes are a job's: by the process tree, or by a control group."""
PORTS = range(20_000, 32_000)  # below those that the kernel gives to clients
NODES, CPUS, MEMORY_MB, GPUS = 3, 2, 2000, 2
DAEMON_ENDS_S = 10.0

CONF = """\
ClusterName=bgjob{first_port}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={first_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge/socket
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmdSpoolDir={directory}/spool/%n
SlurmctldLogFile={directory}/log/slurmctld
SlurmdLogFile={directory}/log/slurmd-%n
ProctrackType=proctrack/{track}
TaskPlugin={task_plugin}
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=64
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/linux
SlurmdTimeout=10
SlurmctldTimeout=10
InactiveLimit=0
KillWait=30
MinJobAge=30
SlurmdParameters=config_overrides
GresTypes=gpu
"""
NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} Boards=1 SocketsPerBoard=1 "
    "CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory={memory_mb} {more}\n"
)
PARTITIONS = """\
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=5 PreemptMode=OFF
PartitionName=low Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10
PartitionName=short Nodes=ALL MaxTime=1 State=UP
PartitionName=changing Nodes=ALL MaxTime=INFINITE State=UP
"""
# What each node is said to have: labels, and devices that only look like GPUs.
NODE_TRAITS = (f"Feature=fast,a100 Gres=gpu:{GPUS}", "Feature=fast", "Feature=slow")
CGROUP_CONF = """\
CgroupAutomount=no
CgroupPlugin={plugin}
ConstrainRAMSpace={constrain}
AllowedSwapSpace=0
"""


class SlurmCluster:
    """Up while it is entered: `with SlurmCluster(directory, "cgroup") as cluster`."""

    def __init__(self, directory: Path, track: Track = "linuxproc") -> None:
        self.directory, self.track = directory, track
        self.conf = directory / "slurm.conf"
        self._ports = _free_ports(NODES + 1)
        # Slurm's `n[1-3]` for several: a number at the end, and only there.
        prefix = "n" + "".join(chr(ord("a") + int(digit)) for digit in str(self._ports[0]))
        self.nodes = [f"{prefix}{number}" for number in range(1, NODES + 1)]
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self._write_files()
            self._start_munge()
            self.start_controller()
            for node in self.nodes:
                self.start_node(node)
            self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        """Only what was started here: our children, and what has our configuration in its environment."""
        for daemon in reversed(self._daemons.values()):
            _end(daemon)
        self._daemons.clear()
        wait_until(self._ended_processes, "no process of the cluster is left", every_s=0.05)
        _remove_groups(self.nodes)

    @property
    def environ(self) -> dict[str, str]:
        """For the commands of Slurm: without what a surrounding Slurm has set."""
        plain = {
            name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))
        }
        return {**plain, "SLURM_CONF": str(self.conf)}

    def run(self, *argv: str) -> str:
        """What a command of Slurm prints."""
        done = subprocess.run(argv, env=self.environ, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout

    # -- its daemons --------------------------------------------------------------------------------

    def start_controller(self) -> None:
        self._start("slurmctld", program("slurmctld"), "-D", "-f", str(self.conf))

    def start_node(self, node: str) -> None:
        (self.directory / "spool" / node).mkdir(exist_ok=True)
        self._start(node, program("slurmd"), "-D", "-N", node, "-f", str(self.conf))

    def kill_daemon(self, name: str) -> None:
        """kill -9 of "slurmctld" or of a node's daemon."""
        daemon = self._daemons.pop(name)
        daemon.kill()
        daemon.wait()

    def stop_daemon(self, name: str) -> None:
        """SIGSTOP: it accepts connections and answers nothing, as a machine that hangs."""
        self._daemons[name].send_signal(signal.SIGSTOP)

    def continue_daemon(self, name: str) -> None:
        self._daemons[name].send_signal(signal.SIGCONT)

    def wait_until_ready(self) -> None:
        wait_until(self._is_ready, "all nodes are idle", self._logs, within_s=60, every_s=0.1)

    def wait_until_saved(self, number: str) -> None:
        """The controller writes down how jobs stand every few seconds: this job, as it is now."""
        mark = secrets.token_hex(8)
        self.run("scontrol", "update", f"jobid={number}", f"admincomment={mark}")
        saved = self.directory / "state" / "job_state"
        wait_until(
            lambda: mark.encode() in saved.read_bytes(), "the controller has saved the job", every_s=0.1
        )

    def processes(self) -> list[int]:
        """All that have our configuration in their environment: step daemons, batch scripts, jobs, commands."""
        mark = f"SLURM_CONF={self.conf}".encode()
        return [pid for pid in _pids() if mark in _environ(pid)]

    def _start_munge(self) -> None:
        place = self.directory / "munge"
        key = place / "key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        files = {
            "socket": "socket",
            "key-file": "key",
            "pid-file": "pid",
            "log-file": "log",
            "seed-file": "seed",
        }
        options = [f"--{option}={place / name}" for option, name in files.items()]
        self._start("munged", program("munged"), "--foreground", "--force", *options)
        wait_until((place / "socket").is_socket, "munge listens", every_s=0.02)

    def _start(self, name: str, *argv: str) -> None:
        with (self.directory / "log" / f"{name}.out").open("ab") as out:
            self._daemons[name] = subprocess.Popen(
                argv,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def _is_ready(self) -> bool:
        done = subprocess.run(
            ["sinfo", "--noheader", "--Node", "--partition=main", "--format=%N %t"],
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        return sorted(done.stdout.split("\n")[:-1]) == [f"{node} idle" for node in self.nodes]

    def _ended_processes(self) -> bool:
        left = self.processes()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    # -- its files ----------------------------------------------------------------------------------

    def _write_files(self) -> None:
        for name in ("state", "log", "spool", "munge", "devices"):
            (self.directory / name).mkdir(parents=True, mode=0o755)
        self.conf.write_text(self._conf())
        constrains = "yes" if self.track == "cgroup" else "no"
        plugin = "cgroup/v1" if Path("/sys/fs/cgroup/freezer").is_dir() else "cgroup/v2"
        self._write("cgroup.conf", CGROUP_CONF.format(plugin=plugin, constrain=constrains))
        self._write("gres.conf", "".join(map(self._gpu, range(GPUS))))

    def _conf(self) -> str:
        host = socket.gethostname().partition(".")[0]
        conf = CONF.format(
            directory=self.directory,
            host=host,
            first_port=self._ports[0],
            track=self.track,
            task_plugin="task/cgroup" if self.track == "cgroup" else "task/none",
        )
        for name, port, traits in zip(self.nodes, self._ports[1:], NODE_TRAITS, strict=True):
            conf += NODE.format(name=name, host=host, port=port, cpus=CPUS, memory_mb=MEMORY_MB, more=traits)
        return conf + PARTITIONS

    def _gpu(self, number: int) -> str:
        """A line of gres.conf for a device that only has the looks of one: /dev/null under another name."""
        device = self.directory / "devices" / f"gpu{number}"
        os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        return f"NodeName={self.nodes[0]} Name=gpu File={device}\n"

    def _write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def _logs(self) -> str:
        return "\n".join(
            f"== {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-15:])
            for path in sorted((self.directory / "log").iterdir())
        )


def can_track_by_group() -> bool:
    """Whether Slurm could make its control groups here: freezer and memory, of version 1."""
    tops = [cgroup.find_tops().get(controller) for controller in ("freezer", "memory")]
    return all(top is not None and os.access(top[0], os.W_OK) for top in tops)


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        port = random.choice(PORTS)  # not the first that is free: several clusters may be coming up now
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def _end(daemon: "subprocess.Popen[bytes]") -> None:
    daemon.send_signal(signal.SIGCONT)
    daemon.terminate()
    try:
        daemon.wait(DAEMON_ENDS_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _pids() -> list[int]:
    return [pid for pid in processes.every_pid() if pid != os.getpid()]


def _environ(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _remove_groups(nodes: list[str]) -> None:
    """Deepest first: a control group with others in it cannot be removed."""
    for top, _ in cgroup.find_tops().values():
        for node in nodes:
            for place, _, _ in os.walk(f"{top}/slurm_{node}", topdown=False):
                cgroup.remove(place)
