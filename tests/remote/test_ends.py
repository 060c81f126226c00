"""The end of a job of a cluster, while the connection that tells of it is closed: all of it is done, or none."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import pytest

from bgjob.core.engine import EngineState
from bgjob.core.targets import Target, as_record
from bgjob.home import jobdir, target_dir
from bgjob.home.locks import open_locked
from bgjob.remote.channel import Channel
from bgjob.remote.relay import Relay
from bgjob.remote.slurm import Slurm
from bgjob.remote.slurm_engine import SlurmEngine
from bgjob.store.store import Store
from tests.remote.hostile import EXITED, NOTHING_NEW, Host, Refused, Silent
from tests.support.stores import new_spec

TARGET, NODE, ALLOCATION = "hpc", "n1", "17"
LIMIT_S = 120.0
"""Ends a test that hangs."""


class Queue:
    """In place of Slurm's commands: the allocation is still there."""

    root = "/nowhere"

    def __init__(self, job_id: str) -> None:
        self._states = {job_id: EngineState("active", ALLOCATION, NODE)}
        self.forgotten = asyncio.Queue[str]()

    async def states(self) -> dict[str, EngineState]:
        return self._states

    async def sessions(self) -> dict[str, EngineState]:
        return {}

    def due_in_s(self) -> float:
        return 0.0

    async def forget(self, job_id: str) -> None:
        self.forgotten.put_nowait(job_id)


class Engine(SlurmEngine):
    """The node is connected when the test says so, and the job's own allocation never is."""

    def __init__(self, relay: Relay, job_id: str, unfollow: object) -> None:
        super().__init__(relay._target, relay._note, relay._forget)
        self.queue = Queue(job_id)
        self._slurm = cast("Slurm", self.queue)
        self._job_id, self._unfollow = job_id, unfollow
        self.may_connect, self.is_steered = asyncio.Event(), asyncio.Event()

    async def _connect(self, node: str) -> Channel:
        await self.may_connect.wait()
        return await Host(self._answer).channel()

    async def _open_own(self, allocation: str, node: str) -> Channel:
        self.is_steered.set()
        return await asyncio.Future[Channel]()

    def _answer(self, verb: str, words: Mapping[str, Any]) -> Any:
        if verb == "unfollow":
            return self._unfollow
        if verb == "news" and words["since"] == "1.0":
            over = {"records": {jobdir.OUTCOME: EXITED}, "over": True}
            return {**NOTHING_NEW, "jobs": {self._job_id: over}, "cursor": "2.0"}
        return Silent() if verb == "news" else None


@pytest.fixture
def job_id(store: Store) -> str:
    """A job that runs on the node, as an earlier relay has left it."""
    spec = new_spec(target=TARGET)
    target_dir.make(store.home, TARGET, as_record(Target(name=TARGET, kind="slurm")))
    target_dir.add(store.home, TARGET, spec.id)
    remote = {"phase": "running", "host": NODE, "node": NODE, "engine_id": ALLOCATION, "handover": "taken"}
    os.close(store.create(spec, records={jobdir.REMOTE: remote}).lock)
    return spec.id


@contextlib.asynccontextmanager
async def relay_with(store: Store, job_id: str, unfollow: object) -> AsyncIterator[Engine]:
    lock = target_dir.take_lock(store.home, TARGET)
    assert lock is not None
    relay = Relay(store, TARGET, lock)
    relay._engine = engine = Engine(relay, job_id, unfollow)
    running = asyncio.create_task(relay.run())
    try:
        async with asyncio.timeout(LIMIT_S):
            yield engine
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        os.close(lock)


async def connected(job_id: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """To the job's socket, once the relay listens."""
    while True:
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            return await asyncio.open_unix_connection(f"jobs/{job_id}/{jobdir.CONTROL}")
        await asyncio.sleep(0.002)


@pytest.mark.parametrize(
    "unfollow", [Silent(), Refused({"kind": "BgjobError", "text": "no"})], ids=["silent", "refused"]
)
def test_a_connection_that_waits_for_a_way_to_the_job_is_closed_at_the_end_of_the_job(
    store: Store, job_id: str, unfollow: object
) -> None:
    """A look at Slurm's queue closes the connection to the node, as no job is followed there any more."""

    async def play() -> None:
        async with relay_with(store, job_id, unfollow) as engine:
            reader, writer = await connected(job_id)
            writer.write(b'{"op": "wait", "beyond": 0}\n')
            await engine.is_steered.wait()
            engine.may_connect.set()
            assert await reader.read() == b""
            writer.close()
            assert await engine.queue.forgotten.get() == job_id
            assert jobdir.read_record(f"jobs/{job_id}/{jobdir.OUTCOME}") == EXITED
            assert target_dir.registered(store.home, TARGET) == []
            lock = open_locked(f"jobs/{job_id}/{jobdir.SPEC}", flags=0)
            assert lock is not None, "the job is free for a process that removes it"
            os.close(lock)

    asyncio.run(play())
