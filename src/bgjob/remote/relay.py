"""The relay of a target: a process that keeps our copies of its jobs up to date, and hands on what is asked of them.

    keeper ── relay ── ssh, or another pipe to an agent     one per home and target, while it has jobs or is used

The relay holds nothing that a job needs: its copies are on disk, and the job goes on without them. After a kill at
any point it goes on from there, restarted by its keeper or by the next process that looks at one of its jobs.

At its socket, one JSON line in and one out:

{"op": "start", "job": ID}       a job whose directory was just made; answered once the target has it
                                 with "pending": it was sent, and no answer has come
                                 A refusal is on disk before it is answered: the starter may be gone
{"op": "check", "start": {…}, "resources": {…}}
                                 whether such a start would be refused: before a job is killed for it
{"op": "kill", "job": ID, "grace_s": S, "signal": NAME, "only_signal": B}     "status", "processes"
{"op": "give_up", "job": ID}     the job is lost: its machine cannot be reached
{"op": "status", "job": ID, "detail": B}     what only its machine knows: its processes, ports, prompt
{"op": "info", "check": B}       machines of the target, what is free on them
"""

import asyncio
import contextlib
import fcntl
import json
import math
import os
import resource
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bgjob.core.errors import BgjobError, CannotStart, JobNotFound, StillReachable, TargetUnreachable
from bgjob.core.frozen import NOTHING
from bgjob.core.targets import Target, from_record
from bgjob.home import home_dir, jobdir, target_dir
from bgjob.home.layout import JOBS
from bgjob.home.locks import try_lock
from bgjob.home.mtimes import mtime
from bgjob.remote import background
from bgjob.remote.codec import pack_error
from bgjob.remote.engine import CLUSTER, CONNECT_PATIENCE_S, Engine
from bgjob.remote.messages import REQUESTS, checked
from bgjob.remote.proxy import ControlProxy, close_server, is_ours
from bgjob.remote.replica import Replica, own_jobs
from bgjob.store.record_schema import Malformed
from bgjob.store.records import read_remote
from bgjob.store.retention import end_unsent
from bgjob.store.store import Store
from bgjob.system import keeper, processes

LONGEST_PAUSE_S = 15.0
LOCK_TRIES = 500
# A relay without jobs stays for the next start so long: to connect takes longer than to start.
IDLE_S, LOOK_EVERY_S = 120.0, 1.0
CAUGHT_UP_S = 10.0
STARTER_S = 5.0
# The lock and the socket of a job. The rest is for channels, for who asks, and for files that are written.
FILES_OF_A_JOB, SHARE_OF_JOBS = 2, 0.8
TOO_MANY = "{target} has {count} jobs that are not over, and no more files may be open here (ulimit -Hn)"
# The home that was found safe: the working directory of keeper and relay, even if its path changes.
HERE = os.curdir


