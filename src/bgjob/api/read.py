"""What a job printed, and how it stands: both of one moment, so that no second call is needed."""

from collections.abc import Callable

from bgjob.api.context import Context
from bgjob.api.output import Shown, output_of, tail_of
from bgjob.api.processes import left_running
from bgjob.api.prompt import prompt_told, sits_at_prompt
from bgjob.api.results import Output, Reading
from bgjob.api.snapshot import Snapshot


def read_output(
    context: Context, job_id: str, since: str | None = None, shown: Shown | None = None
) -> Reading:
    return _reading(context, job_id, lambda snapshot: output_of(context, snapshot, since, shown))


def read_tail(
    context: Context, job_id: str, lines: int = 50, shown: Shown | None = None, since: str | None = None
) -> Reading:
    return _reading(
        context, job_id, lambda snapshot: tail_of(context, snapshot, lines, shown or Shown(), since)
    )


def _reading(context: Context, job_id: str, read: Callable[[Snapshot], Output]) -> Reading:
    """A prompt is in the log by the time in which it is known to be one: the log is read after that."""
    snapshot = Snapshot(context, job_id)
    waits = sits_at_prompt(context, snapshot.job)
    prompt = prompt_told(context, snapshot, waits)
    return Reading(
        snapshot.job,
        read(snapshot),
        waits,
        prompt,
        left_running(context, snapshot.job),
        context.store.history(snapshot.job),
    )
