"""Whether a job waits for input: real programs on pipes and terminals, and what the kernel tells about them."""

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bgjob.api import Jobs
from bgjob.system import processes, stdin_wait
from bgjob.system.stdin_wait import Input, Wait, input_at, input_of, waits_for_input
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")

PYTHON = sys.executable
NODE_READLINE = "require('readline').createInterface({input: process.stdin, output: process.stdout}).prompt()"
NODE_SERVER = "require('http').createServer().listen(0, '127.0.0.1', () => console.log('ready'))"
needs_node = pytest.mark.skipif(not shutil.which("node"), reason="node is not here")


class Program:
    """A program and everything it starts, with its input in our hands."""

    def __init__(self, process: "subprocess.Popen[bytes]", stdin: Input) -> None:
        self.process, self.stdin = process, stdin

    @property
    def pids(self) -> list[int]:
        return [self.process.pid, *processes.descendants(self.process.pid)]

    def wait(self) -> Wait:
        return waits_for_input(self.pids, self.stdin)

    def comes_to_wait(self) -> Wait:
        """Fails if it never does."""
        seen: list[Wait] = []

        def waits() -> bool:
            seen[:] = [self.wait()]
            return seen[0].answer == "yes"

        wait_until(waits)
        return seen[0]

    def says_ready(self) -> None:
        assert self.process.stdout
        assert self.process.stdout.readline() == b"ready\n"

    def falls_asleep_as(self, *names: str) -> None:
        wait_until(lambda: sorted(map(_sleeper, self.pids)) == sorted(names))


def _sleeper(pid: int) -> str:
    """The name of a process whose main thread sleeps."""
    with contextlib.suppress(OSError):
        start, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
        return start.partition("(")[2] if rest[0] == "S" else ""
    return ""


@pytest.fixture
def ours() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as ours:
        yield ours


@pytest.fixture
def on_pipe(ours: contextlib.ExitStack) -> Callable[..., Program]:
    def start(*command: str) -> Program:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        ours.callback(_end, process)
        assert process.stdin
        return Program(process, input_at(process.stdin.fileno()))

    return start


@pytest.fixture
def on_terminal(ours: contextlib.ExitStack) -> Callable[..., Program]:
    def start(*command: str) -> Program:
        master, slave = pty.openpty()
        ours.callback(os.close, master)
        ours.callback(os.close, slave)
        steal_terminal = ["setsid", "-c", *command]  # it becomes the program's controlling terminal
        environment = {**os.environ, "TERM": "xterm"}
        process = subprocess.Popen(steal_terminal, stdin=slave, stdout=slave, stderr=slave, env=environment)
        ours.callback(_end, process)
        return Program(process, input_at(slave))

    return start


def _end(process: "subprocess.Popen[bytes]") -> None:
    for pid in processes.descendants(process.pid):
        processes.send(pid, signal.SIGKILL)
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    process.wait()


READERS = {
    "cat": ["cat"],
    "sh": ["sh", "-c", "read x"],
    "bash": ["bash", "-c", "read x"],
    "input": [PYTHON, "-c", "input()"],
    "repl": [PYTHON, "-i"],
    "a thread": [
        PYTHON,
        "-c",
        "import threading, time; threading.Thread(target=input).start(); time.sleep(999)",
    ],
    "readv": [PYTHON, "-c", "import os; os.readv(0, [bytearray(9)])"],
    "splice": [PYTHON, "-c", "import os; os.splice(0, 1, 9)"],
    "another number": [PYTHON, "-c", "import os; fd = os.dup(0); os.close(0); os.read(fd, 9)"],
}
WATCHERS = {
    "bash with a timeout": ["bash", "-c", "read -t 1000 x"],
    "select": [PYTHON, "-c", "import select; select.select([0], [], [])"],
    "poll": [PYTHON, "-c", "import select; p = select.poll(); p.register(0, 1); p.poll()"],
    "epoll": [PYTHON, "-c", "import select; p = select.epoll(); p.register(0, 1); p.poll()"],
    "an epoll in an epoll": [
        PYTHON,
        "-c",
        "import select; a, b = select.epoll(), select.epoll(); a.register(0, 1); b.register(a, 1); b.poll()",
    ],
    "an epoll in a poll": [
        PYTHON,
        "-c",
        "import select; a, b = select.epoll(), select.poll(); a.register(0, 1); b.register(a, 1); b.poll()",
    ],
}
NODE = pytest.param(["node", "-e", NODE_READLINE], marks=needs_node, id="node")


