"""Terminals: programs that want one get a real one, can be driven by keys, and their screen can be read."""

import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import JobStatus
from tests.support.gate import Gate
from tests.support.server import Server, StartServer, ToolError

Ended = Callable[[str], JobStatus]


def start(server: Server, command: str, **options: Any) -> str:
    return server.execute(command, pty=True, **options)


def press(server: Server, job_id: str, text: str = "", *keys: str, **options: Any) -> dict[str, Any]:
    options.setdefault("wait_s", 1)
    return server.call("interact_with_job", job_id=job_id, input=text, keys=list(keys), **options)


def screen(server: Server, job_id: str) -> str:
    return str(server.call("tail_job_output", job_id=job_id, view="screen")["screen"])


def wait_for_screen(server: Server, job_id: str, pattern: str) -> str:
    """Until the screen shows it: woken by the job's output, not by a clock."""
    cursor = "0"
    while not re.search(pattern, shown := screen(server, job_id)):
        answer = server.call(
            "wait_for_job", job_ids=[job_id], pattern=".", since=cursor, timeout_s=20, raw=True
        )
        assert answer["met"], shown
        assert answer["jobs"][0]["status"] == "running", shown
        cursor = answer["jobs"][0]["cursor"]
    return shown


def test_a_job_on_a_terminal_knows_it(server: Server, ended: Ended) -> None:
    job_id = start(server, "tty; stty size; test -t 0 -a -t 1 -a -t 2 && echo all three", rows=30, cols=100)
    ended(job_id)
    tty, size, three = server.output(job_id)["stdout"].splitlines()
    assert tty.startswith("/dev/pts/")
    assert (size, three) == ("30 100", "all three")


def test_the_widest_terminal_is_drawn_as_wide_as_it_is(server: Server, ended: Ended) -> None:
    job_id = start(server, "printf %01000d; printf next", rows=3, cols=1000)
    ended(job_id)
    assert screen(server, job_id) == "0" * 1000 + "\nnext"


def test_a_python_repl_is_driven_by_text_and_keys(server: Server) -> None:
    job_id = start(server, "python3 -q")
    wait_for_screen(server, job_id, ">>>")
    press(server, job_id, "6 * 7")
    wait_for_screen(server, job_id, r"\n42\s*\n")
    press(server, job_id, "", "up", "enter")
    wait_for_screen(server, job_id, r"(?s)\n42\s*\n.*\n42\s*\n")
    answer = press(server, job_id, "", "ctrl-d")
    assert server.call("wait_for_job", job_ids=[job_id])["jobs"][0]["exit_code"] == 0, answer


def test_ctrl_c_interrupts_and_does_not_kill(server: Server, gate: Gate) -> None:
    job_id = start(
        server, f"trap 'echo interrupted' INT; {gate.reach}; while read line; do echo got $line; done; cat"
    )
    gate.wait_until_reached()
    press(server, job_id, "", "ctrl-c")
    server.wait_until_printed(job_id, "interrupted")
    assert server.status(job_id)["status"] == "running"


def test_text_can_go_without_its_newline(server: Server) -> None:
    job_id = start(server, "cat")
    assert press(server, job_id, "ab", add_newline=False)["stdout"] == "ab"
    cursor = server.output(job_id)["cursor"]
    press(server, job_id, "cd")
    server.call("wait_for_job", job_ids=[job_id], pattern="^abcd$", since=cursor, timeout_s=30)
    assert server.output(job_id, since=cursor)["stdout"].splitlines() == ["cd", "abcd"]


def test_backspace_removes_a_whole_character(server: Server) -> None:
    job_id = start(server, "read line; echo ${#line} bytes left; cat")
    press(server, job_id, "é", "backspace", "enter", add_newline=False)
    server.wait_until_printed(job_id, "0 bytes left")


def test_a_resize_reaches_the_job_and_its_screen(server: Server, gate: Gate) -> None:
    job_id = start(server, f"trap 'stty size' WINCH; {gate.reach}; while :; do read line; done", shell="sh")
    gate.wait_until_reached()
    assert press(server, job_id, "", rows=40, cols=120)["accepted_bytes"] == 0
    assert "40 120" in wait_for_screen(server, job_id, "40 120")


def test_one_of_rows_and_cols_is_enough(server: Server, gate: Gate) -> None:
    job_id = start(server, f"trap 'stty size' WINCH; {gate.reach}; while :; do read line; done", shell="sh")
    gate.wait_until_reached()
    said = server.call("interact_with_job", job_id=job_id, cols=90)
    assert said["accepted_bytes"] == 0
    wait_for_screen(server, job_id, "24 90")
    server.call("interact_with_job", job_id=job_id, rows=10)
    wait_for_screen(server, job_id, "10 90")


@pytest.mark.skipif(not shutil.which("vim"), reason="vim is not installed")
def test_vim_edits_a_file(server: Server, ended: Ended, tmp_path: Path) -> None:
    file = tmp_path / "text"
    job_id = start(server, f"vim -u NONE -N {file}", rows=24, cols=80)
    wait_for_screen(server, job_id, "~")
    press(server, job_id, "ihello from a job", "esc")
    wait_for_screen(server, job_id, "hello from a job")
    press(server, job_id, ":wq")
    ended(job_id)
    assert file.read_text() == "hello from a job\n"


