"""What a job is doing: CPU, memory, processes, ports and bytes of real processes."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bgjob.api import Jobs
from bgjob.api import activity as activity_module
from bgjob.api.activity import Activity, Listening, activity, listening_ports, port_holder
from bgjob.system import processes
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")

PYTHON = sys.executable
MIB = 1 << 20
READY = "import sys; print('ready', flush=True); sys.stdin.read()"
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program and returns when it has said that it is ready; it ends with its stdin."""
    with contextlib.ExitStack() as ours:

        def start(*command: str, pass_fds: tuple[int, ...] = ()) -> "subprocess.Popen[bytes]":
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=pass_fds
            )
            ours.enter_context(process)
            ours.callback(process.kill)
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            return process

        yield start


def of_tree(process: "subprocess.Popen[bytes]") -> Activity:
    return activity([process.pid, *processes.descendants(process.pid)])


def test_cpu_time_counts_children_that_have_ended(start: Start) -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    idle = start(PYTHON, "-c", READY)
    spent_by_child = start("sh", "-c", f"'{PYTHON}' -c '{burn}'; echo ready; read x")
    itself = start(PYTHON, "-c", f"{burn}\n{READY}")
    for process in (spent_by_child, itself):
        cpu_s = activity([process.pid]).cpu_s
        assert cpu_s is not None
        assert 0.28 <= cpu_s < 3
    assert (activity([idle.pid]).cpu_s or 0) < 0.28


def test_memory_is_what_the_tree_holds_with_shared_pages_counted_once(start: Start) -> None:
    """A child forked after 64 MiB were filled shares them: RSS would say 128."""
    fill = "import os; data = b'x' * (64 << 20); child = os.fork(); child and print('ready', flush=True); os.read(0, 1)"
    process = start(PYTHON, "-c", fill)
    wait_until(lambda: of_tree(process).process_count == 2)
    seen = of_tree(process)
    assert seen.memory_kind == "pss"
    assert seen.memory_bytes is not None
    assert 64 * MIB < seen.memory_bytes < 110 * MIB


