"""Everything that is known of a job, in lines for a person: a word, and what it is."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from bgjob.api.activity import Activity, Process
from bgjob.api.filter import started_by
from bgjob.api.hints import with_commands
from bgjob.api.results import JobStatus
from bgjob.api.survey import cpu_share, phase_word
from bgjob.cli.amounts import age, duration, size
from bgjob.cli.colours import Paint, plain
from bgjob.cli.columns import asks, standing, standing_style, time_s, unreachable
from bgjob.cli.outcome import last_words
from bgjob.core.job import SHORT_ID_CHARACTERS, Ended, Job, OverLimit, PastRun, Running, called
from bgjob.output.tty_text import one_line
from bgjob.system.processes import signal_name

RUNS_SHOWN = 5
WORD_COLUMNS = 10

Facts = Iterator[tuple[str, str]]
"""A word, and what it is; a fact in several lines has the word once, and then none."""


def status_lines(status: JobStatus, now: float, paint: Paint = plain) -> Iterator[str]:
    """The first line says which job it is."""
    yield paint(f"{one_line(called(status.job.spec))}  {status.job.id}", "bold")
    yield f"  {paint('status'.ljust(WORD_COLUMNS), 'dim')}{paint(standing(status), standing_style(status))}"
    for facts in (
        _standing(status),
        _start(status, now),
        _usage(status),
        _output(status, now),
        _rules(status),
    ):
        for word, text in facts:
            yield f"  {paint(word.ljust(WORD_COLUMNS), 'dim')}{one_line(text)}"


def _standing(status: JobStatus) -> Facts:
    state, place = status.job.state, status.place
    if phase_word(status) == "waiting":
        short = status.job.id[:SHORT_ID_CHARACTERS]
        yield "", asks(status)
        yield "", f"bgjob attach {short} enters it, bgjob send {short} TEXT answers"
    if held := status.held:
        typed = time.strftime("%T", time.localtime(held.typed_at))
        yield "held by", f"{held.by}, who is attached and typed last at {typed}"
    if not isinstance(state, Running):
        yield "", f"it {last_words(status.job)}"
    if isinstance(state, OverLimit) and state.peak_memory_bytes is not None:
        yield "", f"its processes together took {size(state.peak_memory_bytes)} at most"
    if gone := unreachable(status.job):
        yield "", f"{gone}. What is told here was so by then: the job may have gone on."
    if place and place.position:
        yield "queue", f"place {place.position}, priority {place.priority}: {place.reason}"
    elif place:
        yield "queue", place.reason
    if status.hint:
        yield "hint", with_commands(status.hint)


def _start(status: JobStatus, now: float) -> Facts:
    job, seconds = status.job, time_s(status, now)
    yield from _worded("command", job.spec.command.split("\n"))
    yield from _target(job)
    yield "cwd", job.spec.cwd
    if by := started_by(job):
        version = job.spec.by.get("version")
        yield "by", f"{by} ({version})" if version else by
    yield "created", _moment(job.spec.created_at, now)
    if job.run:
        yield "started", _moment(job.run.started_at, now)
    if isinstance(job.state, Ended):
        yield "ended", _moment(job.state.ended_at, now)
    if seconds is not None:
        yield "time", duration(seconds)


def _target(job: Job) -> Facts:
    """Where it is, and what was asked for there."""
    remote = job.remote
    if remote is None:
        return
    node = f", on {remote.node}" if remote.node else ""
    number = f", as job {remote.engine_id} of its engine" if remote.engine_id else ""
    yield "target", f"{remote.target}{node}{number}"
    if asked := job.spec.resources:
        yield (
            "asked for",
            ", ".join(f"{_asked_word(word)}={_asked(word, each)}" for word, each in asked.items()),
        )


def _asked_word(word: str) -> str:
    return word.removesuffix("_bytes").removesuffix("_s")


def _asked(word: str, value: Any) -> str:
    match value:
        case float() | int() if word.endswith("_bytes"):
            return size(value)
        case float() | int() if word.endswith("_s"):
            return duration(value)
        case float() | int():
            return f"{value:g}"
        case dict():
            return ",".join(f"{name}={each}" for name, each in value.items())
        case _:
            return str(value)


def _moment(at: float, now: float) -> str:
    return f"{time.strftime('%F %T', time.localtime(at))}, {age(now - at)} ago"


def _usage(status: JobStatus) -> Facts:
    run, activity = status.job.run, status.activity
    if run and isinstance(status.job.state, Running) and phase_word(status) != "restarting":
        yield "pid", str(run.pid)
    if activity is None:
        return
    if activity.cpu_s is not None:
        share = cpu_share(status)
        yield (
            "cpu",
            f"{activity.cpu_s:.1f} s" + ("" if share is None else f", {share:.0%} of a processor on average"),
        )
    if activity.memory_bytes is not None:
        counted = "" if activity.memory_kind == "pss" else ", what processes share counted more than once"
        yield "memory", f"{size(activity.memory_bytes)}{counted}"
    if activity.listening:
        yield "ports", ", ".join(f"{each.address}:{each.port}" for each in activity.listening)
    yield from _worded("processes", _tree(activity))


def _worded(word: str, texts: Sequence[str]) -> Facts:
    for count, text in enumerate(texts):
        yield "" if count else word, text


def _tree(activity: Activity) -> list[str]:
    """Each process below its parent."""
    known = activity.tree or []
    pids = {process.pid for process in known}
    return [
        line
        for process in known
        if process.parent_pid not in pids
        for line in _branch(process, known, "", set())
    ]


def _branch(process: Process, known: Sequence[Process], indent: str, seen: set[int]) -> Iterator[str]:
    if process.pid in seen:  # a pid was given away while we looked
        return
    seen.add(process.pid)
    yield f"{indent}{process.pid} {process.command} ({process.state})"
    for child in known:
        if child.parent_pid == process.pid:
            yield from _branch(child, known, f"{indent}  ", seen)


def _output(status: JobStatus, now: float) -> Facts:
    silent = "" if status.idle_s is None else f", silent for {duration(status.idle_s)}"
    yield "output", f"{size(status.output_bytes)} bytes{silent}"
    if status.log:
        yield "log", status.log
    if status.log_note:
        yield "", with_commands(status.log_note)
    if status.history:
        yield from _worded("restarts", [str(status.history.restarts), *_runs(status.history.runs, now)])


def _runs(runs: Sequence[PastRun], now: float) -> list[str]:
    return [
        f"{_run_end(run)} after {duration(run.duration_s)}, {age(now - run.ended_at)} ago"
        for run in runs[-RUNS_SHOWN:]
    ]


def _run_end(run: PastRun) -> str:
    if run.limit:
        return f"went over its {run.limit} limit"
    return f"exit {run.code}" if run.signal is None else signal_name(run.signal)


def _rules(status: JobStatus) -> Facts:
    spec, limited_by = status.job.spec, status.limited_by or {}
    if spec.pty:
        yield "terminal", f"{spec.cols}x{spec.rows}"
    if spec.stdin == "null":
        yield "stdin", "/dev/null: it cannot be typed into"
    if spec.timeout_s:
        yield "timeout", duration(spec.timeout_s)
    for word, value in (status.limits or {}).items():
        yield "limit", f"{word}={value}" + (f", by {limited_by[word]}" if word in limited_by else "")
    if spec.restart:
        yield "restart", " ".join(f"{word}={value}" for word, value in spec.restart.items())
    if spec.group:
        yield "group", spec.group
    yield from _worded("watch", spec.watch)
