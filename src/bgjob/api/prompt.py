"""Whether a job waits for input, and whether that is a prompt to be answered."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bgjob.api.context import Context
from bgjob.api.idle import idle_s
from bgjob.api.processes import processes_of
from bgjob.api.results import InputWord
from bgjob.api.screen import has_full_screen
from bgjob.api.snapshot import Snapshot
from bgjob.core.errors import StoreUnusable
from bgjob.core.job import Job, Running
from bgjob.home.log_format import PROMPT_BYTES, STDERR, STDOUT
from bgjob.link.control import NoShim, ask_shim
from bgjob.output.log_end import last_bytes, prompt_in
from bgjob.output.log_reader import LogReader
from bgjob.system import prompt
from bgjob.system.nested_tty import innermost_wait
from bgjob.system.stdin_wait import Wait, input_of

SHIM_PATIENCE_S = 2.0


def waits_for_input(
    context: Context, job: Job, pids: Sequence[int] | None = None, deadline: float | None = None
) -> InputWord | None:
    """As far as the kernel lets us look; else the shim is asked, which is an ancestor of the job."""
    if job.remote and job.remote.unreachable:
        return "unknown"
    wait = _own_look(context, job, pids)
    if wait is None or wait.answer != "unknown":
        return wait.answer if wait else None
    word: InputWord = _ask_shim(context, job.id, deadline).get("waits", "unknown")
    return word


def sits_at_prompt(
    context: Context,
    job: Job,
    pids: Sequence[int] | None = None,
    *,
    is_quiet: bool = False,
    deadline: float | None = None,
    by_log: bool = True,
) -> bool | None:
    """Whether its next step is the user's, by the rule of system/prompt.py; None: the kernel does not tell.

    True: what it asked is in its log by now. With `is_quiet`, only if it has asked for so long that it is not
    on its way to the end of a line. Without `by_log`, also None if the shim does not answer in time.
    """
    if not isinstance(job.state, Running) or (job.remote and job.remote.unreachable):
        return None
    pids = processes_of(context, job) if pids is None else pids
    wait = _own_look(context, job, pids)
    if wait is None or wait.answer == "no":
        return None if wait is None else False
    told = _ask_shim(context, job.id, deadline)
    if not told and not by_log:
        return None
    word = told.get("waits", wait.answer)
    if word != "yes":
        return None if word == "unknown" else False
    if "prompt" not in told and not job.remote:
        return _sits_by_log(context, job, pids, wait if wait.pid else Wait(word), is_quiet)
    return bool(told.get("prompt") and (told.get("quiet") or not is_quiet))


def hides_input(context: Context, job: Job) -> bool:
    """Whether what is typed next is not shown: the job asks for a password."""
    wait = _own_look(context, job, None)
    if wait is None or job.remote or job.run is None or not (job.spec.pty or wait.is_nested):
        return False
    # A process of another user, e.g. sudo, cannot be looked at, but the shell above it.
    return any(map(prompt.hides_input, {wait.pid or job.run.pid, job.run.pid}))


def _own_look(context: Context, job: Job, pids: Sequence[int] | None) -> Wait | None:
    """None: the job does not run."""
    if not isinstance(job.state, Running) or job.run is None:
        return None
    if job.spec.stdin == "null":
        return Wait("no")
    if job.remote:
        return Wait("unknown")  # its shim can look
    pids = processes_of(context, job) if pids is None else pids
    return innermost_wait(pids, input_of(job.run.pid))


def _ask_shim(context: Context, job_id: str, deadline: float | None) -> Mapping[str, Any]:
    """How the job waits; when the shim answers, what it has printed until then is in its log."""
    deadline = time.monotonic() + SHIM_PATIENCE_S if deadline is None else deadline
    with contextlib.suppress(NoShim, TimeoutError):
        return ask_shim(context.store.control_path(job_id), deadline, op="waits")
    return {}


def _sits_by_log(context: Context, job: Job, pids: Sequence[int], wait: Wait, is_quiet: bool) -> bool:
    """The same rule without the shim, which does not answer or is of an older version."""

    def sits(log: LogReader) -> bool:
        ends = [last_bytes(log, stream, PROMPT_BYTES) for stream in (STDOUT, STDERR)]
        is_settled = not is_quiet or idle_s(job, log.written_at) >= prompt.quiet_s(wait)
        return is_settled and prompt.sits_at_prompt(wait, pids, ends, None)

    try:
        return Snapshot(context, job.id).read(sits)
    except StoreUnusable:
        return False


def prompt_told(context: Context, snapshot: Snapshot, waits: bool | None) -> str | None:
    """For an answer that says whether the job `waits`: what it asks, unless that is a row of its screen."""
    context.prompts_told.note(snapshot.job.id, snapshot.read(lambda log: log.end), waits=waits)
    return snapshot.read(prompt_in) if waits and not has_full_screen(context, snapshot) else None
