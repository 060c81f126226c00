"""What users wait for: each tool, ours against the reference, one call of each in turn."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

from bench import processes
from bench.client import BenchError, Server
from bench.lab import (
    OURS,
    REFERENCE,
    Lab,
    Side,
    by_name,
    execute,
    run,
    status,
    take_turns,
    wait_until_ended,
    wait_until_printed,
)
from bench.report import Goal, Result, Row, Samples, ours_at_most, ratio_at_most

MB = 1_000_000
# as the reference counts: 1 MB is 1024 * 1024, and it keeps one line for every 100 bytes, whatever its length
KEEP_100_MB = str(100 * 1024 * 1024)
LINE_BYTES = 100
TREE_SIZE = 10
BURST = 50


def cold_start(lab: Lab) -> Result:
    """spawn to the first answered tools/list, and to the first job"""
    cpu: dict[str, Samples] = {side.name: [] for side in lab.sides}
    job: dict[str, Samples] = {side.name: [] for side in lab.sides}

    def once(side: Side) -> float:
        cpu_s, wall_s, job_s = _start_once(lab, side)
        cpu[side.name].append(cpu_s * 1000)
        job[side.name].append(job_s * 1000)
        return wall_s * 1000

    samples = take_turns(lab.sides, lab.rounds(12), once, warm_up=0)
    # the first round of each filled the page cache
    wall = {side.name: its[1:] for side, its in zip(lab.sides, samples, strict=True)}
    cpu, job = ({name: its[1:] for name, its in part.items()} for part in (cpu, job))
    rows = [
        _row("cold start, CPU", cpu, ratio_at_most(0.6)),
        _row("cold start, wall", wall),
        _row("cold start to a job's id, wall", job),
    ]
    note = "cold start, CPU: the whole process tree until it is at rest after tools/list, no job started."
    return Result(rows, [note])


def _start_once(lab: Lab, side: Side) -> tuple[float, float, float]:
    cpu_before = processes.cpu_of_ended_s()
    wall_s = _start_until(lab, side, lambda server: server.request("tools/list", {}))
    cpu_s = processes.cpu_of_ended_s() - cpu_before
    return cpu_s, wall_s, _start_until(lab, side, lambda server: execute(server, "true"))


def _start_until(lab: Lab, side: Side, answered: Callable[[Server], object]) -> float:
    began = time.perf_counter()
    server = lab.start(side)
    try:
        server.initialize()
        answered(server)
        took_s = time.perf_counter() - began
        # what goes on in the background afterwards (imports, a helper process) is part of the price
        processes.settle()
        return took_s
    finally:
        # killed, not asked to end: an orderly end is no part of a start
        processes.end_all()
        server.end()


def execute_command(lab: Lab) -> Result:
    """execute_command of `true`, alone and 50 in a row"""
    with lab.servers() as servers:
        alone = by_name(servers, take_turns(servers, lab.rounds(150, 15), _execute_alone))
        burst = by_name(servers, take_turns(servers, lab.rounds(6, 2), _execute_burst, warm_up=1))
    return Result(
        [
            _row("execute_command `true`", alone, ratio_at_most(1.5)),
            _row(f"execute_command, mean of {BURST} in a row", burst),
        ],
        [],
    )


def _execute_alone(server: Server) -> float:
    job_id = execute(server, "true")
    took_s = server.last_s
    # the next one finds its slot free (the reference frees slots only when looked at) and the machine at rest
    wait_until_ended(server, job_id)
    processes.reap()
    time.sleep(0.005)
    return took_s * 1000


def _execute_burst(server: Server) -> float:
    began = time.perf_counter()
    jobs = [execute(server, "true") for _ in range(BURST)]
    took_s = time.perf_counter() - began
    for job_id in jobs:
        wait_until_ended(server, job_id)
    return took_s * 1000 / BURST


def get_job_status(lab: Lab) -> Result:
    """get_job_status of a running and of an ended job"""
    with lab.servers() as servers:
        running = {server.name: execute(server, "sleep 1000") for server in servers}
        ended = {server.name: run(server, "true") for server in servers}
        rounds = lab.rounds(300, 30)
        of_running = take_turns(servers, rounds, lambda server: _status_ms(server, running[server.name]))
        of_ended = take_turns(servers, rounds, lambda server: _status_ms(server, ended[server.name]))
        goal = ratio_at_most(0.7)
        return Result(
            [
                _row("get_job_status, running", by_name(servers, of_running), goal),
                _row("get_job_status, ended", by_name(servers, of_ended), goal),
            ],
            [],
        )


def _status_ms(server: Server, job_id: str) -> float:
    status(server, job_id)
    return server.last_s * 1000


def tail_job_output(lab: Lab) -> Result:
    """100 MB of output until the job has ended; tail_job_output of it and of 1 MB"""
    with lab.servers(MCP_BG_MAX_OUTPUT_SIZE=KEEP_100_MB) as servers:
        fill = take_turns(servers, lab.rounds(3, 1), _fill_100_mb, warm_up=0)
        logs = [(server, run(server, _printing(size))) for size in (100 * MB, MB) for server in servers]
        samples = take_turns(logs, lab.rounds(100, 10), lambda log: _tail_ms(*log))
    of_large = by_name(servers, samples[: len(servers)])
    of_small = by_name(servers, samples[len(servers) :])
    return Result(
        [
            _row("100 MB of lines through a job", by_name(servers, fill), unit="MB/s"),
            _row("tail_job_output of 100 MB", of_large),
            _row("tail_job_output of 1 MB", of_small),
            Row(
                "tail_job_output of 100 MB",
                "ms",
                of_large.get(OURS),
                of_small.get(OURS),
                against="ours, 1 MB",
                goal=ratio_at_most(1.3),
            ),
        ],
        ["100 MB: lines of 100 bytes, MCP_BG_MAX_OUTPUT_SIZE at the reference's maximum; both keep all."],
    )


def _printing(size_bytes: int) -> str:
    return f"sh -c 'seq -f %0{LINE_BYTES - 1}.0f {size_bytes // LINE_BYTES}'"


def _fill_100_mb(server: Server) -> float:
    began = time.perf_counter()
    run(server, _printing(100 * MB), look_every_s=0.02)
    return 100 / (time.perf_counter() - began)


def _tail_ms(server: Server, job_id: str) -> float:
    lines = server.call("tail_job_output", job_id=job_id, lines=50)["stdout"].split()
    took_s = server.last_s
    if len(lines) != 50 or int(lines[-1]) - int(lines[0]) != 49:
        raise BenchError(f"{server.name}: the tail is not the last 50 lines")
    return took_s * 1000


def list_jobs(lab: Lab) -> Result:
    """list_jobs of 1,000 ended jobs"""
    list_all = {side.name: side.list_all for side in lab.sides}

    def once(server: Server) -> float:
        jobs = server.call("list_jobs", **list_all[server.name])["jobs"]
        took_s = server.last_s
        if len(jobs) != 1000:
            raise BenchError(f"{server.name}: list_jobs shows {len(jobs)} of 1000 jobs")
        return took_s * 1000

    with lab.servers(MCP_BG_MAX_RESPONSE="1MB") as servers:  # one answer is to hold them all
        for server in servers:
            _fill_up_to(server, 1000)
        samples = by_name(servers, take_turns(servers, lab.rounds(60, 10), once))
        held = [f"{server.name} {_open_files(server)}" for server in servers]
    note = f"list_jobs: files the server holds open after 1,000 ended jobs: {', '.join(held)}."
    return Result([_row("list_jobs of 1,000", samples, ours_at_most(50))], [note])


def _fill_up_to(server: Server, jobs: int) -> None:
    """So many ended jobs, of which the server's warm-up has left some already."""
    for number in range(len(server.call("list_jobs")["jobs"]), jobs):
        job_id = execute(server, "true")
        if number % 20 == 0 or number == jobs - 1:
            wait_until_ended(server, job_id)
            # the reference frees slots only when looked at
            server.call("list_jobs")
            processes.reap()


