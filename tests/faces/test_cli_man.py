"""bgjob man: the page as roff for a file, as a page for a person."""

import subprocess
from pathlib import Path

import pytest

from bgjob.cli.parser import all_parsers
from bgjob.core.config import SETTINGS
from tests.faces.command_line import BGJOB, Cli
from tests.support.requires import needs
from tests.support.tmux import terminal


@pytest.fixture
def cli(home: Path) -> Cli:
    return Cli(home)


@needs("man")
def test_man_reads_it_without_complaint_and_finds_every_command_option_and_setting(cli: Cli) -> None:
    shown = subprocess.run(
        ["man", "--warnings", "-l", "-"],
        input=cli("man").stdout,
        env={**cli.environment, "MANWIDTH": "500", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert shown.stderr == ""
    for verb, _, parser in all_parsers():
        assert f"   bgjob {verb}\n" in shown.stdout
        for action in parser._actions:
            assert all(
                option in shown.stdout for option in action.option_strings if option not in ("-h", "--help")
            )
    assert all(row.variable in shown.stdout for row in SETTINGS)


@needs("tmux")
class TestOnATerminal:
    @needs("man")
    def test_the_page_is_shown(self, tmp_path: Path) -> None:
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(tmp_path)}
        with terminal([BGJOB, "man"], tmp_path, environment) as opened:
            opened.wait_for("BGJOB(1)")
            opened.press("q")
            opened.wait_until(lambda: not opened.is_open, "q leaves it")

    def test_without_man_it_is_plain_text(self, tmp_path: Path) -> None:
        environment = {"PATH": str(tmp_path), "LANG": "C.UTF-8", "HOME": str(tmp_path)}
        command = ["/bin/sh", "-c", f"{BGJOB} man; echo the end; read _"]
        with terminal(command, tmp_path, environment, lines=1000) as opened:
            opened.wait_for("the end")
            assert "usage: bgjob run" in opened.screen
            assert ".SH" not in opened.screen
