"""A Slurm cluster as a target: Slurm decides where and when, our shim on the node owns the job.

A job is submitted, waits, and is made on its node by the batch script. From then on it is copied from there, by an
agent in a step of its own allocation. When Slurm says that it is gone, what is left of it in the shared directory
is read on the login node. Truth is, in this order: what the shim wrote down, what Slurm says, what was last known.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from bgjob.core.engine import EngineState, Resources
from bgjob.core.errors import BgjobError, CannotStart, ImpossibleRequest, TargetUnreachable
from bgjob.core.late_pattern import late_pattern
from bgjob.core.slurm import CANCELLED, final_outcome, needs_slurms_word, why_never
from bgjob.core.targets import Target
from bgjob.remote import background
from bgjob.remote.channel import Channel, Order
from bgjob.remote.command import Commands
from bgjob.remote.engine import CLUSTER, CONNECT_PATIENCE_S, Forget, Note
from bgjob.remote.host import Host, SteeringHost
from bgjob.remote.messages import said
from bgjob.remote.replica import Replica
from bgjob.remote.shared_root import ELSEWHERE, NODES, home_of
from bgjob.remote.slurm import Slurm, Taken
from bgjob.remote.transport import local_shell, ssh

LOGIN = "login"
DEFAULT_ROOT = "~/.local/state/bgjob-cluster"
# squeue may not show a job at once, and forgets an ended one after a while.
UNSEEN_S = 20.0
# What a job has left is read within so long after Slurm has said that it is gone.
READ_S = 20.0
LOOK_EVERY_S = 0.5
KILLED_S, ENDS_S = 60.0, 10.0
OUT_OF_MEMORY_CODE = 137
# So long after its submission, and of so few, a job's files are looked at.
FRESH_S, FRESH_WITHOUT_SLURM_S, MOST_FRESH = 15.0, math.inf, 200
# What srun says of an allocation in which no step can start any more.
AT_END = late_pattern(r"[Ii]nvalid job id|already completing|expired|has been revoked")


class SlurmEngine:
    def __init__(self, target: Callable[[], Target], note: Note, forget: Forget) -> None:
        self._target, self._note, self._forget = target, note, forget
        self._hosts: dict[str, Host] = {}
        self._replicas: dict[str, Replica] = {}
        # Nodes whose home is read on the login node: nothing can be started or steered there.
        self._by_login: set[str] = set()
        # The allocation by which a node is connected; and further connections, by allocation.
        self._via: dict[str, str] = {}
        self._steering: dict[str, SteeringHost] = {}
        # Allocations that were found at their end before Slurm's queue told that.
        self._at_end: set[str] = set()
        self._slurm: Slurm | None = None
        self._states: dict[str, EngineState] = {}
        self._sessions: dict[str, EngineState] = {}
        # When each job was first not seen, or seen to be gone.
        self._gone_since: dict[str, float] = {}
        # Ended by us: Slurm cannot add anything about them, nor about those that it was asked to cancel.
        self._killed: set[str] = set()
        self._cancelled: set[str] = set()
        self._polling: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()

    # -- the cluster -------------------------------------------------------------------------------------

    async def _connected(self) -> Slurm:
        """The first time, our code is sent to where all nodes see it. TargetUnreachable: nothing was asked."""
        async with self._connecting:
            if self._slurm is None:
                self._slurm = await self._first_connection()
                self._note(CLUSTER, None)
            return self._slurm

    async def _first_connection(self) -> Slurm:
        target = self._target()
        try:
            channel = await self._open_on_login(LOGIN)
        except TargetUnreachable as error:
            self._note(CLUSTER, error.why)
            raise
        root = str(channel.hello["home"]).removesuffix(f"/{NODES}/{LOGIN}")
        await channel.close()
        commands = Commands(_login_argv(target))
        return Slurm(target.name, root, commands, target.python)

    async def _open_on_login(self, node: str) -> Channel:
        """An agent of the home of a node, on the login node: for what has ended there."""
        target = self._target()
        argv = _login_argv(target) or local_shell()
        return await Channel.open(argv, self._order(node, is_elsewhere=node != LOGIN))

    def _order(self, node: str, *, is_quoted: bool = True, is_elsewhere: bool = False) -> Order:
        target = self._target()
        root = self._slurm.root if self._slurm else target.home or DEFAULT_ROOT
        environ = {**target.settings, "BGJOB_HOME": home_of(root, node)}
        if is_elsewhere:
            environ[ELSEWHERE] = "1"
        return Order(
            target=target.name, environ=environ, python=target.python, code_root=root, is_quoted=is_quoted
        )

    # -- its nodes ---------------------------------------------------------------------------------------

    def _host(self, node: str) -> Host:
        if node not in self._hosts:
            target = self._target().name
            self._hosts[node] = Host(
                target, node, lambda: self._connect(node), self._note_node, self._resume, self._on_end
            )
        return self._hosts[node]

    def _note_node(self, node: str, why: str | None) -> None:
        """The end of an allocation cuts a connection every now and then: what counts is whether another is made."""
        host = self._hosts.get(node)
        if why is None or (host and not host.was_cut):
            self._note(node, why)

    async def _connect(self, node: str) -> Channel:
        """By an allocation of ours on that node; without one, all our jobs there have ended."""
        slurm = await self._connected()
        self._by_login.discard(node)
        self._via.pop(node, None)
        for allocation in self._allocations_on(node):
            try:
                channel = await self._open_in(slurm, allocation, node)
                self._via[node] = allocation
                return channel
            except TargetUnreachable as error:
                if not AT_END.search(error.why):
                    raise
                self._at_end.add(allocation)  # since our last look at the queue
        self._by_login.add(node)
        return await self._open_on_login(node)

    async def _open_in(self, slurm: Slurm, allocation: str, node: str) -> Channel:
        order = self._order(node, is_quoted=False)
        return await Channel.open(lambda command: slurm.channel_argv(allocation, *command), order)

    def _allocations_on(self, node: str) -> list[str]:
        """Of jobs that run there, or held: those last that may end first."""
        known = [(self._states[each.id], each) for each in self._replicas.values() if each.id in self._states]
        own = [state for state, each in sorted(known, key=lambda pair: pair[1].told_outcome is not None)]
        active = [state for state in (*self._sessions.values(), *own) if state.phase == "active"]
        return [
            state.engine_id for state in active if state.node == node and state.engine_id not in self._at_end
        ]

    def host_of(self, replica: Replica) -> Host | None:
        return self._hosts.get(str(replica.get("host")))

    def steered_through(self, replica: Replica) -> Host | None:
        """In its own allocation: the step by which the node is copied may be in another one, and ends with that."""
        node, allocation = str(replica.get("host")), str(replica.get("engine_id"))
        if node not in self._hosts or not self._is_active(replica) or self._via.get(node) == allocation:
            return self._hosts.get(node)
        if allocation not in self._steering:
            target = self._target().name
            self._steering[allocation] = SteeringHost(
                target, node, lambda: self._open_own(allocation, node), _ignore, self._resume, self._on_end
            )
        return self._steering[allocation]

    def _is_active(self, replica: Replica) -> bool:
        state = self._state_of(replica)
        return state is not None and state.phase == "active"

    async def _open_own(self, allocation: str, node: str) -> Channel:
        return await self._open_in(await self._connected(), allocation, node)

    async def _resume(self, _replica: Replica, _channel: Channel) -> None:
        """A job is on a node once it was made there: there is nothing to ask for again."""

    # -- starting ----------------------------------------------------------------------------------------

    async def start(self, replica: Replica) -> None:
        await self._connected()
        with contextlib.suppress(TargetUnreachable):  # it may have been submitted: it is asked for again
            await self._submit(replica)
        if replica.is_over:
            return
        self._take_on(replica)
        if replica.get("session"):
            await self._start_in_session(replica)

    async def check(self, _start: Mapping[str, Any], resources: Mapping[str, Any]) -> None:
        """A job of a held session needs no resources beyond those of its allocation."""
        slurm, session = await self._connected(), resources.get("session")
        held = (await slurm.sessions()).get(str(session)) if session else None
        if held is None or held.phase == "gone":
            await slurm.check(_resources(resources, self._target()))

    async def _submit(self, replica: Replica) -> None:
        """BgjobError: it cannot be, in Slurm's words why."""
        slurm, request = await self._connected(), replica.request
        if replica.phase != "submitting" or replica.is_over:
            return
        if request is None:
            return replica.lose(
                "what was asked of its target is gone, and whether it was submitted is not known"
            )
        wanted = _resources(request.get("resources") or {}, self._target())
        if session := (request.get("resources") or {}).get("session"):
            known = self._sessions.get(session)
            is_held = known is not None and known.phase == "active"
            engine_id = known.engine_id if known and is_held else await self._hold(session, wanted)
            if replica.has_outcome:  # it was killed meanwhile
                return None
            return replica.note(
                phase="queued", engine_id=engine_id, session=session, reason="its session starts"
            )
        replica.sending()
        engine_id = await slurm.submit(replica.id, request["start"], wanted)
        replica.accepted(phase="queued", engine_id=engine_id)

    async def _hold(self, session: str, wanted: Resources) -> str:
        return await (await self._connected()).hold(session, wanted, self._target().idle_release_s)

    async def _start_in_session(self, replica: Replica) -> None:
        """In the held allocation, as soon as Slurm has given it."""
        state = self._sessions.get(str(replica.get("session")))
        if state is None or state.phase != "active" or not state.node or replica.request is None:
            return
        host = self._host(state.node)
        try:
            channel = await host.ready(CONNECT_PATIENCE_S)
            if state.node in self._by_login:
                return  # the allocation may have ended: the next look tells
            host.replicas[replica.id] = replica
            words = replica.request["start"]
            replica.sending()
            answer = await channel.call("start", id=replica.id, hold=state.engine_id, **words)
        except TargetUnreachable:
            return  # it is asked for again at the next look
        except CannotStart:  # the allocation was given back meanwhile: another one is asked for
            self._sessions.pop(str(replica.get("session")), None)
            return replica.note(phase="submitting")
        except BgjobError as error:
            host.replicas.pop(replica.id, None)
            return await self._conclude(replica, {"cause": "never_started", "reason": str(error)})
        known = {name: answer["spec"].get(name) for name in ("cwd", "shell")}
        replica.accepted(phase="running", host=state.node, node=state.node, reason=None, **known)
        await host.follow(replica)

    async def follow(self, replica: Replica) -> None:
        """Of an earlier relay: it is where its record says, and Slurm tells the rest."""
        self._take_on(replica)
        if node := replica.get("host"):
            await self._host(node).follow(replica)

    def _take_on(self, replica: Replica) -> None:
        replica.holds_outcome = True  # Slurm may know better how it ended
        self._replicas[replica.id] = replica
        if self._polling is None or self._polling.done():
            self._polling = background.start(self._poll())

    # -- how jobs stand ----------------------------------------------------------------------------------

    async def _poll(self) -> None:
        while self._replicas:
            await self._look()
            if not self._replicas:
                await self._close_idle_hosts()  # meanwhile another job may come

    async def _look(self) -> None:
        try:
            slurm = await self._connected()
            try:
                states, self._sessions = await slurm.states(), await slurm.sessions()
            except TargetUnreachable:
                await self._look_without_slurm(slurm)
                raise
            self._states = {**states, **await self._started(slurm, states)}
            self._at_end &= {state.engine_id for state in self._states_of_all() if state.phase == "active"}
            self._note(CLUSTER, None)
            for replica in list(self._replicas.values()):
                await self._consider(replica)
            await self._close_idle_hosts()
            await asyncio.sleep(min(LOOK_EVERY_S, max(slurm.due_in_s(), 0.05)))
        except TargetUnreachable as error:
            self._note(CLUSTER, error.why)
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look_without_slurm(self, slurm: Slurm) -> None:
        """Look for started jobs in files: batch scripts write them even while Slurm is too busy to answer."""
        started = await self._started(slurm, self._states, FRESH_WITHOUT_SLURM_S)
        self._states = {**self._states, **started}
        for job_id, state in started.items():
            if replica := self._replicas.get(job_id):
                await self._consider_present(replica, state)

    def _states_of_all(self) -> list[EngineState]:
        return [*self._states.values(), *self._sessions.values()]

    async def _consider(self, replica: Replica) -> None:
        if replica.phase == "submitting":
            return await self._submit_again(replica)
        state = self._state_of(replica)
        if state is not None and state.phase != "gone":
            self._gone_since.pop(replica.id, None)
            return await self._consider_present(replica, state)
        gone_s = time.monotonic() - self._gone_since.setdefault(replica.id, time.monotonic())
        if state is None and gone_s < UNSEEN_S and replica.told_outcome is None:
            return  # not seen yet
        await self._consider_gone(replica, state, gone_s - (UNSEEN_S if state is None else 0.0))

    def _state_of(self, replica: Replica) -> EngineState | None:
        session = replica.get("session")
        return self._sessions.get(str(session)) if session else self._states.get(replica.id)

    async def _submit_again(self, replica: Replica) -> None:
        try:
            await self._submit(replica)
        except TargetUnreachable:
            raise
        except BgjobError as error:
            await self._conclude(replica, {"cause": "never_started", "reason": str(error)})

    async def _consider_present(self, replica: Replica, state: EngineState) -> None:
        if state.phase == "queued" and replica.phase == "running" and not replica.get("session"):
            return  # it was found on its node after Slurm's queue was queried
        if state.phase == "queued" and (why := why_never(state.reason)):
            return await self._refuse(replica, why)
        if replica.get("session") and replica.request is not None:
            replica.note(engine_id=state.engine_id, reason=_why_queued(state))
            return await self._start_in_session(replica)
        if state.phase == "active" and state.node:
            return await self._follow_to(replica, state)
        replica.note(phase="queued", engine_id=state.engine_id, reason=_why_queued(state))

    async def _refuse(self, replica: Replica, why: str) -> None:
        """Cancel a job that can never run: a limit was lowered, or Slurm noticed it only after the submission."""
        slurm, session = await self._connected(), replica.get("session")
        await (slurm.release(session) if session else slurm.cancel(replica.id))
        await self._conclude(replica, {"cause": "never_started", "reason": f"Slurm: {why}"})

    async def _follow_to(self, replica: Replica, state: EngineState) -> None:
        """To the node on which it runs."""
        node = str(state.node)
        if replica.get("host") != node and not replica.get("session"):
            replica.note(phase="running", engine_id=state.engine_id, node=node, host=node, reason=None)
            await self._host(node).follow(replica)
        elif node in self._by_login and self._allocations_on(node):
            await self._host(node).disconnect()  # it runs after all: it is reached there

    async def _started(
        self, slurm: Slurm, states: Mapping[str, EngineState], fresh_s: float = FRESH_S
    ) -> dict[str, EngineState]:
        """Of jobs that were just submitted: their batch scripts are faster than our next look at the queue."""
        fresh = [each.id for each in self._replicas.values() if _is_fresh(each, states.get(each.id), fresh_s)]
        taken = await slurm.all_taken(fresh[:MOST_FRESH]) if fresh else {}
        return {
            job_id: EngineState("active", each.engine_id, each.node)
            for job_id, each in taken.items()
            if each.engine_id and each.node
        }

    async def _consider_gone(self, replica: Replica, state: EngineState | None, gone_s: float) -> None:
        """What its shim wrote down counts first: it is read where it lies."""
        if replica.told_outcome is not None:
            return await self._conclude(replica, await self._final(replica, replica.told_outcome, state))
        slurm = await self._connected()
        taken = await slurm.taken(replica.id) if not replica.get("session") else None
        if taken and taken.error:
            why = said(self._target().name, str(taken.error.get("text")))
            return await self._conclude(replica, {"cause": "never_started", "reason": why})
        node = replica.get("host") or (taken.node if taken else None)
        if node is None or gone_s > READ_S:
            outcome = await self._final(replica, None, state)
            return await self._conclude(replica, _with_log(outcome, taken))
        replica.note(host=node, node=node, phase="running")
        if replica.id not in self._host(node).replicas:
            await self._host(node).follow(replica)

    async def _on_end(self, replica: Replica, news: Mapping[str, Any]) -> None:
        """What its node tells. That it has no such job, or has lost it, is no end while Slurm has the job."""
        state, outcome = self._state_of(replica), replica.told_outcome
        if outcome is None:
            return
        if not news.get("over"):  # it has left processes, for which its batch script waits
            return None if _needs_slurms_word(outcome) else replica.conclude(outcome)
        is_gone = state is None or state.phase == "gone" or replica.id in self._killed
        is_gone = is_gone or bool(replica.get("session"))
        if is_gone or not _needs_slurms_word(outcome):
            await self._conclude(replica, await self._final(replica, outcome, state))

    async def _final(
        self, replica: Replica, outcome: Mapping[str, Any] | None, state: EngineState | None
    ) -> Mapping[str, Any]:
        """Return how it ended, and who cancelled it if others did."""
        final = final_outcome(outcome, state, is_cancelled=replica.id in self._cancelled)
        if final["cause"] == "killed" and state and state.end == CANCELLED and replica.id not in self._killed:
            final["reason"] = await (await self._connected()).why_cancelled(state.engine_id)
        return final

    async def _conclude(self, replica: Replica, outcome: Mapping[str, Any]) -> None:
        if replica.id not in self._replicas:
            return
        if outcome.get("cause") == "lost":
            replica.lose(str(outcome.get("reason")))
        else:
            replica.conclude(outcome)
        del self._replicas[replica.id]  # not before: if the disk is full, it is concluded again
        self._gone_since.pop(replica.id, None)
        self._killed.discard(replica.id)
        self._cancelled.discard(replica.id)
        self._forget(replica)
        # a task of its own: the connection that has told of the end may be closed now, and our task with it
        await asyncio.shield(background.start(self._forget_request(replica.id)))

    async def _forget_request(self, job_id: str) -> None:
        with contextlib.suppress(TargetUnreachable):
            await (await self._connected()).forget(job_id)

    async def _close_idle_hosts(self) -> None:
        """The agent of a node ends with the last of our jobs there, but stays in a held allocation."""
        held = {state.node for state in self._sessions.values() if state.phase == "active"}
        for node, host in list(self._hosts.items()):
            if not host.replicas and node not in held:
                del self._hosts[node]
                await host.close()
                self._note(node, None)
        used = {str(each.get("engine_id")) for each in self._replicas.values()}
        for allocation in self._steering.keys() - used:
            await self._steering.pop(allocation).close()

    # -- what else is asked ------------------------------------------------------------------------------

    async def kill(self, replica: Replica, words: Mapping[str, Any]) -> Mapping[str, Any]:
        host = self.steered_through(replica)
        if not words.get("only_signal"):
            self._killed.add(replica.id)
        if host is not None and replica.phase == "running":
            try:
                channel = await host.ready(CONNECT_PATIENCE_S)
                answer: Mapping[str, Any] = await channel.call("kill", job=replica.id, **words)
                if answer["status"] != "not_found":
                    return answer
            except TargetUnreachable:  # the allocation ends with its job, perhaps before the answer is out
                if await replica.until_over(ENDS_S):
                    return {"status": "killed", "processes": 0}
        if replica.get("session") and replica.request is not None:
            await self._conclude(replica, {"cause": "killed", "exit_code": None, "signal": None})
            return {"status": "killed", "processes": 0}
        slurm = await self._connected()
        self._cancelled.add(replica.id)
        await slurm.cancel(replica.id)
        if (await slurm.taken(replica.id)).node is None:
            await self._conclude(replica, {"cause": "killed", "exit_code": None, "signal": None})
        if not await replica.until_over(KILLED_S):
            raise TargetUnreachable(self._target().name, "Slurm was asked to end the job, and has not yet")
        return {"status": "killed", "processes": 0}

    async def drop(self, replica: Replica) -> None:
        self._replicas.pop(replica.id, None)
        self._forget(replica)

    async def check_entry(self) -> None:
        """Check partition, account and directory. The login node's Python was used to connect."""
        target = self._target()
        try:
            await (await self._connected()).check(_resources({}, target))
        except ImpossibleRequest as error:
            asked = {"partition": target.partition, "account": target.account}
            words = (
                " and ".join(f"{key} {value!r}" for key, value in asked.items() if value) or "its defaults"
            )
            raise TargetUnreachable(target.name, f"Slurm refuses any job with {words}: {error.why}") from None

    async def info(self) -> Mapping[str, Any]:
        found = await (await self._connected()).info()
        nodes = [
            {"node": node.name, **{k: v for k, v in vars(node).items() if k != "name"}}
            for node in found.nodes
        ]
        return {"nodes": nodes, "queue": {"queued": found.queued}}

    async def close(self) -> None:
        if self._polling:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        for host in (*self._hosts.values(), *self._steering.values()):
            await host.close()


