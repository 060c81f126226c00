"""Jobs that print without end: how soon their shims answer, and what watches cost them."""

import time
from functools import partial

from bench.lab import Json, Lab, execute, run, take_turns, wait_until
from bench.report import Result, Row, p95_at_most, ratio_at_most
from bgjob.link.control import ShimConnection
from bgjob.store.store import Store

ASKED = 500
PATIENCE_S, PAUSE_S = 10.0, 0.002
SLOWED_FROM_BYTES = 2 << 30
MB = 1_000_000
LINE = "2026-01-01T12:00:00 INFO worker-3 handled request 123456 in 42 ms for GET /items/and/some/more"
NEVER = [f"never {number} (here|there)" for number in range(9)]
WATCHES = {
    "nothing matches": [*NEVER, "nowhere"],
    "one line matches": [*NEVER, "^needle"],
    "every line matches one": [*NEVER, "request [0-9]+"],
}


def flood(lab: Lab) -> Result:
    """status over the control socket of a job that runs `yes`, against a job that prints nothing"""
    rounds = lab.rounds(ASKED, 10)
    with lab.server(lab.ours) as server:
        control_path = Store(str(server.home)).control_path
        quiet = control_path(execute(server, "exec sleep 1000"))
        (idle,) = take_turns([quiet], rounds, _status_ms)
        flooding = control_path(execute(server, "exec yes"))
        beside, flooded = take_turns([quiet, flooding], rounds, _status_ms)
        if not lab.quick:
            wait_until(lambda: _status(flooding)["end"] > SLOWED_FROM_BYTES, "it is slowed down", every_s=0.1)
        (slowed,) = take_turns([flooding], rounds, _status_ms)
    jobs = {"a flooding job": flooded, "the same, slowed down beyond 2 GB": slowed, "a job beside it": beside}
    goal = p95_at_most(5, "ms")
    return Result(
        [
            Row(f"control socket of {job}", "ms", samples, idle, "no flood", goal)
            for job, samples in jobs.items()
        ],
        [f"control socket, slowest of {rounds}: flooding {max(flooded):.1f} ms, no flood {max(idle):.1f} ms"],
    )


def _status_ms(path: str) -> float:
    time.sleep(PAUSE_S)
    began = time.perf_counter()
    _status(path)
    return (time.perf_counter() - began) * 1000


def _status(path: str) -> Json:
    """Connects anew each time, as every call of a tool does."""
    with ShimConnection(path) as shim:
        return shim.ask(PATIENCE_S, op="status")


def watches(lab: Lab) -> Result:
    """1 GB of lines through a job with 10 watches, against the same job with none"""
    megabytes = lab.rounds(1000, 20)
    command = f"yes '{LINE}' | head -c {megabytes * MB}; echo; echo needle"
    turns = [partial(_job_s, lab, command, watch) for watch in [[], *WATCHES.values()]]
    unwatched, *watched = take_turns(turns, lab.rounds(3, 1), lambda once: once(), warm_up=1)
    rows = [
        Row(f"{megabytes} MB, 10 watches, {title}", "s", samples, unwatched, "no watches", ratio_at_most(1.3))
        for title, samples in zip(WATCHES, watched, strict=True)
    ]
    return Result(rows)


def _job_s(lab: Lab, command: str, watch: list[str]) -> float:
    """From the job's start to its end, as its own record has it."""
    with lab.server(lab.ours, MCP_BG_MAX_OUTPUT_SIZE="4GB") as server:
        if watch:
            # the watcher's start is no part of what is measured
            warm = execute(server, "echo warm; exec sleep 1000", watch=["warm"])
            server.tool("job_events", since="0.0", job_ids=[warm], kinds=["matched"], timeout_s=30)
        job_id = run(server, command, every_s=0.025, watch=watch)
        return float(server.tool("get_job_status", job_id=job_id)["duration_s"])