@pytest.mark.skipif(not shutil.which("less"), reason="less is not installed")
def test_less_pages_through_a_file(server: Server, ended: Ended, tmp_path: Path) -> None:
    file = tmp_path / "long"
    file.write_text("".join(f"line {number}\n" for number in range(1, 201)))
    job_id = start(server, f"LESS= less {file}", rows=10, cols=40)
    assert "line 1\n" in wait_for_screen(server, job_id, "line 9\n")
    press(server, job_id, "", "space")
    assert "line 1\n" not in wait_for_screen(server, job_id, "line 18\n")
    press(server, job_id, "q", add_newline=False)
    ended(job_id)


def test_a_menu_is_chosen_with_the_arrow_keys(server: Server, tmp_path: Path) -> None:
    """As the prompts of npm's world do: raw mode, redrawn in place."""
    script = tmp_path / "menu.py"
    script.write_text(MENU)
    job_id = start(server, f"python3 {script}")
    wait_for_screen(server, job_id, "> vue")
    press(server, job_id, "", "down")
    wait_for_screen(server, job_id, "> react")
    press(server, job_id, "", "enter")
    assert "chosen: react" in wait_for_screen(server, job_id, "chosen")


MENU = """
import sys, termios, tty
items, at = ["vue", "react", "svelte"], 0
def draw(first=False):
    if not first: sys.stdout.write(f"\\x1b[{len(items)}A")
    for n, item in enumerate(items): sys.stdout.write(f"\\x1b[2K{'> ' if n == at else '  '}{item}\\r\\n")
    sys.stdout.flush()
tty.setraw(0)
draw(True)
while (key := sys.stdin.buffer.raw.read(3)) != b"\\r":
    at = (at + (key == b"\\x1b[B") - (key == b"\\x1b[A")) % len(items)
    draw()
sys.stdout.write(f"chosen: {items[at]}\\r\\n"); sys.stdout.flush()
sys.stdin.buffer.raw.read(1)
"""


def test_a_password_that_is_not_echoed_is_nowhere(server: Server, home: Path) -> None:
    job_id = start(
        server, "stty -echo; printf 'Password: '; read secret; stty echo; echo; echo ${#secret} letters; cat"
    )
    server.call("wait_for_job", job_ids=[job_id], for_input=True, timeout_s=20)
    press(server, job_id, "hunter2-xyz")
    server.wait_until_printed(job_id, "11 letters")
    kept = b"".join(file.read_bytes() for file in (home / "jobs" / job_id).rglob("*") if file.is_file())
    assert b"hunter2" not in kept


def test_a_terminal_outlives_the_server(start_server: StartServer) -> None:
    first = start_server()
    job_id = start(first, "python3 -q")
    wait_for_screen(first, job_id, ">>>")
    first.kill()
    second = start_server()
    press(second, job_id, "42 * 42")
    wait_for_screen(second, job_id, "1764")


def test_every_byte_of_a_terminal_is_kept(server: Server, ended: Ended) -> None:
    job_id = start(server, "stty -onlcr; seq 1 100000; exit 7")
    look = ended(job_id)
    assert look.output_bytes == sum(len(f"{number}\n") for number in range(1, 100001))
    assert server.status(job_id)["exit_code"] == 7
    assert server.call("tail_job_output", job_id=job_id, lines=2)["stdout"] == "99999\n100000\n"


def test_a_job_without_a_terminal_says_so(server: Server) -> None:
    job_id = server.execute("cat")
    with pytest.raises(ToolError, match="no terminal"):
        screen(server, job_id)
    with pytest.raises(ToolError, match="no terminal to resize"):
        press(server, job_id, "", rows=10, cols=10)


@pytest.mark.parametrize(("rows", "cols"), [(0, 80), (24, -1), (100_000, 80)])
def test_a_size_that_no_terminal_has_is_a_clear_error(server: Server, rows: int, cols: int) -> None:
    with pytest.raises(ToolError, match="Accepted: 1 to 500 rows"):
        start(server, "true", rows=rows, cols=cols)
    job_id = start(server, "cat")
    if rows and cols:
        with pytest.raises(ToolError, match="Accepted: 1 to 500 rows"):
            press(server, job_id, "", rows=rows, cols=cols)


def test_an_unknown_key_is_named_with_the_closest_known(server: Server) -> None:
    job_id = start(server, "cat")
    with pytest.raises(ToolError, match="ctrl-right"):
        press(server, job_id, "", "crtl-right")


def test_end_of_file_is_a_key_on_a_terminal(server: Server, ended: Ended) -> None:
    job_id = start(server, "cat; echo done")
    threading.Thread(
        target=server.call,
        args=("interact_with_job",),
        kwargs={"job_id": job_id, "input": "", "close_stdin": True},
    ).start()
    ended(job_id)
    assert server.output(job_id)["stdout"] == "done\n"