@pytest.mark.parametrize("command", READERS.values(), ids=READERS)
def test_a_program_that_reads_its_stdin_waits_for_input(
    on_pipe: Callable[..., Program], command: list[str]
) -> None:
    program = on_pipe(*command)
    wait = program.comes_to_wait()
    assert (wait.answer, wait.pid, wait.how) == ("yes", program.process.pid, "reading")


@pytest.mark.parametrize("command", [*(pytest.param(c, id=name) for name, c in WATCHERS.items()), NODE])
def test_a_program_that_would_be_woken_by_input_watches_for_it(
    on_pipe: Callable[..., Program], command: list[str]
) -> None:
    wait = on_pipe(*command).comes_to_wait()
    assert (wait.answer, wait.how) == ("yes", "watching")


ON_A_TERMINAL = {
    "cat": ["cat"],
    "sh": ["sh", "-c", "read x"],
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "input": [PYTHON, "-c", "input()"],
    "repl": [PYTHON, "-i"],
    "less": ["less", __file__],
    "vim": ["vim", "-u", "NONE", "-i", "NONE", "-n"],
    "a password": [PYTHON, "-c", "import getpass; getpass.getpass()"],
    "/dev/tty": ["sh", "-c", "cat < /dev/tty"],
    "/dev/tty with another stdin": ["sh", "-c", "exec 3< /dev/tty < /dev/null; exec cat <&3"],
    "/dev/tty in a poll": [
        PYTHON,
        "-c",
        "import os, select; p = select.poll(); p.register(os.open('/dev/tty', os.O_RDWR), 1); p.poll()",
    ],
}


@pytest.mark.parametrize(
    "command",
    [
        *(
            pytest.param(
                c, id=name, marks=pytest.mark.skipif(not shutil.which(c[0]), reason=f"{c[0]} is not here")
            )
            for name, c in ON_A_TERMINAL.items()
        ),
        NODE,
    ],
)
def test_a_program_on_a_terminal_waits_for_keys(
    on_terminal: Callable[..., Program], command: list[str]
) -> None:
    assert on_terminal(*command).comes_to_wait().answer == "yes"


def test_it_is_told_which_process_of_the_job_waits(on_pipe: Callable[..., Program]) -> None:
    program = on_pipe("sh", "-c", "sleep 1000 & sh -c 'cat; true'; true")
    wait = program.comes_to_wait()
    assert wait.pid is not None
    assert Path(f"/proc/{wait.pid}/comm").read_text() == "cat\n"


def test_a_blocked_reader_is_named_before_one_that_only_watches(on_pipe: Callable[..., Program]) -> None:
    watcher = "import select; select.select([0], [], [])"
    program = on_pipe("sh", "-c", f"exec 3<&0; '{PYTHON}' -c '{watcher}' <&3 & cat; true")
    wait_until(lambda: program.wait().how == "reading")
    pid = program.wait().pid
    wait_until(lambda: len([pid for pid in program.pids if waits_for_input([pid], program.stdin).pid]) == 2)
    assert (program.wait().how, program.wait().pid) == ("reading", pid)


def test_it_waits_no_longer_once_it_has_what_it_wanted(on_pipe: Callable[..., Program]) -> None:
    program = on_pipe("sh", "-c", "read x; echo ready; exec sleep 1000")
    program.comes_to_wait()
    assert program.process.stdin
    program.process.stdin.write(b"here\n")
    program.process.stdin.flush()
    program.says_ready()
    program.falls_asleep_as("sleep")
    assert program.wait().answer == "no"


BUSY_ELSEWHERE = {
    "asleep": ("echo ready; exec sleep 1000", ["sleep"]),
    "in a pipe of its own": (
        "{ echo; exec sleep 1000; } | { read x; echo ready; exec cat; }",
        ["cat", "sh", "sleep"],
    ),
    "writing to a full pipe": ("echo ready; exec yes", ["yes"]),
    "with stdin from elsewhere": ("echo ready; exec sleep 1000 < /dev/null", ["sleep"]),
}


