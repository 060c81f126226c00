"""A start whose answer is lost, asked again by its id, runs once: whoever was killed, and whenever."""

import asyncio
import os
import random
import signal
from collections.abc import Coroutine
from typing import Any
from uuid import uuid4

import pytest

from bgjob.api import Jobs
from bgjob.core.errors import TargetUnreachable
from bgjob.core.job import Exited, Lost
from bgjob.remote.channel import Channel
from tests.remote.conftest import Open, Play, is_agent
from tests.support.gate import Gate
from tests.support.queueing import Diary
from tests.support.waiting import wait_until

TRIES = 15
# Of a start, which takes some milliseconds.
LONGEST_S = 0.02


async def begun(call: Coroutine[Any, Any, Any], channel: Channel) -> asyncio.Task[Any]:
    """A call that the agent has read."""
    task = asyncio.create_task(call)
    await asyncio.sleep(0)
    await channel.call("ping")
    return task


async def start(channel: Channel, job_id: str, command: str) -> None:
    await channel.call("start", id=job_id, command=command, asked={})


def test_what_was_begun_when_the_line_is_cut_is_finished(play: Play, jobs: Jobs, diary: Diary) -> None:
    """No answer is waited for: the line is cut right behind the call, or a moment later."""
    ids = [str(uuid4()) for _ in range(TRIES)]

    async def body(open_channel: Open) -> None:
        for number, job_id in enumerate(ids):
            channel = await open_channel()
            call = asyncio.create_task(start(channel, job_id, diary.entry(job_id)))
            await asyncio.sleep(LONGEST_S * number / TRIES)
            await channel.close()
            await asyncio.gather(call, return_exceptions=True)
        channel = await open_channel()
        for job_id in ids:
            await start(channel, job_id, diary.entry(job_id))

    play(body)
    for job_id in ids:
        for _ in jobs.follow(job_id, wait=True):
            pass
    assert sorted(diary.words()) == sorted(ids)


def test_an_agent_that_is_killed_in_a_start_and_asked_again_starts_once(
    play: Play, jobs: Jobs, diary: Diary
) -> None:
    ids = [str(uuid4()) for _ in range(TRIES)]
    moments = random.Random(17)

    async def body(open_channel: Open) -> None:
        for job_id in ids:
            channel = await open_channel()
            call = asyncio.create_task(start(channel, job_id, diary.entry(job_id)))
            await asyncio.sleep(moments.uniform(0, LONGEST_S))
            os.kill(channel.hello["pid"], signal.SIGKILL)
            await asyncio.gather(call, return_exceptions=True)
            await start(await open_channel(), job_id, diary.entry(job_id))

    play(body)
    ran = [job_id for job_id in ids if has_exited(jobs, job_id)]
    assert sorted(diary.words()) == sorted(ran)
    assert len(ran) > TRIES // 2


def has_exited(jobs: Jobs, job_id: str) -> bool:
    """Or it is lost: whether it ran is not known, so that it was not begun again."""
    for _ in jobs.follow(job_id, wait=True):
        pass
    state = jobs.status(job_id).job.state
    assert isinstance(state, Exited | Lost)
    assert not isinstance(state, Lost) or "never started" not in state.reason
    return isinstance(state, Exited)


def test_a_kill_that_was_begun_when_the_line_is_cut_is_finished(play: Play, jobs: Jobs, gate: Gate) -> None:
    ids = []

    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        ids.append(job_id := str(uuid4()))
        await start(channel, job_id, f"trap '' TERM; {gate.pause}")
        await asyncio.to_thread(gate.wait_until_reached)
        call = await begun(channel.call("kill", job=job_id, grace_s=0.5), channel)
        await channel.close()
        with pytest.raises(TargetUnreachable):
            await call

    play(body)
    wait_until(lambda: not jobs.has_shim(ids[0]))
    assert jobs.status(ids[0]).descendants == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_agent_that_is_told_to_end_finishes_too(play: Play, jobs: Jobs, number: int) -> None:
    ids = [str(uuid4()) for _ in range(5)]

    async def body(open_channel: Open) -> None:
        for job_id in ids:
            channel = await open_channel()
            call = await begun(start(channel, job_id, "true"), channel)
            os.kill(channel.hello["pid"], number)
            await asyncio.gather(call, return_exceptions=True)

    play(body)
    for job_id in ids:
        for _ in jobs.follow(job_id, wait=True):
            pass
        assert isinstance(jobs.status(job_id).job.state, Exited)


def test_an_agent_that_hears_nothing_ends_by_itself(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a hole in the network, of which nobody tells it."""
    monkeypatch.setattr("bgjob.remote.channel.BEAT_S", 600.0)

    async def body(open_channel: Open) -> None:
        channel = await open_channel(arguments=["serve", "0.3"])
        await channel.wait_broken()
        await channel._process.wait()
        assert not is_agent(channel.hello["pid"])

    play(body)