def _ignore(_host: str, _why: str | None) -> None:
    """That its allocation cannot be reached is told of the node."""


def _is_fresh(replica: Replica, state: EngineState | None, fresh_s: float) -> bool:
    waits = (state is None or state.phase == "queued") and not replica.get("session")
    return waits and time.time() < replica.spec.created_at + fresh_s


def _login_argv(target: Target) -> list[str]:
    """Empty: this machine has Slurm's commands."""
    if not target.login:
        return []
    return ssh(target.login, [word for option in target.ssh_options for word in ("-o", option)])


def _resources(wanted: Mapping[str, Any], target: Target) -> Resources:
    known = {
        name: wanted[name] for name in ("gpus", "memory_bytes", "time_limit_s", "labels") if name in wanted
    }
    cpus = math.ceil(wanted["cpus"]) if wanted.get("cpus") else None
    return Resources(cpus=cpus, partition=target.partition, account=target.account, **known)


def _with_log(outcome: Mapping[str, Any], taken: Taken | None) -> Mapping[str, Any]:
    """What the batch script printed instead of the job says more than Slurm's word."""
    printed = [line.strip() for line in (taken.log if taken else "").splitlines() if line.strip()]
    if outcome.get("cause") != "lost" or not printed:
        return outcome
    return {**outcome, "reason": f"{outcome['reason']}; {said('its batch script', printed[-1])}"}


def _why_queued(state: EngineState) -> str:
    return f"Slurm: {state.reason}" if state.reason else "Slurm has it in its queue"


def _needs_slurms_word(outcome: Mapping[str, Any]) -> bool:
    """A lack of memory the shim sees itself, unless it was killed for it."""
    return needs_slurms_word(outcome) or outcome.get("exit_code") == OUT_OF_MEMORY_CODE
