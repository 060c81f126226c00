"""What jobs print, as it comes: of one job or of several, from any place of their logs on."""

import contextlib
import selectors
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from bgjob.api.context import Context
from bgjob.api.output import NO_SHIM_S, STREAMS
from bgjob.api.results import Chunk
from bgjob.api.shim_wait import ShimWait
from bgjob.api.snapshot import END_PATIENCE_S, Snapshot
from bgjob.core.frozen import Frozen, replace
from bgjob.core.job import Running
from bgjob.core.patterns import Pattern
from bgjob.home.log_format import RUN_RESOLUTION_US, STDOUT
from bgjob.link.control import Patience
from bgjob.output import excerpt
from bgjob.output.last_lines import begin_of_last_lines
from bgjob.output.log_lines import window_of
from bgjob.output.log_reader import LogReader
from bgjob.output.log_search import search

if TYPE_CHECKING:
    from bgjob.api.wait import Cancellation

FOLLOW_BYTES = 1 << 20
PATIENCE_S = 3600.0

Places = Mapping[int, int]
"""Of each stream that is wanted, the offset from which on."""


class Begin(Frozen):
    """Where a reader begins."""

    cursor: str | None = None
    at: float | None = None
    """With what came since then, in seconds since the epoch."""
    lines: int | None = None
    """With so many last lines, of those that match; None: with all."""
    pattern: Pattern | None = None
    streams: Sequence[int] = STREAMS[None]


def follow_output(
    context: Context,
    job_id: str,
    wait: bool,
    since: str | None = None,
    cancellation: "Cancellation | None" = None,
) -> Iterator[Chunk]:
    """All that the job printed, or what came after a cursor, in the order of the log.

    With `wait`, until the job has ended or the call is cancelled.
    """
    places = {job_id: places_of(context, job_id, Begin(cursor=since))}
    for _, chunk in follow_jobs(context, places, wait=wait, cancellation=cancellation):
        if chunk:
            yield chunk


def follow_jobs(
    context: Context, places: Mapping[str, Places], *, wait: bool, cancellation: "Cancellation | None" = None
) -> Iterator[tuple[str, Chunk | None]]:
    """What each of the jobs printed from its places on, as it comes; None: that is all of this job."""
    followed = [_Followed(context, job_id, wanted) for job_id, wanted in places.items()]
    with contextlib.ExitStack() as opened:
        for each in followed:
            opened.callback(each.shim.close)
        while followed:
            due = [each for each in followed if each.is_due]
            patience = Patience(END_PATIENCE_S, len(due))
            for each in due:
                chunks = each.next_chunks(patience if wait else None)
                yield from ((each.job_id, chunk) for chunk in chunks)
                if each.is_over:
                    yield each.job_id, None
            followed = [each for each in followed if not each.is_over]
            if followed and _is_cancelled_while_asleep(followed, cancellation):
                return


def places_of(context: Context, job_id: str, begin: Begin) -> Places:
    """InvalidArgument: the cursor is none."""
    return Snapshot(context, job_id).read(partial(_places, begin=begin))


def _places(log: LogReader, begin: Begin) -> Places:
    start = excerpt.window(begin.cursor, log.end).start
    # a byte may have come so much later than the log says: rather too much is read than too little
    after_us = None if begin.at is None else int(begin.at * 1e6) - RUN_RESOLUTION_US
    start, _ = window_of(log, start, log.end, after_us, None)
    if begin.lines is None:
        return dict.fromkeys(begin.streams, start)
    if begin.pattern is None or not begin.lines:
        return begin_of_last_lines(log, begin.lines, begin.streams, start)
    found = search(
        log,
        begin.pattern,
        limit=begin.lines,
        newest_first=True,
        count=False,
        streams=begin.streams,
        since=start,
    )
    offsets = {
        stream: [each.offset for each in found.matches if each.stream == stream] for stream in begin.streams
    }
    return {stream: min(own, default=log.end) for stream, own in offsets.items()}


class _Followed:
    """One job: how far it was read, and whether there may be more now."""

    def __init__(self, context: Context, job_id: str, places: Places) -> None:
        self._context, self.job_id, self._places = context, job_id, places
        self._at, self._dropped = min(places.values(), default=0), 0
        self.shim = ShimWait(context, job_id)
        self.is_due, self.is_over = True, False

    def next_chunks(self, patience: Patience | None) -> list[Chunk]:
        """A megabyte or so. After the last ones the job is over, or the shim is asked to tell of more.

        `patience`: that of a caller who waits for the end of the job; None: the caller does not.
        """
        snapshot = Snapshot(self._context, self.job_id)
        if patience:  # before the log is read: then all that the job printed is there
            snapshot.find_unrecorded_end(patience.until())
        chunks = snapshot.read(partial(_chunks, start=self._at))
        if chunks:
            self._at = chunks[-1].end
        elif patience is None or not isinstance(snapshot.job.state, Running):
            self.is_over = True
        else:
            self.is_due = False
            self.shim.arm(max(self._at, self.shim.log_end))
        return list(self._wanted(chunks))

    def _wanted(self, chunks: list[Chunk]) -> Iterator[Chunk]:
        """What was dropped before a chunk that is not wanted is told with the next."""
        for chunk in chunks:
            self._dropped += chunk.dropped_bytes
            start = self._places.get(chunk.stream, chunk.end)
            data = chunk.data[max(0, start - (chunk.end - len(chunk.data))) :] if start < chunk.end else b""
            if data or not chunk.data:
                yield replace(chunk, data=data, dropped_bytes=self._dropped)
                self._dropped = 0

    def hear(self) -> None:
        self.shim.hear()
        self.is_due = True


def _is_cancelled_while_asleep(followed: Sequence[_Followed], cancellation: "Cancellation | None") -> bool:
    """Sleeps until there may be more of a job: at once if there is."""
    without_shim = [each for each in followed if not each.is_due and each.shim.line is None]
    with selectors.DefaultSelector() as selector:
        if cancellation:
            selector.register(cancellation.signal, selectors.EVENT_READ)
        for each in followed:
            if each.shim.line:
                selector.register(each.shim.line, selectors.EVENT_READ, each)
        woken = [key.data for key, _ in selector.select(_nap_s(followed, without_shim))]
    for each in without_shim:
        each.is_due = True
    for each in filter(None, woken):
        each.hear()
    return None in woken


def _nap_s(followed: Sequence[_Followed], without_shim: Sequence[_Followed]) -> float:
    if any(each.is_due for each in followed):
        return 0.0
    return NO_SHIM_S if without_shim else PATIENCE_S


def _chunks(log: LogReader, start: int) -> list[Chunk]:
    """The next megabyte or so; bytes that are gone at the very end are a chunk of nothing."""
    chunks, at, size = list[Chunk](), start, 0
    for piece in log.interleaved(start, log.end):
        chunks.append(Chunk(piece.stream, piece.data, piece.end, piece.start - at, piece.time_us))
        at, size = piece.end, size + len(piece.data)
        if size > FOLLOW_BYTES:
            return chunks
    return chunks if at >= log.end else [*chunks, Chunk(STDOUT, b"", log.end, log.end - at)]
