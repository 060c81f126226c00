"""Reading what a job printed."""

from collections.abc import Callable
from functools import partial
from typing import Literal

from bgjob.api.context import Context
from bgjob.api.results import Output
from bgjob.api.screen import has_full_screen, screen_of
from bgjob.api.snapshot import Snapshot
from bgjob.core.frozen import Frozen, replace
from bgjob.core.job import Running
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output import excerpt
from bgjob.output.excerpt import Excerpt
from bgjob.output.fitted import fitted, fitted_together
from bgjob.output.log_reader import LogReader
from bgjob.output.tail import tail
from bgjob.output.timeline import interleaved, interleaved_tail

View = Literal["apart", "interleaved", "screen"]
StreamWord = Literal["stdout", "stderr"]
STREAMS = {None: (STDOUT, STDERR), "stdout": (STDOUT,), "stderr": (STDERR,)}

NO_SHIM_S = 0.02
"""How long to sleep before the next look at a job without a shim: queued, starting, or just over."""
BYTES_PER_TOKEN = 4
FEW_TOKENS = 2000
"""Of each stream, where the answer is about more than output: execute, wait, interact."""
ENVELOPE_SHARE = 32
"""One part in so many of an answer is for the members beside its output."""


class Shown(Frozen):
    """How much of the output an answer shows, and how."""

    max_bytes: int | None = None
    """Of each stream, never more than the setting; None: the setting, for all of the answer."""
    raw: bool = False
    view: View | None = "apart"
    """None: the screen of a full-screen program, else apart."""
    stream: StreamWord | None = None
    """The only one that is shown, where they are apart; None: both."""

    @classmethod
    def within(
        cls,
        max_tokens: int | None,
        raw: bool = False,
        view: View | None = "apart",
        stream: StreamWord | None = None,
    ) -> "Shown":
        return cls(None if max_tokens is None else max_tokens * BYTES_PER_TOKEN, raw, view, stream)

    def shared_by(self, jobs: int) -> "Shown":
        """What one of several jobs may show in one answer."""
        return self if self.max_bytes is None else replace(self, max_bytes=self.max_bytes // jobs)

    def budget(self, context: Context) -> "Budget":
        most = context.settings.max_response_bytes
        if self.max_bytes is None:
            return Budget(most - most // ENVELOPE_SHARE, is_shared=True)
        return Budget(max(1, min(self.max_bytes, most)), is_shared=False)


class Budget(Frozen):
    """How many bytes of output an answer may have."""

    size_bytes: int
    is_shared: bool
    """Of both streams together, as JSON; else of each."""

    @property
    def of_both_bytes(self) -> int:
        """A screen stands for both streams, and may be as large as both."""
        return self.size_bytes if self.is_shared else 2 * self.size_bytes

    @property
    def most_bytes(self) -> int | None:
        return self.size_bytes if self.is_shared else None


# -- one answer -------------------------------------------------------------------------------------


def job_output(context: Context, job_id: str, since: str | None = None, shown: Shown | None = None) -> Output:
    """What the job printed, all of it or since a cursor; over the budget, its head and its tail."""
    return output_of(context, Snapshot(context, job_id), since, shown)


def output_of(context: Context, snapshot: Snapshot, since: str | None, shown: Shown | None) -> Output:
    shown = shown or Shown()
    is_running, budget = isinstance(snapshot.job.state, Running), shown.budget(context)
    if _is_screen(context, snapshot, shown):
        return screen_of(context, snapshot, budget.of_both_bytes)
    return snapshot.read(lambda log: _window(log, since, is_running, shown, budget))


def tail_output(
    context: Context, job_id: str, lines: int = 50, shown: Shown | None = None, since: str | None = None
) -> Output:
    """The last lines of each stream; of both together in the interleaved view."""
    return tail_of(context, Snapshot(context, job_id), lines, shown or Shown(), since)


def tail_of(context: Context, snapshot: Snapshot, lines: int, shown: Shown, since: str | None) -> Output:
    is_running, budget = isinstance(snapshot.job.state, Running), shown.budget(context)
    if _is_screen(context, snapshot, shown):
        return screen_of(context, snapshot, budget.of_both_bytes)
    return snapshot.read(lambda log: _last(log, lines, since, is_running, shown, budget))


def _is_screen(context: Context, snapshot: Snapshot, shown: Shown) -> bool:
    is_open = shown.view is None and not shown.raw
    return shown.view == "screen" or (is_open and has_full_screen(context, snapshot))


def _window(log: LogReader, since: str | None, is_running: bool, shown: Shown, budget: Budget) -> Output:
    view, cleaned = excerpt.window(since, log.end), not shown.raw
    if shown.view == "interleaved":
        return _together(
            lambda room: interleaved(log, view, room, is_running, cleaned), view.end, budget, shown.raw
        )
    return _apart(
        lambda stream, room: excerpt.whole(log, stream, view, room, is_running, cleaned),
        view.end,
        budget,
        shown,
    )


def _last(
    log: LogReader, lines: int, since: str | None, is_running: bool, shown: Shown, budget: Budget
) -> Output:
    view, cleaned = excerpt.window(since, log.end), not shown.raw
    if shown.view == "interleaved":
        return _together(
            lambda room: interleaved_tail(log, lines, room, view, is_running, cleaned),
            view.end,
            budget,
            shown.raw,
        )
    return _apart(
        lambda stream, room: tail(log, stream, lines, room, view, is_running, cleaned),
        view.end,
        budget,
        shown,
    )


def _apart(read: Callable[[int, int], Excerpt], cursor: int, budget: Budget, shown: Shown) -> Output:
    wanted = STREAMS[shown.stream]
    reads = [partial(read, stream) if stream in wanted else _nothing for stream in (STDOUT, STDERR)]
    if budget.is_shared:
        stdout, stderr = fitted_together(reads, budget.size_bytes, shown.raw)
    else:
        stdout, stderr = (fitted(each, budget.size_bytes, shown.raw) for each in reads)
    return Output(
        stdout.text,
        stderr.text,
        str(cursor),
        stdout.left_out_bytes,
        stderr.left_out_bytes,
        stdout.dropped_bytes,
        stderr.dropped_bytes,
    )


def _nothing(_room: int) -> Excerpt:
    return Excerpt("")


def _together(read: Callable[[int], Excerpt], cursor: int, budget: Budget, raw: bool) -> Output:
    both = fitted(read, budget.size_bytes, raw, budget.most_bytes)
    return Output("", "", str(cursor), both.left_out_bytes, 0, both.dropped_bytes, 0, interleaved=both.text)