def _open_files(server: Server) -> int:
    return len(list(Path(f"/proc/{server.pid}/fd").iterdir()))


def interact_with_job(lab: Lab) -> Result:
    """interact_with_job with `cat`"""
    with lab.servers() as servers:
        cats = {server.name: execute(server, "cat") for server in servers}
        samples = take_turns(servers, lab.rounds(40, 8), lambda one: _interact_ms(one, cats[one.name]))
        return Result([_row("interact_with_job `cat`", by_name(servers, samples), ratio_at_most(0.1))], [])


def _interact_ms(server: Server, job_id: str) -> float:
    said = f"the time is {time.perf_counter_ns()}"
    heard = server.call("interact_with_job", job_id=job_id, input=said)["stdout"]
    took_s = server.last_s
    if heard.strip() != said:
        raise BenchError(f"{server.name}: said {said!r} to `cat` and heard {heard!r}")
    return took_s * 1000


def exit_to_visible(lab: Lab) -> Result:
    """a job's release until get_job_status says that it has ended, polled tightly"""
    with lab.servers() as servers:
        samples = take_turns(servers, lab.rounds(60, 8), _exit_ms)
    return Result([_row("exit to visible", by_name(servers, samples))], [])


def _exit_ms(server: Server) -> float:
    """`cat` of a FIFO: it ends when we, who hold the other end, let go."""
    gate = server.home / f"gate-{time.perf_counter_ns()}"
    os.mkfifo(gate)
    job_id = execute(server, f"cat {gate}")
    held = open_when_read(gate)
    time.sleep(0.02)
    began = time.perf_counter()
    os.close(held)
    word = wait_until_ended(server, job_id, every_s=0)
    took_s = time.perf_counter() - began
    if word != "completed":
        raise BenchError(f"{server.name}: `cat` of a FIFO ended as {word}")
    return took_s * 1000


