"""Slurm decides where and when; what it starts is our batch script, which makes the job on the node (agent.batch).

A job is known to Slurm by its comment, `bgjob:<id>`, and a held allocation by `bgjob-session:<name>`. Numbers are
only told to people and to srun: a controller that was killed gives one out twice.
"""

import contextlib
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from bgjob.core.engine import ClusterInfo, EngineState, Resources
from bgjob.core.errors import ImpossibleRequest, TargetUnreachable
from bgjob.core.frozen import Frozen
from bgjob.core.late_pattern import late_pattern
from bgjob.core.slurm import (
    JOB_COMMENT,
    SESSION_COMMENT,
    SINFO_COLUMNS,
    SQUEUE_COLUMNS,
    cancelled_by,
    checked_session,
    cluster_of,
    columns,
    sbatch_flags,
    states_of,
    why_never,
)
from bgjob.remote import slurm_scripts
from bgjob.remote.command import Commands, Done
from bgjob.remote.messages import NONSENSE, TAKEN, checked, said
from bgjob.remote.pace import Pace
from bgjob.remote.shared_root import LOG, REQUESTS, request_of
from bgjob.remote.slurm_scripts import IMPOSSIBLE, NO_DIRECTORY, shell
from bgjob.store.record_schema import Malformed

LOOK_S, CHANGE_S = 3.0, 30.0
IDLE_RELEASE_S = 900.0
UNREACHABLE = late_pattern(
    r"contact slurm controller|timed out|[Zz]ero [Bb]ytes|[Cc]onnection refused|standby mode|not responding"
    r"|authentication|[Mm]unge|[Cc]ommunication|temporarily"
)
# What Slurm's commands say before the reason.
PREAMBLE = late_pattern(
    r"(?:(?:sbatch|squeue|scancel|sinfo|srun): |(?:slurm_\w+ )?error: |"
    r"allocation failure: |Batch job submission failed: )+"
)


class Taken(Frozen):
    """What has become of a request: which job of the cluster made the job, and where; or why it could not."""

    engine_id: str | None = None
    node: str | None = None
    error: Mapping[str, Any] | None = None
    """As remote.codec packs it."""
    log: str = ""
    """The end of what was printed before, instead of and after the job."""


