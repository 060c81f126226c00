"""The screen against real programs on a real PTY, and against tmux as the judge."""

import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bgjob.terminal import emulator
from bgjob.terminal.emulator import Terminal
from bgjob.terminal.keys import keys_to_bytes
from bgjob.terminal.page import Screen
from bgjob.terminal.screen import render

ROWS, COLUMNS = 24, 80
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


def shown(*events: bytes | tuple[int, int], rows: int = 5, columns: int = 10) -> list[str]:
    return render(events, rows, columns).lines


def cursor(data: bytes, rows: int = 5, columns: int = 10) -> tuple[int, int]:
    view = render([data], rows, columns)
    return view.cursor_row, view.cursor_column


# Real programs


class Program:
    """A program on a PTY of its own; what it prints is kept as it came."""

    def __init__(
        self, argv: Sequence[str], directory: Path, rows: int = ROWS, columns: int = COLUMNS
    ) -> None:
        self.output = b""
        self._terminal = Terminal(rows, columns)
        self._master, slave = pty.openpty()
        self._set_size(rows, columns)
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "PS1": "$ "}
        self._process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            cwd=directory,
            start_new_session=True,
        )
        os.close(slave)

    def _set_size(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, *names: str) -> None:
        application_cursor = self._terminal.screen().application_cursor
        os.write(self._master, keys_to_bytes(names, application_cursor=application_cursor))

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def read_until(self, mark: str) -> Screen:
        """Until the mark is on the screen; the screen then."""
        while mark not in "\n".join((view := self._terminal.screen()).lines):
            assert select.select([self._master], [], [], 20)[0], f"no {mark!r} on {view.lines}"
            data = os.read(self._master, 1 << 16)
            self._terminal.feed(data)
            self.output += data
        return view

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)


@pytest.fixture
def started() -> Iterator[list[Program]]:
    programs: list[Program] = []
    yield programs
    for program in programs:
        program.stop()


def program_or_skip(started: list[Program], directory: Path, *argv: str) -> Program:
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed")
    started.append(Program(argv, directory))
    return started[-1]


@pytest.fixture
def poem(tmp_path: Path) -> Path:
    path = tmp_path / "poem.txt"
    path.write_text("".join(f"line {number} of the poem, with ünïcode — 漢字\n" for number in range(1, 201)))
    return path


def drive_vim(started: list[Program], poem: Path) -> Program:
    vim = program_or_skip(started, poem.parent, "vim", "-u", "NONE", "-i", "NONE", "-n", poem.name)
    vim.read_until("line 22 ")
    vim.press("ctrl-d", "down", "down", "pagedown", "i")
    vim.type("inserted text ")
    vim.press("esc", "up", "d", "d", "ctrl-y", "ctrl-y", "ctrl-e", "ctrl-b")
    vim.type(":echo 'dri'.'ven'\r")
    vim.read_until("driven")
    return vim


def drive_less(started: list[Program], poem: Path) -> Program:
    less = program_or_skip(started, poem.parent, "less", poem.name)
    less.read_until("line 22 ")
    less.press("space", "down", "down", "up", "b", "pagedown", "G", "up", "up", "up")
    less.read_until("line 175 ")
    return less


def drive_bash(started: list[Program], poem: Path) -> Program:
    bash = program_or_skip(started, poem.parent, "bash", "--norc", "--noprofile", "-i")
    bash.read_until("$")
    bash.type("echo " + "a long line that wraps " * 8)
    bash.press("home", "right", "delete", "backspace", "ctrl-e", "ctrl-w", "alt-b", "ctrl-left", "enter")
    bash.type("printf '\\ttab\\n\\033[1;31mred\\033[m\\n'; seq 30; echo en''d\r")
    bash.read_until("end\n$")
    return bash


def drive_python(started: list[Program], poem: Path) -> Program:
    repl = program_or_skip(started, poem.parent, sys.executable, "-q", "-i")
    repl.read_until(">>>")
    repl.type("for i in range(3):\n    print(i * 'ab')\n\n'do' + 'ne'\n")
    repl.read_until("'done'")
    return repl


def drive_top(started: list[Program], poem: Path) -> Program:
    top = program_or_skip(started, poem.parent, "top", "-d", "60")
    top.read_until("PID")
    top.press("h")
    top.read_until("Help for Interactive Commands")
    return top


