"""The hosts of these tests are what the tests take them for."""

import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.system import processes
from tests.clusters.ssh_hosts import NOISE, SshHosts, shell_is_noisy
from tests.support.process_table import wait_until_gone
from tests.support.waiting import PATIENCE_S, wait_until

BOOT_ID = "echo; cat /proc/sys/kernel/random/boot_id"


class Cat:
    """`cat` on a host: what is said to it comes back, while the line holds."""

    def __init__(self, hosts: SshHosts) -> None:
        command = hosts.command(hosts.h1, "cat")
        self._ssh = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.say("hello")
        assert self.hears(PATIENCE_S) == "hello"

    def say(self, word: str) -> None:
        assert self._ssh.stdin
        self._ssh.stdin.write(f"{word}\n".encode())
        self._ssh.stdin.flush()

    def hears(self, within_s: float) -> str | None:
        """None: nothing in that time."""
        assert self._ssh.stdout
        if not select.select([self._ssh.stdout], [], [], within_s)[0]:
            return None
        return self._ssh.stdout.readline().decode().strip()

    def wait(self) -> int:
        return self._ssh.wait(PATIENCE_S)

    def close(self) -> None:
        self._ssh.kill()
        self._ssh.communicate()


@pytest.fixture
def cat(ssh_hosts: SshHosts) -> Iterator[Cat]:
    cat = Cat(ssh_hosts)
    yield cat
    cat.close()


def test_each_has_a_home_of_its_own(ssh_hosts: SshHosts) -> None:
    homes = [ssh_hosts.run(host, "echo; echo $HOME").split()[-1] for host in (ssh_hosts.h1, ssh_hosts.h2)]
    assert homes == [str(host.home) for host in (ssh_hosts.h1, ssh_hosts.h2)]


def test_each_has_a_python_that_the_agent_can_use(ssh_hosts: SshHosts) -> None:
    asked = "python3 -I -S -c 'import sys; print(sys.version_info >= (3, 11))'"
    assert ssh_hosts.run(ssh_hosts.h1, asked) == "True\n"


def test_they_are_other_machines(ssh_hosts: SshHosts) -> None:
    if not ssh_hosts.h1.machine.is_real:
        pytest.skip("only root can make other machines")
    seen = {ssh_hosts.run(host, BOOT_ID).split()[-1] for host in (ssh_hosts.h1, ssh_hosts.h2)}
    assert len(seen | {processes.boot_id()}) == 3
    assert ssh_hosts.run(ssh_hosts.h1, "uname -n") == "h1\n"


def test_a_process_is_found_by_its_number_over_there(ssh_hosts: SshHosts) -> None:
    command = ssh_hosts.command(ssh_hosts.h1, "echo $$; exec sleep 1000")
    with subprocess.Popen(command, stdout=subprocess.PIPE) as ssh:
        assert ssh.stdout
        pid = ssh_hosts.h1.machine.pid_here(int(ssh.stdout.readline()))
        wait_until(lambda: processes.name_of(pid) == "sleep")
        ssh.kill()
    processes.send(pid, 9)
    wait_until_gone(pid)


def test_the_login_shell_of_the_second_prints(ssh_hosts: SshHosts) -> None:
    if not shell_is_noisy():
        pytest.skip("the login shell reads no file before a command")
    assert ssh_hosts.run(ssh_hosts.h2, "echo mine").startswith(NOISE)
    assert ssh_hosts.run(ssh_hosts.h1, "echo mine") == "mine\n"


def test_a_hole_in_the_network_lets_nothing_through_and_tells_no_end(ssh_hosts: SshHosts, cat: Cat) -> None:
    with ssh_hosts.h1.line.silent():
        cat.say("lost?")
        assert cat.hears(0.3) is None
    assert cat.hears(PATIENCE_S) == "lost?"


def test_a_line_that_is_cut_can_be_made_again(ssh_hosts: SshHosts, cat: Cat) -> None:
    ssh_hosts.h1.line.cut()
    assert cat.wait() == 255
    assert ssh_hosts.run(ssh_hosts.h1, "echo back") == "back\n"


def test_connections_are_refused_for_a_while(ssh_hosts: SshHosts, cat: Cat) -> None:
    with ssh_hosts.h1.line.refused():
        assert cat.wait() == 255
        assert (
            subprocess.run(
                ssh_hosts.command(ssh_hosts.h1, "true"), capture_output=True, check=False
            ).returncode
            == 255
        )
    assert ssh_hosts.run(ssh_hosts.h1, "echo back") == "back\n"


@pytest.mark.parametrize("who", ["client", "session"])
def test_either_end_of_ssh_can_be_killed(ssh_hosts: SshHosts, cat: Cat, who: str) -> None:
    if who == "client":
        ssh_hosts.kill_clients()
    else:
        ssh_hosts.h1.kill_sessions()
    assert cat.wait() in (255, -9)


def test_a_machine_that_is_restarted_has_forgotten_its_processes(ssh_hosts: SshHosts, tmp_path: Path) -> None:
    host = ssh_hosts.h1
    if not host.machine.is_real:
        pytest.skip("only root can make other machines")
    before = ssh_hosts.run(ssh_hosts.h1, f"{BOOT_ID}; setsid sleep 1000 > /dev/null 2>&1 &").strip()
    host.restart_machine()
    assert ssh_hosts.run(ssh_hosts.h1, BOOT_ID).strip() != before
    assert not [pid for pid in host.machine.pids() if processes.name_of(pid) == "sleep"]
