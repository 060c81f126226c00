"""A machine of a target, at the other end of a channel that only notes what it is asked."""

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from bgjob.core.errors import TargetUnreachable
from bgjob.home import target_dir
from bgjob.remote import replica as replica_module
from bgjob.remote.channel import Channel
from bgjob.remote.host import Host
from bgjob.remote.replica import Replica
from bgjob.store.store import Store
from tests.remote.conftest import submitted
from tests.remote.hostile import NOTHING_NEW

LIMIT_S = 120.0
"""Ends a test that hangs."""


class NotingChannel:
    def __init__(self) -> None:
        self.hello: Mapping[str, Any] = {"host": "far"}
        self.answered_nonsense = False
        self.followed: list[str] = []
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def call(self, verb: str, **words: Any) -> Any:
        if verb == "news":
            await asyncio.Event().wait()
        self.followed.append(words["job"])
        self.is_asked.set()
        await self.may_answer.wait()

    async def close(self) -> None:
        pass


class Job:
    phase, asked, looked = "running", 0, 0

    def __init__(self, job_id: str) -> None:
        self.id = job_id

    def have(self) -> dict[str, int]:
        return {}


def test_a_job_that_comes_while_others_are_being_followed_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def play() -> list[str]:
        channel = NotingChannel()

        async def connect() -> Channel:
            return cast("Channel", channel)

        async def nothing(*_: object) -> None:
            pass

        host = Host("far", "", connect, lambda *_: None, nothing, nothing)
        await host.follow(cast("Replica", Job("first")))
        await channel.is_asked.wait()
        await host.follow(cast("Replica", Job("second")))
        channel.may_answer.set()
        await host.ready()
        await host.close()
        return channel.followed

    assert asyncio.run(play()) == ["first", "second"]


async def nothing(*_: object) -> None:
    pass


def host_of(*channels: NotingChannel) -> Host:
    """It is connected by these, one after the other."""
    left = list(channels)

    async def connect() -> Channel:
        return cast("Channel", left.pop(0))

    return Host("far", "", connect, lambda *_: None, nothing, nothing)


class AnsweringChannel(NotingChannel):
    """It notes the looks that it is asked for, answers at once for one job, and else when the test says so."""

    answers_for = ""

    def __init__(self) -> None:
        super().__init__()
        self.looks = asyncio.Queue[tuple[str, int]]()
        self.news = asyncio.Queue[Mapping[str, Any] | Exception]()
        self.is_asked_for_news = asyncio.Event()

    async def call(self, verb: str, **words: Any) -> Any:
        if verb == "look":
            return self.looks.put_nowait((words["job"], words["number"]))
        if verb == "follow" and words["job"] == self.answers_for:
            return None
        if verb != "news":
            return await super().call(verb, **words)
        self.is_asked_for_news.set()
        answer = await self.news.get()
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_while_the_news_of_jobs_are_written_other_tasks_have_their_turn(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a job that is forgotten meanwhile is not written to any more."""
    monkeypatch.setattr(replica_module, "FILES_AT_ONCE", 1, raising=False)

    async def play() -> list[int]:
        channel, replicas = AnsweringChannel(), [Replica(store, submitted(store)) for _ in range(2)]
        host = host_of(channel)
        for replica in replicas:
            replica.accepted(phase="running")
            await host.follow(replica)
        channel.may_answer.set()
        pieces = [{"name": f"log/{at:020}", "at": 0, "data": b64encode(b"x").decode()} for at in range(3)]
        jobs = {replica.id: {"files": pieces} for replica in replicas}
        channel.news.put_nowait({**NOTHING_NEW, "jobs": jobs})
        async with asyncio.timeout(LIMIT_S):
            while not replicas[0].log_end:  # noqa: ASYNC110 - the turn in which it is written is the one to be seen
                await asyncio.sleep(0)
        for replica in replicas:
            host.forget(replica)
        channel.is_asked_for_news.clear()
        async with asyncio.timeout(LIMIT_S):
            await channel.is_asked_for_news.wait()
        await host.close()
        return [replica.log_end for replica in replicas]

    assert asyncio.run(play()) == [1, 0]


def test_a_look_that_is_wanted_while_other_jobs_are_being_followed_is_asked_for(store: Store) -> None:
    """An answer of the job has come by another connection, and waits for all that it speaks of."""

    async def play() -> tuple[str, int]:
        channel, replica = AnsweringChannel(), Replica(store, submitted(store))
        replica.accepted(phase="running")
        channel.answers_for = replica.id
        host = host_of(channel)
        await host.follow(replica)
        await host.follow(cast("Replica", Job("another")))
        await channel.is_asked.wait()
        waiting = asyncio.create_task(host.copied(replica, 5))
        await asyncio.sleep(0)  # its first step asks for the look
        assert replica.asked == 1
        channel.may_answer.set()
        async with asyncio.timeout(LIMIT_S):
            look = await channel.looks.get()
            replica.note_look(look[1])
            await waiting
        await host.close()
        return look

    assert asyncio.run(play())[1] == 1


def test_a_job_that_comes_while_a_doubtful_host_tells_its_first_news_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target_dir.make(".", "far", {})

    async def play() -> list[str]:
        nonsense, channel = AnsweringChannel(), AnsweringChannel()
        for each in (nonsense, channel):
            each.may_answer.set()
        nonsense.answered_nonsense = True
        nonsense.news.put_nowait(TargetUnreachable("far", "it answered nonsense"))
        host = host_of(nonsense, channel)
        await host.follow(cast("Replica", Job("first")))
        await channel.is_asked_for_news.wait()
        await host.follow(cast("Replica", Job("second")))
        channel.news.put_nowait(NOTHING_NEW)
        async with asyncio.timeout(LIMIT_S):
            await host.ready()
        await host.close()
        return channel.followed

    assert asyncio.run(play()) == ["first", "second"]


@pytest.mark.parametrize("patience_s", [None, 1e6])
def test_a_caller_that_waits_for_a_connection_learns_that_the_host_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float | None
) -> None:
    """A cluster closes the connections that none of its jobs uses."""
    monkeypatch.chdir(tmp_path)

    async def play() -> None:
        is_connecting = asyncio.Event()

        async def connect() -> Channel:
            is_connecting.set()
            return await asyncio.Future[Channel]()

        host = Host("far", "", connect, lambda *_: None, nothing, nothing)
        waiting = asyncio.create_task(host.ready(patience_s))
        await is_connecting.wait()
        await host.close()
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises(TargetUnreachable):
                await waiting

    asyncio.run(play())
