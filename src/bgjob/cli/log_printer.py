"""Prints what jobs printed: the bytes of one as they come, or whole lines of several, each behind its labels."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from bgjob.api.results import Chunk
from bgjob.cli.labels import labels, painted_labels
from bgjob.cli.streams import JobStream
from bgjob.core.job import Job
from bgjob.core.patterns import Pattern
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output.line_match import matching_lines
from bgjob.output.log_lines import Forward, Lines, Text
from bgjob.output.pty_text import PtyText

DROPPED = "bgjob: {} bytes dropped here"
Tell = Callable[[str], None]


class Printer(Protocol):
    def put(self, job_id: str, chunk: Chunk) -> None: ...

    def note(self, job_id: str, text: str) -> None:
        """About what is printed; below it."""

    def finish(self, job_id: str) -> None:
        """No more will come of this job."""

    def close(self) -> None:
        """Nothing more will be printed: on a terminal, its own colours again."""


class BytesPrinter:
    """For one job: each stream to its own of ours, as it comes."""

    def __init__(self, stdout: JobStream, stderr: JobStream, tell: Tell) -> None:
        self._streams, self._tell = {STDOUT: stdout, STDERR: stderr}, tell

    def put(self, job_id: str, chunk: Chunk) -> None:
        if chunk.dropped_bytes:
            self.note(job_id, DROPPED.format(chunk.dropped_bytes))
        self._streams[chunk.stream].write(chunk.data)

    def note(self, _job_id: str, text: str) -> None:
        is_below = sys.stderr.isatty() and any(each.is_within_a_line for each in self._streams.values())
        self._tell(("\n" if is_below else "") + f"[{text}]")

    def finish(self, _job_id: str) -> None:
        self.close()

    def close(self) -> None:
        for stream in self._streams.values():
            stream.finish()


class LinesPrinter:
    """For several jobs, for times, for lines that match: a line is printed when it is whole."""

    def __init__(
        self,
        jobs: Sequence[Job],
        stdout: JobStream,
        stderr: JobStream,
        tell: Tell,
        *,
        environ: Mapping[str, str],
        timestamps: bool = False,
        pattern: Pattern | None = None,
    ) -> None:
        self._streams, self._tell = {STDOUT: stdout, STDERR: stderr}, tell
        self._timestamps, self._pattern = timestamps, pattern
        self._labels = painted_labels(labels(jobs), environ) if len(jobs) > 1 else {jobs[0].id: ""}
        self._joiners = {(job.id, stream): Forward() for job in jobs for stream in self._streams}
        self._drawn = {job.id: PtyText() for job in jobs if job.spec.pty and stdout.is_cleaned}

    def put(self, job_id: str, chunk: Chunk) -> None:
        if chunk.dropped_bytes:
            self.finish(job_id)
            self.note(job_id, DROPPED.format(chunk.dropped_bytes))
        drawn = self._drawn.get(job_id)
        data = drawn.feed(chunk.data) if drawn else chunk.data
        if data:
            text = Text(data, [(0, chunk.end - len(chunk.data), chunk.time_us)], chunk.end)
            self._print(job_id, chunk.stream, self._joiners[job_id, chunk.stream].lines(text))

    def note(self, job_id: str, text: str) -> None:
        self._tell(f"{self._labels[job_id]}[{text}]")

    def finish(self, job_id: str) -> None:
        for stream in self._streams:
            self._print(job_id, stream, self._joiners[job_id, stream].flush())

    def close(self) -> None:
        for job_id in self._labels:
            self.finish(job_id)

    def _print(self, job_id: str, stream: int, blocks: Iterable[Lines]) -> None:
        for block in blocks:
            lines = self._chosen(block)
            self._streams[stream].write_lines(
                (self._labels[job_id] + self._time(block.text, start), block.text.data[start:end])
                for start, end in lines
            )

    def _chosen(self, block: Lines) -> Iterator[tuple[int, int]]:
        if self._pattern is None:
            return _each(block)
        return ((found.start, found.end) for found in matching_lines(self._pattern, block))

    def _time(self, text: Text, position: int) -> str:
        if not self._timestamps:
            return ""
        seconds, rest_us = divmod(text.place(position)[1], 10**6)
        return f"{time.strftime('%F %T', time.localtime(seconds))}.{rest_us // 1000:03} "


def _each(block: Lines) -> Iterator[tuple[int, int]]:
    data, start = block.text.data, block.start
    while start < block.end:
        end = data.find(b"\n", start, block.end) + 1 or block.end
        yield start, end
        start = end
