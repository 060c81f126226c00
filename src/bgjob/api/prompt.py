"""Whether a job waits for input, and whether that is a prompt to be answered."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bgjob.api.context import Context
from bgjob.api.idle import idle_s
from bgjob.api.processes import processes_of
from bgjob.api.results import InputWord
from bgjob.api.snapshot import Snapshot
from bgjob.core.errors import StoreUnusable
from bgjob.core.job import Job, Running
from bgjob.home.log_format import PROMPT_BYTES, STDERR, STDOUT
from bgjob.link.control import NoShim, ShimConnection
from bgjob.output.log_reader import LogReader
from bgjob.output.text import unfinished_line
from bgjob.system import stdin_wait
from bgjob.system.prompt import QUIET_S

SHIM_PATIENCE_S = 2.0


def waits_for_input(
    context: Context, job: Job, pids: Sequence[int] | None = None, deadline: float | None = None
) -> InputWord | None:
    """As far as the kernel lets us look; else the shim is asked, which is an ancestor of the job."""
    word = _own_look(context, job, pids)
    return _ask_shim(context, job.id, deadline).get("waits", word) if word == "unknown" else word


def sits_at_prompt(
    context: Context,
    job: Job,
    pids: Sequence[int] | None = None,
    *,
    is_quiet: bool = False,
    deadline: float | None = None,
) -> bool | None:
    """Whether its next step is the user's, by the rule of system/prompt.py; None: the kernel does not tell.

    True: what it asked is in its log by now. With `is_quiet`, only if it has asked for so long that it is not
    on its way to the end of a line. The shim of an older version knows no rule: then a prompt is a last line
    that is unfinished.
    """
    word = _own_look(context, job, pids)
    if word is None or word == "no":
        return None if word is None else False
    told = _ask_shim(context, job.id, deadline)
    word = told.get("waits", word)
    if word != "yes":
        return None if word == "unknown" else False
    if "prompt" not in told:
        return _asks_in_log(context, job, is_quiet)
    return bool(told["prompt"] and (told["quiet"] or not is_quiet))


def _own_look(context: Context, job: Job, pids: Sequence[int] | None) -> InputWord | None:
    """None: the job does not run."""
    if not isinstance(job.state, Running) or job.run is None:
        return None
    if job.spec.stdin == "null":
        return "no"
    pids = processes_of(context, job) if pids is None else pids
    return stdin_wait.waits_for_input(pids, stdin_wait.input_of(job.run.pid)).answer


def _ask_shim(context: Context, job_id: str, deadline: float | None) -> Mapping[str, Any]:
    """How the job waits; when the shim answers, what it has printed until then is in its log."""
    patience_s = SHIM_PATIENCE_S if deadline is None else deadline - time.monotonic()
    if patience_s > 0:
        with (
            contextlib.suppress(NoShim, TimeoutError),
            ShimConnection(context.store.control_path(job_id)) as shim,
        ):
            return shim.ask(patience_s, op="waits")
    return {}


def _asks_in_log(context: Context, job: Job, is_quiet: bool) -> bool:
    snapshot = Snapshot(context, job.id)
    try:
        prompt, written_at = snapshot.read(lambda log: (prompt_in(log), log.written_at))
    except StoreUnusable:
        return False
    return prompt is not None and (not is_quiet or idle_s(job, written_at) >= QUIET_S)


def prompt_in(log: LogReader) -> str | None:
    """The unfinished last line, of either stream."""
    lines = (unfinished_line(last_words(log, stream, PROMPT_BYTES)) for stream in (STDOUT, STDERR))
    return next(filter(None, lines), None)


def last_words(log: LogReader, stream: int, most: int) -> bytes:
    for piece in log.backward(stream, 0, log.end):
        return piece.data[-most:]
    return b""
