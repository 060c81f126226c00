"""A terminal that begins in the middle shows what one shows that has seen everything, and answers nothing."""

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from bgjob.api import Jobs, Shown
from tests.page.site import Site
from tests.page.xterm import Picture, XTerm
from tests.support.requires import needs
from tests.support.waiting import wait_until

CODE = (
    '"""A module."""\n\nimport os\n\n\ndef name(number: int) -> str:\n    return f"{number:04d}"  # 漢字\n'
    * 40
)
BAR = r"for i in $(seq 99); do printf '\r\033[32m%3d%%\033[0m [%-9s]' $i '##'; done; echo ' bar'; exec cat"
LINES = r"seq 300000; printf '\033[?2004h\033[1;31mred\033[0m '; seq 20; echo lines; exec cat"
SHELL = "PS1='$ ' exec bash --norc --noprofile -i"
COLOURS = r"printf '\033[44mblue \033[1;4;38;5;208mten\033[0m \033[38;2;1;2;3mtrue\033[0m %s\n' 漢字"
# What a program can ask its terminal; it says what it read, but the q that makes it ask again.
ASKS = r"""
import os, tty
questions = (
    "\x1b[c", "\x1b[>c", "\x1b[=c", "\x1b[5n", "\x1b[6n", "\x1b[?6n", "\x1b[?15n", "\x1b[?996n", "\x1b[1$p",
    "\x1b[?2004$p", "\x1b[18t", "\x1b[14t", "\x1b[16t", "\x1b[21t", "\x1b[>q", "\x1b[x", "\x1b[?u",
    "\x1bP$qm\x1b\\", '\x1bP$q"p\x1b\\', "\x1bP+q544e\x1b\\", "\x1b]4;1;?\x07", "\x1b]10;?\x07",
    "\x1b]11;?\x1b\\", "\x1b]12;?\x07",
    "\x1b]10;?;?\x07", "\x1b]52;c;?\x07", "\x1bZ", "\x05", "\x1b[?1004h", "\x1b[?1000;1004h", "\x1b[?1$u",
    "\x1b[1;1;1;1;1;1*y",
)
tty.setraw(0)
got, round = b"q", 0
while got:
    if got == b"q":
        round += 1
        os.write(1, "".join(questions).encode() + b"\r\nasked %d\r\n" % round)
    else:
        os.write(1, b"\r\nGOT " + repr(got).encode() + b"\r\n")
    got = os.read(0, 4096)
"""


class Scene(NamedTuple):
    command: str
    first: Sequence[str]
    """Typed before the page is opened."""
    mark: str
    """On the screen then."""
    later: Sequence[str]
    """Typed while the page looks on."""


SCENES = {
    "vim": Scene(
        "vim -u NONE -i NONE -n -c 'syntax on' -c 'set mouse=a number ttimeoutlen=0' code.py",
        ["\x06", "\x06", "Ohello ", "\x1b", ":split\r", ":echo 'mar'.'ked'\r"],
        "marked",
        ["\x06", "\x17\x17", "ddu", ":set nonumber\r"],
    ),
    "less": Scene("less -R code.py", [" ", "/def\r", "n"], "def name", ["n", "\x02", "G"]),
    "bar": Scene(BAR, [], "bar", ["more\r"]),
    "lines": Scene(LINES, [], "lines", ["more\r"]),
    "python": Scene(
        f"{shlex.quote(sys.executable)} -q",
        ["import this\r", "[i for i in range(400)]\r", "'mar' 'ked'\r"],
        "'marked'",
        ["for i in range(3): print(i)\r", "\r"],
    ),
    "shell": Scene(
        SHELL, [f"{COLOURS}\r", "clear\r", f"{COLOURS}\r", "echo mar''ked\r"], "marked\n", ["seq 50\r"]
    ),
}


def shown(jobs: Jobs, job_id: str) -> str:
    picture = jobs.output(job_id, shown=Shown(view="screen")).picture
    assert picture
    return picture.text


def agent_types(site: Site, job_id: str, texts: Sequence[str]) -> None:
    for text in texts:
        site.server.call("interact_with_job", job_id=job_id, input=text, add_newline=False, wait_s=0.3)


def wait_until_as_replayed(terminal: XTerm, jobs: Jobs, job_id: str) -> None:
    """It shows all that was printed so far."""
    found: list[tuple[Picture, Picture]] = []

    def is_same() -> bool:
        found[:] = [(terminal.picture, terminal.replayed(jobs, job_id))]
        return found[0][0] == found[0][1]

    wait_until(is_same, "as after a replay of everything", lambda: differences(*found[0]), every_s=0.05)


