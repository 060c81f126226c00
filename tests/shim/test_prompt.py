"""Whether a job sits at a prompt: real programs as jobs, on pipes and terminals. The rule is in system/prompt.py."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from bgjob.api import Jobs
from bgjob.api.interact import Typed
from bgjob.api.prompt import sits_at_prompt, waits_for_input
from bgjob.system import prompt
from tests.support.gate import Gate
from tests.support.requires import needs
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")

PYTHON = sys.executable
LISTENS_FOR_KEYS = """
process.stdin.on('data', key => console.log('key', key.length));
require('http').createServer().listen(0, '127.0.0.1', () => console.log('ready'));
"""
MENU = """
import sys, tty, select
tty.setcbreak(0)
sys.stdout.write("> vue\\n  react\\n\\x1b[?25l"); sys.stdout.flush()
select.select([0], [], [])
"""
TIMED_SCREEN = """
import sys, tty, select
tty.setcbreak(0)
sys.stdout.write("\\x1b[5;3Hred\\n\\x1b[6;3Hgreen\\n"); sys.stdout.flush()
select.select([0], [], [], 1e6)
"""
TIMED_MENU = MENU.replace("[], [])", "[], [], 1e6)")
CONNECTED = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0))"
LISTENS = f"{CONNECTED}; s.listen()"
WATCH = "import select; print('ready', flush=True); select.select([0], [], [])"
THREAD = (
    "import threading; threading.Thread(target=input).start(); print('ready', flush=True); "
    "threading.Event().wait()"
)

KEYS = "process.stdin.setRawMode(true); process.stdin.on('data', () => {}); "
SPAWN = """
console.log('ready'); if (!process.stdin.isRaw) process.stdout.write('Compiling... ');
require('child_process').spawn('bash', ['-c', process.argv[2]]).on('exit', () => console.log('press q'));
"""
COMPUTE = """
const {Worker} = require('worker_threads');
const code = "require('worker_threads').parentPort.postMessage(1); for (;;) ;";
new Worker(code, {eval: true}).on('message', () => console.log('ready'));
"""
LATER = "setTimeout(() => {}, 1e9); console.log('ready');"
READLINE = "require('readline').createInterface({input: process.stdin}); "
BEHIND_THREAD = """
import sys, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
sys.stderr.write('INFO started\\n')
input('Cmd: ')
"""
SPAWN_ON_TERMINAL = "import pty, sys; pty.spawn(sys.argv[1:])"


def is_here(command: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not shutil.which(command), reason=f"{command} is not here")


def start(jobs: Jobs, command: str, *, pty: bool) -> str:
    return jobs.execute(command, pty=pty, shell="bash").id


def sits(jobs: Jobs, job_id: str, *, is_quiet: bool = False) -> bool | None:
    return sits_at_prompt(jobs.context, jobs.store.load(job_id), is_quiet=is_quiet)


def comes_to_wait(jobs: Jobs, job_id: str, printed: str = "") -> None:
    """By the kernel's word, and with all that is to be printed before that in the log."""
    wait_until(lambda: printed in jobs.output(job_id).stdout)
    wait_until(lambda: waits_for_input(jobs.context, jobs.store.load(job_id)) == "yes")


PROMPTS = {
    "read -p": ("read -p 'name? ' x", True),
    "a question on a pipe": ("printf 'name? '; read x", False),
    "a question of a process beside others": ("sleep 1000 & printf 'name? '; read x", False),
    "a read without a word": ("read x", False),
    "a read without a word on a terminal": ("read x", True),
    "a child that reads": ("bash -c 'read x; true'; true", False),
    "cat": ("cat", False),
    "cat after a line": ("echo hello; cat", False),
    "python on a pipe": (f"'{PYTHON}' -qi", False),
    "python": (f"'{PYTHON}' -qi", True),
    "a hidden password": (f"'{PYTHON}' -c 'import getpass; getpass.getpass()'", True),
    "a prompt of a program with a connection": (f"'{PYTHON}' -c \"{CONNECTED}; input(1)\"", False),
}


