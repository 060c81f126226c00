"""What it costs to tell a model of ends: a hook that its client waits for, and a task that its client asks for."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from bench.lab import BenchError, Lab, Server, column, execute, take_turns, wait_until
from bench.report import Result, Row, ours_at_most, ratio_at_most
from bgjob.core.job import Ended
from bgjob.store.store import Store

HOOK = (sys.executable, "-m", "bgjob", "hook", "claude")
ONLY_PYTHON = (sys.executable, "-c", "pass")
PROMPT = json.dumps({"hook_event_name": "UserPromptSubmit", "session_id": "bench"}).encode()
SAID = "the last line"
RUNNING_JOBS = 3
KNOWS_TASKS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}

Environment = Mapping[str, str]
Cost = tuple[float, float]
"""Milliseconds of wall and of CPU."""


def hook(lab: Lab) -> Result:
    """bgjob hook: nothing to tell, three jobs run, an end is told"""
    with lab.server(lab.ours) as server:
        environment = {**os.environ, "BGJOB_HOME": str(server.home)}
        silent, telling = partial(_silent, environment), partial(_telling, server, environment)
        rows = _rows_of_hook(lab, "nothing to tell", silent)
        for _ in range(RUNNING_JOBS):
            execute(server, "sleep 1000")
        rows += _rows_of_hook(lab, f"{RUNNING_JOBS} jobs run", silent)
        rows += _rows_of_hook(lab, "an end is told", telling)
    return Result(rows)


def _rows_of_hook(lab: Lab, case: str, ours: Callable[[], Cost]) -> list[Row]:
    samples = take_turns([_only_python, ours], lab.rounds(40, 4), lambda once: once())
    goals = {"wall": ours_at_most(100, "ms"), "CPU": None}
    return [
        Row(f"bgjob hook, {case}, {of}", "ms", its[1], its[0], "`python -c pass`", goal)
        for (of, goal), its in zip(goals.items(), (column(0, samples), column(1, samples)), strict=True)
    ]


def _only_python() -> Cost:
    cost, _ = _process(ONLY_PYTHON, os.environ)
    return cost


def _silent(environment: Environment) -> Cost:
    cost, told = _process(HOOK, environment)
    if told:
        raise BenchError(f"there is nothing to tell, and the hook tells {told!r}")
    return cost


def _telling(server: Server, environment: Environment) -> Cost:
    """The end is looked for on disk: an answer of the server would tell it."""
    job_id, store = execute(server, f"echo {SAID}"), Store(str(server.home))
    wait_until(lambda: isinstance(store.load(job_id).state, Ended), f"job {job_id} has ended")
    cost, told = _process(HOOK, environment)
    if SAID.encode() not in told:
        raise BenchError(f"a job has ended, and the hook tells {told!r}")
    return cost


def _process(command: Sequence[str], environment: Environment) -> tuple[Cost, bytes]:
    began, before_s = time.perf_counter(), _cpu_of_children_s()
    done = subprocess.run(command, input=PROMPT, env=environment, stdout=subprocess.PIPE, check=True)
    wall_s, cpu_s = time.perf_counter() - began, _cpu_of_children_s() - before_s
    return (wall_s * 1000, cpu_s * 1000), done.stdout


def _cpu_of_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def task(lab: Lab) -> Result:
    """tasks/get of a wait that goes on, against get_job_status of its job"""
    with lab.server(lab.ours, MCP_BG_TASK_AFTER="0") as server:
        job_id = execute(server, "exec sleep 1000")
        created = _ask(server, "tools/call", name="wait_for_job", arguments={"job_ids": [job_id]})
        turns = [partial(_status_ms, server, job_id), partial(_task_ms, server, created["taskId"])]
        status, asked = take_turns(turns, lab.rounds(300, 30), lambda once: once())
    return Result([Row("tasks/get of a wait", "ms", asked, status, "get_job_status", ratio_at_most(1.5))])


def _status_ms(server: Server, job_id: str) -> float:
    server.tool("get_job_status", job_id=job_id)
    return server.last_ms


def _task_ms(server: Server, task_id: str) -> float:
    began = time.perf_counter()
    status = _ask(server, "tasks/get", taskId=task_id)["status"]
    took_ms = (time.perf_counter() - began) * 1000
    if status != "working":
        raise BenchError(f"the wait goes on, and its task is {status}")
    return took_ms


def _ask(server: Server, method: str, **params: object) -> dict[str, str]:
    return dict(server.ask(method, {**params, "_meta": KNOWS_TASKS})["result"])