@pytest.mark.parametrize(("script", "names"), BUSY_ELSEWHERE.values(), ids=BUSY_ELSEWHERE)
def test_a_program_that_waits_for_something_else_does_not_wait_for_input(
    on_pipe: Callable[..., Program], script: str, names: list[str]
) -> None:
    program = on_pipe("sh", "-c", script)
    program.says_ready()
    program.falls_asleep_as(*names)
    assert program.wait().answer == "no"


IGNORES_STDIN = {
    "accept": "import socket; s = socket.create_server(('127.0.0.1', 0)); print('ready', flush=True); s.accept()",
    "epoll": "import select, socket; s = socket.create_server(('127.0.0.1', 0)); p = select.epoll(); "
    "p.register(s); print('ready', flush=True); p.poll()",
    "poll for writing": "import select; p = select.poll(); p.register(0, 4); print('ready', flush=True); p.poll()",
    "a splice into a full pipe": (
        "import os, select\n"
        "os.set_blocking(1, False)\n"
        "os.write(1, b'ready\\n')\n"
        "os.read(0, 1)\n"  # the other side has read the line
        "try:\n"
        "    while True: os.write(1, bytes(4096))\n"
        "except BlockingIOError: os.set_blocking(1, True)\n"
        "os.splice(0, 1, 9)\n"
    ),
}


@pytest.mark.parametrize("script", IGNORES_STDIN.values(), ids=IGNORES_STDIN)
def test_a_server_with_its_stdin_open_does_not_wait_for_input(
    on_pipe: Callable[..., Program], script: str
) -> None:
    program = on_pipe(PYTHON, "-c", script)
    program.says_ready()
    assert program.process.stdin
    program.process.stdin.write(b"xx")
    program.process.stdin.flush()
    wait_until(lambda: _call_of(program) in SLEEPS_IN)
    assert program.wait().answer == "no"


SLEEPS_IN = (
    "inet_csk_accept",
    "do_epoll_wait",
    "ep_poll",
    "poll_schedule_timeout",
    "pipe_wait_writable",
    "wait_for_space",
)


def _call_of(program: Program) -> str:
    return Path(f"/proc/{program.process.pid}/wchan").read_text().partition(".")[0]


@needs_node
def test_a_node_server_waits_for_input_only_if_it_listens_to_stdin(on_pipe: Callable[..., Program]) -> None:
    deaf = on_pipe("node", "-e", NODE_SERVER)
    deaf.says_ready()
    deaf.falls_asleep_as("node")
    assert deaf.wait().answer == "no"
    assert on_pipe("node", "-e", f"{NODE_SERVER}; process.stdin.resume()").comes_to_wait().how == "watching"


def test_a_stopped_program_waits_for_nothing_until_it_goes_on(on_pipe: Callable[..., Program]) -> None:
    """The kernel still shows the call it was in; and a poll goes on as another call."""
    for command in (READERS["cat"], WATCHERS["poll"], WATCHERS["select"]):
        program = on_pipe(*command)
        program.comes_to_wait()
        program.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, program.process.pid, os.WSTOPPED)
        assert program.wait().answer == "no"
        program.process.send_signal(signal.SIGCONT)
        program.comes_to_wait()


def test_a_program_that_computes_does_not_wait(on_pipe: Callable[..., Program]) -> None:
    program = on_pipe("sh", "-c", "echo ready; while :; do :; done")
    program.says_ready()
    assert {program.wait().answer for _ in range(20)} == {"no"}


def test_processes_that_are_gone_wait_for_nothing(on_pipe: Callable[..., Program]) -> None:
    program = on_pipe("true")
    program.process.wait()
    assert waits_for_input([program.process.pid], program.stdin).answer == "no"
    assert waits_for_input([program.process.pid], None).answer == "no"
    assert waits_for_input([], program.stdin).answer == "no"


def test_without_knowing_the_input_it_is_unknown(on_pipe: Callable[..., Program]) -> None:
    program = on_pipe("cat")
    program.comes_to_wait()
    assert waits_for_input(program.pids, None).answer == "unknown"