@pytest.mark.parametrize(("command", "pty"), PROMPTS.values(), ids=PROMPTS)
def test_a_job_whose_next_step_is_the_users_sits_at_a_prompt(jobs: Jobs, command: str, pty: bool) -> None:
    job_id = start(jobs, command, pty=pty)
    wait_until(lambda: sits(jobs, job_id) is True)
    wait_until(lambda: sits(jobs, job_id, is_quiet=True) is True)
    assert jobs.status(job_id).waits_for_input is True
    assert jobs.list().asking == {job_id}


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(f"less '{__file__}'", marks=is_here("less")),
        pytest.param("vim -u NONE -i NONE -n", marks=is_here("vim")),
        pytest.param("node -i", marks=is_here("node")),
        pytest.param("sqlite3", marks=is_here("sqlite3")),
    ],
)
def test_so_do_editors_pagers_and_repls_on_a_terminal(jobs: Jobs, command: str) -> None:
    job_id = start(jobs, command, pty=True)
    wait_until(lambda: sits(jobs, job_id, is_quiet=True) is True)


@pytest.mark.parametrize(("code", "last"), [(MENU, "react"), (TIMED_MENU, "react"), (TIMED_SCREEN, "green")])
def test_so_does_a_menu_whose_last_line_is_finished(jobs: Jobs, tmp_path: Path, code: str, last: str) -> None:
    script = tmp_path / "menu.py"
    script.write_text(code)
    job_id = start(jobs, f"'{PYTHON}' {script}", pty=True)
    comes_to_wait(jobs, job_id, last)
    assert sits(jobs, job_id) is True


def test_a_prompt_is_seen_whatever_the_other_stream_printed_last(jobs: Jobs, tmp_path: Path) -> None:
    """Which of the two pipes is read first is chance."""
    script = tmp_path / "threads.py"
    script.write_text(BEHIND_THREAD)
    job_ids = [start(jobs, f"'{PYTHON}' {script}", pty=False) for _ in range(5)]
    for job_id in job_ids:
        comes_to_wait(jobs, job_id, "Cmd: ")
        assert sits(jobs, job_id) is True
    (event,) = jobs.events("0.0", job_ids=job_ids[:1], kinds=["input"], timeout_s=30).events
    assert event.details["prompt"] == "Cmd:"


@needs("node")
@pytest.mark.parametrize("before", [KEYS, READLINE], ids=["in raw mode", "behind an unfinished line"])
def test_a_watcher_of_keys_does_not_while_its_child_works(
    jobs: Jobs, tmp_path: Path, gate: Gate, before: str
) -> None:
    script = tmp_path / "runner.js"
    script.write_text(before + SPAWN)
    job_id = start(jobs, f"node {script} '{gate.pause}'", pty=True)
    gate.wait_until_reached()
    comes_to_wait(jobs, job_id, "ready")
    assert sits(jobs, job_id) is False
    gate.open()
    if before is KEYS:
        wait_until(lambda: sits(jobs, job_id) is True)


@needs("node")
def test_it_does_while_its_child_waits_for_its_orders(jobs: Jobs, tmp_path: Path) -> None:
    """As an editor's language server does."""
    script = tmp_path / "editor.js"
    script.write_text(KEYS + SPAWN)
    job_id = start(jobs, f"node {script} 'cat; true'", pty=True)
    comes_to_wait(jobs, job_id, "ready")
    wait_until(lambda: sits(jobs, job_id) is True)


@needs("node")
@pytest.mark.parametrize("code", [COMPUTE, LATER], ids=["a thread computes", "it wakes by itself"])
def test_a_watcher_of_keys_that_goes_on_by_itself_does_not(jobs: Jobs, tmp_path: Path, code: str) -> None:
    script = tmp_path / "server.js"
    script.write_text(KEYS + code)
    job_id = start(jobs, f"node {script}", pty=True)
    comes_to_wait(jobs, job_id, "ready")
    assert sits(jobs, job_id) is False