def open_when_read(fifo: Path, within_s: float = 10.0) -> int:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        time.sleep(0.001)
    raise BenchError(f"nobody opened {fifo.name} within {within_s:.0f} s")


def kill_job(lab: Lab) -> Result:
    """kill_job of a tree of 10 processes, and what is left alive when it answers"""
    left: dict[str, int] = {side.name: 0 for side in lab.sides}

    def once(server: Server) -> float:
        took_ms, alive = _kill_tree(server)
        left[server.name] = max(left[server.name], alive)
        return took_ms

    with lab.servers() as servers:
        samples = by_name(servers, take_turns(servers, lab.rounds(20, 4), once, warm_up=1))
    alive = ", ".join(f"{name} {number}" for name, number in left.items())
    note = f"kill_job: of {TREE_SIZE} processes still alive when it has answered `killed`: {alive}."
    return Result([_row(f"kill_job of {TREE_SIZE} processes", samples)], [note])


def _kill_tree(server: Server) -> tuple[float, int]:
    sleepers = TREE_SIZE - 1
    # the fraction tells this tree from all others
    sleep = ["sleep", f"1000.{time.perf_counter_ns()}"]
    loop = f"for i in $(seq {sleepers}); do {' '.join(sleep)} & done; echo ready; wait"
    job_id = execute(server, f"sh -c '{loop}'")
    wait_until_printed(server, job_id, "ready")
    word = server.call("kill_job", job_id=job_id)["status"]
    took_s = server.last_s
    if word != "killed":
        raise BenchError(f"{server.name}: kill_job answered {word}")
    left = [one for one in processes.descendants() if one.alive and _is_of_tree(one, sleep, loop)]
    for process in left:
        processes.kill(process)
    processes.reap()
    return took_s * 1000, len(left)


def _is_of_tree(process: processes.Process, sleep: list[str], loop: str) -> bool:
    argv = process.argv()
    return argv == sleep or loop in argv


def _row(title: str, samples: dict[str, Samples], goal: Goal | None = None, unit: str = "ms") -> Row:
    return Row(title, unit, samples.get(OURS), samples.get(REFERENCE), goal=goal)
