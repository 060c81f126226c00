"""Ours against another checkout (--against PATH) or commit (--earlier): start-up, in turns."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench import environments, processes
from bench.environments import PROJECT
from bench.lab import Lab, Side, column, take_turns
from bench.report import Result, Row, ratio_at_most
from bench.tools import execute_ms, start_once

IMPORT_SHIM = "import sys; sys.path.append(sys.argv[1]); from bgjob.shim import entry"


def start(lab: Lab) -> Result:
    """start-up: a shim's imports, the command line, a fresh shim, a shim forked from a zygote, the server"""
    rows = [
        *_command_rows(lab, "a shim's imports", _import_shim),
        *_command_rows(lab, "bgjob ps", lambda side: [*side.argv[:-1], "ps"]),
        *_command_rows(lab, "bgjob run (a fresh shim)", lambda side: [*side.argv[:-1], "run", "true"]),
    ]
    with lab.servers() as servers:
        forked = take_turns(servers, lab.rounds(200, 5), execute_ms)
    cold = take_turns(lab.sides, lab.rounds(10, 2), lambda side: start_once(lab, side), warm_up=1)
    rows.append(lab.row("execute_command (a forked shim)", forked))
    return Result([*rows, lab.row("server, CPU until tools/list", column(0, cold))])


def uncompiled(lab: Lab) -> Result:
    """cold start without .pyc files, against an earlier commit of ours (--earlier)"""
    if len(lab.sides) < 2:
        return Result(notes=["uncompiled: not measured, --ours has no environment that could be copied."])
    earlier = environments.earlier(lab.earlier, lab.ours.argv[0])
    sides = [_without_pyc(lab, side) for side in (earlier, lab.ours)]
    its, ours = column(0, take_turns(sides, lab.rounds(10, 2), partial(_start_uncompiled, lab), warm_up=1))
    row = Row("cold start without .pyc, CPU", "ms", ours, its, earlier.name, ratio_at_most(0.5))
    return Result([row], ["without .pyc: of bgjob and its packages; the standard library's are there."])


def _without_pyc(lab: Lab, side: Side) -> Side:
    """With a copy of all that is installed, which comes first on the path."""
    copy = lab.new_home() / "packages"
    shutil.copytree(environments.site_packages(side), copy, ignore=shutil.ignore_patterns("__pycache__"))
    return replace(side, environment={"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"})


def _start_uncompiled(lab: Lab, side: Side) -> tuple[float, ...]:
    # a process of ours that does not take settings from its environment may have left some
    for cache in list(Path(side.environment["PYTHONPATH"]).rglob("__pycache__")):
        shutil.rmtree(cache)
    return start_once(lab, side)


def _import_shim(side: Side) -> list[str]:
    """As a shim is started: with nothing of the user's site."""
    source = side.environment.get("PYTHONPATH", str(PROJECT / "src"))
    return [side.argv[0], "-I", "-S", "-E", "-c", IMPORT_SHIM, source]


def _command_rows(lab: Lab, title: str, command: Callable[[Side], list[str]]) -> list[Row]:
    def once(side: Side) -> tuple[float, float]:
        home = {"BGJOB_HOME": str(lab.root / f"cli-{side.name}")}
        return command_ms(command(side), {**os.environ, **side.environment, **home})

    samples = take_turns(lab.sides, lab.rounds(40, 3), once)
    return [lab.row(f"{title}, {word}", column(index, samples)) for index, word in enumerate(["CPU", "wall"])]


def command_ms(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Milliseconds: CPU with that of all it started, wall until the command has ended."""
    cpu_before_s, began = processes.cpu_of_ended_s(), time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    wall_s = time.perf_counter() - began
    processes.settle()
    processes.reap()
    return (processes.cpu_of_ended_s() - cpu_before_s) * 1000, wall_s * 1000
