"""A Ray cluster as a target: Ray decides where and when, our shim on the node owns the job.

A job has a lease in the cluster, which Ray places or queues. Once it is placed, the job is started by the agent of that
node, and copied from there. From the first request for its start on, a job is asked for on that node alone: so it is
never run twice, whatever becomes of its lease. Its node gives the lease back when the job is over.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from bgjob.core.errors import BgjobError, TargetUnreachable
from bgjob.core.targets import Target
from bgjob.remote import background
from bgjob.remote.channel import Channel
from bgjob.remote.engine import (
    ANSWER_PATIENCE_S,
    CLUSTER,
    CONNECT_PATIENCE_S,
    Forget,
    Note,
    note_end,
    request_start,
)
from bgjob.remote.host import Host
from bgjob.remote.ray import RayGateway
from bgjob.remote.replica import Replica

# How often the cluster is asked, by one call for all jobs: after a submission, while a job is queued, else.
FRESH_EVERY_S, QUEUED_EVERY_S, EVERY_S = 0.2, 1.0, 5.0
FRESH_S, HOST_IDLE_S = 10.0, 60.0
RESOURCES = ("cpus", "gpus", "memory_bytes", "labels")
KILLED = {"cause": "killed", "exit_code": None, "signal": None}


class RayEngine:
    def __init__(self, target: Callable[[], Target], note: Note, forget: Forget) -> None:
        self._target, self._note, self._forget_there = target, note, forget
        self._gateway = RayGateway(target)
        self._hosts: dict[str, Host] = {}
        self._replicas: dict[str, Replica] = {}
        self._killed: set[str] = set()
        """Before they were on a node."""
        self._used_at: dict[str, float] = {}
        self._polling: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._is_closed = False

    # -- its nodes ---------------------------------------------------------------------------------------

    def _host(self, node: str) -> Host:
        if node not in self._hosts:
            connect, target = self._gateway.open_channel, self._target().name
            self._hosts[node] = Host(
                target, node, lambda: connect(node), self._note, self._resume, self._on_end
            )
        return self._hosts[node]

    def host_of(self, replica: Replica) -> Host | None:
        return self._hosts.get(str(replica.get("host")))

    steered_through = host_of

    async def _resume(self, replica: Replica, channel: Channel) -> None:
        """Whoever asked for the job was told that it is not known: so the refusal is its end."""
        try:
            await request_start(replica, channel)
        except TargetUnreachable:
            raise
        except BgjobError as error:
            await self._conclude(replica, {"cause": "never_started", "reason": str(error)})

    async def _on_end(self, replica: Replica, news: Mapping[str, Any]) -> None:
        host = self.host_of(replica)
        assert host
        if note_end(host, replica, news):
            await self._forget(replica)

    async def _close_idle_hosts(self) -> None:
        """A while after the last job there: to connect takes longer than to start."""
        for node, host in list(self._hosts.items()):
            if host.replicas:
                self._used_at[node] = time.monotonic()
            elif time.monotonic() > self._used_at.get(node, 0.0) + HOST_IDLE_S:
                del self._hosts[node]
                await host.close()
                self._note(node, None)

    # -- starting ----------------------------------------------------------------------------------------

    async def start(self, replica: Replica) -> None:
        await self._gateway.ready()  # TargetUnreachable: nothing was asked for
        with contextlib.suppress(TargetUnreachable):  # it may have a lease by now: it is asked for again
            state = await self._gateway.submit(replica.id, _resources(replica))
            if not replica.is_over:
                await self._start(replica, state)
        self._take_on(replica)

    async def check(self, _start: Mapping[str, Any], resources: Mapping[str, Any]) -> None:
        await self._gateway.ready()
        await self._gateway.check(_known_to_ray(resources))

    async def follow(self, replica: Replica) -> None:
        """Of an earlier relay: it is where its record says, and Ray tells the rest."""
        self._take_on(replica)
        if node := replica.get("host"):
            await self._host(node).follow(replica)

    def _take_on(self, replica: Replica) -> None:
        if replica.is_over:
            return
        self._replicas[replica.id] = replica
        self._news.set()
        if self._polling is None or self._polling.done():
            self._polling = background.start(self._poll())

    async def _start(self, replica: Replica, state: Mapping[str, Any]) -> None:
        """BgjobError: its node refuses it."""
        if state["state"] != "placed":
            return replica.note(phase="queued", reason=state.get("reason"))
        if replica.id in self._killed:
            return
        node = state["node"]
        # Now on disk, before it is asked for: the next relay asks the same node.
        replica.ask_with_variables(state["environ"])
        replica.note(phase="submitting", host=node, node=node, reason=None)
        host = self._host(node)
        host.replicas[replica.id] = replica
        try:
            channel = await host.ready(CONNECT_PATIENCE_S)
            if replica.is_over:
                return
            await request_start(replica, channel)
            await host.follow(replica)
        except TargetUnreachable:
            await replica.until_accepted(ANSWER_PATIENCE_S)
        except BgjobError:
            host.replicas.pop(replica.id, None)
            await self._release(replica)
            raise

    # -- how jobs stand ----------------------------------------------------------------------------------

    async def _poll(self) -> None:
        while self._replicas or self._hosts:
            await self._look()
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s()):
                    await self._news.wait()

    def _pause_s(self) -> float:
        waiting = [each.spec.created_at for each in self._replicas.values() if not each.get("host")]
        if not waiting:
            return EVERY_S
        return FRESH_EVERY_S if max(waiting) > time.time() - FRESH_S else QUEUED_EVERY_S

    async def _look(self) -> None:
        await self._close_idle_hosts()
        jobs = {
            each.id: {"request": _resources(each), "node": each.get("host")}
            for each in self._replicas.values()
        }
        try:
            states = await self._gateway.states(jobs) if jobs else {}
            self._note(CLUSTER, None)
        except TargetUnreachable as error:
            return self._note(CLUSTER, error.why)
        for job_id, state in states.items():
            if replica := self._replicas.get(job_id):
                await self._consider(replica, state)

    async def _consider(self, replica: Replica, state: Mapping[str, Any]) -> None:
        """Of a job on a node, the node tells what becomes of it; Ray only, whether its room is held."""
        if replica.get("host"):
            return replica.note(reason=state["reason"] if state["state"] == "unleased" else None)
        with contextlib.suppress(TargetUnreachable):
            try:
                if state["state"] == "gone":
                    state = await self._gateway.submit(replica.id, _resources(replica))
                await self._start(replica, state)
            except TargetUnreachable:
                raise
            except BgjobError as error:
                await self._conclude(replica, {"cause": "never_started", "reason": str(error)})

    async def _conclude(self, replica: Replica, outcome: Mapping[str, Any]) -> None:
        replica.conclude(outcome)
        await self._forget(replica)

    async def _forget(self, replica: Replica) -> None:
        self._replicas.pop(replica.id, None)
        self._killed.discard(replica.id)
        self._forget_there(replica)
        await self._release(replica)

    async def _release(self, replica: Replica) -> None:
        if self._is_closed:  # it would start a gateway that nobody ends; its node does it
            return
        with contextlib.suppress(TargetUnreachable):  # its node does it, or nobody comes for it
            await self._gateway.release(replica.id)

    # -- what else is asked ------------------------------------------------------------------------------

    async def kill(self, replica: Replica, words: Mapping[str, Any]) -> Mapping[str, Any]:
        host = self.host_of(replica)
        if host is None:
            return await self._kill_queued(replica)
        channel = await host.ready(CONNECT_PATIENCE_S)
        await replica.until_accepted(ANSWER_PATIENCE_S)
        answer: Mapping[str, Any] = await channel.call("kill", job=replica.id, **words)
        if answer["status"] == "not_found" and replica.phase == "submitting":
            return await self._kill_queued(replica)
        return answer

    async def _kill_queued(self, replica: Replica) -> Mapping[str, Any]:
        self._killed.add(replica.id)
        await self._gateway.release(replica.id)
        await self._conclude(replica, KILLED)
        return {"status": "killed", "processes": 0}

    async def drop(self, replica: Replica) -> None:
        await self._forget(replica)

    async def check_entry(self) -> None:
        """Check on one node that its workers' Python can run the agent and that its home can be used."""
        alive = [node["node"] for node in await self._gateway.info() if node["alive"]]
        if not alive:
            raise TargetUnreachable(self._target().name, "no node of the cluster is alive")
        try:
            await (await self._gateway.open_channel(alive[0])).close()
        except TargetUnreachable:
            raise
        except BgjobError as error:
            raise TargetUnreachable(self._target().name, f"node {alive[0]}: {error}") from None

    async def info(self) -> Mapping[str, Any]:
        return {"nodes": await self._gateway.info()}

    async def close(self) -> None:
        self._is_closed = True
        if self._polling:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        for host in self._hosts.values():
            await host.close()
        await self._gateway.close()


def _resources(replica: Replica) -> dict[str, Any]:
    return _known_to_ray(replica.spec.resources)


def _known_to_ray(resources: Mapping[str, Any]) -> dict[str, Any]:
    return {name: resources[name] for name in RESOURCES if name in resources}
