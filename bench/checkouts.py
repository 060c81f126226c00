"""Ours against another checkout (--against PATH), interleaved in one run: start-up and memory."""

import os
import subprocess
import time
from functools import partial

from bench import processes
from bench.lab import Lab, Side, take_turns
from bench.limits import IDLE_JOBS, memory_beside_jobs
from bench.report import Result, Row
from bench.tools import execute_ms, start_once


def start(lab: Lab) -> Result:
    """start-up: the command line, a fresh shim, a shim forked from a server's zygote, the server"""
    rounds = lab.rounds(40, 3)
    rows = [
        *_command_rows(lab, "bgjob --version", ["--version"], rounds),
        *_command_rows(lab, "bgjob ps", ["ps"], rounds),
        *_command_rows(lab, "bgjob run -- true (a fresh shim)", ["run", "--", "true"], rounds),
    ]
    with lab.servers() as servers:
        rows.append(
            lab.row("execute_command (a forked shim)", take_turns(servers, lab.rounds(200, 5), execute_ms))
        )
    cold = take_turns(lab.sides, lab.rounds(10, 2), lambda side: start_once(lab, side)[0], warm_up=1)
    return Result([*rows, lab.row("server, CPU until tools/list", cold)])


def _command_rows(lab: Lab, title: str, arguments: list[str], rounds: int) -> list[Row]:
    wall: dict[str, list[float]] = {side.name: [] for side in lab.sides}

    def once(side: Side) -> float:
        cpu_ms, wall_ms = _command_ms(lab, side, arguments)
        wall[side.name].append(wall_ms)
        return cpu_ms

    cpu = take_turns(lab.sides, rounds, once)
    # as many warm-ups as take_turns makes are in front
    walls = [samples[-rounds:] for samples in wall.values()]
    return [lab.row(f"{title}, CPU", cpu), lab.row(f"{title}, wall", walls)]


def _command_ms(lab: Lab, side: Side, arguments: list[str]) -> tuple[float, float]:
    """Milliseconds: CPU with that of all it started, wall until the command has ended."""
    cpu_before_s, began = processes.cpu_of_ended_s(), time.perf_counter()
    environment = {**os.environ, **side.environment, "BGJOB_HOME": str(lab.root / f"cli-{side.name}")}
    command = [*side.argv[:-1], *arguments]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    wall_s = time.perf_counter() - began
    processes.settle()
    processes.reap()
    return (processes.cpu_of_ended_s() - cpu_before_s) * 1000, wall_s * 1000


def idle(lab: Lab) -> Result:
    """PSS per idle job at 100 jobs"""
    once = partial(memory_beside_jobs, lab, jobs=lab.rounds(IDLE_JOBS, 5))
    samples = take_turns(lab.sides, lab.rounds(5, 1), lambda side: once(side)[0], warm_up=1)
    return Result([lab.row("PSS per idle job", samples, unit="MB")])
