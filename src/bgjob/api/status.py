"""How jobs stand: one, or a page of them."""

import contextlib
import math
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from bgjob.api import activity
from bgjob.api.context import Context, ensure_watcher
from bgjob.api.hints import out_of_reach, ports_in_question, still_running
from bgjob.api.hold import hold_on
from bgjob.api.idle import idle_s, ran_s
from bgjob.api.processes import left_running, processes_of
from bgjob.api.prompt import SHIM_PATIENCE_S, prompt_told, sits_at_prompt
from bgjob.api.queue import place_of, places_of
from bgjob.api.results import JobStatus, Page, Totals
from bgjob.api.snapshot import Snapshot
from bgjob.core import options
from bgjob.core.errors import InvalidArgument, JobNotFound, StoreUnusable
from bgjob.core.frozen import replace
from bgjob.core.job import Ended, Exited, Job, Queued, Running, StatusWord, status_word
from bgjob.home.log_format import PROMPT_BYTES, STDERR, STDOUT
from bgjob.link.control import Patience
from bgjob.output.cleaner import clean
from bgjob.output.log_end import last_bytes
from bgjob.output.log_reader import LogReader
from bgjob.output.merged import log_file, log_note
from bgjob.store.index import is_place
from bgjob.system import processes

PAGE = 20
LISTED_BYTES = 150  # of a job in a list, beside its name and command
LISTED_COMMAND_CHARACTERS = 200
LAST_WORDS_BYTES = 4000


class Limited(TypedDict, total=False):
    limits: Mapping[str, float | str]
    limited_by: Mapping[str, str]


# -- one job ----------------------------------------------------------------------------------------


def job_status(
    context: Context,
    job_id: str,
    *,
    detail: bool = False,
    with_log: bool = False,
    deadline: float | None = None,
) -> JobStatus:
    """with_log: also the path of a file with its output, which may have to be written."""
    snapshot = Snapshot(context, job_id)
    status = status_of(context, snapshot, detail=detail, deadline=deadline)
    return _with_log(context, snapshot, status) if with_log else status


def _with_log(context: Context, snapshot: Snapshot, status: JobStatus) -> JobStatus:
    directory = os.path.abspath(context.store.directory(snapshot.job.id))
    is_growing = isinstance(snapshot.job.state, Running) or status.left_running > 0

    def told(log: LogReader) -> JobStatus:
        path = log_file(directory, log)
        return replace(status, log=path, log_note=log_note(directory, log, path, is_growing=is_growing))

    with contextlib.suppress(StoreUnusable):
        return snapshot.read(told)
    return status


def status_of(
    context: Context, snapshot: Snapshot, *, detail: bool = False, deadline: float | None = None
) -> JobStatus:
    """deadline: until when its shim is waited for, which may be silent."""
    deadline = time.monotonic() + SHIM_PATIENCE_S if deadline is None else deadline
    snapshot.find_unrecorded_end(deadline)
    match snapshot.job.state:
        case Queued():
            return _of_queued(context, snapshot.job)
        case Running():
            return _of_running(context, snapshot, detail, deadline)
        case _:
            return _of_ended(context, snapshot, detail)


def _of_queued(context: Context, job: Job) -> JobStatus:
    return JobStatus(job, 0, 0, place=place_of(context, job), hint=_reach_hint(job), **_limits(context, job))


def _reach_hint(job: Job) -> str | None:
    return out_of_reach(job.id) if job.remote and job.remote.unreachable else None


def _of_running(context: Context, snapshot: Snapshot, detail: bool, deadline: float) -> JobStatus:
    job = snapshot.job
    if job.remote:
        return _of_running_at_target(context, snapshot, detail, deadline)
    pids = processes_of(context, job)
    waits = sits_at_prompt(context, job, pids, deadline=deadline)
    if waits:  # its question may have come into the log just now
        snapshot.reopen_log()
    output_bytes, written_at, prompt = _facts(context, snapshot, waits)
    return JobStatus(
        job,
        output_bytes,
        len(pids),
        waits_for_input=waits,
        prompt=prompt,
        activity=activity.activity(pids) if detail else None,
        held=hold_on(context, job.id, deadline) if detail else None,
        ran_s=ran_s(job),
        idle_s=idle_s(job, written_at),
        history=context.store.history(job),
        **_limits(context, job),
    )


def _of_running_at_target(context: Context, snapshot: Snapshot, detail: bool, deadline: float) -> JobStatus:
    from bgjob.api.remote import activity_from, status_at_target

    job = snapshot.job
    told = status_at_target(context, job, detail=detail, deadline=deadline)
    waits = told.get("waits_for_input")
    if waits:  # its prompt is in the log by now, but may have come after the snapshot
        snapshot.reopen_log()
    output_bytes, written_at, prompt = _facts(context, snapshot, waits)
    return JobStatus(
        job,
        output_bytes,
        told.get("descendants", 0),
        waits_for_input=waits,
        prompt=prompt or (_prompt_of_host(told) if waits else None),
        activity=activity_from(told.get("activity")) if detail else None,
        held=hold_on(context, job.id, deadline) if detail and told else None,
        hint=_reach_hint(job),
        ran_s=ran_s(job),
        idle_s=idle_s(job, written_at),
        history=context.store.history(job),
        **_limits(context, job),
    )


def _prompt_of_host(told: Mapping[str, Any]) -> str | None:
    """Return what the job asks, by its host, as it would be read from a log here."""
    return clean(told.get("prompt") or "")[-PROMPT_BYTES:] or None