class Slurm:
    """`root`: the directory that all nodes see, with our code in it; `python`: used instead of one that is found."""

    def __init__(self, target: str, root: str, commands: Commands, python: str | None = None) -> None:
        self.target, self.root = target, root
        self._commands, self._python = commands, python
        self._pace = Pace(time.monotonic)
        self._known: dict[str, EngineState] = {}
        self._trouble: TargetUnreachable | None = None

    # -- starting and ending -------------------------------------------------------------------------

    async def submit(self, job_id: str, request: Mapping[str, Any], resources: Resources) -> str:
        """Slurm's number of the job. Asked again with the same id, the job is the same.

        `request`: the words of the agent's verb `start`. ImpossibleRequest: in Slurm's words why. TargetUnreachable:
        it may have been submitted; ask again.
        """
        flags = [
            *sbatch_flags(resources),
            f"--comment={JOB_COMMENT}{job_id}",
            f"--job-name={_job_name(request)}",
            f"--output={_plain(request_of(self.root, job_id) + LOG)}",
            *self._batch("run-job", self.root, job_id),
        ]
        script = shell(slurm_scripts.SUBMIT, self.root, job_id, f"{JOB_COMMENT}{job_id}", *flags)
        try:
            return await self._submitted(script, json.dumps(request).encode())
        except ImpossibleRequest:
            await self.forget(job_id)
            raise

    async def hold(self, name: str, resources: Resources, idle_release_s: float = IDLE_RELEASE_S) -> str:
        """Slurm's number of the allocation that is held under this name: found, or submitted."""
        comment = f"{SESSION_COMMENT}{checked_session(name)}"
        flags = [
            *sbatch_flags(resources),
            f"--comment={comment}",
            f"--job-name={name}",
            f"--output={_plain(f'{self.root}/requests/{name}.session{LOG}')}",
            *self._batch("hold", self.root, str(idle_release_s)),
        ]
        return await self._submitted(shell(slurm_scripts.HOLD, self.root, comment, *flags))

    async def cancel(self, job_id: str) -> None:
        """Queued or running. Slurm ends a running one by SIGTERM, and a while later by SIGKILL."""
        await self._cancel(f"{JOB_COMMENT}{job_id}")

    async def release(self, name: str) -> None:
        """Give back a held allocation, with all that runs in it."""
        await self._cancel(f"{SESSION_COMMENT}{checked_session(name)}")

    async def forget(self, job_id: str) -> None:
        """Remove what the shared directory has of a job's request: the job is over."""
        await self._ask(shell(slurm_scripts.FORGET, request_of(self.root, job_id)))

    # -- how jobs stand ------------------------------------------------------------------------------

    async def states(self) -> dict[str, EngineState]:
        """Of all our jobs that Slurm knows, by id: asked anew if that is due, see Pace.

        TargetUnreachable: Slurm does not answer, which says nothing about the jobs.
        """
        return _named(await self._look(), JOB_COMMENT)

    async def sessions(self) -> dict[str, EngineState]:
        """Of the held allocations, by name: by the same look."""
        return _named(await self._look(), SESSION_COMMENT)

    def due_in_s(self) -> float:
        """After how long `states` asks Slurm again."""
        return self._pace.due_in_s()

    async def taken(self, job_id: str) -> Taken:
        """What has become of a request, by the files of the shared directory: without asking Slurm."""
        done = await self._ask(shell(slurm_scripts.TAKEN, request_of(self.root, job_id)))
        record, _, log = done.out.partition("\n")
        return _taken(record, log)

    async def why_cancelled(self, engine_id: str) -> str:
        """Return the reason of a cancelled job, with the uid that did it if the cluster keeps accounts."""
        with contextlib.suppress(TargetUnreachable):
            return cancelled_by((await self._ask(shell(slurm_scripts.ENDED, engine_id))).out)
        return cancelled_by("")

    async def all_taken(self, job_ids: Iterable[str]) -> dict[str, Taken]:
        """The same of several requests at once: of those that were taken, and without what was printed."""
        done = await self._ask(shell(slurm_scripts.ALL_TAKEN, f"{self.root}/{REQUESTS}", *job_ids))
        found = (line.partition(" ") for line in done.out.splitlines())
        taken = {job_id: _taken(record) for job_id, _, record in found}
        return {job_id: each for job_id, each in taken.items() if each.node or each.error}

    async def info(self) -> ClusterInfo:
        done = await self._ask(shell(slurm_scripts.INFO, columns(SINFO_COLUMNS)))
        try:
            *lines, queued = done.out.splitlines()
            return cluster_of(lines, int(queued))
        except ValueError as problem:
            raise TargetUnreachable(self.target, NONSENSE.format(why=problem)) from None

    async def check(self, resources: Resources) -> None:
        """ImpossibleRequest: no job with these resources could start. TargetUnreachable: its directory is unusable."""
        await self._change(shell(slurm_scripts.CHECK, self.root, *sbatch_flags(resources), "--wrap=true"))

    def channel_argv(self, engine_id: str, *command: str) -> list[str]:
        """Runs a command in a step of its own within this allocation, beside what runs there."""
        step = ("srun", "--overlap", "--quiet", "--ntasks=1", "--nodes=1", f"--jobid={engine_id}")
        return self._commands.argv(*step, *command)

    # -- asking Slurm --------------------------------------------------------------------------------

    def _batch(self, *words: str) -> list[str]:
        wrap = slurm_scripts.batch(self._python, self.root, *words)
        return [f"--chdir={self.root}", "--no-requeue", f"--wrap={wrap}"]

    async def _submitted(self, script: list[str], stdin: bytes = b"") -> str:
        done = await self._change(script, stdin)
        answer = done.out.strip()
        if answer.startswith("{"):
            return _taken(answer).engine_id or ""  # it was taken before
        return answer.partition(";")[0]

    async def _cancel(self, comment: str) -> None:
        await self._change(shell(slurm_scripts.CANCEL, comment))

    async def _change(self, script: list[str], stdin: bytes = b"") -> Done:
        done = await self._run(script, stdin, within_s=CHANGE_S)
        self._pace.note_change()
        if done.code == 0:
            return done
        printed = _last_line(done)
        why = said(self.target, printed)
        if done.code == NO_DIRECTORY:
            why = f"its directory {self.root} cannot be used: {why}"
            raise TargetUnreachable(self.target, why, trouble="home_not_writable")
        if done.code in (1, IMPOSSIBLE) and not UNREACHABLE.search(done.err):
            raise ImpossibleRequest(self.target, why_never(printed) or why)
        raise TargetUnreachable(self.target, why)

    async def _ask(self, command: list[str]) -> Done:
        done = await self._run(command, within_s=LOOK_S)
        if done.code:
            raise TargetUnreachable(self.target, said(self.target, _last_line(done)))
        return done

    async def _look(self) -> dict[str, EngineState]:
        if self._pace.due_in_s() == 0:
            await self._look_now()
        if self._trouble:
            raise self._trouble
        return self._known

    async def _look_now(self) -> None:
        """Whoever asks meanwhile is told what was known before."""
        self._pace.note_look(answered=True)
        try:
            done = await self._ask([*slurm_scripts.SQUEUE, "-O", columns(SQUEUE_COLUMNS)])
        except TargetUnreachable as trouble:
            self._trouble = trouble
            self._pace.note_look(answered=False)
        else:
            self._trouble, self._known = None, states_of(done.out.splitlines())

    async def _run(self, command: list[str], stdin: bytes = b"", *, within_s: float) -> Done:
        try:
            return await self._commands.run(*command, stdin=stdin, within_s=within_s)
        except TimeoutError:
            raise TargetUnreachable(self.target, f"Slurm has not answered within {within_s:g} s") from None
        except OSError as error:
            raise TargetUnreachable(self.target, str(error)) from None


def _taken(record: str, log: str = "") -> Taken:
    """While the job is being made, the file is still the request, or empty."""
    try:
        known = checked(TAKEN, json.loads(record))
    except (ValueError, RecursionError, Malformed):
        known = {}
    return Taken(**known, log=log)


def _named(states: Mapping[str, EngineState], prefix: str) -> dict[str, EngineState]:
    return {
        comment.removeprefix(prefix): state for comment, state in states.items() if comment.startswith(prefix)
    }


def _last_line(done: Done) -> str:
    """The last that it said."""
    lines = [line.strip() for line in (done.err or done.out).splitlines() if line.strip()]
    return PREAMBLE.sub("", lines[-1]).rstrip(".") if lines else f"the command ended with code {done.code}"


def _job_name(request: Mapping[str, Any]) -> str:
    """As other users of the cluster see it in the queue."""
    name = str((request.get("asked") or {}).get("name") or "")
    return "".join(letter for letter in name if letter.isprintable())[:60] or "bgjob"


def _plain(path: str) -> str:
    """Slurm puts something else in the place of %j and the like."""
    return path.replace("%", "%%")