DRIVERS = [drive_vim, drive_less, drive_bash, drive_python, drive_top]


def test_vim_can_be_edited_and_left_by_its_screen(started: list[Program], poem: Path) -> None:
    vim = program_or_skip(started, poem.parent, "bash", "--norc", "--noprofile", "-i")
    vim.read_until("$")
    if shutil.which("vim") is None:
        pytest.skip("vim is not installed")
    vim.type(f"vim -u NONE -i NONE -n {poem.name}\r")
    opened = vim.read_until("line 22 ")
    assert opened.is_alternate
    assert opened.lines[0] == "line 1 of the poem, with ünïcode — 漢字"
    vim.press("down", "o")
    vim.type("a new line")
    edited = vim.read_until("a new line")
    assert edited.lines[1:4] == [opened.lines[1], "a new line", opened.lines[2]]
    assert (edited.cursor_row, edited.cursor_column) == (3, len("a new line") + 1)
    vim.press("esc")
    vim.type(":q!\r")
    left = vim.read_until(f"$ vim -u NONE -i NONE -n {poem.name}\n$")
    assert not left.is_alternate
    assert len(left.lines) == 2


def test_a_screen_tells_what_the_arrow_keys_must_send(started: list[Program], poem: Path) -> None:
    less = program_or_skip(started, poem.parent, "less", poem.name)
    first = less.read_until("line 22 ")
    assert first.application_cursor
    less.press("down")
    assert less.read_until("line 24 ").lines[0].startswith("line 2 ")


# tmux as the judge


class Tmux:
    def __init__(self, directory: Path) -> None:
        self._socket, self._directory = directory / "tmux", directory

    def run(self, *arguments: str) -> str:
        command = ["tmux", "-u", "-f", "/dev/null", "-S", str(self._socket), *arguments]
        environment = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
            "SHELL": "/bin/sh",
            "TERM": "xterm-256color",
        }
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True, timeout=30
        ).stdout

    def show(
        self, data: bytes, rows: int, columns: int
    ) -> tuple[list[str], tuple[int, int], bool, bool, bool]:
        """What tmux shows of it. It answers the question at the end when it has read all that comes before."""
        stream = self._directory / "stream"
        stream.write_bytes(data + b"\x1b[5n")
        pane = (
            f"stty raw -echo; cat {stream}; dd bs=1 count=4 >/dev/null 2>&1; "
            f"tmux -S {self._socket} wait-for -S drawn; cat >/dev/null"
        )
        self.run("new-session", "-d", "-x", str(columns), "-y", str(rows + 1), "cat")
        self.run("set-option", "-g", "status", "off")
        self.run("resize-window", "-x", str(columns), "-y", str(rows))
        self.run("respawn-pane", "-k", pane)
        self.run("wait-for", "drawn")
        lines = self.run("capture-pane", "-p").split("\n")
        facts = "#{cursor_y} #{cursor_x} #{alternate_on} #{keypad_cursor_flag} #{cursor_flag}"
        y, x, *flags = map(int, self.run("display-message", "-p", facts).split())
        self.run("kill-server")
        while lines and not lines[-1].rstrip():
            lines.pop()
        alternate, application, visible = map(bool, flags)
        lines = [line.rstrip() for line in lines]
        return lines, (y + 1, min(x, columns - 1) + 1), alternate, application, not visible


@pytest.fixture
def tmux(tmp_path: Path) -> Tmux:
    if shutil.which("tmux") is None:
        pytest.skip("tmux, the judge, is not installed")
    return Tmux(tmp_path)


def verdict(view: Screen) -> tuple[list[str], tuple[int, int], bool, bool, bool]:
    position = view.cursor_row, view.cursor_column
    return view.lines, position, view.is_alternate, view.application_cursor, view.hidden_cursor


@pytest.mark.parametrize("drive", DRIVERS, ids=lambda drive: drive.__name__.removeprefix("drive_"))
def test_a_real_program_looks_as_in_tmux(drive, started: list[Program], poem: Path, tmux: Tmux) -> None:  # type: ignore[no-untyped-def]
    output = drive(started, poem).output
    assert verdict(render([output], ROWS, COLUMNS)) == tmux.show(output, ROWS, COLUMNS)


FULL = b"".join(b"%d23456789%d" % (row, row) for row in range(5))

