"""What a command costs before it does anything: CPU until it has ended, against `python -c pass`, in turns."""

import os
import sys
from collections.abc import Sequence
from functools import partial

from bench.checkouts import command_ms
from bench.lab import Lab, take_turns
from bench.report import Result, Row, ours_at_most

BGJOB = (sys.executable, "-m", "bgjob")
ONLY_PYTHON = (sys.executable, "-c", "pass")
TAB = ("completion", "--complete", "bash", "bgjob logs ", " =:")
# in this order: what `run` starts is what the others find
GOALS_MS: dict[str, tuple[Sequence[str], float]] = {
    "bgjob run -- true": (("run", "--", "true"), 120),
    "bgjob ps": (("ps", "--limit", "100"), 100),
    "a tab after bgjob logs": (TAB, 50),
    "bgjob --version": (("--version",), 50),
}


def command_line(lab: Lab) -> Result:
    """the command line: run -- true (with its shim), ps, a tab, --version: CPU against python -c pass"""
    environment = {**os.environ, "BGJOB_HOME": str(lab.new_home() / "jobs"), "MCP_BG_MAX_JOBS": "1000"}
    return Result([_row(lab, title, environment) for title in GOALS_MS])


def _row(lab: Lab, title: str, environment: dict[str, str]) -> Row:
    arguments, most_ms = GOALS_MS[title]
    commands = [ONLY_PYTHON, (*BGJOB, *arguments)]
    turns = [partial(_cpu_ms, command, environment) for command in commands]
    its, ours = take_turns(turns, lab.rounds(40, 4), lambda once: once(), warm_up=1)
    return Row(f"{title}, CPU", "ms", ours, its, "`python -c pass`", ours_at_most(most_ms, "ms"))


def _cpu_ms(command: Sequence[str], environment: dict[str, str]) -> float:
    cpu_ms, _ = command_ms([*command], environment)
    return cpu_ms
