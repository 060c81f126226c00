"""Agents in steps of an allocation, and on the login node: what they can do, and that their last words arrive."""

import asyncio
import base64
import contextlib
import json
import os
import signal
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from bgjob.core.engine import EngineState, Resources
from bgjob.core.errors import BgjobError, CannotStart, TargetUnreachable
from bgjob.remote.channel import Channel
from bgjob.remote.shared_root import ELSEWHERE
from bgjob.system import processes
from tests.clusters.slurm_cluster import SlurmCluster
from tests.clusters.slurm_jobs import SlurmJobs, alive_with
from tests.support.gate import Gate
from tests.support.waiting import wait_until

LARGE = 40_000
ROUNDS = 5
# Sleeps of this length are this file's alone.
SLEEP = f"96{os.getpid()}"


@pytest.fixture
def jobs(slurm_jobs: SlurmJobs) -> SlurmJobs:
    return slurm_jobs


def running(jobs: SlurmJobs, command: str, **more: Any) -> tuple[str, EngineState]:
    job = jobs.submit(command, **more)
    jobs.run_record(job)
    return job, jobs.state(job)


async def told_end(
    channel: Channel, job: str, then: Callable[[], Awaitable[object]] | None = None
) -> tuple[bytes, dict[str, Any]]:
    """All of its log, and its outcome: as a relay asks for them. `then`: done once the job is followed."""
    await channel.call("follow", job=job, have={})
    log, outcome, cursor = b"", None, None
    while outcome is None:
        news = await channel.call("news", since=cursor, timeout_s=30, most_bytes=1 << 20)
        cursor, new = news["cursor"], news["jobs"].get(job, {})
        log += b"".join(
            base64.b64decode(piece["data"])
            for piece in new.get("files", ())
            if not piece["name"].endswith(".runs")
        )
        outcome = new.get("records", {}).get("outcome.json")
        if then:
            await then()
            then = None
    with contextlib.suppress(TargetUnreachable):  # from now on the allocation may end
        await channel.call("unfollow", job=job)
    return log, outcome


async def read_elsewhere(jobs: SlurmJobs, state: EngineState, job: str) -> tuple[bytes, dict[str, Any]]:
    """The same by an agent on the login node."""
    channel = await jobs.open_on_login(str(state.node), **{ELSEWHERE: "1"})
    try:
        return await told_end(channel, job)
    finally:
        await channel.close()


async def typed(channel: Channel, job: str, text: bytes) -> None:
    stream = channel.connect(job)
    request = {"op": "stdin", "length": len(text), "close": False, "wait_s": 5}
    await stream.write(json.dumps(request).encode() + b"\n" + text)
    assert json.loads(await stream.read())["accepted"] == len(text)
    stream.close()


# -- beside a job ----------------------------------------------------------------------------------------


def test_input_and_output_go_through_a_step_of_the_allocation(jobs: SlurmJobs) -> None:
    job, state = running(jobs, "read name; echo hello $name; exit 5")

    async def talk() -> tuple[bytes, dict[str, Any]]:
        channel = await jobs.open_in(state)
        try:
            assert channel.hello["host"] == state.node
            return await told_end(channel, job, lambda: typed(channel, job, b"ann\n"))
        finally:
            await channel.close()

    log, outcome = jobs.do(talk())
    assert log == b"hello ann\n"
    assert outcome["exit_code"] == 5
    assert jobs.wait_for_end(job).exit_code == 5


@pytest.mark.parametrize("size", [0, LARGE])
def test_the_end_of_the_allocation_cuts_no_words(jobs: SlurmJobs, gate: Gate, size: int) -> None:
    """The batch script waits until what its job has printed, and how it ended, has arrived."""
    job, state = running(jobs, f"{gate.pause}; head -c {size} /dev/zero | tr '\\0' x; exit 12")
    gate.wait_until_reached()

    async def listen() -> tuple[bytes, dict[str, Any]]:
        channel = await jobs.open_in(state)
        try:
            return await told_end(channel, job, lambda: asyncio.to_thread(gate.open))
        finally:
            await channel.close()

    log, outcome = jobs.do(listen())
    assert (len(log), outcome["exit_code"]) == (size, 12)
    jobs.wait_for_end(job)


def test_the_end_of_a_cancelled_job_is_read_on_the_login_node(jobs: SlurmJobs, gate: Gate) -> None:
    """Slurm kills the agents of a cancelled allocation at once."""
    job, state = running(jobs, f"trap 'echo bye; exit 3' TERM; {gate.pause}; while :; do sleep 0.1; done")
    gate.wait_until_reached()
    gate.open()

    async def lose() -> None:
        channel = await jobs.open_in(state)
        await channel.call("follow", job=job, have={})
        await jobs.slurm.cancel(job)
        await channel.wait_broken()
        await channel.close()

    jobs.do(lose())
    assert jobs.wait_for_end(job).end == "CANCELLED"
    log, outcome = jobs.do(read_elsewhere(jobs, state, job))
    assert b"bye\n" in log
    assert outcome["exit_code"] == 3