SEQUENCES = {
    "wrap": b"0123456789abc",
    "wrap pending": b"0123456789",
    "wrap pending, return": b"0123456789\rab",
    "wrap pending, newline": b"0123456789\nab",
    "wrap pending, up": b"\n0123456789\x1b[Aab",
    "no wrap": b"\x1b[?7l0123456789abc\x1b[?7h",
    "scroll": b"1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7",
    "margins": FULL + b"\x1b[2;4r\x1b[4;1H\r\nx\x1b[2;1H\x1bMy",
    "margins home the cursor": b"abc\r\ndef\x1b[2;4r*\x1b[3;3H\x1b[r+",
    "cursor above the margins": FULL
    + b"\x1b[3;4r\x1b[2;2H\x1b[9Aa\x1b[2;2H\x1b[9Bb\x1b[5;1H\x1b[9Bc\x1b[9Ad",
    "newline below the margins": FULL + b"\x1b[1;3r\x1b[5;1H\n\nx",
    "origin": FULL + b"\x1b[2;4r\x1b[?6h\x1b[1;1Ha\x1b[9;9Hb\x1b[?6l\x1b[Hc",
    "scroll up and down": FULL + b"\x1b[2S\x1b[T",
    "scroll far": FULL + b"\x1b[3;3H\x1b[999S*",
    "insert and delete lines": FULL + b"\x1b[2;1H\x1b[2L\x1b[4;1H\x1b[M",
    "insert, delete, erase cells": FULL
    + b"\x1b[1;4H\x1b[2@\x1b[2;4H\x1b[2P\x1b[3;4H\x1b[2X\x1b[4;4H\x1b[99P\x1b[5;4H\x1b[3@",
    "insert mode": b"abc\x1b[1;2H\x1b[4hXY\x1b[4l",
    "erase in line": FULL + b"\x1b[1;5H\x1b[K\x1b[2;5H\x1b[1K\x1b[3;5H\x1b[2K",
    "erase below": FULL + b"\x1b[3;5H\x1b[J",
    "erase above": FULL + b"\x1b[3;5H\x1b[1J",
    "erase history only": FULL + b"\x1b[3J",
    "repeat": b"ab\x1b[3b\r\nx\x1b[999b",
    "tabs": b"a\tb\r\n\x1b[3g\x1b[4G\x1bH\ra\tb\x1b[2Z*",
    "back over the edge": b"ab\b\b\b\bX",
    "relative moves": b"\x1b[3;3H\x1b[2Aa\x1b[2Bb\x1b[2Cc\x1b[9Dd\x1b[Ee\x1b[2Ff\x1b[7Gg\x1b[4dh",
    "huge moves": b"\x1b[99999999B\x1b[99999999Cx\x1b[99999999A\x1b[99999999Dy\x1b[99999999;99999999Hz",
    "save and restore twice": b"ab\x1b7cd\x1b8X\r\n\x1b8Y",
    "save and restore, other spelling": b"ab\x1b[scd\x1b[uX",
    "next line": b"abc\x1bEdef\x1bDghi",
    "wide": "漢字漢字漢字".encode(),
    "wide at the edge": "123456789漢".encode(),
    "accents": "e\u0301a\u0308\u0323x".encode(),
    "zero width first": "\u0301ab\u200bcd".encode(),
    "bad UTF-8 skipped over": b"a\xc3\xa9b",
    "alternate": b"main\x1b[?1049halt\x1b[?1049l!",
    "alternate is shown": b"main\x1b[?1049h\x1b[Halt",
    "alternate is blank again": b"\x1b[?1049halt\x1b[?1049l\x1b[?1049h\x1b[3;1Hnew",
    "reset": b"abc\x1b[?1h\x1b[?25l\x1b[2;3r\x1bcd",
    "align": b"\x1b[2;3r\x1b#8x",
    "hidden cursor": b"a\x1b[?25l",
    "application cursor": b"a\x1b[?1h\x1b=",
    "DCS, APC, PM, SOS": b"a\x1bPq#0;2;0\x1b\\b\x1b_apc\x1b\\c\x1b^pm\x1b\\d\x1bXsos\x1b\\e",
    "OSC": b"a\x1b]8;;http://x\x07b\x1b]8;;\x1b\\c\x1b]11;?\x07d",
    "colon colours": b"a\x1b[4:3mb\x1b[38:2::1:2:3mc\x1b[38;5;1md",
    "private marks": b"a\x1b[>4;2mb\x1b[?4mc\x1b[>cd\x1b[=ce\x1b[<uf",
    "intermediates": b'a\x1b[2 qb\x1b[?2026$pc\x1b[1"qd',
    "cancelled": b"a\x1b[12\x18b\x1b[3\x1ac",
    "escape in a sequence": b"ab\x1b[1\x1b[1;1Hc",
    "delete and null": b"a\x7fb\x00c",
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_sequence_does_what_it_does_in_tmux(name: str, tmux: Tmux) -> None:
    assert verdict(render([SEQUENCES[name]], 5, 10)) == tmux.show(SEQUENCES[name], 5, 10)


# What tmux does otherwise, or does not tell


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"\x1b(0lqk\x1b(Blqk\r\n\x1b)0\x0elqk\x0flqk", ["┌─┐lqk", "┌─┐lqk"]),
        ("漢字漢\x1b[1;2Ha\x1b[1;5Hb".encode(), [" a字b"]),
        (b"\x1b[2;4r\x1b[4h\x1b[?6h\x1b[!pabc\x1b[1;1Hd", ["d", "abc"]),
        (b"a\x1b[Ib\r\n\x1b[9Ix", ["a       b", "         x"]),
        (b"\x1b[99999999999;9999999999Hz", ["", "", "", "", "         z"]),
    ],
    ids=["line drawing", "half a wide one overwritten", "soft reset", "tabs forward", "astronomic moves"],
)
def test_a_sequence_does_what_it_does_in_xterm(data: bytes, lines: list[str]) -> None:
    assert shown(data) == lines


