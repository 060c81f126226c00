"""Room for jobs, as the gateway is asked for it: leases, and what the actors on the nodes know of them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from ray.exceptions import RayError

from bgjob.remote.ray_gateway import fit
from bgjob.remote.ray_gateway.agents import PATIENCE_S, Agents, NodeAway
from bgjob.remote.ray_gateway.leases import Leases, State
from bgjob.remote.ray_gateway.threads import Threads

UNHEARD = (RayError, NodeAway, asyncio.TimeoutError)


class Room:
    def __init__(self, leases: Leases, agents: Agents, threads: Threads) -> None:
        self._leases, self._agents, self._threads = leases, agents, threads
        self._held: dict[str, str] = {}
        """The node whose actor looks after it, by the job."""
        self._over: set[str] = set()
        self._work: dict[str, asyncio.Task[None]] = {}

    async def check(self, request: fit.Request) -> None:
        """Take no lease. Refused: there is no node for it."""
        await self._threads.run(self._leases.check, request)

    async def place(self, job_id: str, request: fit.Request) -> State:
        """Asked twice it is the same lease. Refused: there is no node for it."""
        state: State = await self._threads.run(self._leases.place, job_id, request)
        self._have_looked_after(job_id, state)
        return state

    async def states(self, jobs: Mapping[str, Mapping[str, Any]]) -> dict[str, State]:
        """`jobs`: {id: {"request": {...}, "node": where it was placed, if it was}}; by a few calls for all of them.

        placed      {"node", "environ"}: it has its room there
        queued      {"reason"}: Ray will place it
        over        {"node"}: it has ended there, and its room was given back
        unleased    {"node", "reason"}: it was placed there, and its room is not held for it any more
        unreachable {"node", "reason"}: its node has left the cluster; whether the job runs is not known
        gone        {"reason"}: it was not placed, and is not queued
        """
        states: dict[str, State] = await self._threads.run(self._leases.states, jobs)
        return {job_id: self._noted(job_id, state, jobs[job_id]) for job_id, state in states.items()}

    async def release(self, job_id: str) -> None:
        """Also of a job that is queued."""
        self._held.pop(job_id, None)
        self._over.discard(job_id)
        await self._threads.run(self._leases.release, job_id)

    def _noted(self, job_id: str, state: State, job: Mapping[str, Any]) -> State:
        self._have_looked_after(job_id, state)
        if state["state"] != "unleased":
            return state
        if job_id in self._over:
            return {"state": "over", "node": state["node"]}
        self._held.pop(job_id, None)
        self._soon(job_id, self._take_again(job_id, state["node"], job.get("request") or {}))
        return state

    async def _take_again(self, job_id: str, node: str, request: fit.Request) -> None:
        """Unless its node knows that the job is over: then its lease was given back, and not lost."""
        actor = await self._agents.on(node)
        if await asyncio.wait_for(actor.is_over.remote(job_id), PATIENCE_S):
            self._over.add(job_id)
        else:
            await self._threads.run(self._leases.take_again, job_id, node, request)

    def _have_looked_after(self, job_id: str, state: State) -> None:
        if state["state"] == "placed" and self._held.get(job_id) != state["node"]:
            self._soon(job_id, self._hold(job_id, state["node"]))

    async def _hold(self, job_id: str, node: str) -> None:
        actor = await self._agents.on(node)
        await asyncio.wait_for(actor.hold.remote(job_id), PATIENCE_S)
        self._held[job_id] = node

    def _soon(self, job_id: str, work: Coroutine[Any, Any, None]) -> None:
        """One piece of work at a time for a job: what could not be done is asked for at its next state."""
        if job_id in self._work:
            return work.close()
        self._work[job_id] = asyncio.create_task(self._finished(job_id, work))

    async def _finished(self, job_id: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except UNHEARD:
            pass  # its node is away
        finally:
            del self._work[job_id]