def test_an_agent_beside_a_job_starts_none(jobs: SlurmJobs, gate: Gate) -> None:
    """What it starts would end with its step."""
    job, state = running(jobs, gate.pause)
    gate.wait_until_reached()

    async def start() -> None:
        channel = await jobs.open_in(state)
        try:
            with pytest.raises(CannotStart, match="Nothing was run"):
                await channel.call("start", id=str(uuid4()), command="true", asked={})
        finally:
            await channel.close()

    jobs.do(start())
    gate.open()
    jobs.wait_for_end(job)


def test_a_killed_step_is_no_end_of_the_job(jobs: SlurmJobs, gate: Gate) -> None:
    """kill -9 of srun; another one goes on."""
    job, state = running(jobs, f"{gate.pause}; exit 4")
    gate.wait_until_reached()

    async def lose_and_find() -> dict[str, Any]:
        first = await jobs.open_in(state)
        os.kill(first._process.pid, signal.SIGKILL)
        await first.wait_broken()
        with pytest.raises(TargetUnreachable):
            await first.call("ping")
        await first.close()
        second = await jobs.open_in(state)
        try:
            return (await told_end(second, job, lambda: asyncio.to_thread(gate.open)))[1]
        finally:
            await second.close()

    assert jobs.do(lose_and_find())["exit_code"] == 4
    jobs.wait_for_end(job)


# -- on the login node --------------------------------------------------------------------------------------


def test_an_ended_job_is_read_on_the_login_node(jobs: SlurmJobs) -> None:
    job = jobs.submit(f"head -c {LARGE} /dev/zero | tr '\\0' x; exit 9")
    state = jobs.wait_for_end(job)
    before = files_of(jobs.home(job))
    log, outcome = jobs.do(read_elsewhere(jobs, state, job))
    assert (len(log), outcome["exit_code"]) == (LARGE, 9)
    assert files_of(jobs.home(job)) == before, "nothing is written into the home of another machine"


def test_of_a_job_that_has_not_ended_another_machine_knows_nothing(jobs: SlurmJobs, gate: Gate) -> None:
    job, state = running(jobs, gate.pause)
    gate.wait_until_reached()

    async def ask() -> dict[str, Any]:
        channel = await jobs.open_on_login(str(state.node), **{ELSEWHERE: "1"})
        try:
            for verb, words in (("kill", {"job": job}), ("status", {"job": job}), ("info", {})):
                with pytest.raises(BgjobError, match="another machine"):
                    await channel.call(verb, **words)
            await channel.call("follow", job=job, have={})
            news = await channel.call("news", since=None, timeout_s=10, most_bytes=1 << 20)
            told: dict[str, Any] = news["jobs"][job]
            return told
        finally:
            await channel.close()

    told = jobs.do(ask())
    assert told["unended"]
    assert not told.keys() & {"over", "lost", "missing"}
    gate.open()
    jobs.wait_for_end(job)


def files_of(home: Path) -> set[str]:
    return {str(path) for path in home.rglob("*")}


# -- in a held allocation ------------------------------------------------------------------------------------


@pytest.fixture
def session(jobs: SlurmJobs) -> EngineState:
    """Of one that is held for all tests of this file."""
    jobs.do(jobs.slurm.hold("agents", Resources(cpus=1, memory_bytes=200 << 20), idle_release_s=300))
    return jobs.session("agents")


async def started(channel: Channel, session: EngineState, command: str, **asked: Any) -> str:
    job = str(uuid4())
    await channel.call("start", id=job, command=command, asked=asked, hold=session.engine_id)
    return job


def test_a_job_starts_at_once_in_a_held_allocation(jobs: SlurmJobs, session: EngineState) -> None:
    """And is below the process that holds it; from start to end it takes as long as here."""

    async def run() -> list[float]:
        channel, times = await jobs.open_in(session), []
        try:
            for _ in range(ROUNDS):
                begun = time.monotonic()
                job = await started(channel, session, "echo $SLURM_JOB_ID; exit 4", env={"A": "b"})
                log, outcome = await told_end(channel, job)
                times.append(time.monotonic() - begun)
                assert (log.decode(), outcome["exit_code"]) == (f"{session.engine_id}\n", 4)
        finally:
            await channel.close()
        return times

    assert statistics.median(jobs.do(run())) < 2.0  # to be told apart from a submission; figures are in bench