def test_a_shell_does_beside_its_background_jobs(jobs: Jobs) -> None:
    job_id = start(jobs, "bash --norc -i", pty=True)
    wait_until(lambda: sits(jobs, job_id) is True)
    jobs.interact(job_id, Typed("sleep 1000 &"))
    wait_until(lambda: sits(jobs, job_id) is True)


@needs("node")
def test_a_repl_does_beside_its_children(jobs: Jobs) -> None:
    job_id = start(jobs, "node -i", pty=True)
    wait_until(lambda: sits(jobs, job_id) is True)
    jobs.interact(job_id, Typed("child_process.spawn('sleep', ['1000']).pid"))
    wait_until(lambda: sits(jobs, job_id) is True)


NESTED = {
    "script": "script -qc {inner} /dev/null",
    "pty.spawn": f"'{PYTHON}' -c '{SPAWN_ON_TERMINAL}' bash -c {{inner}}",
    "a terminal in a terminal": "script -qc \"script -qc '{inner}' /dev/null\" /dev/null",
}


@needs("script")
@pytest.mark.parametrize("nested", NESTED.values(), ids=NESTED)
def test_behind_a_terminal_of_its_own_the_processes_there_decide(
    jobs: Jobs, tmp_path: Path, gate: Gate, nested: str
) -> None:
    inner = tmp_path / "inner"
    inner.write_text(f"#!/bin/bash\necho building; {gate.pause}; read -p 'name: ' x; read -s x")
    inner.chmod(0o755)
    job_id = start(jobs, nested.format(inner=inner), pty=True)
    gate.wait_until_reached()
    wait_until(lambda: "building" in jobs.output(job_id).stdout)
    assert sits(jobs, job_id) is False
    gate.open()
    wait_until(lambda: sits(jobs, job_id, is_quiet=True) is True)
    assert jobs.status(job_id).prompt == "name:"
    answer = jobs.interact(job_id, Typed("Ada"), wait_s=30)
    assert answer.waits_for_input is True


OTHERS = {
    "a pipeline": ("echo ready; cat | sort", False),
    "a process beside a background one": ("sleep 1000 & echo ready; cat", False),
    "a thread that reads": (f"'{PYTHON}' -c \"{THREAD}\"", False),
    "a server that only reads": (f"'{PYTHON}' -c \"{LISTENS}; print('ready', flush=True); input()\"", False),
    "a watcher": (f"'{PYTHON}' -c \"{WATCH}\"", False),
    "a watcher on a terminal": (f"'{PYTHON}' -c \"{WATCH}\"", True),
    "a connected watcher of keys": (
        f"'{PYTHON}' -c \"{CONNECTED}; import tty; tty.setcbreak(0); {WATCH}\"",
        True,
    ),
}


@pytest.mark.parametrize(("command", "pty"), OTHERS.values(), ids=OTHERS)
def test_a_job_that_goes_on_without_input_does_not(jobs: Jobs, command: str, pty: bool) -> None:
    job_id = start(jobs, command, pty=pty)
    comes_to_wait(jobs, job_id, "ready")
    assert sits(jobs, job_id) is False
    status = jobs.status(job_id)
    assert (status.waits_for_input, status.prompt) == (False, None)
    assert jobs.list().asking == frozenset()


@needs("node")
@pytest.mark.parametrize("pty", [False, True])
def test_a_server_of_node_that_listens_for_keys_does_not(jobs: Jobs, tmp_path: Path, pty: bool) -> None:
    script = tmp_path / "server.js"
    script.write_text(LISTENS_FOR_KEYS)
    job_id = start(jobs, f"node {script}", pty=pty)
    comes_to_wait(jobs, job_id, "ready")
    assert sits(jobs, job_id) is False