def test_big_memory_is_told_as_rss_because_pss_takes_long(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(PYTHON, "-c", f"data = b'x' * (64 << 20); {READY}")
    exact = activity([process.pid])
    monkeypatch.setattr(activity_module, "PSS_UP_TO_BYTES", 32 * MIB)
    seen = activity([process.pid])
    assert (exact.memory_kind, seen.memory_kind) == ("pss", "rss")
    assert exact.memory_bytes is not None
    assert seen.memory_bytes is not None
    assert exact.memory_bytes <= seen.memory_bytes < exact.memory_bytes + 32 * MIB


def test_the_tree_says_who_started_whom_and_what_they_run(start: Start) -> None:
    process = start("sh", "-c", "sleep 1234 & echo ready; read x")
    wait_until(lambda: [p.command for p in of_tree(process).tree or []][1:] == ["sleep 1234"])
    shell, sleep = of_tree(process).tree or []
    assert (shell.pid, shell.parent_pid, sleep.parent_pid) == (process.pid, os.getpid(), process.pid)
    assert shell.command.startswith("sh -c sleep 1234 & ")
    wait_until(lambda: [p.state for p in of_tree(process).tree or []] == ["sleeping", "sleeping"])
    os.kill(sleep.pid, 19)
    wait_until(lambda: [p.state for p in of_tree(process).tree or []] == ["sleeping", "stopped"])
    os.kill(sleep.pid, 9)


def test_a_command_line_is_short_and_harmless(start: Start) -> None:
    process = start("sh", "-c", "echo ready; read x", "\x1b[31mred\n", "y" * 5000)
    (shell,) = activity([process.pid]).tree or []
    assert len(shell.command) == activity_module.COMMAND_LENGTH
    assert shell.command.startswith("sh -c echo ready; read x  [31mred  yyy")
    assert shell.command.endswith("y…")


def test_a_strange_process_name_does_not_break_the_record(start: Start) -> None:
    rename = "import ctypes; ctypes.CDLL(None).prctl(15, b') R 1 (x', 0, 0, 0)"
    process = start(PYTHON, "-c", f"{rename}; {READY}")
    (seen,) = activity([process.pid]).tree or []
    assert (seen.pid, seen.parent_pid) == (process.pid, os.getpid())


def test_bytes_read_and_written_are_counted(start: Start) -> None:
    copy = "import os; zero, null = os.open('/dev/zero', 0), os.open('/dev/null', 1)"
    process = start(PYTHON, "-c", f"{copy}; os.write(null, os.read(zero, 5 << 20) * 2); {READY}")
    seen = activity([process.pid])
    assert seen.read_bytes is not None
    assert seen.written_bytes is not None
    assert 5 * MIB < seen.read_bytes < 10 * MIB
    assert 10 * MIB < seen.written_bytes < 11 * MIB


def test_processes_that_are_gone_are_left_out(start: Start) -> None:
    process = start(PYTHON, "-c", READY)
    gone = subprocess.Popen(["true"])
    gone.wait()
    seen = activity([gone.pid, process.pid])
    assert seen.process_count == 1
    assert [p.pid for p in seen.tree or []] == [process.pid]
    assert None not in (seen.cpu_s, seen.memory_bytes, seen.read_bytes, seen.listening)


# -- ports ------------------------------------------------------------------------------------------

SERVERS = {
    "127.0.0.1": "socket.create_server(('127.0.0.1', 0))",
    "0.0.0.0": "socket.create_server(('', 0))",
    "::1": "socket.create_server(('::1', 0), family=socket.AF_INET6)",
    "::": "socket.create_server(('::', 0), family=socket.AF_INET6, dualstack_ipv6=True)",
}


def server(create: str, port_file: Path) -> str:
    return f"import socket; s = {create}; open('{port_file}', 'w').write(str(s.getsockname()[1])); {READY}"


@pytest.mark.parametrize(("address", "create"), SERVERS.items(), ids=SERVERS)
def test_a_listening_port_is_told_with_its_address_and_process(
    start: Start, tmp_path: Path, address: str, create: str
) -> None:
    process = start(PYTHON, "-c", server(create, tmp_path / "port"))
    port = int((tmp_path / "port").read_text())
    assert listening_ports([process.pid]) == [Listening(port, address, process.pid)]
    assert activity([process.pid]).listening == [Listening(port, address, process.pid)]
    assert port_holder(port) == process.pid


@pytest.mark.parametrize("create", SERVERS.values(), ids=SERVERS)
def test_the_kernel_lists_the_same_ports_when_it_cannot_be_asked_for_them(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, create: str
) -> None:
    process = start(PYTHON, "-c", server(create, tmp_path / "port"))
    asked = listening_ports([process.pid])
    monkeypatch.setattr(
        activity_module, "SOCK_DIAG_BY_FAMILY", 99
    )  # refused with an error, as without sock_diag
    with pytest.raises(OSError, match="cannot be asked"):
        list(activity_module._ask_for_listeners(socket.AF_INET))
    assert listening_ports([process.pid]) == asked
    assert len(asked or []) == 1


def test_only_listening_sockets_of_these_processes_count(start: Start) -> None:
    """Ours listens, theirs is connected to it and has one that is bound but does not listen."""
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        client = f"import socket; c = socket.create_connection(('127.0.0.1', {port}))"
        process = start(PYTHON, "-c", f"{client}; b = socket.socket(); b.bind(('127.0.0.1', 0)); {READY}")
        assert listening_ports([process.pid]) == []
        assert Listening(port, "127.0.0.1", os.getpid()) in (listening_ports([os.getpid()]) or [])
        assert port_holder(port) == os.getpid()
    assert port_holder(port) is None


def test_a_socket_that_workers_share_is_told_once(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as shared:
        workers = [start(PYTHON, "-c", READY, pass_fds=(shared.fileno(),)).pid for _ in range(2)]
        port = shared.getsockname()[1]
    assert listening_ports(workers) == [Listening(port, "127.0.0.1", workers[0])]
    assert listening_ports(workers[::-1]) == [Listening(port, "127.0.0.1", workers[1])]


def test_listening_sockets_are_found_among_many_connections(start: Start) -> None:
    connections = (
        "import socket; first = socket.create_server(('127.0.0.1', 0), backlog=200); "
        "many = [socket.create_connection(first.getsockname()) for _ in range(100)]; "
        "last = [socket.create_server(('127.0.0.1', 0)) for _ in range(5)]; "
    )
    process = start(PYTHON, "-c", connections + READY)
    asked = listening_ports([process.pid])
    assert len(asked or []) == 6
    inodes = activity_module._sockets(process.pid) or set()
    read = [
        found
        for found in activity_module._read_listeners("self", "tcp", socket.AF_INET)
        if found[0] in inodes
    ]
    assert sorted(port for _, port, _ in read) == [listening.port for listening in asked or []]


def test_a_port_in_another_network_is_told(start: Start, tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-Urn", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("no user namespaces here")
    here = start(PYTHON, "-c", server(SERVERS["127.0.0.1"], tmp_path / "here"))
    there = start("unshare", "-Urn", PYTHON, "-c", server(SERVERS["0.0.0.0"], tmp_path / "there"))
    ports = [int((tmp_path / name).read_text()) for name in ("here", "there")]
    both = {Listening(ports[0], "127.0.0.1", here.pid), Listening(ports[1], "0.0.0.0", there.pid)}
    assert {*(listening_ports([here.pid, there.pid]) or [])} == both
    assert {*(listening_ports([there.pid, here.pid]) or [])} == both


def test_the_port_of_a_job_is_found(jobs: Jobs, tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(server(SERVERS["127.0.0.1"], tmp_path / "port"))
    job = jobs.execute(f"'{PYTHON}' {script}; true")
    assert job.run is not None
    wait_until(lambda: bool(jobs.output(job.id).stdout))
    pids = processes.descendants(job.run.shim_pid)
    seen = activity(pids)
    port = int((tmp_path / "port").read_text())
    assert seen.listening == [Listening(port, "127.0.0.1", pids[-1])]
    assert port_holder(port) == pids[-1]
    assert (seen.process_count, pids[0]) == (2, job.run.pid)


# -- where the kernel refuses -----------------------------------------------------------------------

UNPRIVILEGED = """
import ctypes, dataclasses, json, os, socket
from bgjob.api.activity import activity, port_holder
PR_SET_DUMPABLE = 4
libc = ctypes.CDLL(None)
if os.getuid() == 0:
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)

def child(dumpable):
    told, tell = os.pipe()
    if (pid := os.fork()) == 0:
        server = socket.create_server(("127.0.0.1", 0))
        libc.prctl(PR_SET_DUMPABLE, dumpable, 0, 0, 0)  # 0: as sudo is: not to be looked into
        os.write(tell, b"%d" % server.getsockname()[1])
        os.read(told, 0) or os.read(os.pipe()[0], 1)
    return pid, int(os.read(told, 9))

(plain, port), (secretive, secret_port) = child(1), child(0)
seen = [dataclasses.asdict(activity(pids)) for pids in ([plain], [secretive], [plain, secretive])]
print(json.dumps([os.getuid(), port, *seen, port_holder(port) == plain, port_holder(secret_port)]))
os.kill(plain, 9), os.kill(secretive, 9)
"""


def test_an_ordinary_user_is_told_all_about_its_own_processes_and_little_about_secretive_ones() -> None:
    answer = subprocess.run([PYTHON, "-c", UNPRIVILEGED], stdout=subprocess.PIPE, check=True)
    uid, port, plain, secretive, both, is_holder, secret_holder = json.loads(answer.stdout)
    assert uid != 0
    assert plain["memory_kind"] == "pss"
    assert [listening["port"] for listening in plain["listening"]] == [port]
    assert plain["read_bytes"] is not None
    assert secretive["memory_kind"] == "rss"
    assert (secretive["listening"], secretive["read_bytes"], secretive["written_bytes"]) == (None, None, None)
    assert secretive["cpu_s"] is not None
    assert secretive["tree"][0]["state"]
    assert both["memory_kind"] == "rss"
    assert [listening["port"] for listening in both["listening"]] == [port]
    assert (is_holder, secret_holder) == (True, None)


def test_a_system_without_proc_says_that_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity_module, "LINUX", False)
    assert activity([os.getpid()]) == Activity(1, None, None, None, None, None, None, None)
    assert listening_ports([os.getpid()]) is None
    assert port_holder(1) is None
