"""Reading what a job printed."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from bgjob.api.results import Chunk, Output, Picture
from bgjob.api.status import Looking
from bgjob.core.errors import InvalidArgument
from bgjob.core.job import Job, Running
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.link.control import Line, NoShim
from bgjob.output import cleaner, excerpt
from bgjob.output.log_reader import LogReader

View = Literal["apart", "interleaved", "screen"]
STREAMS = {None: (STDOUT, STDERR), "stdout": (STDOUT,), "stderr": (STDERR,)}

FOLLOW_BYTES = 1 << 20
FOLLOW_PATIENCE_S = 3600.0
NO_SHIM_S = 0.01  # a job that waits in the queue, or whose shim is about to be gone
BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class Shown:
    """How much of the output an answer shows, and how."""

    max_bytes: int | None = None
    """Of each stream; never more than the setting."""
    raw: bool = False
    view: View = "apart"

    @classmethod
    def within(cls, max_tokens: int | None, raw: bool = False, view: View = "apart") -> "Shown":
        return cls(None if max_tokens is None else max_tokens * BYTES_PER_TOKEN, raw, view)


class Reading(Looking):
    def output(self, job_id: str, since: str | None = None, shown: Shown | None = None) -> Output:
        """What the job printed, all of it or since a cursor; over the budget, its head and its tail."""
        job, shown = self._store.load(job_id), shown or Shown()
        if shown.view == "screen":
            return self._picture(job)
        return self._reading(job, lambda log: self._window(log, since, job, shown))

    def tail(
        self, job_id: str, lines: int = 50, shown: Shown | None = None, since: str | None = None
    ) -> Output:
        """The last lines of each stream; of both together in the interleaved view."""
        job, shown = self._store.load(job_id), shown or Shown()
        if shown.view == "screen":
            return self._picture(job)
        return self._reading(
            job, lambda log: self._last(log, lines, shown, excerpt.window(since, log.end).start)
        )

    def follow(self, job_id: str, wait: bool) -> Iterator[Chunk]:
        """Everything the job printed, in the order of the log; with `wait`, until it has ended."""
        at = told = 0
        while True:
            job = self._store.load(job_id)  # before its log: what has ended has a whole one
            ended = not isinstance(job.state, Running)
            chunks = self._reading(job, lambda log, at=at: list(_chunks(log, at)))  # type: ignore[misc]
            yield from chunks
            if chunks:
                at = chunks[-1].end
            elif ended or not wait:
                return
            else:
                told = self._wait_beyond(job_id, max(at, told))  # a full disk may have swallowed what came

    def _wait_beyond(self, job_id: str, offset: int) -> int:
        """Until the job has printed more, or ended; how much it has printed then."""
        with contextlib.suppress(NoShim, TimeoutError), Line(self._store.control_path(job_id)) as shim:
            return int(shim.ask(FOLLOW_PATIENCE_S, op="wait", beyond=offset)["end"])
        time.sleep(NO_SHIM_S)
        return offset

    def _budget_bytes(self, shown: Shown) -> int:
        most = self._settings.max_response_bytes
        return most if shown.max_bytes is None else max(1, min(shown.max_bytes, most))

    def _window(self, log: LogReader, since: str | None, job: Job, shown: Shown) -> Output:
        view, budget = excerpt.window(since, log.end), self._budget_bytes(shown)
        if shown.view == "interleaved":
            return _cleaned(_together(excerpt.interleaved(log, view, budget), view.end), shown)
        more = isinstance(job.state, Running) and view.end == log.end
        stdout, stderr = (excerpt.whole(log, stream, view, budget, more) for stream in (STDOUT, STDERR))
        return _cleaned(_apart(stdout, stderr, view.end), shown)

    def _last(self, log: LogReader, lines: int, shown: Shown, floor: int) -> Output:
        budget = self._budget_bytes(shown)
        if shown.view == "interleaved":
            return _cleaned(_together(excerpt.interleaved_tail(log, lines, budget, floor), log.end), shown)
        stdout, stderr = (excerpt.tail(log, stream, lines, budget, floor) for stream in (STDOUT, STDERR))
        return _cleaned(_apart(stdout, stderr, log.end), shown)

    def _picture(self, job: Job) -> Output:
        """The job's terminal as a person would see it now; its cost does not depend on the length of the log."""
        if not job.spec.pty:
            raise InvalidArgument(
                f"Job {job.id} has no terminal, so it has no screen. Start it with pty=true for one."
            )
        from bgjob.terminal import screen  # pyte takes its time to import

        def draw(log: LogReader) -> Output:
            start = max(0, log.end - screen.WINDOW_BYTES)
            window = b"".join(piece.data for piece in log.forward(STDOUT, start, log.end))
            drawn = screen.end_of_log(window, start, self._store.terminal_sizes(job))
            picture = Picture(
                "\n".join(drawn.lines), drawn.cursor_row, drawn.cursor_column, drawn.title or None
            )
            return Output("", "", str(log.end), picture=picture)

        return self._reading(job, draw)


def _chunks(log: LogReader, start: int) -> Iterator[Chunk]:
    """The next megabyte or so; bytes that are gone at the very end are a chunk of nothing."""
    at, size = start, 0
    for piece in log.interleaved(start, log.end):
        yield Chunk(piece.stream, piece.data, piece.end, piece.start - at)
        at, size = piece.end, size + len(piece.data)
        if size > FOLLOW_BYTES:
            return
    if at < log.end:
        yield Chunk(STDOUT, b"", log.end, log.end - at)


def _apart(stdout: excerpt.Excerpt, stderr: excerpt.Excerpt, cursor: int) -> Output:
    return Output(
        stdout.text,
        stderr.text,
        str(cursor),
        stdout.left_out_bytes,
        stderr.left_out_bytes,
        stdout.dropped_bytes,
        stderr.dropped_bytes,
    )


def _together(both: excerpt.Excerpt, cursor: int) -> Output:
    return Output("", "", str(cursor), both.left_out_bytes, 0, both.dropped_bytes, 0, interleaved=both.text)


def _cleaned(output: Output, shown: Shown) -> Output:
    if shown.raw:
        return output
    return replace(
        output,
        stdout=cleaner.clean(output.stdout),
        stderr=cleaner.clean(output.stderr),
        interleaved=None if output.interleaved is None else cleaner.clean(output.interleaved),
    )
