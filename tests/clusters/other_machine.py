"""Another machine, as far as bgjob can tell: other process ids, another boot id, another host name.

Namespaces of the kernel, for which one must be root; elsewhere `is_real` is false, and the programs run on this
machine. The files and the loopback network are those of this machine in either case.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from bgjob.system import processes
from tests.support.process_table import every_pid, wait_until_gone

UNSHARE = ("unshare", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child")
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# Reaps what has lost its parent, and ends when the test closes its stdin or is killed: with it all processes end.
INIT = f"""
import signal, socket, subprocess, sys
subprocess.run(["mount", "--bind", sys.argv[2], "{BOOT_ID}"], check=True)
socket.sethostname(sys.argv[1])
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("up", flush=True)
sys.stdin.read()
"""


def can_be_made() -> bool:
    """Asked of the kernel: root in a container may not be allowed to."""
    if os.geteuid() != 0:
        return False
    return subprocess.run([*UNSHARE, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


class OtherMachine(contextlib.AbstractContextManager["OtherMachine"]):
    def __init__(self, name: str, directory: Path) -> None:
        self.name, self.is_real = name, can_be_made()
        self._boot_id = directory / f"{name}.boot-id"
        self._holder: subprocess.Popen[bytes] | None = None
        self._namespace, self._first = "", 0
        self.power_on()

    def __exit__(self, *_: object) -> None:
        self.power_off()

    def power_on(self) -> None:
        """It knows nothing of the processes of before, and has a new boot id."""
        self._boot_id.write_text(f"{uuid4()}\n")
        if self.is_real:
            command = [*UNSHARE, sys.executable, "-I", "-S", "-c", INIT, self.name, str(self._boot_id)]
            self._holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert self._holder.stdout
            assert self._holder.stdout.readline() == b"up\n"
            (self._first,) = processes.children(self._holder.pid)
            self._namespace = _namespace_of(self._first)

    def power_off(self) -> None:
        """All its processes are gone, and nothing of theirs is written any more."""
        if self._holder:
            pids = self.pids()
            self._holder.kill()
            self._holder.communicate()
            self._holder = None
            for pid in pids:
                wait_until_gone(pid)

    def command(self, argv: Sequence[str]) -> list[str]:
        """What runs a program there."""
        if not self._holder:
            return list(argv)
        return ["nsenter", "--target", str(self._first), "--mount", "--uts", "--pid", "--", *argv]

    def pids(self) -> list[int]:
        """Of all its processes, by the numbers that they have here."""
        return [pid for pid in every_pid() if _namespace_of(pid) == self._namespace]

    def pid_here(self, pid_there: int) -> int:
        """The number that a process of it has on this machine."""
        if not self._holder:
            return pid_there
        found = [pid for pid in self.pids() if _numbers_of(pid)[-1:] == [pid_there]]
        assert found, f"no process {pid_there} on {self.name}"
        return found[0]


def _namespace_of(pid: int) -> str:
    return processes.link_target(f"/proc/{pid}/ns/pid")


def _numbers_of(pid: int) -> list[int]:
    """In each namespace that it is in, ours first."""
    status = (processes.read_if_there(f"/proc/{pid}/status") or b"").decode(errors="replace")
    lines = [line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")]
    return [int(number) for numbers in lines for number in numbers]
