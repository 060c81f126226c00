"""Signals to the shim, limits of the system, and other ways the world is unkind to it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import Jobs, JobStatus
from bgjob.core.job import Exited, Killed
from bgjob.system import processes
from tests.support.gate import Gate
from tests.support.process_table import wait_until_gone
from tests.support.shims import Caller, ask, is_alive_and_well, settable_signals, shim_pid, stopped

Ended = Callable[[str], JobStatus]


def test_sigterm_to_the_shim_stops_the_job_and_says_killed(jobs: Jobs, gate: Gate, ended: Ended) -> None:
    job_id = jobs.execute(
        f"trap 'echo bye; exit 0' TERM; setsid sleep 1000 & {gate.reach}; while :; do sleep 0.01; done"
    ).id
    gate.wait_until_reached()
    shim = shim_pid(jobs, job_id)
    os.kill(shim, signal.SIGTERM)
    state = ended(job_id).job.state
    wait_until_gone(shim)
    assert isinstance(state, Killed)
    assert state.code == 0
    assert jobs.output(job_id).stdout == "bye\n"
    assert processes.marked(job_id) == []


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT], ids=str)
def test_a_hang_up_or_an_interrupt_is_survived(
    jobs: Jobs, gate: Gate, ended: Ended, number: signal.Signals
) -> None:
    job_id = jobs.execute(f"{gate.pause}; echo still here; exit 5").id
    gate.wait_until_reached()
    for _ in range(50):
        os.kill(shim_pid(jobs, job_id), number)
    assert is_alive_and_well(jobs, job_id)
    gate.open()
    state = ended(job_id).job.state
    assert isinstance(state, Exited)
    assert state.code == 5
    assert jobs.output(job_id).stdout == "still here\n"


def test_a_stopped_shim_loses_nothing(jobs: Jobs, gate: Gate, ended: Ended) -> None:
    job_id = jobs.execute(f"{gate.pause}; seq 1 1000; {gate.reach}; exit 5").id
    gate.wait_until_reached()
    with stopped(jobs, job_id):
        gate.open()
        gate.wait_until_reached()  # the job has printed and is about to end; its output is not read yet
    assert getattr(ended(job_id).job.state, "code", None) == 5
    assert jobs.output(job_id).stdout == "".join(f"{number}\n" for number in range(1, 1001))


def test_a_signal_reaches_every_process_of_the_job(jobs: Jobs, gate: Gate, ended: Ended) -> None:
    job_id = jobs.execute(
        "trap 'echo child; wait; exit 2' USR1; "
        f"(trap 'echo grandchild; exit' USR1; {gate.reach}; while :; do sleep 0.01; done) & "
        "while :; do sleep 0.01; done"
    ).id
    gate.wait_until_reached()
    assert ask(jobs, job_id, op="signal", signal=int(signal.SIGUSR1))["processes"] >= 2
    ended(job_id)
    wait_until_gone(shim_pid(jobs, job_id))
    assert {"grandchild", "child"} <= set(jobs.output(job_id).stdout.splitlines())


@pytest.mark.parametrize("days", [30, 3650])
def test_a_timeout_of_weeks_is_only_a_long_timeout(jobs: Jobs, ended: Ended, days: int) -> None:
    job_id = jobs.execute("cat; exit 5", timeout_s=days * 86_400.0).id
    assert is_alive_and_well(jobs, job_id)
    ask(jobs, job_id, op="stdin", length=0, close=True, wait_s=1)
    assert getattr(ended(job_id).job.state, "code", None) == 5


def test_a_grace_of_weeks_is_only_a_long_grace(jobs: Jobs, gate: Gate, ended: Ended) -> None:
    job_id = jobs.execute(f"trap '' TERM; {gate.pause}; exit 5").id
    gate.wait_until_reached()
    caller = Caller(jobs, job_id)
    caller.request(op="kill", signal=int(signal.SIGTERM), grace_s=30 * 86_400.0)
    assert is_alive_and_well(jobs, job_id)
    gate.open()
    assert caller.hear()["was_running"] is True
    caller.close()
    assert isinstance(ended(job_id).job.state, Killed)


START_WITH_A_LIMIT = """
import os, resource, sys
from bgjob.api import open_jobs
jobs = open_jobs(os.environ, many=sys.argv[2] == "zygote")
limit = getattr(resource, f"RLIMIT_{sys.argv[3]}")
resource.setrlimit(limit, (int(sys.argv[4]), resource.getrlimit(limit)[1]))
print(jobs.execute(sys.argv[1]).id)
"""


def start_limited(home: Path, way: str, limit: str, value: int, command: str) -> str:
    """By a starter that is under a limit of the system; its zygote and shims inherit it."""
    started = subprocess.run(
        [sys.executable, "-c", START_WITH_A_LIMIT, command, way, limit, str(value)],
        env={**os.environ, "BGJOB_HOME": str(home), "MCP_BG_MAX_OUTPUT_SIZE": "100MB"},
        capture_output=True,
        text=True,
        check=True,
    )
    return started.stdout.strip()


@pytest.mark.parametrize("way", ["zygote", "fresh"])
def test_a_limit_on_file_sizes_costs_output_and_not_the_job(
    home: Path, ended: Ended, jobs: Jobs, gate: Gate, way: str
) -> None:
    """`ulimit -f`: the shim must not die of SIGXFSZ when its log hits the limit."""
    # a full disk is looked at once a second
    command = f"head -c 700000 /dev/zero; {gate.pause}; sleep 1.1; echo after; exit 5"
    job_id = start_limited(home, way, "FSIZE", 100_000, command)
    gate.wait_until_reached()
    ask(jobs, job_id, op="wait", beyond=699_999)  # the shim has tried all of it
    gate.open()
    look = ended(job_id)
    assert getattr(look.job.state, "code", None) == 5
    output = jobs.output(job_id)
    assert output.stdout_dropped_bytes > 0
    assert output.stdout.endswith("after\n")


@pytest.mark.parametrize("number", [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGUSR1, signal.SIGTTIN], ids=str)
def test_the_job_finds_every_signal_at_its_default(jobs: Jobs, ended: Ended, number: signal.Signals) -> None:
    """Whatever the shim ignores for itself, and whatever its starter ignored."""
    old = signal.signal(number, signal.SIG_IGN)
    try:
        job_id = jobs.execute("grep -E 'Sig(Blk|Ign)' /proc/self/status | cut -f2").id
    finally:
        signal.signal(number, old)
    ended(job_id)
    assert [settable_signals(mask) for mask in jobs.output(job_id).stdout.split()] == [0, 0]


def test_the_shim_lives_with_few_descriptors(home: Path, jobs: Jobs, ended: Ended) -> None:
    job_id = start_limited(home, "fresh", "NOFILE", 40, "cat; exit 5")
    callers = [Caller(jobs, job_id) for _ in range(100)]  # more than it can take in at once
    for caller in callers:
        caller.close()
    assert is_alive_and_well(jobs, job_id)
    ask(jobs, job_id, op="stdin", length=0, close=True, wait_s=1)
    assert getattr(ended(job_id).job.state, "code", None) == 5
