"""What users wait for: each tool, ours against the reference, one call of each in turn."""

import time
from collections.abc import Callable

from bench import processes
from bench.lab import (
    BenchError,
    Lab,
    Server,
    Side,
    column,
    execute,
    run,
    take_turns,
    wait_until,
    wait_until_ended,
)
from bench.report import Result, Row, ratio_at_most

MB = 1_000_000
# as the reference counts: 1 MB is 1024 * 1024, and it keeps one line for every 100 bytes, whatever its length
KEEP_100_MB = str(100 * 1024 * 1024)
LINE_BYTES = 100
TREE_SIZE = 10
LISTED = 1000


def cold_start(lab: Lab) -> Result:
    """spawn to the first answered tools/list, and to the first job"""
    rounds = lab.rounds(12)
    first_list = take_turns(lab.sides, rounds, lambda side: start_once(lab, side), warm_up=1)
    first_job = take_turns(lab.sides, rounds, lambda side: start_once(lab, side, _first_job), warm_up=0)
    rows = [
        lab.row("cold start, CPU", column(0, first_list), ratio_at_most(0.12)),
        lab.row("cold start, wall", column(1, first_list)),
        lab.row("RSS at rest after tools/list", column(2, first_list), ratio_at_most(0.3), unit="MB"),
        lab.row("cold start to a job's id, wall", column(1, first_job)),
    ]
    note = "cold start, RSS: the whole process tree, at rest after tools/list, no job started."
    return Result(rows, [note])


def start_once(
    lab: Lab, side: Side, until: Callable[[Server], object] = Server.tools
) -> tuple[float, float, float]:
    """Milliseconds of CPU until the tree is at rest, of wall until the answer; megabytes of RSS at rest."""
    cpu_before_s, began = processes.cpu_of_ended_s(), time.perf_counter()
    server = lab.start(side)
    try:
        server.initialize()
        until(server)
        wall_s = time.perf_counter() - began
        # what goes on in the background afterwards (imports, a helper process) is part of the price
        processes.settle()
        memory_mb = sum(processes.memory_mb(one.pid, "Rss") for one in processes.descendants() if one.alive)
    finally:
        # killed, not asked to end: an orderly end is no part of a start
        processes.end_all()
        server.end()
    return (processes.cpu_of_ended_s() - cpu_before_s) * 1000, wall_s * 1000, memory_mb


def _first_job(server: Server) -> None:
    execute(server, "true")


def execute_command(lab: Lab) -> Result:
    """execute_command of `true`"""
    with lab.servers() as servers:
        samples = take_turns(servers, lab.rounds(150, 15), execute_ms)
    return Result([lab.row("execute_command `true`", samples, ratio_at_most(1))])


def execute_ms(server: Server) -> float:
    job_id = execute(server, "true")
    took_ms = server.last_ms
    # the next one finds its slot free (the reference frees slots only when looked at) and the machine at rest
    wait_until_ended(server, job_id)
    processes.reap()
    time.sleep(0.005)
    return took_ms


def get_job_status(lab: Lab) -> Result:
    """get_job_status of a running and of an ended job"""
    with lab.servers() as servers:
        running = [(server, execute(server, "sleep 1000")) for server in servers]
        ended = [(server, run(server, "true")) for server in servers]
        rows = [
            lab.row(
                f"get_job_status, {word}",
                take_turns(jobs, lab.rounds(300, 30), _status_ms),
                ratio_at_most(0.2),
            )
            for word, jobs in [("running", running), ("ended", ended)]
        ]
    return Result(rows)


def _status_ms(job: tuple[Server, str]) -> float:
    server, job_id = job
    server.tool("get_job_status", job_id=job_id)
    return server.last_ms


def tail_job_output(lab: Lab) -> Result:
    """100 MB of output until the job has ended; tail_job_output of it and of 1 MB"""
    with lab.servers(MCP_BG_MAX_OUTPUT_SIZE=KEEP_100_MB) as servers:
        fill = take_turns(servers, lab.rounds(3, 1), _fill_100_mb, warm_up=0)
        logs = [(server, run(server, _printing(size))) for size in (100 * MB, MB) for server in servers]
        samples = take_turns(logs, lab.rounds(100, 10), _tail_ms)
    of_large, of_small = samples[: len(servers)], samples[len(servers) :]
    title, goal = "tail_job_output of 100 MB", ratio_at_most(0.3)
    rows = [
        lab.row("100 MB of lines through a job", fill, unit="MB/s"),
        lab.row(title, of_large, goal),
        lab.row("tail_job_output of 1 MB", of_small, goal),
        Row(title, "ms", of_large[-1], of_small[-1], "ours, 1 MB", ratio_at_most(2)),
    ]
    note = "100 MB: lines of 100 bytes, MCP_BG_MAX_OUTPUT_SIZE at the reference's maximum; both keep all."
    return Result(rows, [note])


