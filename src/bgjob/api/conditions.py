"""One job under watch: has what somebody waits for come true?"""

import contextlib
import math
import time
from dataclasses import dataclass

from bgjob.api import activity
from bgjob.api.idle import idle_s
from bgjob.api.output import Reading
from bgjob.api.results import ConditionWord, Met
from bgjob.core.job import Queued, Running
from bgjob.core.patterns import Pattern
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.link.control import Line, NoShim
from bgjob.output.log_reader import LogReader
from bgjob.output.log_search import search
from bgjob.output.text import plain_line

LONGEST_BEGUN_LINE_BYTES = 1 << 16
SHIM_PATIENCE_S = 10.0
HEAR_PATIENCE_S = 1.0  # it has begun to speak, and what it says fits into one packet
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
        """The kernel wakes nobody for these."""
        return self.port is not None or self.for_input


class Watch:
    def __init__(self, door: Reading, job_id: str, since: int, conditions: Conditions) -> None:
        self._door, self.job_id, self._conditions = door, job_id, conditions
        self._scanned = since
        self._is_armed = False
        self._told = 0  # where the log ended when the shim last spoke
        self._seen, self._looked_at, self._silent_since = -1, -math.inf, -math.inf
        self.line: Line | None = None
        self.job = door._store.load(job_id)
        self.met: Met | None = None

    # -- looking ------------------------------------------------------------------------------------

    def check(self) -> None:
        """Sets `met` when something has come true."""
        self.job = self._door._store.load(self.job_id)  # before its log: what has ended has a whole one
        self.met = self._door._reading(self.job, self._in_output) or self._at_end() or self._in_the_kernel()

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
        """Such a line is looked at again with what comes."""
        return min(
            _begin_of_unfinished_line(log, stream, self._scanned) for stream in self._conditions.streams
        )

    def _in_silence(self, log: LogReader) -> Met | None:
        if self._conditions.silence_s is None or isinstance(self.job.state, Queued):
            return None
        if self.silent_s(log) < self._conditions.silence_s:
            return None
        return Met("silence")

    def silent_s(self, log: LogReader) -> float:
        """By a clock that nobody sets, from what we saw; the machine's own tells only what was before that."""
        now, end = time.monotonic(), max(log.end, self._told)
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
        if self._conditions.for_input and self._door._waits_for_input(self.job) == "yes":
            return Met("input")
        return None

    def _listening_port(self) -> int | None:
        for held in activity.listening_ports(self._door._processes(self.job)) or ():
            if self._conditions.port in (0, held.port):
                return held.port
        return None

    def last_line(self) -> str:
        output = self._door.tail(self.job_id, 1)
        return (output.stdout or output.stderr).strip()[-LAST_LINE_CHARACTERS:]

    # -- being woken --------------------------------------------------------------------------------

    def arm(self) -> None:
        """Ask the shim to say when something happens. Without one (`line` is None) the disk tells what there is."""
        if self._is_armed:
            return
        try:
            self.line = self.line or Line(self._door._store.control_path(self.job_id))
            end = self._door._reading(self.job, lambda log: log.end)
            beyond = max(end, self._told)  # a full disk may have swallowed what came
            self.line.send(
                SHIM_PATIENCE_S, op="wait", beyond=beyond if self._conditions.want_output else None
            )
            self._is_armed = True
        except (NoShim, TimeoutError):
            self.hang_up()

    def hear(self) -> None:
        """The shim has answered, or is gone."""
        self._is_armed = False
        try:
            if self.line:
                self._told = self.line.receive(HEAR_PATIENCE_S)["end"]
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