def _of_ended(context: Context, snapshot: Snapshot, detail: bool) -> JobStatus:
    job = snapshot.job
    left = left_running(context, job)
    return JobStatus(
        job,
        _output_bytes(snapshot),
        left or len(processes_of(context, job)),
        left_running=left,
        activity=activity.activity(processes_of(context, job)) if detail and left else None,
        hint=" ".join(filter(None, (_port_hint(snapshot), still_running(job.state, left)))) or None,
        history=context.store.history(job),
        **_limits(context, job),
    )


def _output_bytes(snapshot: Snapshot) -> int:
    """By the log, or else by the outcome: how a job ended is told also where its log cannot be read."""
    try:
        return snapshot.read(lambda log: log.end)
    except StoreUnusable:
        state = snapshot.job.state
        return state.output_bytes if isinstance(state, Ended) else 0


def _facts(context: Context, snapshot: Snapshot, waits: bool | None) -> tuple[int, float, str | None]:
    """How much the job has printed, when it printed last, and what it asks."""
    try:
        prompt = prompt_told(context, snapshot, waits)
        return *snapshot.read(lambda log: (log.end, log.written_at)), prompt
    except StoreUnusable:
        return 0, 0.0, None


def _limits(context: Context, job: Job) -> Limited:
    stops_at = job.spec.max_output_bytes if job.spec.on_output_limit == "stop" else None
    limits = options.limits_shown(job.spec.limits, stops_at)
    return Limited(limits=limits, limited_by=context.store.limited_by(job.id)) if limits else Limited()


def _port_hint(snapshot: Snapshot) -> str | None:
    """Which process holds the port, where a server died because its port is taken."""
    state = snapshot.job.state
    if not isinstance(state, Exited) or state.code == 0:
        return None
    try:
        words = snapshot.read(
            lambda log: b"".join(last_bytes(log, stream, LAST_WORDS_BYTES) for stream in (STDERR, STDOUT))
        )
    except StoreUnusable:
        return None
    ports = ports_in_question(words.decode("utf-8", "replace"), snapshot.job.spec.command)
    held = [(port, holder) for port in ports if (holder := activity.port_holder(port))]
    if len(held) != 1:
        return None
    ((port, holder),) = held
    holding = processes.job_of(holder)
    return f"Port {port} is held by " + (
        f"job {holding}." if holding else f"process {holder}, which is no job."
    )


# -- a page of jobs ---------------------------------------------------------------------------------


def list_jobs(
    context: Context, status: StatusWord | None = None, limit: int = PAGE, cursor: str | None = None
) -> Page:
    context.starts.finish_all()
    jobs, next_cursor = _found(context, status, limit, cursor, context.settings.max_response_bytes)
    ensure_watcher(context)
    left = {job.id: count for job in jobs if (count := left_running(context, job))}
    return Page(jobs, next_cursor, _asking(context, jobs), places_of(context, jobs), left)


def newest_jobs(context: Context, limit: int, cursor: str | None = None) -> tuple[list[Job], str | None]:
    """The jobs, and the cursor of the next page. Without what takes a look at processes, logs or shims."""
    return _found(context, None, limit, cursor, math.inf)


def _found(
    context: Context, status: StatusWord | None, limit: int, cursor: str | None, most_bytes: float
) -> tuple[list[Job], str | None]:
    """Return as many jobs as one answer can hold, at least one, and the cursor of the next page if there is one."""
    if cursor is not None and not is_place(cursor):
        raise InvalidArgument(
            f"={cursor[:60]!r} is not a cursor of a list.",
            "Pass next_cursor exactly as list_jobs gave it, or none for the newest jobs.",
            argument="cursor",
        )
    found, last, size_bytes = list[Job](), None, 0
    for place, job in context.store.jobs(before=cursor):
        if status is None or _counts_as(context, job, status):
            size_bytes += _listed_bytes(job)
            if found and (len(found) == limit or size_bytes > most_bytes):
                return found, last
            found.append(job)
            last = place
    return found, None


def _counts_as(context: Context, job: Job, status: StatusWord) -> bool:
    """A job that has left processes running is found among the running ones too."""
    return status_word(job.state) == status or (status == "running" and left_running(context, job) > 0)


def _asking(context: Context, jobs: Sequence[Job]) -> frozenset[str]:
    """Ids of those that sit at a prompt. A list waits for many silent shims as long as for one."""
    patience = Patience(SHIM_PATIENCE_S, len(jobs))
    return frozenset(job.id for job in jobs if _is_asking(context, job, patience.until()))


def _is_asking(context: Context, job: Job, deadline: float) -> bool:
    """Of a job of a target by what is known here: a list asks no other machine."""
    if job.remote is None:
        return bool(sits_at_prompt(context, job, deadline=deadline))
    if job.remote.asks_at is None or not isinstance(job.state, Running):
        return False
    return job.remote.asks_at == _output_bytes(Snapshot(context, job.id))


def _listed_bytes(job: Job) -> int:
    """Estimate the size of its row in an answer, with its command shortened."""
    shown = min(len(job.spec.command), LISTED_COMMAND_CHARACTERS)
    return LISTED_BYTES + len(job.spec.name or "") + shown


# -- all jobs ---------------------------------------------------------------------------------------


def totals(context: Context) -> Totals:
    """Reads every job on disk, and the log of each that runs: it may take long."""
    by_status: Counter[StatusWord] = Counter()
    output_bytes = 0
    for _, job in context.store.jobs():
        by_status[status_word(job.state)] += 1
        with contextlib.suppress(JobNotFound):  # it was removed meanwhile
            ended = job.state if isinstance(job.state, Ended) else None
            output_bytes += ended.output_bytes if ended else _output_bytes(Snapshot(context, job.id))
    return Totals(by_status, output_bytes)