def _printing(size_bytes: int) -> str:
    return f"sh -c 'seq -f %0{LINE_BYTES - 1}.0f {size_bytes // LINE_BYTES}'"


def _fill_100_mb(server: Server) -> float:
    began = time.perf_counter()
    run(server, _printing(100 * MB), every_s=0.02)
    return 100 / (time.perf_counter() - began)


def _tail_ms(log: tuple[Server, str]) -> float:
    server, job_id = log
    lines = server.tool("tail_job_output", job_id=job_id, lines=50)["stdout"].split()
    if len(lines) != 50 or int(lines[-1]) - int(lines[0]) != 49:
        raise BenchError(f"{server.name}: the tail is not the last 50 lines")
    return server.last_ms


def list_jobs(lab: Lab) -> Result:
    """list_jobs of 1,000 ended jobs"""
    list_all = {side.name: side.list_all for side in lab.sides}

    def once(server: Server) -> float:
        jobs = server.tool("list_jobs", **list_all[server.name])["jobs"]
        if len(jobs) != LISTED:
            raise BenchError(f"{server.name}: list_jobs shows {len(jobs)} of {LISTED} jobs")
        return server.last_ms

    # one answer is to hold them all
    with lab.servers(MCP_BG_MAX_RESPONSE="1MB") as servers:
        for server in servers:
            _fill_up_to(server, LISTED)
        samples = take_turns(servers, lab.rounds(60, 10), once)
        held = [f"{server.name} {processes.open_files(server.pid)}" for server in servers]
    note = f"list_jobs: files the server holds open after 1,000 ended jobs: {', '.join(held)}."
    return Result([lab.row("list_jobs of 1,000", samples, ratio_at_most(0.7))], [note])


def _fill_up_to(server: Server, jobs: int) -> None:
    """So many ended jobs, of which the server's warm-up has left some already."""
    for number in range(len(server.tool("list_jobs")["jobs"]), jobs):
        job_id = execute(server, "true")
        if number % 20 == 0 or number == jobs - 1:
            wait_until_ended(server, job_id)
            # the reference frees slots only when looked at
            server.tool("list_jobs")
            processes.reap()


def interact_with_job(lab: Lab) -> Result:
    """interact_with_job with `cat`"""
    with lab.servers() as servers:
        cats = [(server, execute(server, "cat")) for server in servers]
        samples = take_turns(cats, lab.rounds(40, 8), _interact_ms)
    return Result([lab.row("interact_with_job `cat`", samples, ratio_at_most(0.03))])


def _interact_ms(job: tuple[Server, str]) -> float:
    server, job_id = job
    said = f"the time is {time.perf_counter_ns()}"
    heard = server.tool("interact_with_job", job_id=job_id, input=said)["stdout"]
    if heard.strip() != said:
        raise BenchError(f"{server.name}: said {said!r} to `cat` and heard {heard!r}")
    return server.last_ms


def kill_job(lab: Lab) -> Result:
    """kill_job of a tree of 10 processes, and what is left alive when it answers"""
    left = {side.name: 0 for side in lab.sides}

    def once(server: Server) -> float:
        took_ms, alive = _kill_tree(server)
        left[server.name] = max(left[server.name], alive)
        return took_ms

    with lab.servers() as servers:
        samples = take_turns(servers, lab.rounds(20, 4), once, warm_up=1)
    alive = ", ".join(f"{name} {number}" for name, number in left.items())
    note = f"kill_job: of {TREE_SIZE} processes still alive when it has answered `killed`: {alive}."
    return Result([lab.row(f"kill_job of {TREE_SIZE} processes", samples, ratio_at_most(1.5))], [note])


def _kill_tree(server: Server) -> tuple[float, int]:
    # the fraction tells this tree from all others
    sleep = ["sleep", f"1000.{time.perf_counter_ns()}"]
    loop = f"for i in $(seq {TREE_SIZE - 1}); do {' '.join(sleep)} & done; echo ready; wait"
    job_id = execute(server, f"sh -c '{loop}'")
    wait_until(
        lambda: "ready" in server.tool("tail_job_output", job_id=job_id, lines=1)["stdout"],
        f"{server.name}: the tree stands",
    )
    word = server.tool("kill_job", job_id=job_id)["status"]
    took_ms = server.last_ms
    if word != "killed":
        raise BenchError(f"{server.name}: kill_job answered {word}")
    tree = [one for one in processes.descendants() if one.argv() == sleep or loop in one.argv()]
    left = [one for one in tree if one.alive]
    for process in left:
        processes.kill(process)
    processes.reap()
    return took_ms, len(left)