def test_a_job_of_a_held_allocation_outlives_its_agent(
    jobs: SlurmJobs, session: EngineState, gate: Gate
) -> None:
    async def run() -> dict[str, Any]:
        first = await jobs.open_in(session)
        job = await started(first, session, f"{gate.pause}; exit 11")
        await asyncio.to_thread(gate.wait_until_reached)
        os.kill(first._process.pid, signal.SIGKILL)
        await first.wait_broken()
        await first.close()
        second = await jobs.open_in(session)
        try:
            return (await told_end(second, job, lambda: asyncio.to_thread(gate.open)))[1]
        finally:
            await second.close()

    assert jobs.do(run())["exit_code"] == 11


def test_an_agent_of_another_allocation_on_the_node_starts_jobs_in_it_too(
    jobs: SlurmJobs, session: EngineState, gate: Gate
) -> None:
    """They find the variables of the allocation that they are in."""
    beside, state = running(
        jobs, gate.pause, resources=Resources(cpus=1, node=session.node, memory_bytes=100 << 20)
    )
    gate.wait_until_reached()
    assert state.engine_id != session.engine_id

    async def run() -> bytes:
        channel = await jobs.open_in(state)
        try:
            job = await started(channel, session, "echo $SLURM_JOB_ID $SLURM_STEP_ID")
            return (await told_end(channel, job))[0]
        finally:
            await channel.close()

    assert jobs.do(run()).decode().strip() == session.engine_id
    gate.open()
    jobs.wait_for_end(beside)


def test_an_allocation_is_held_while_a_job_runs_and_then_given_back(jobs: SlurmJobs, gate: Gate) -> None:
    jobs.do(jobs.slurm.hold("short", Resources(cpus=1, memory_bytes=200 << 20), idle_release_s=3))
    session = jobs.session("short")

    async def run() -> tuple[str, float]:
        channel = await jobs.open_in(session)
        try:
            job = await started(channel, session, gate.pause)
            await asyncio.to_thread(gate.wait_until_reached)
            await asyncio.sleep(4)  # longer than it would be held for nothing
            held = jobs.session("short")
            await asyncio.to_thread(gate.open)
            await told_end(channel, job)
            return held.engine_id, time.monotonic()
        finally:
            await channel.close()

    engine_id, _ = jobs.do(run())
    assert engine_id == session.engine_id
    assert jobs.session_end("short").end == "COMPLETED"

    async def start_late() -> None:
        """By an agent on that node that is not in the allocation, which is gone."""
        channel = await jobs.open_in(state)
        try:
            with pytest.raises(CannotStart, match="at its end"):
                await started(channel, session, "true")
        finally:
            await channel.close()
            await jobs.slurm.cancel(job)

    job, state = running(jobs, f"sleep {SLEEP}", resources=Resources(cpus=1, node=session.node))
    jobs.do(start_late())
    jobs.wait_for_end(job)


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "], ids=["plain", "term-proof"])
def test_given_back_an_allocation_takes_all_of_its_jobs_with_it(jobs: SlurmJobs, trap: str) -> None:
    jobs.do(jobs.slurm.hold("doomed", Resources(cpus=1, memory_bytes=200 << 20)))
    session = jobs.session("doomed")

    async def run() -> list[dict[str, Any]]:
        channel = await jobs.open_in(session)
        try:
            command = f"{trap} (setsid sleep {SLEEP} &); sleep {SLEEP}; sleep {SLEEP}"
            both = [await started(channel, session, command) for _ in range(2)]
            await asyncio.to_thread(wait_until, lambda: len(alive_with(SLEEP)) >= 4)
            await jobs.slurm.release("doomed")
        finally:
            await channel.close()
        return [await asyncio.to_thread(jobs.outcome, job) for job in both]

    outcomes = jobs.do(run())
    assert jobs.session_end("doomed").end == "CANCELLED"
    wait_until(lambda: not alive_with(SLEEP))
    assert {outcome["cause"] for outcome in outcomes} <= {"killed", "signaled"}


def test_a_killed_holder_takes_its_jobs_with_it(jobs: SlurmJobs, slurm_cluster: SlurmCluster) -> None:
    jobs.do(jobs.slurm.hold("killed", Resources(cpus=1, memory_bytes=200 << 20)))
    session = jobs.session("killed")

    async def run() -> str:
        channel = await jobs.open_in(session)
        try:
            job = await started(channel, session, f"sleep {SLEEP}; true")
            shim = (await asyncio.to_thread(jobs.run_record, job))["shim_pid"]
            zygote = processes.stat_of(processes.stat_of(shim)[processes.PARENT])[processes.PARENT]
            os.kill(processes.stat_of(zygote)[processes.PARENT], signal.SIGKILL)
            return job
        finally:
            await channel.close()

    job = jobs.do(run())
    assert jobs.session_end("killed").end in ("FAILED", "CANCELLED")
    wait_until(lambda: not processes.marked(job) and not alive_with(SLEEP))


@pytest.fixture(scope="module", autouse=True)
def _release(slurm_jobs: SlurmJobs) -> Any:
    yield
    slurm_jobs.do(slurm_jobs.slurm.release("agents"))
