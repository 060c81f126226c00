"""What an agent can be asked for. Words are keyword arguments, answers are JSON; bytes are text, as base64."""

import os
import socket
import threading
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from bgjob.agent.allocation import in_hold
from bgjob.agent.host import facts
from bgjob.agent.news import News
from bgjob.api.connect import connect_to_shim
from bgjob.api.context import Context
from bgjob.api.kill import kill_job
from bgjob.api.processes import processes_of
from bgjob.api.prompt import sits_at_prompt
from bgjob.api.snapshot import Snapshot
from bgjob.api.start import prepared
from bgjob.api.start_once import start_once
from bgjob.api.status import job_status
from bgjob.api.status_json import activity_as_json
from bgjob.api.wait import Cancellation
from bgjob.core.errors import BgjobError, TargetUnreachable
from bgjob.core.job import Queued, Running
from bgjob.link.control import NoShim

# Answered by the thread that reads.
QUICK = frozenset({"ping", "follow", "unfollow", "look"})
# Seen to their end, even if nobody hears of it.
CHANGING = frozenset({"start", "kill"})
# Ended by a cancel.
WAITING = frozenset({"news"})
VERBS = QUICK | CHANGING | WAITING | {"check", "status", "info"}
# What can be asked about jobs of another machine: how they have ended.
ELSEWHERE = QUICK | WAITING


class Verbs:
    def __init__(self, context: Context, *, is_in_step: bool = False) -> None:
        """`is_in_step`: in an allocation of Slurm, which ends with its job and would end us in mid-word."""
        self._context = context
        self._news = News(context, delays_ends=is_in_step)
        # One for each allocation: it keeps a connection.
        self._holds: dict[str, Context] = {}
        self._holds_mutex = threading.Lock()

    def call(self, verb: str, words: Mapping[str, Any], wait: Cancellation | None = None) -> Any:
        if verb not in VERBS:
            raise BgjobError(f"This agent does not know {verb[:40]!r}: it may be of an older version.")
        if self._context.store.is_elsewhere and verb not in ELSEWHERE:
            raise TargetUnreachable(
                "the node of the job", "this is another machine, where ended jobs are only read"
            )
        waits = {"wait": wait} if verb in WAITING else {}
        function = getattr(Verbs, verb)
        return function(self, **_known(function, words), **waits)

    def connected(self, job_id: str) -> socket.socket:
        """To the job's shim. NoShim: there is none."""
        if self._context.store.is_elsewhere:
            raise NoShim("it is on another machine")
        self._context.store.load(job_id)
        with connect_to_shim(self._context, job_id) as shim:
            return socket.socket(fileno=os.dup(shim.fileno()))

    # -- the verbs ----------------------------------------------------------------------------------

    def ping(self) -> None:
        pass

    def start(
        self, id: str, command: str, asked: Mapping[str, Any], hold: str | None = None
    ) -> dict[str, Any]:
        """Asked for twice, by the same id, it is one job. `hold`: in this allocation, which is held here."""
        self._news.expect(id)
        context = self._context if hold is None else self._in_hold(hold)
        job = start_once(context, command, **{**asked, "id": id})
        spec = {"cwd": job.spec.cwd, "shell": job.spec.shell}
        return {"spec": spec, "queued": isinstance(job.state, Queued)}

    def check(self, command: str, asked: Mapping[str, Any]) -> None:
        """Raise the error that this start would be refused with, as far as it can be known beforehand."""
        prepared(self._context, command, **asked)

    def _in_hold(self, allocation: str) -> Context:
        with self._holds_mutex:
            if allocation not in self._holds:
                self._holds[allocation] = in_hold(self._context, allocation)
            return self._holds[allocation]

    def kill(
        self, job: str, grace_s: float = 5.0, signal: str = "TERM", only_signal: bool = False
    ) -> dict[str, Any]:
        done = kill_job(self._context, job, grace_s=grace_s, signal=signal, only_signal=only_signal)
        return {"status": done.status, "processes": done.processes}

    def status(self, job: str, detail: bool = False) -> dict[str, Any]:
        """Return what only a look at its processes shows. For a running job without details that is all.

        `end`: how much it had printed by then, including its prompt.
        """
        known = self._context.store.load(job)
        if not detail and isinstance(known.state, Running) and not isinstance(known.state, Queued):
            pids = processes_of(self._context, known)
            waits = sits_at_prompt(self._context, known, pids)
            end = Snapshot(self._context, job).read(lambda log: log.end)
            return {"descendants": len(pids), "left_running": 0, "waits_for_input": waits, "end": end}
        found = job_status(self._context, job, detail=detail)
        activity = activity_as_json(found)
        ports = {each["port"] for each in (activity or {}).get("listening") or ()}
        return {
            "end": found.output_bytes,
            "descendants": found.descendants,
            "left_running": found.left_running,
            "waits_for_input": found.waits_for_input,
            "prompt": found.prompt,
            "activity": activity,
            "ports": sorted(ports),
            "place": vars(found.place) if found.place else None,
        }

    def info(self) -> dict[str, Any]:
        states = [job.state for _, job in self._context.store.jobs()]
        running = [state for state in states if isinstance(state, Running) and not isinstance(state, Queued)]
        queued = sum(isinstance(state, Queued) for state in states)
        slots = self._context.settings.max_jobs
        return {**facts(), "jobs_running": len(running), "jobs_queued": queued, "slots": slots}

    def follow(self, job: str, have: Mapping[str, int] | None = None) -> None:
        self._news.follow(job, have or {})

    def unfollow(self, job: str) -> None:
        self._news.unfollow(job)

    def look(self, job: str, number: int) -> None:
        self._news.look(job, number)

    def news(
        self, since: str | None, timeout_s: float, most_bytes: int, wait: Cancellation | None = None
    ) -> dict[str, Any]:
        return self._news.take(since, timeout_s, most_bytes, wait)


def _known(function: FunctionType, words: Mapping[str, Any]) -> dict[str, Any]:
    """A near end of another version may say more than we understand."""
    names = function.__code__.co_varnames[1 : function.__code__.co_argcount]
    return {name: value for name, value in words.items() if name in names}
