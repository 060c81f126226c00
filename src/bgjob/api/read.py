"""Reading what a job printed."""

import contextlib
from collections.abc import Iterator

from bgjob import excerpt
from bgjob.api.answers import Chunk, Output
from bgjob.api.door import Door
from bgjob.control import Line, NoShim
from bgjob.job import Running
from bgjob.log_format import STDERR, STDOUT
from bgjob.log_reader import LogReader

FOLLOW_BYTES = 1 << 20
FOLLOW_PATIENCE_S = 3600.0


class Reading(Door):
    def output(self, job_id: str, since: str | None = None) -> Output:
        running = isinstance(self._store.load(job_id).state, Running)
        return self._reading(job_id, lambda log: self._window(log, since, running))

    def tail(self, job_id: str, lines: int = 50) -> Output:
        self._store.load(job_id)
        budget = self._settings.max_response_bytes

        def read(log: LogReader) -> Output:
            stdout, stderr = (excerpt.tail(log, stream, lines, budget) for stream in (STDOUT, STDERR))
            return _output(stdout, stderr, log.end)

        return self._reading(job_id, read)

    def follow(self, job_id: str, wait: bool) -> Iterator[Chunk]:
        """Everything the job printed, in the order of the log; with `wait`, until it has ended."""
        at = 0
        while True:
            ended = not isinstance(
                self._store.load(job_id).state, Running
            )  # asked first: then the log is whole
            for chunk in self._reading(job_id, lambda log, at=at: list(_chunks(log, at))):  # type: ignore[misc]
                yield chunk
                at = chunk.end
            if (ended or not wait) and at >= self._reading(job_id, lambda log: log.end):
                return
            if wait and not ended:
                self._wait_beyond(job_id, at)

    def _wait_beyond(self, job_id: str, offset: int) -> None:
        with contextlib.suppress(NoShim, TimeoutError), Line(self._store.control_path(job_id)) as shim:
            shim.ask(FOLLOW_PATIENCE_S, op="wait", beyond=offset)

    def _window(self, log: LogReader, since: str | None, running: bool) -> Output:
        view = excerpt.window(since, log.end)
        budget = self._settings.max_response_bytes
        stdout, stderr = (excerpt.whole(log, stream, view, budget, running) for stream in (STDOUT, STDERR))
        return _output(stdout, stderr, view.end)


def _chunks(log: LogReader, start: int) -> Iterator[Chunk]:
    """The next megabyte or so."""
    at = start
    for stream, piece in log.interleaved(start, log.end):
        yield Chunk(stream, piece.data, piece.end, piece.start - at)
        at = piece.end
        if at - start > FOLLOW_BYTES:
            return


def _output(stdout: excerpt.Excerpt, stderr: excerpt.Excerpt, cursor: int) -> Output:
    return Output(
        stdout.text,
        stderr.text,
        str(cursor),
        stdout.left_out_bytes,
        stderr.left_out_bytes,
        stdout.dropped_bytes,
        stderr.dropped_bytes,
    )
