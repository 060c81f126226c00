"""Looking at jobs: one, or a page of them."""

import contextlib
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import TypedDict

from bgjob.api import activity
from bgjob.api.find import Finding
from bgjob.api.hints import port_in_use
from bgjob.api.idle import idle_s, ran_s
from bgjob.api.results import InputWord, Look, Page, Place
from bgjob.core import options
from bgjob.core.errors import StoreUnusable
from bgjob.core.job import Ended, Exited, Job, Queued, Running, StatusWord, status_word
from bgjob.home import queue_dir, watch_registry
from bgjob.home.log_format import PROMPT_BYTES, STDERR, STDOUT
from bgjob.link.control import Line, NoShim
from bgjob.output.log_reader import LogReader
from bgjob.output.text import unfinished_line
from bgjob.system import processes, stdin_wait

SHIM_PATIENCE_S = 2.0
SHORT_COMMAND_CHARACTERS = 500
LISTED_BYTES = 150  # of a job in a list, beside its name and command
LAST_WORDS_BYTES = 4000


class Limited(TypedDict, total=False):
    limits: Mapping[str, float | str]
    limited_by: Mapping[str, str]


class Looking(Finding):
    def look(self, job_id: str, *, detail: bool = False) -> Look:
        job = self._store.load(job_id)
        if isinstance(job.state, Queued):
            return Look(job, 0, 0, place=self._place(job), **self._limits(job))
        return self._at_running(job, detail) if isinstance(job.state, Running) else self._at_ended(job)

    def _at_ended(self, job: Job) -> Look:
        return Look(
            job,
            self._log_end(job),
            len(self._processes(job)),
            hint=self._hint(job),
            history=self._store.history(job),
            **self._limits(job),
        )

    def _at_running(self, job: Job, detail: bool) -> Look:
        tree = self._processes(job)
        waits = self._waits_for_input(job, tree)
        if waits == "yes":
            self._settle(job)  # what it asks may still be in its pipe
        output_bytes, written_at, prompt = self._facts(job, waits)
        return Look(
            job,
            output_bytes,
            len(tree),
            waits_for_input=waits,
            prompt=prompt,
            activity=activity.activity(tree) if detail else None,
            ran_s=ran_s(job),
            idle_s=idle_s(job, written_at),
            history=self._store.history(job),
            **self._limits(job),
        )

    def _log_end(self, job: Job) -> int:
        """As the log has it, or else its outcome: how a job ended is told also where its log cannot be read."""
        try:
            return self._reading(job, lambda log: log.end)
        except StoreUnusable:
            return job.state.output_bytes if isinstance(job.state, Ended) else 0

    def _facts(self, job: Job, waits: InputWord | None) -> tuple[int, float, str | None]:
        try:
            return self._reading(job, lambda log: _facts(log, waits))
        except StoreUnusable:
            return 0, 0.0, None

    def _limits(self, job: Job) -> Limited:
        stops_at = job.spec.max_output_bytes if job.spec.on_output_limit == "stop" else None
        limits = options.limits_shown(job.spec.limits, stops_at)
        return Limited(limits=limits, limited_by=self._store.limited_by(job.id)) if limits else Limited()

    def list(self, status: StatusWord | None = None, limit: int = 100, cursor: str | None = None) -> Page:
        found: list[tuple[str, Job]] = []
        next_cursor = None
        for place, job in self._store.jobs(before=cursor):
            if status is None or status_word(job.state) == status:
                if len(found) == limit:
                    next_cursor = found[-1][0]
                    break
                found.append((place, job))
        watch_registry.ensure_watcher(self._store.home, self._environment)
        fitting = self._fitting(found)
        if fitting < len(found):
            next_cursor, found = found[fitting - 1][0], found[:fitting]
        jobs = [job for _, job in found]
        asking = self._asking(jobs)
        fits = sum(len(job.spec.command) for job in jobs) <= self._settings.max_response_bytes
        shown = None if fits else SHORT_COMMAND_CHARACTERS
        return Page(jobs, next_cursor, asking, self._places(jobs), shown)

    def _asking(self, jobs: Sequence[Job]) -> frozenset[str]:
        """Those that wait for input. Of many shims that do not answer a list waits as long as for one."""
        deadline = time.monotonic() + SHIM_PATIENCE_S
        words = {job.id: self._waits_for_input(job, deadline=deadline) for job in jobs}
        return frozenset(job_id for job_id, word in words.items() if word == "yes")

    def _fitting(self, found: Sequence[tuple[str, Job]]) -> int:
        """How many of them one answer can hold, with their commands shortened if need be; at least one."""
        sizes = itertools.accumulate(
            LISTED_BYTES + len(job.spec.name or "") + min(len(job.spec.command), SHORT_COMMAND_CHARACTERS)
            for _, job in found
        )
        return max(1, sum(size <= self._settings.max_response_bytes for size in sizes))

    def _place(self, job: Job) -> Place:
        """For one that is queued."""
        return self._places([job])[job.id]

    def _places(self, jobs: Sequence[Job]) -> Mapping[str, Place]:
        """Of those that are queued. One that has just started may count for a moment: to ask after each of thousands
        would take longer."""
        queued = [job for job in jobs if isinstance(job.state, Queued)]
        if not queued:
            return {}
        self._see_to_the_queue()
        waiting = self._store.waiting()
        numbers = {queue_dir.job_of(entry): number for number, entry in enumerate(waiting)}
        return {job.id: self._place_of(job, waiting, numbers.get(job.id)) for job in queued}

    def _place_of(self, job: Job, waiting: Sequence[str], number: int | None) -> Place:
        stands, why = queue_dir.readiness(self._store.home, vars(job.spec))
        return Place(
            position=1 if number is None else number + 1,
            reason=f"it waits: {why}" if stands == "pending" else f"it waits for a free slot{_of_group(job)}",
            priority=0 if number is None else queue_dir.priority_of(waiting[number]),
        )

    def _waits_for_input(
        self, job: Job, tree: Sequence[int] | None = None, deadline: float | None = None
    ) -> InputWord | None:
        """By our own look where the kernel lets us, else by that of the job's shim, its ancestor."""
        if not isinstance(job.state, Running) or job.run is None:
            return None
        pids = self._processes(job) if tree is None else tree
        own = stdin_wait.waits_for_input(pids, stdin_wait.input_of(job.run.pid))
        if own.answer != "unknown":
            return own.answer
        patience_s = SHIM_PATIENCE_S if deadline is None else deadline - time.monotonic()
        if patience_s <= 0:
            return "unknown"
        try:
            with Line(self._store.control_path(job.id)) as shim:
                word: InputWord = shim.ask(patience_s, op="waits")["waits"]
        except (NoShim, TimeoutError, KeyError):
            return "unknown"
        return word

    def _settle(self, job: Job) -> None:
        """All that it has printed until now is in its log."""
        with contextlib.suppress(NoShim, TimeoutError), Line(self._store.control_path(job.id)) as shim:
            shim.ask(SHIM_PATIENCE_S, op="waits")

    def _hint(self, job: Job) -> str | None:
        """A server that died because its port is taken is told by whom."""
        if not isinstance(job.state, Exited) or job.state.code == 0:
            return None
        words = b""
        with contextlib.suppress(StoreUnusable):
            words = self._reading(job, lambda log: _last_words(log, STDERR) + _last_words(log, STDOUT))
        port = port_in_use(words.decode("utf-8", "replace"))
        holder = activity.port_holder(port) if port else None
        if port is None or holder is None:
            return None
        holding = processes.job_of(holder)
        return f"Port {port} is held by " + (
            f"job {holding}." if holding else f"process {holder}, which is no job."
        )


def _of_group(job: Job) -> str:
    return f" of group {job.spec.group}, or of all" if job.spec.group else ""


def _facts(log: LogReader, waits: InputWord | None) -> tuple[int, float, str | None]:
    return log.end, log.written_at, _prompt(log) if waits == "yes" else None


def _prompt(log: LogReader) -> str | None:
    """What a job that waits for input printed last, on either stream."""
    lines = (unfinished_line(_last_words(log, stream, PROMPT_BYTES)) for stream in (STDOUT, STDERR))
    return next(filter(None, lines), None)


def _last_words(log: LogReader, stream: int, most: int = LAST_WORDS_BYTES) -> bytes:
    for piece in log.backward(stream, 0, log.end):
        return piece.data[-most:]
    return b""