def main(home: str, target: str) -> None:
    """The keeper: forks the relay, and forks it again if it is killed."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.setsid()  # on most systems our starter has done it
    if not home_dir.enter(home):
        return
    os.umask(0o077)
    processes.set_process_name("bgjob-relay")
    # Several tries: a process that checks for a relay holds the lock for a moment.
    lock = target_dir.take_lock(HERE, target, LOCK_TRIES)
    if lock is not None:
        keeper.keep(lambda: _relay(target, lock), lambda: bool(home_dir.working_place()), LONGEST_PAUSE_S)


def _relay(target: str, lock: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard) if soft < hard else (soft, hard))
    try:
        asyncio.run(Relay(Store(home_dir.working_place() or HERE), target, lock).run())
    except BaseException as error:
        background.leave_traceback(error)
        raise


class Relay:
    def __init__(self, store: Store, target: str, lock: int) -> None:
        self._store, self._name, self._lock = store, target, lock
        self._replicas: dict[str, Replica] = {}
        self._proxies: dict[str, ControlProxy] = {}
        self._starts: dict[str, asyncio.Task[BgjobError | None]] = {}
        self._unreachable: dict[str, tuple[float, str]] = {}
        self._entry = self._target()
        self._engine = engine_for(self._target, self._note, self._forget)
        self._used_at = time.monotonic()
        self._calls = 0

    # -- its life ----------------------------------------------------------------------------------

    async def run(self) -> None:
        self._write_state()
        end_unsent(self._store)
        server = await self._listen()
        try:
            while not self._is_idle() or self._has_more_work():
                await self._adopt_all()
                await asyncio.sleep(LOOK_EVERY_S)
                self._store.check_home_exists()
        finally:
            close_server(server)
            for proxy in self._proxies.values():
                proxy.close()
            await self._engine.close()
            with contextlib.suppress(OSError):
                os.unlink(self._path(target_dir.CONTROL))

    def _is_idle(self) -> bool:
        is_busy = self._replicas or self._calls or target_dir.registered(HERE, self._name)
        if is_busy:
            self._used_at = time.monotonic()
        return time.monotonic() > self._used_at + IDLE_S

    def _has_more_work(self) -> bool:
        """The lock is freed before the last look: a process that adds a job later can start a relay."""
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        # Not locked again: another relay has begun.
        return bool(target_dir.registered(HERE, self._name)) and try_lock(self._lock)

    def _path(self, name: str) -> str:
        return f"{target_dir.directory(HERE, self._name)}/{name}"

    def _target(self) -> Target:
        return from_record(jobdir.read_record(self._path(target_dir.TARGET)) or {})

    async def _follow_entry(self) -> None:
        """Connect by the entry as it is now. An engine that has jobs is kept: only its connections reach them."""
        entry = self._target()
        if self._replicas or entry == self._entry:
            return
        earlier, self._entry = self._engine, entry
        self._engine = engine_for(self._target, self._note, self._forget)
        self._unreachable.clear()
        self._write_state()
        await earlier.close()

    # -- its jobs ----------------------------------------------------------------------------------

    async def _adopt_all(self) -> None:
        """Jobs of an earlier relay, and those whose starter was killed before it asked us."""
        registered = target_dir.registered(HERE, self._name)
        # Not `_replicas`: a job that is being forgotten is none of those, and its lock is still ours.
        new = [job_id for job_id in registered if job_id not in self._proxies]
        there = own_jobs(self._store, new)
        for job_id in set(new) - set(there):
            target_dir.remove_abandoned(HERE, self._name, job_id)
        for job_id in there:
            if self._is_full():
                return  # they wait, on disk and over there, until others are over
            if self._is_being_started(job_id):
                continue
            if replica := await self._adopt(job_id):
                self._go_on_with(replica)

    def _go_on_with(self, replica: Replica) -> None:
        """Start a job that was never sent, as its starter wanted, and follow any other on its target."""
        if replica.is_unsent:
            self._begin(replica)
        else:
            background.start(self._engine.follow(replica))

    def _is_full(self) -> bool:
        return FILES_OF_A_JOB * len(self._replicas) >= _open_files_max() * SHARE_OF_JOBS

    def _is_being_started(self, job_id: str) -> bool:
        """Its starter will ask for it, and tell its caller if the target refuses it."""
        if read_remote(f"{JOBS}/{job_id}").get("phase") != "submitting":
            return False
        added_at = mtime(self._path(f"{target_dir.JOBS}/{job_id}"))
        return abs(time.time() - added_at) < STARTER_S

    async def _adopt(self, job_id: str) -> Replica | None:
        """None: another process holds it, e.g. its starter; or it is over."""
        try:
            replica = Replica(self._store, job_id)
        except (OSError, ValueError):
            return None
        if replica.is_over or replica.phase == "lost":
            replica.finish()
            target_dir.remove(HERE, self._name, job_id)
            return None
        if replica.get("handover") == target_dir.TAKEN:
            replica.drop_request()  # the previous relay was killed before it could
        self._replicas[job_id] = replica
        self._proxies[job_id] = proxy = ControlProxy(replica, self._engine)
        await proxy.listen()
        return replica

    def _forget(self, replica: Replica) -> None:
        """Nothing more will come of it. Not a coroutine: its caller may be cancelled at any await, and a job that
        is forgotten by half is never free, and its connections are never closed."""
        if self._replicas.pop(replica.id, None) is None:
            return
        if host := self._engine.host_of(replica):
            host.forget(replica)
        replica.finish()
        self._proxies.pop(replica.id).close()
        target_dir.remove(HERE, self._name, replica.id)

    # -- who can be reached ------------------------------------------------------------------------------

    def _note(self, host: str, why: str | None) -> None:
        known = self._unreachable.get(host)
        if why is None and known:
            del self._unreachable[host]
        elif why is not None:
            self._unreachable[host] = (known[0] if known else time.time(), why)
        else:
            return
        self._write_state()

    def _write_state(self) -> None:
        with contextlib.suppress(OSError):
            jobdir.write_record(self._path(target_dir.STATE), {"unreachable": self._unreachable})

    # -- what it is asked ---------------------------------------------------------------------------------

    async def _listen(self) -> asyncio.Server:
        path = self._path(target_dir.CONTROL)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # of a relay that was killed
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(path)
        return await asyncio.start_unix_server(
            self._on_connection, sock=listening, limit=jobdir.RECORD_MAX_BYTES
        )

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._calls += 1
        try:
            if is_ours(writer) and (line := await reader.readline()):
                writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError, asyncio.CancelledError):  # ValueError: its line is too long
            pass  # CancelledError: the relay ends
        finally:
            self._calls -= 1
            self._used_at = time.monotonic()
            writer.close()

    async def _answer(self, line: bytes) -> Mapping[str, Any]:
        try:
            request = json.loads(line)
            operation = str(request.pop("op"))
            words = checked(REQUESTS[operation], request)
            return {"ok": True, "answer": await OPERATIONS[operation](self, **words)}
        except BgjobError as error:
            return {"ok": False, "failure": pack_error(error)}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, Malformed) as error:
            return {"ok": False, "error": f"{type(error).__name__}: {error}"}

    async def _start(self, job: str) -> Mapping[str, Any]:
        await self._follow_entry()
        if job not in self._replicas and self._is_full():
            raise CannotStart(OSError(TOO_MANY.format(target=self._name, count=len(self._replicas))), HERE)
        replica = self._replicas.get(job) or await self._adopt(job)
        if replica is None:
            raise JobNotFound(job)
        if replica.get("handover") is None and replica.phase == "submitting":
            replica.note(handover=target_dir.HERE)  # its starter is of an older version
        if refusal := await self._begin(replica):
            raise refusal
        is_pending = replica.phase == "submitting" and not replica.is_over
        return {"pending": self._why_pending(replica)} if is_pending else {}

    def _begin(self, replica: Replica) -> "asyncio.Task[BgjobError | None]":
        """Return the one attempt to start it: its starter may ask for it while that is under way."""
        if replica.id not in self._starts:
            self._starts[replica.id] = task = background.start(self._begun(replica))
            task.add_done_callback(lambda _: self._starts.pop(replica.id, None))
        return self._starts[replica.id]

    async def _begun(self, replica: Replica) -> BgjobError | None:
        """Start it, and return why its target refused it; None if it did not."""
        try:
            await self._engine.start(replica)
        except BgjobError as error:
            refusal = error
        except OSError as error:  # our own disk
            refusal = CannotStart(error, HERE)
            if not replica.is_unsent:  # it may be running: another relay queries it again
                raise
        else:
            return None
        if replica.is_over:  # it was killed meanwhile
            return None
        self._refuse(replica, str(refusal))
        return refusal

    async def _check(
        self, start: Mapping[str, Any], resources: Mapping[str, Any] = NOTHING
    ) -> Mapping[str, Any]:
        await self._follow_entry()
        if self._entry != self._target():  # without the job that is killed, the new one starts by the entry
            await self._check_entry()
        await self._engine.check(start, resources)
        return {}

    def _why_pending(self, replica: Replica) -> str:
        host = self._engine.host_of(replica)
        return (host and host.why) or "it has not answered yet"

    def _refuse(self, replica: Replica, why: str) -> None:
        """Record its end on disk. Its starter, if it is alive, removes the job and returns the reason to its caller."""
        try:
            replica.refuse(why)
        except OSError:  # the disk is full: the job stays registered and is tried again
            self._replicas.pop(replica.id)
            self._proxies.pop(replica.id).close()
            return replica.release()
        self._forget(replica)

    async def _kill(self, job: str, **words: object) -> Mapping[str, Any]:
        replica, is_new = self._replicas.get(job), job not in self._replicas
        replica = replica or await self._adopt(job)
        if replica is None:
            raise JobNotFound(job)
        if replica.is_unsent and not words.get("only_signal"):
            replica.end(cause="killed", exit_code=None, signal=None)
            await self._engine.drop(replica)
            return {"status": "killed", "processes": 0}
        if is_new:
            self._go_on_with(replica)
        answer = await self._engine.kill(replica, words)
        if not words.get("only_signal"):
            await replica.until_over(CAUGHT_UP_S)
        return answer

    async def _give_up(self, job: str) -> Mapping[str, Any]:
        """Record the job as lost: its host does not answer and never will."""
        replica = self._replicas.get(job)
        if replica is None:
            raise JobNotFound(job)
        gone = self._unreachable.get(replica.get("host") or CLUSTER)
        if gone is None:
            raise StillReachable(job)
        replica.lose(f"given up while its machine could not be reached: {gone[1]}")
        await self._engine.drop(replica)
        return {}

    async def _status(self, job: str, detail: bool = False) -> Mapping[str, Any]:
        replica = self._replicas.get(job)
        host = self._engine.steered_through(replica) if replica else None
        if replica is None or host is None:
            raise JobNotFound(job)
        if host.why is not None:
            raise TargetUnreachable(self._name, host.why)
        channel = await host.ready(CONNECT_PATIENCE_S)
        status: Mapping[str, Any] = await channel.call("status", job=job, detail=detail)
        if copier := self._engine.host_of(replica):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CAUGHT_UP_S):
                    await copier.copied(replica, status["end"])
        return status

    async def _info(self, check: bool = False) -> Mapping[str, Any]:
        await self._follow_entry()
        if check:
            await self._check_entry()
        return await self._engine.info()

    async def _check_entry(self) -> None:
        """Check the entry as it is now, by another engine if jobs keep that of an earlier one."""
        if self._entry == self._target():
            return await self._engine.check_entry()
        engine = engine_for(self._target, _ignore, _ignore)
        try:
            await engine.check_entry()
        finally:
            await engine.close()


def _ignore(*_: object) -> None:
    """An engine that only checks has no jobs, and what it cannot reach is its answer."""


def _open_files_max() -> float:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return math.inf if soft == resource.RLIM_INFINITY else soft


OPERATIONS: Mapping[str, Callable[..., Awaitable[Mapping[str, Any]]]] = {
    "start": Relay._start,
    "check": Relay._check,
    "kill": Relay._kill,
    "give_up": Relay._give_up,
    "status": Relay._status,
    "info": Relay._info,
}


def engine_for(
    target: Callable[[], Target],
    note: Callable[[str, str | None], None],
    forget: Callable[[Replica], None],
) -> Engine:
    match target().kind:
        case "ssh":
            from bgjob.remote.ssh import SshEngine

            return SshEngine(target, note, forget)
        case "slurm":
            from bgjob.remote.slurm_engine import SlurmEngine

            return SlurmEngine(target, note, forget)
        case "ray":
            from bgjob.remote.ray_engine import RayEngine

            return RayEngine(target, note, forget)
