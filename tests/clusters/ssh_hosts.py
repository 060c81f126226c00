"""Two hosts that are reached by ssh: two sshd on loopback, with keys and homes of their own.

Between a client and its host is a line that a test can cut, refuse or let fall silent (TcpLine). The login shell
of the second host prints.

Each host has a HOME of its own, which sshd sets, and is another machine as far as that can be had (OtherMachine).
Needs no root: whoever runs the tests logs in as themselves.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bgjob.system import processes
from tests.clusters.installed import program
from tests.clusters.other_machine import OtherMachine
from tests.clusters.tcp_line import TcpLine
from tests.support.process_table import every_pid, wait_until_gone
from tests.support.waiting import wait_until

NAMES = ("h1", "h2")
NOISE = "Welcome to h2: {not json}"
NOISY_RC = f"""\
echo '{NOISE}'
printf 'a line without its end'
echo 'and on stderr' >&2
"""
SSHD = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {keys}/{name}
PidFile none
AuthorizedKeysFile {keys}/authorized
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 200
PrintMotd no
SetEnv HOME={home} PATH={path}
"""


class SshHost:
    """One sshd on a machine of its own, the line to it, and the HOME of those who log in."""

    def __init__(self, name: str, keys: Path, directory: Path) -> None:
        self.name, self.home = name, directory / name
        self.home.mkdir()
        self.machine = OtherMachine(name, directory)
        self._log = directory / f"{name}.log"
        self.port = _free_port()
        self._config = directory / f"sshd-{name}.conf"
        place = {"keys": keys, "home": self.home, "path": _path(), "name": name, "port": self.port}
        self._config.write_text(SSHD.format(**place) + _without_penalties())
        self._sshd = self._started()
        self.line = TcpLine(self.port)

    def close(self) -> None:
        self.line.__exit__()
        self.stop()
        self.machine.power_off()

    @property
    def log(self) -> str:
        """What sshd has said."""
        return self._log.read_text()

    # -- the daemon ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """The daemon and the sessions, by kill -9. The jobs run on."""
        for pid in self._daemons():
            processes.send(pid, signal.SIGKILL)
            wait_until_gone(pid)
        self._sshd.kill()
        self._sshd.wait()

    def start_again(self) -> None:
        self._sshd = self._started()

    def restart_machine(self) -> None:
        """Power off and on: no process of it is left, and it has another boot id."""
        self.stop()
        self.machine.power_off()
        self.machine.power_on()
        self.start_again()

    def _started(self) -> "subprocess.Popen[bytes]":
        command = self.machine.command([program("sshd"), "-D", "-e", "-f", str(self._config)])
        with self._log.open("ab") as log:
            sshd = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log, start_new_session=True)
        wait_until(lambda: sshd.poll() is not None or self._answers(), "sshd answers", lambda: self.log)
        assert sshd.poll() is None, self.log
        return sshd

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 5) as line:
            return line.recv(4) == b"SSH-"
        return False

    # -- who is logged in ---------------------------------------------------------------------------

    def sessions(self) -> list[int]:
        """The processes of sshd that have a client."""
        return self._daemons()[1:]

    def kill_sessions(self) -> None:
        """kill -9: what the client started here has lost its stdin and stdout."""
        for pid in self.sessions():
            processes.send(pid, signal.SIGKILL)

    def agents(self) -> list[int]:
        """What the clients run here, that lives as long as their sessions: jobs have left them."""
        below = [pid for session in self.sessions() for pid in processes.descendants(session)]
        return [pid for pid in below if (processes.name_of(pid) or "sshd").startswith("sshd") is False]

    def _daemons(self) -> list[int]:
        """By their number here, the one that listens first."""
        below = [self._sshd.pid, *processes.descendants(self._sshd.pid)]
        return [pid for pid in below if (processes.name_of(pid) or "").startswith("sshd")]


class SshHosts(contextlib.AbstractContextManager["SshHosts"]):
    """Two of them, and how clients reach them."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700)
        self._keys = directory / "keys"
        self._keys.mkdir(mode=0o700)
        for name in ("user", *NAMES):
            keygen = [program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(self._keys / name)]
            subprocess.run(keygen, check=True)
        shutil.copy(self._keys / "user.pub", self._keys / "authorized")
        known = [f"{name} {(self._keys / f'{name}.pub').read_text()}" for name in NAMES]
        (self._keys / "known").write_text("".join(known))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # root's sshd wants an empty directory
        self.h1, self.h2 = (SshHost(name, self._keys, directory) for name in NAMES)
        make_noisy(self.h2.home)

    def __exit__(self, *_: object) -> None:
        for host in (self.h1, self.h2):
            host.close()
        self.kill_clients()

    def options(self, host: SshHost, *, direct: bool = False) -> list[str]:
        """Of ssh, each for -o. `direct`: without the line that a test can cut."""
        return [
            "HostName=127.0.0.1",
            f"Port={host.port if direct else host.line.port}",
            f"User={pwd.getpwuid(os.geteuid()).pw_name}",
            f"HostKeyAlias={host.name}",
            f"IdentityFile={self._keys}/user",
            "IdentitiesOnly=yes",
            f"UserKnownHostsFile={self._keys}/known",
            "StrictHostKeyChecking=yes",
        ]

    def command(self, host: SshHost, *command: str, direct: bool = False) -> list[str]:
        """`ssh host command`."""
        options = [word for option in self.options(host, direct=direct) for word in ("-o", option)]
        return [program("ssh"), "-F", "none", "-o", "BatchMode=yes", *options, host.name, *command]

    def run(self, host: SshHost, *command: str) -> str:
        ssh = self.command(host, *command)
        done = subprocess.run(ssh, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def clients(self) -> list[int]:
        """The processes of `ssh` with our keys."""
        return [pid for pid in every_pid() if processes.name_of(pid) == "ssh" and self._is_ours(pid)]

    def _is_ours(self, pid: int) -> bool:
        return str(self._keys).encode() in (processes.read_if_there(f"/proc/{pid}/cmdline") or b"")

    def kill_clients(self) -> None:
        """kill -9: whoever talks through them has lost the line."""
        for pid in self.clients():
            processes.send(pid, signal.SIGKILL)


def make_noisy(home: Path) -> None:
    """Whatever shell logs in there prints, before it runs the command."""
    for name in (".bashrc", ".zshenv", ".kshrc"):
        (home / name).write_text(NOISY_RC)


def shell_is_noisy() -> bool:
    """Of who runs the tests: a plain sh reads no file before a command."""
    return Path(pwd.getpwuid(os.geteuid()).pw_shell).name in ("bash", "zsh")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _path() -> str:
    """With the Python that has made our environment, and none of our packages."""
    return f"{sys.base_prefix}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def _without_penalties() -> str:
    """A newer sshd refuses an address for a while from which connections are often cut. Ours is one."""
    penalties: Sequence[str] = ("-o", "PerSourcePenalties=no")
    asked = subprocess.run(
        [program("sshd"), "-T", "-f", "/dev/null", *penalties], capture_output=True, check=False
    )
    return "" if b"Bad configuration option" in asked.stderr else "PerSourcePenalties no\n"