def test_the_title_is_the_last_one_given() -> None:
    assert (
        render([b"\x1b]0;first\x07\x1b]2;s\xc3\xa9cond\x1b\\\x1b]10;colour\x07\x1b]1;icon\x07"], 5, 10).title
        == "sécond"
    )


def test_a_title_is_of_bounded_length() -> None:
    assert len(render([b"\x1b]2;" + b"x" * 100_000 + b"\x07"], 5, 10).title) == emulator.LONGEST_TITLE


def test_each_page_keeps_its_own_cursor() -> None:
    data = b"ab\r\ncd" + ENTER + b"\x1b[4;4H\x1b7\x1b[2;2H" + LEAVE
    assert cursor(data) == (2, 3)


def test_a_sequence_may_be_cut_anywhere() -> None:
    data = "ab\x1b[2;3Hé漢\x1b]2;title\x1b\\\x1bPdcs\x1b\\\x1b(0q\x1b(B\x1b[?1049h!".encode()
    whole = render([data], 5, 10)
    assert (whole.title, whole.cursor_row, whole.cursor_column) == ("title", 2, 8)
    assert render([data[at : at + 1] for at in range(len(data))], 5, 10) == whole


def test_a_long_string_may_be_cut_anywhere() -> None:
    pieces = [b"a\x1bP", *[b"x" * 1000] * 20, b"\x1b", b"\\b"]
    assert shown(*pieces) == ["ab"]


@pytest.mark.parametrize(
    ("size", "lines", "at"),
    [
        ((5, 4), ["1", "2345", "3"], (3, 2)),
        ((2, 10), ["2345678", "3"], (2, 2)),
        ((3, 10), ["1", "2345678", "3"], (3, 2)),
        ((9, 20), ["1", "2345678", "3"], (3, 2)),
    ],
)
def test_a_smaller_screen_keeps_the_cursor_and_what_is_above_it(
    size: tuple[int, int], lines: list[str], at: tuple[int, int]
) -> None:
    view = render([b"1\r\n2345678\r\n3", size], 5, 10)
    assert view.lines == lines
    assert (view.cursor_row, view.cursor_column) == at


def test_a_wider_screen_is_used_at_once_with_its_tabs() -> None:
    assert shown(b"0123456789ab", (5, 20), b"\r\n0123456789abc\r\n\t\tx") == [
        "0123456789",
        "ab",
        "0123456789abc",
        "                x",
    ]


def test_the_page_under_a_full_screen_program_is_resized_too() -> None:
    assert shown(b"1\r\n2\r\n3" + ENTER + b"alt", (2, 10), LEAVE + b"!") == ["2", "3!"]


def test_a_fault_of_pyte_costs_one_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("pyte.Screen.cursor_forward", raises)
    assert shown(b"a\x1b[Cb\x1b[2;1Hc") == ["ab", "c"]
