"""Terminals: a job on a terminal has one where it runs, and its screen is read here."""

import re

from bgjob.api import Shown, Typed
from tests.clusters.target import Target
from tests.support.gate import Gate
from tests.support.waiting import PATIENCE_S

SCREEN = Shown(view="screen")
MENU = (
    r"\033[?1049h\033[H\033[2J\033[2;5HPick one\033[4;5H  Apple"
    r"\033[5;5H\033[7m  Banana \033[27m\033[6;5H  Cherry\033[5;5H"
)


def wait_for_screen(target: Target, job_id: str, pattern: str) -> str:
    """Until the screen shows it: woken by the job's output, not by a clock."""
    cursor = "0"
    while not re.search(pattern, shown := screen(target, job_id)):
        waited = target.wait(job_id, pattern=".", since=cursor)
        assert waited.came, shown
        assert waited.came.condition == "pattern", shown
        cursor = waited.output.cursor
    return shown


def screen(target: Target, job_id: str) -> str:
    picture = target.jobs.tail(job_id, shown=SCREEN).picture
    assert picture
    return picture.text


def test_a_job_on_a_terminal_knows_it(target: Target) -> None:
    job_id = target.start(
        "tty; stty size; test -t 0 -a -t 1 -a -t 2 && echo all three", pty=True, rows=30, cols=100
    )
    tty, size, three = target.printed(job_id).decode().split("\r\n")[:3]
    assert tty.startswith("/dev/pts/")
    assert (size, three) == ("30 100", "all three")


def test_a_resize_reaches_the_job_and_its_screen(target: Target, gate: Gate) -> None:
    job_id = target.start(
        f"trap 'stty size' WINCH; {gate.reach}; while :; do read line; done", shell="sh", pty=True
    )
    gate.wait_until_reached()
    said = target.jobs.interact(job_id, Typed(), resize=(40, 120), wait_s=1)
    assert said.accepted_bytes == 0
    assert "40 120" in wait_for_screen(target, job_id, "40 120")


def test_a_screen_is_drawn_as_a_person_would_see_it(target: Target) -> None:
    job_id = target.start(f"stty -echo; printf '{MENU}'; read answer", pty=True)
    target.wait_until_printed(job_id, "Cherry")
    picture = target.jobs.tail(job_id, shown=SCREEN).picture
    assert picture
    assert picture.text == "\n    Pick one\n\n      Apple\n      Banana\n      Cherry"
    assert (picture.highlight, picture.cursor_row, picture.cursor_column) == (["Banana"], 5, 5)


def test_a_repl_is_driven_by_text_and_keys(target: Target) -> None:
    job_id = target.start("python3 -q", pty=True)
    wait_for_screen(target, job_id, ">>>")
    target.jobs.interact(job_id, Typed("6 * 7"), wait_s=1)
    wait_for_screen(target, job_id, r"\n42\s*\n")
    target.jobs.interact(job_id, Typed("", keys=["up", "enter"]), wait_s=1)
    wait_for_screen(target, job_id, r"(?s)\n42\s*\n.*\n42\s*\n")
    target.jobs.interact(job_id, Typed("", keys=["ctrl-d"], add_newline=False), wait_s=PATIENCE_S)
    assert getattr(target.state(job_id), "code", None) == 0


def test_every_byte_of_a_terminal_is_kept(target: Target) -> None:
    job_id = target.start("stty -onlcr; seq 1 100000; exit 7", pty=True)
    assert target.printed(job_id) == "".join(f"{number}\n" for number in range(1, 100_001)).encode()
    assert getattr(target.state(job_id), "code", None) == 7
