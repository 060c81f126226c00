"""What is new of jobs: their logs, their records, their ends, their events; and a connection into them."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from bgjob.agent.busy import BUSY
from bgjob.agent.news import News
from bgjob.api import Jobs
from bgjob.api.context import Context, checked_settings
from bgjob.core.config import NO_FILE
from bgjob.core.errors import JobNotFound
from bgjob.home import jobdir
from bgjob.home.locks import open_locked
from bgjob.link.spawn import Spawner
from bgjob.remote.channel import Channel
from bgjob.store.store import Store
from tests.remote.conftest import Open, Play, submitted
from tests.remote.replica import Replica, contents
from tests.support.gate import Gate
from tests.support.stores import new_spec

BOTH_STREAMS = """
import os, random
random.seed({seed})
for number in range({rounds}):
    os.write(random.choice((1, 1, 1, 2)), random.randbytes(random.randrange(1, {most})))
"""


def printing(seed: int, rounds: int = 400, most: int = 3000) -> str:
    script = BOTH_STREAMS.format(seed=seed, rounds=rounds, most=most)
    return f"{sys.executable} -c '{script}'"


async def started(channel: Channel, command: str, **asked: object) -> str:
    job_id = str(uuid4())
    await channel.call("start", id=job_id, command=command, asked=asked)
    return job_id


def same_log(jobs: Jobs, replica: Replica, job_id: str) -> bool:
    return contents(Path(jobs.directory(job_id), "log")) == contents(replica.log(job_id))


@pytest.mark.parametrize("limit", ["64KB", "100MB"])
def test_logs_are_copied_byte_for_byte_under_rotation_and_both_streams(
    play: Play, jobs: Jobs, tmp_path: Path, limit: str
) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        replica = Replica(channel, tmp_path)
        ids = [await started(channel, printing(seed), options={"output": limit}) for seed in range(4)]
        for job_id in ids:
            await replica.follow(job_id)
        await replica.take_until("over", ids)
        for job_id in ids:
            assert same_log(jobs, replica, job_id)
            assert replica.told[job_id]["outcome.json"]["exit_code"] == 0
            assert replica.told[job_id]["run.json"]["pid"]

    play(body)


def test_a_copy_goes_on_where_it_was_when_the_line_was_cut(play: Play, jobs: Jobs, tmp_path: Path) -> None:
    async def body(open_channel: Open) -> None:
        job_id = await started(await open_channel(), printing(5), options={"output": "64KB"})
        for _ in range(7):
            cut = await open_channel()
            replica = Replica(cut, tmp_path)
            await replica.follow(job_id)
            await replica.take(most_bytes=20_000)
            os.kill(cut.hello["pid"], signal.SIGKILL)
        replica = Replica(await open_channel(), tmp_path)
        await replica.follow(job_id)
        await replica.take_until("over", [job_id])
        assert same_log(jobs, replica, job_id)

    play(body)


def test_an_outcome_comes_after_the_last_byte(play: Play, tmp_path: Path) -> None:
    """Told in small pieces: a copy with an outcome is whole."""

    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        replica = Replica(channel, tmp_path)
        job_id = await started(channel, "seq 20000; exit 3")
        await replica.follow(job_id)
        await replica.take_until("outcome.json", [job_id], most_bytes=5000)
        (segment,) = (data for name, data in contents(replica.log(job_id)).items() if name.isdecimal())
        assert segment == b"".join(b"%d\n" % number for number in range(1, 20001))
        await replica.take_until("over", [job_id])

    play(body)


def test_an_answer_is_shared_by_all_who_have_something_to_tell(play: Play, tmp_path: Path) -> None:
    """A job that prints without end does not silence the others."""

    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        replica = Replica(channel, tmp_path)
        loud = await started(channel, "yes", options={"output": "1MB"})
        quiet = [await started(channel, f"echo {number}; cat") for number in range(5)]
        for job_id in [loud, *quiet]:
            await replica.follow(job_id)
        for _ in range(20):
            await replica.take(most_bytes=20_000)
        assert all(contents(replica.log(job_id)) for job_id in [loud, *quiet])

    play(body)


def test_what_comes_while_nobody_asks_is_told_at_the_next_call(
    play: Play, gate: Gate, tmp_path: Path
) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        replica = Replica(channel, tmp_path)
        job_id = await started(channel, f"echo one; {gate.pause}; echo two")
        await replica.follow(job_id)
        await asyncio.to_thread(gate.wait_until_reached)
        while b"one" not in b"".join(contents(replica.log(job_id)).values()):
            await replica.take()
        waiting = asyncio.create_task(replica.take_until("over", [job_id]))
        gate.open()
        await waiting
        assert b"one\ntwo\n" in contents(replica.log(job_id)).values()

    play(body)


def test_events_of_followed_jobs_come_as_the_log_has_them(play: Play, jobs: Jobs, tmp_path: Path) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        replica = Replica(channel, tmp_path)
        await replica.take(timeout_s=0)  # from here on
        other = await open_channel()  # of another near end
        ids = [await started(each, "true", name=name) for each, name in ((channel, "mine"), (other, "other"))]
        await replica.follow(ids[0])
        await replica.take_until("over", ids[:1])
        while "ended" not in {event["kind"] for event in replica.events}:
            await replica.take()
        assert {event["job_id"] for event in replica.events} == {ids[0]}
        assert [event["kind"] for event in replica.events] == ["started", "ended"]
        again = await channel.call("news", since=replica.cursor, timeout_s=0, most_bytes=1)
        assert again["events"] == []

    play(body)


def test_a_job_that_is_not_there_and_one_that_is_lost_are_told_once(
    play: Play, jobs: Jobs, tmp_path: Path
) -> None:
    new = jobs.store.create(new_spec())
    os.close(new.lock)
    lost, missing = Path(new.directory).name, str(uuid4())

    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        replica = Replica(channel, tmp_path)
        for job_id in (lost, missing):
            await replica.follow(job_id)
        await replica.take()
        assert replica.told[missing] == {"missing": True}
        assert "never started" in replica.told[lost]["lost"]
        news = await channel.call("news", since=replica.cursor, timeout_s=0, most_bytes=1)
        assert news["jobs"] == {}
        with pytest.raises(JobNotFound):
            await replica.follow("../../etc")

    play(body)


def test_a_look_is_answered_with_all_there_is_or_that_nothing_is_new(
    play: Play, jobs: Jobs, gate: Gate, tmp_path: Path
) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        job_id = await started(channel, f"seq 1 20000; {gate.pause}")
        await asyncio.to_thread(gate.wait_until_reached)
        replica = Replica(channel, tmp_path)
        await replica.follow(job_id)
        for number in (1, 2):  # the second time there is no news
            await channel.call("look", job=job_id, number=number)
            while job_id not in replica.looked or replica.looked[job_id] < number:
                await replica.take(most_bytes=1 << 14)
            assert same_log(jobs, replica, job_id)
        gate.open()
        await replica.take_until("over", [job_id])

    play(body)


def test_a_job_that_is_not_followed_any_more_is_silent(play: Play, tmp_path: Path) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        replica = Replica(channel, tmp_path)
        job_id = await started(channel, "yes", options={"output": "64KB"})
        await replica.follow(job_id)
        await replica.take()
        await channel.call("unfollow", job=job_id)
        assert (await channel.call("news", since=None, timeout_s=0, most_bytes=1000))["jobs"] == {}

    play(body)


def test_the_allocation_of_a_job_that_is_followed_lasts_until_its_end_was_told(
    play: Play, jobs: Jobs, tmp_path: Path, gate: Gate
) -> None:
    """From the first word on: else its step could be cut, and its outcome with it."""
    job_id = jobs.execute(f"{gate.pause}; exit 6").id

    def lasts() -> bool:
        lock = open_locked(f"{jobs.directory(job_id)}/{BUSY}")
        if lock is not None:
            os.close(lock)
        return lock is None

    async def body(open_channel: Open) -> None:
        channel = await open_channel(settings={"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"})
        replica = Replica(channel, tmp_path)
        await replica.follow(job_id)
        assert lasts()
        gate.wait_until_reached()
        gate.open()
        await replica.take_until("over", [job_id])
        assert lasts()  # that it arrived is known when more is asked for
        await channel.call("news", since=None, timeout_s=0, most_bytes=1000)
        assert not lasts()

    play(body)


def test_a_terminal_of_another_size_is_told(play: Play, tmp_path: Path) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        replica = Replica(channel, tmp_path)
        job_id = await started(channel, "cat", pty=True)
        await replica.follow(job_id)
        stream = channel.connect(job_id)
        await stream.write(json.dumps({"op": "resize", "rows": 30, "cols": 100}).encode() + b"\n")
        assert json.loads(await stream.read())["ok"]
        await replica.take_until("terminal.json", [job_id])
        assert "30" in json.dumps(replica.told[job_id]["terminal.json"])

    play(body)


# -- into a job -----------------------------------------------------------------------------------------


def typed(data: bytes) -> bytes:
    return (
        json.dumps({"op": "stdin", "length": len(data), "close": False, "wait_s": 30}).encode() + b"\n" + data
    )


def test_a_connection_types_into_a_job(play: Play, tmp_path: Path) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        replica = Replica(channel, tmp_path)
        job_id = await started(channel, "read line; echo got $line")
        await replica.follow(job_id)
        stream = channel.connect(job_id)
        await stream.write(typed(b"hello\n"))
        assert json.loads(await stream.read())["accepted"] == 6
        await replica.take_until("over", [job_id])
        assert b"got hello\n" in contents(replica.log(job_id)).values()
        assert await stream.read() == b""
        assert await stream.read() == b""

    play(body)


def test_a_large_input_goes_through_though_the_job_reads_late(play: Play, gate: Gate, tmp_path: Path) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        job_id = await started(channel, f"{gate.pause}; wc -c")
        stream = channel.connect(job_id)
        size = 1 << 20
        await stream.write(json.dumps({"op": "stdin", "length": size, "close": True, "wait_s": 30}).encode())
        await stream.write(b"\n" + b"x" * size)
        await channel.call("ping")  # the agent is not held up by it
        await asyncio.to_thread(gate.wait_until_reached)
        gate.open()
        assert json.loads(await stream.read())["accepted"] == size
        replica = Replica(channel, tmp_path)
        await replica.follow(job_id)
        await replica.take_until("over", [job_id])
        assert b"%d\n" % size in contents(replica.log(job_id)).values()

    play(body)


def test_input_that_was_begun_when_the_line_is_cut_arrives(play: Play, jobs: Jobs, gate: Gate) -> None:
    """The shim gives up input whose sender hangs up before it was read."""
    ids = []

    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        ids.append(await started(channel, f"{gate.pause}; wc -c"))
        await asyncio.to_thread(gate.wait_until_reached)
        stream, size = channel.connect(ids[0]), 1 << 18
        request = {"op": "stdin", "length": size, "close": True, "wait_s": 30}
        await stream.write(json.dumps(request).encode() + b"\n" + b"x" * size)
        await channel.call("ping")
        closing = asyncio.create_task(channel.close())
        await channel.wait_broken()
        gate.open()
        await closing

    play(body)
    output = b"".join(chunk.data for chunk in jobs.follow(ids[0], wait=True))
    assert output == b"%d\n" % (1 << 18)


def test_a_connection_that_is_closed_here_is_closed_there(play: Play, jobs: Jobs) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        job_id = await started(channel, "cat", pty=True)
        stream = channel.connect(job_id)
        attach = {"op": "attach", "by": "me", "looks": False, "rows": 10, "cols": 40}
        await stream.write(json.dumps(attach).encode() + b"\n")
        assert json.loads(await stream.read())["viewer"]
        stream.close()
        assert await stream.read() == b""

    play(body)


def test_a_look_that_is_asked_for_during_another_call_is_answered_with_what_is_new(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that reads calls asks for it, at any moment of the call for news."""
    job_id = submitted(store)
    news = News(Context.of(store, checked_settings({}, NO_FILE), {}, Spawner(zygote=False)))
    news.follow(job_id, {})
    news.take(None, 0.0, 1 << 16, None)
    copied: list[str] = []

    def take() -> None:
        told = news.take(None, 0.0, 1 << 16, None)
        copied.extend(told["jobs"])
        assert job_id in copied or not told["looked"]

    class Interrupted(dict[str, int]):
        """Another thread has its turn as soon as the number is there."""

        def __setitem__(self, key: str, value: int) -> None:
            super().__setitem__(key, value)
            take()

    jobdir.write_record(f"{store.directory(job_id)}/{jobdir.RUN}", {"format": 1, "pid": 7})
    monkeypatch.setattr(news, "_find_changed", lambda: None)  # nor has the kernel told of the change yet
    monkeypatch.setattr(news, "_asked", Interrupted())
    news.look(job_id, 1)
    take()
    assert copied == [job_id]