def test_a_reader_that_did_not_start_the_job_knows_it_too(jobs: Jobs) -> None:
    job = jobs.execute("sh -c 'read name; exec sleep 1000'; true")
    assert job.run is not None

    def wait() -> Wait:
        assert job.run is not None
        return waits_for_input(processes.descendants(job.run.shim_pid), input_of(job.run.pid))

    wait_until(lambda: wait().answer == "yes")
    assert wait().pid in processes.descendants(job.run.pid)
    Path(f"/proc/{job.run.pid}/fd/0").write_bytes(b"x\n")
    wait_until(lambda: wait().answer == "no")


# -- where the kernel refuses -----------------------------------------------------------------------


@pytest.fixture
def without_syscall(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a stranger under Yama: only wait channels and descriptors can be seen."""
    monkeypatch.setattr(stdin_wait, "_calls", lambda: None)


@pytest.mark.usefixtures("without_syscall")
def test_by_wait_channel_alone_a_pipe_that_is_the_only_one_is_certain(
    on_pipe: Callable[..., Program],
) -> None:
    for command in (READERS["cat"], READERS["sh"], READERS["bash"], READERS["input"]):
        assert on_pipe(*command).comes_to_wait().how == "reading"
    assert on_pipe(*WATCHERS["epoll"]).comes_to_wait().how == "watching"


@pytest.mark.usefixtures("without_syscall")
def test_by_wait_channel_alone_it_says_unknown_rather_than_guess(
    on_pipe: Callable[..., Program], on_terminal: Callable[..., Program]
) -> None:
    two_pipes = "import os; keep = os.pipe(); os.read(0, 1)"
    programs = [on_pipe(*WATCHERS["select"]), on_pipe(PYTHON, "-c", two_pipes), on_terminal("cat")]
    for program in programs:
        wait_until(lambda program=program: program.wait().answer == "unknown")  # type: ignore[misc]


@pytest.mark.usefixtures("without_syscall")
@pytest.mark.parametrize(("script", "names"), BUSY_ELSEWHERE.values(), ids=BUSY_ELSEWHERE)
def test_by_wait_channel_alone_other_waits_are_told_apart(
    on_pipe: Callable[..., Program], script: str, names: list[str]
) -> None:
    program = on_pipe("sh", "-c", script)
    program.says_ready()
    program.falls_asleep_as(*names)
    wait_until(lambda: program.wait().answer == "no")


UNPRIVILEGED = """
import ctypes, json, os, subprocess, sys, time
from bgjob.system.stdin_wait import input_at, waits_for_input
PR_SET_DUMPABLE = 4
libc = ctypes.CDLL(None)
if os.getuid() == 0:
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)

def answer(pid, stdin, wanted):
    deadline = time.monotonic() + 20
    while (found := waits_for_input([pid], stdin).answer) != wanted and time.monotonic() < deadline:
        os.sched_yield()
    return found

answers = {}
cases = [("read", "read x", "yes"), ("select", "read -t 99 x", "yes"), ("sleep", "exec sleep 99", "no")]
for name, script, wanted in cases:
    process = subprocess.Popen(["/bin/bash", "-c", script], stdin=subprocess.PIPE)
    answers[name] = answer(process.pid, input_at(process.stdin.fileno()), wanted)
    process.kill()
ours, theirs = os.pipe()
if (pid := os.fork()) == 0:
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # as sudo is, or ssh-agent: not to be looked into
    os.read(ours, 1)
    os._exit(0)
answers["secretive"] = answer(pid, input_at(theirs), "unknown")
os.kill(pid, 9)
print(json.dumps([os.getuid(), answers]))
"""


def test_an_ordinary_user_is_told_about_its_own_processes_and_unknown_about_secretive_ones() -> None:
    answer = subprocess.run([PYTHON, "-c", UNPRIVILEGED], stdout=subprocess.PIPE, check=True)
    uid, answers = json.loads(answer.stdout)
    assert uid != 0
    assert answers == {"read": "yes", "select": "yes", "sleep": "no", "secretive": "unknown"}