def differences(ours: Picture, replayed: Picture) -> str:
    rows = [
        f"{n}:\n{a}\n{b}" for n, (a, b) in enumerate(zip(ours.rows, replayed.rows, strict=False)) if a != b
    ]
    return "\n".join([*rows, f"{ours[1:]}\n{replayed[1:]}"])


@needs("vim")
@needs("less")
@pytest.mark.parametrize("name", SCENES)
def test_it_shows_what_a_terminal_shows_that_has_seen_everything(
    name: str, terminal: XTerm, site: Site, jobs: Jobs, tmp_path: Path
) -> None:
    """Text, colours, cursor, modes; at the beginning, and after what is printed later."""
    scene = SCENES[name]
    (tmp_path / "code.py").write_text(CODE)
    rows, cols = size_of_page(terminal, site)
    job_id = site.server.execute(
        scene.command, cwd=str(tmp_path), pty=True, rows=rows, cols=cols, env={"TERM": "xterm-256color"}
    )
    wait_until(lambda: shown(jobs, job_id).strip() != "", "the program has drawn something")
    agent_types(site, job_id, scene.first)
    wait_until(
        lambda: scene.mark in shown(jobs, job_id), f"{name}: {scene.mark}", lambda: shown(jobs, job_id)
    )
    terminal.open(site.origin, job_id)
    terminal.wait_for(scene.mark.strip())
    wait_until_as_replayed(terminal, jobs, job_id)
    agent_types(site, job_id, scene.later)
    wait_until_as_replayed(terminal, jobs, job_id)


def size_of_page(terminal: XTerm, site: Site) -> tuple[int, int]:
    """What a terminal has room for there: a job of this size keeps it when the page is opened."""
    job_id = site.server.execute("cat", pty=True)
    terminal.open(site.origin, job_id)
    terminal.page.get_by_label("Whole window").check()
    terminal.open(site.origin, job_id)
    wait_until(lambda: terminal.size != (24, 80), "the page's size")
    return terminal.size


@needs("vim")
def test_another_size_in_the_middle(terminal: XTerm, site: Site, jobs: Jobs, tmp_path: Path) -> None:
    """Of a full-screen program, that draws itself anew."""
    (tmp_path / "code.py").write_text(CODE)
    job_id = site.server.execute(SCENES["vim"].command, cwd=str(tmp_path), pty=True)
    wait_until(lambda: "import os" in shown(jobs, job_id), "vim has drawn the file")
    terminal.open(site.origin, job_id)
    wait_until(lambda: terminal.size != (24, 80), "the page's size")
    wait_until_as_replayed(terminal, jobs, job_id)
    terminal.page.set_viewport_size({"width": 700, "height": 600})
    wait_until(lambda: terminal.size[1] < 100, "the smaller size of the page")
    wait_until_as_replayed(terminal, jobs, job_id)


def test_no_question_of_a_job_is_answered(terminal: XTerm, site: Site, jobs: Jobs) -> None:
    """Neither those of before, nor live, nor by xterm.js if the server passed one."""
    job_id = site.server.execute(f"{shlex.quote(sys.executable)} -c {shlex.quote(ASKS)}", pty=True)
    wait_until(lambda: "asked 1" in shown(jobs, job_id), "the job asks")
    terminal.open(site.origin, job_id)
    terminal.wait_for("asked 1")
    terminal.type("q")
    terminal.wait_for("asked 2")
    assert answers_of_xterm(terminal, jobs, job_id), "xterm.js has nothing to answer: this test shows nothing"
    raw = raw_output(jobs, job_id)
    terminal.page.evaluate("(text) => new Promise((done) => window.term.write(text, done))", raw)
    terminal.type("x")
    terminal.wait_for("GOT b'x'")
    assert re.findall("GOT (.*)", shown(jobs, job_id)) == ["b'x'"]


def raw_output(jobs: Jobs, job_id: str) -> str:
    found = jobs.output(job_id, shown=Shown(raw=True)).stdout
    assert "\x1b[6n" in found
    return found


def answers_of_xterm(terminal: XTerm, jobs: Jobs, job_id: str) -> list[str]:
    """If nothing kept it from answering."""
    answers: list[str] = terminal.page.evaluate(
        """async (text) => { const { Terminal } = await import("/page/vendor/xterm.mjs");
        const term = new Terminal(), answers = []; term.onData((data) => answers.push(data));
        await new Promise((done) => term.write(text, done)); return answers; }""",
        raw_output(jobs, job_id),
    )
    return answers
