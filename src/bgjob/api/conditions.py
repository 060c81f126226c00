"""What a wait is for, and whether it has come true for a job."""

import contextlib
import math
import time
from dataclasses import dataclass

from bgjob.api import activity
from bgjob.api.context import Context
from bgjob.api.idle import idle_s
from bgjob.api.output import Shown, tail_of
from bgjob.api.processes import processes_of, waits_for_input
from bgjob.api.results import ConditionWord, Met
from bgjob.api.snapshot import Snapshot
from bgjob.core.job import Job, Queued, Running
from bgjob.core.patterns import Pattern
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.link.control import NoShim, ShimConnection
from bgjob.output.log_reader import LogReader
from bgjob.output.log_search import search
from bgjob.output.text import plain_line

LONGEST_BEGUN_LINE_BYTES = 1 << 16
SHIM_PATIENCE_S = 10.0
HEAR_PATIENCE_S = 1.0  # the shim has begun to answer, and its answer fits into one packet
LAST_LINE_CHARACTERS = 200


@dataclass(frozen=True)
class Conditions:
    """What a wait is for, beside the end of the job, which always ends it."""

    pattern: Pattern | None = None
    stop_pattern: Pattern | None = None
    streams: tuple[int, ...] = (STDOUT, STDERR)
    port: int | None = None
    """0: any."""
    silence_s: float | None = None
    for_input: bool = False

    @property
    def want_output(self) -> bool:
        return bool(self.pattern or self.stop_pattern or self.silence_s is not None)

    @property
    def need_looking(self) -> bool:
        """For these the kernel wakes no process."""
        return self.port is not None or self.for_input


class Awaited:
    """One job that a wait is for: a snapshot of it, and what has come true."""

    def __init__(self, context: Context, job_id: str, since: int, conditions: Conditions) -> None:
        self._context, self._conditions = context, conditions
        self._scanned = since
        self._is_armed = False
        self._log_end_told = 0  # by the shim, when it last spoke
        self._seen, self._looked_at, self._silent_since = -1, -math.inf, -math.inf
        self.line: ShimConnection | None = None
        self.snapshot = Snapshot(context, job_id)
        self.met: Met | None = None

    @property
    def job(self) -> Job:
        return self.snapshot.job

    def look_again(self) -> None:
        self.snapshot = Snapshot(self._context, self.job.id)

    # -- what has come true -------------------------------------------------------------------------

    def check(self) -> None:
        """Sets `met` if a condition is true of the snapshot."""
        self.met = self.snapshot.read(self._in_output) or self._at_end() or self._in_the_kernel()

    def _in_output(self, log: LogReader) -> Met | None:
        found = [*self._first(log, "stop_pattern"), *self._first(log, "pattern")]
        if found:
            return min(found, key=lambda place: place[0])[1]
        self._scanned = self._begin_of_unfinished_lines(log)
        return self._in_silence(log)

    def _first(self, log: LogReader, word: ConditionWord) -> list[tuple[int, Met]]:
        """Where this pattern matches first, if it does."""
        pattern = self._conditions.stop_pattern if word == "stop_pattern" else self._conditions.pattern
        if pattern is None:
            return []
        streams = self._conditions.streams
        result = search(
            log, pattern, streams=streams, since=self._scanned, limit=1, newest_first=False, count=False
        )
        return [(match.offset, Met(word, plain_line(match.line))) for match in result.matches]

    def _begin_of_unfinished_lines(self, log: LogReader) -> int:
        """An unfinished line is searched again with what comes."""
        return min(
            _begin_of_unfinished_line(log, stream, self._scanned) for stream in self._conditions.streams
        )

    def _in_silence(self, log: LogReader) -> Met | None:
        if self._conditions.silence_s is None or isinstance(self.job.state, Queued):
            return None
        return Met("silence") if self._silent_s(log) >= self._conditions.silence_s else None

    def _silent_s(self, log: LogReader) -> float:
        """By the monotonic clock, since our first look; by the wall clock only for the time before that."""
        now, end = time.monotonic(), max(log.end, self._log_end_told)
        if end != self._seen:
            unseen_s = now - self._looked_at
            self._seen, self._silent_since = end, now - min(idle_s(self.job, log.written_at), unseen_s)
        self._looked_at = now
        return now - self._silent_since

    def _at_end(self) -> Met | None:
        return None if isinstance(self.job.state, Running) else Met("exit")

    def _in_the_kernel(self) -> Met | None:
        if self._conditions.port is not None and (port := self._listening_port()):
            return Met("port", str(port))
        if self._conditions.for_input and waits_for_input(self._context, self.job) == "yes":
            return Met("input")
        return None

    def _listening_port(self) -> int | None:
        for held in activity.listening_ports(processes_of(self._context, self.job)) or ():
            if self._conditions.port in (0, held.port):
                return held.port
        return None

    def last_line(self) -> str:
        output = tail_of(self._context, self.snapshot, 1, Shown(), since=None)
        return (output.stdout or output.stderr).strip()[-LAST_LINE_CHARACTERS:]

    # -- being woken --------------------------------------------------------------------------------

    def arm(self) -> None:
        """Ask the shim to answer when something has happened since the snapshot.

        Where there is no shim, `line` is None, and the disk tells how the job stands.
        """
        if self._is_armed:
            return
        try:
            self.line = self.line or ShimConnection(self._context.store.control_path(self.job.id))
            self.line.send(SHIM_PATIENCE_S, op="wait", beyond=self._beyond())
            self._is_armed = True
        except (NoShim, TimeoutError):
            self.hang_up()

    def _beyond(self) -> int | None:
        """None: output does not matter. A full disk may have swallowed output of which the shim has told."""
        if not self._conditions.want_output:
            return None
        return max(self.snapshot.read(lambda log: log.end), self._log_end_told)

    def hear(self) -> None:
        """The shim has answered, or is gone."""
        self._is_armed = False
        try:
            if self.line:
                self._log_end_told = self.line.receive(HEAR_PATIENCE_S)["end"]
        except (NoShim, TimeoutError):
            self.hang_up()

    def hang_up(self) -> None:
        self._is_armed = False
        with contextlib.suppress(OSError):
            if self.line:
                self.line.close()
        self.line = None


def _begin_of_unfinished_line(log: LogReader, stream: int, floor: int) -> int:
    begin, size = log.end, 0
    for piece in log.backward(stream, floor, log.end):
        newline = piece.data.rfind(b"\n")
        if newline == len(piece.data) - 1:
            break
        begin = piece.start + newline + 1
        size += len(piece.data)
        if newline >= 0 or size > LONGEST_BEGUN_LINE_BYTES:
            break
    return begin