def test_a_server_that_has_begun_a_line_is_given_longer_to_finish_it(jobs: Jobs) -> None:
    code = f"{CONNECTED}; import select; print('> ', end='', flush=True); select.select([0], [], [])"
    job_id = start(jobs, f"'{PYTHON}' -c \"{code}\"", pty=False)
    wait_until(lambda: sits(jobs, job_id, is_quiet=True) is True)
    idle_s = jobs.status(job_id).idle_s
    assert idle_s is not None
    assert idle_s >= prompt.CONNECTED_QUIET_S - 0.1  # the time of a file is of the kernel's last tick


def test_a_busy_job_does_not(jobs: Jobs) -> None:
    job_id = start(jobs, "printf 'working... '; exec sleep 1000", pty=False)
    wait_until(lambda: jobs.output(job_id).stdout != "")
    assert sits(jobs, job_id) is False


def test_a_job_with_null_stdin_never_does(jobs: Jobs) -> None:
    code = "import select; print('? ', end='', flush=True); select.poll().poll()"
    job_id = jobs.execute(f"'{PYTHON}' -c \"{code}\"", stdin="null").id
    wait_until(lambda: jobs.output(job_id).stdout != "")
    assert sits(jobs, job_id) is False
    assert jobs.status(job_id).waits_for_input is False


UNSEEN = {
    b"name? ": True,
    b"line\n": False,
    b"": False,
    b"line\n\x1b[?25h": False,
    b"line\n\x1b[0m\r\x1b[2K": False,
    b"line\n\x1b]0;title\x07": False,
    b"line\n\x1b]0;title\x1b\\": False,
    b"line\n\x1b[1m>\x1b[0m ": True,
    b"line\r\n\x1b[24;1H:": True,
    b"line\n\x1b(B  ": False,
    b"line\n\xc3\xa9": True,
}


@pytest.mark.parametrize(("printed", "is_unfinished"), UNSEEN.items(), ids=map(repr, UNSEEN))
def test_a_line_is_begun_by_what_can_be_seen(printed: bytes, is_unfinished: bool) -> None:
    assert prompt.is_unfinished(printed) is is_unfinished


def test_a_server_that_listens_for_keys_makes_no_input_event(jobs: Jobs) -> None:
    """A job that is silent for as long, and asks, makes one: so there was time for it."""
    code = "import select; print('ready', flush=True); select.select([0], [], [])"
    listener = start(jobs, f"'{PYTHON}' -c \"{code}\"", pty=False)
    comes_to_wait(jobs, listener, "ready")
    asking = start(jobs, "printf '? '; read x", pty=False)
    found = jobs.events("0.0", job_ids=[listener, asking], kinds=["input"], timeout_s=30).events
    assert [event.job_id for event in found] == [asking]


def test_what_reads_another_file_as_its_stdin_does_not(jobs: Jobs, tmp_path: Path) -> None:
    """A shell has that file at descriptor 0 while it reads a line of it."""
    os.mkfifo(tmp_path / "orders")
    command = f"exec 3<>{tmp_path}/orders; echo ready; read line <&3; printf 'Name: '; read name"
    job_id = start(jobs, command, pty=True)
    (waited,) = jobs.wait_for([job_id], silence_s=1, timeout_s=30)
    assert (waited.came and waited.came.condition, sits(jobs, job_id)) == ("silence", False)
    (tmp_path / "orders").write_text("go\n")
    wait_until(lambda: sits(jobs, job_id) is True)


def test_what_can_be_given_no_input_does_not(jobs: Jobs, tmp_path: Path) -> None:
    """It closed its stdin, and then reads something else under the same number."""
    os.mkfifo(tmp_path / "orders")
    command = f"exec 3<>{tmp_path}/orders <&-; echo ready; read line <&3; echo done"
    job_id = start(jobs, command, pty=False)
    (waited,) = jobs.wait_for([job_id], silence_s=1, timeout_s=30)
    assert (waited.came and waited.came.condition, sits(jobs, job_id)) == ("silence", False)
    (tmp_path / "orders").write_text("go\n")
    wait_until(lambda: "done" in jobs.output(job_id).stdout)
