"""A machine of a target, at the other end of a channel that only notes what it is asked."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from bgjob.remote.channel import Channel
from bgjob.remote.host import Host
from bgjob.remote.replica import Replica


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
