"""What a wait is for, and whether it has come true for a job."""

import contextlib
import math
import time
from collections.abc import Iterator, Sequence

from bgjob.api import activity
from bgjob.api.context import Context
from bgjob.api.idle import idle_s
from bgjob.api.output import Shown, tail_of
from bgjob.api.processes import has_all_output, left_running, processes_of
from bgjob.api.prompt import SHIM_PATIENCE_S, sits_at_prompt, waits_for_input
from bgjob.api.results import Came, ConditionWord
from bgjob.api.shim_wait import ShimWait
from bgjob.api.snapshot import Snapshot
from bgjob.core.frozen import Frozen
from bgjob.core.job import Job, Lost, Queued, Running
from bgjob.core.patterns import Pattern
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.link.control import ShimConnection
from bgjob.output import excerpt
from bgjob.output.log_reader import LogReader
from bgjob.output.log_search import search
from bgjob.output.text import plain_line
from bgjob.system.prompt import QUIET_S

LONGEST_BEGUN_LINE_BYTES = 1 << 16
LAST_LINE_CHARACTERS = 200
# A silent shim costs the other jobs of a wait at most a tenth of their time.
SLOW_S, REST_TIMES_ASKING = 0.1, 10.0


class Conditions(Frozen):
    """What a wait is for, beside the end of the job, which always ends it."""

    pattern: Pattern | None = None
    stop_pattern: Pattern | None = None
    streams: tuple[int, ...] = (STDOUT, STDERR)
    port: int | None = None
    """0: any."""
    silence_s: float | None = None
    for_input: bool = False
    past_prompts: bool = False
    """Go on where a job asks and the wait is not for that: another caller may answer it."""

    @property
    def are_given(self) -> bool:
        """False: the wait is for the end."""
        return bool(self.pattern or self.port is not None or self.silence_s is not None or self.for_input)

    @property
    def outlive_the_job(self) -> bool:
        """Processes that a job leaves running may still print, fall silent or open a port."""
        return bool(self.pattern or self.port is not None or self.silence_s is not None)

    @property
    def want_output(self) -> bool:
        return bool(self.pattern or self.stop_pattern or self.silence_s is not None)

    @property
    def need_looking(self) -> bool:
        """For these the kernel wakes no process."""
        return self.port is not None or self.for_input


class Awaited:
    """One job that a wait is for: a snapshot of it, and what has come true."""

    def __init__(self, context: Context, job_id: str, since: str | None, conditions: Conditions) -> None:
        """InvalidArgument: `since` is no cursor."""
        self._context, self._conditions = context, conditions
        self.snapshot = Snapshot(context, job_id)
        start = 0 if since is None else self.snapshot.read(lambda log: excerpt.window(since, log.end).start)
        self._scanned = self._told_up_to = start
        # if an answer has told of the prompt at this cursor: the caller waits all the same
        self._knows_prompt = since is not None and context.prompts_told.has(job_id, start)
        self._shim = ShimWait(context, job_id)
        self._seen, self._looked_at, self._silent_since = -1, -math.inf, -math.inf
        self._ask_again_at, self._unanswered_since = -math.inf, math.inf
        self.came: Came | None = None

    @property
    def job(self) -> Job:
        return self.snapshot.job

    def look_again(self) -> None:
        self.snapshot = Snapshot(self._context, self.job.id)

    # -- what has come true -------------------------------------------------------------------------

    def check(self, deadline: float) -> None:
        """Set `came` if a condition is true of the snapshot. `deadline`: when to stop waiting for its shim."""
        with self._asking(deadline) as until:
            self.snapshot.find_unrecorded_end(until)
            self.came = self.snapshot.read(self._in_output) or self._at_end(deadline)
            self.came = self.came or self._in_the_kernel(until) or self._at_prompt(until)
        if self.came and isinstance(self.job.state, Queued):
            self.look_again()  # it has started meanwhile, and its log was read after that

    @contextlib.contextmanager
    def _asking(self, deadline: float) -> Iterator[float]:
        """Yield when to stop waiting for the shim. A shim that does not answer is skipped in some rounds."""
        began = time.monotonic()
        yield deadline if began >= self._ask_again_at else began
        ended = time.monotonic()
        if ended - began > SLOW_S:
            self._ask_again_at = max(self._ask_again_at, ended + REST_TIMES_ASKING * (ended - began))

    def _in_output(self, log: LogReader) -> Came | None:
        found = [*self._first(log, "stop_pattern"), *self._first(log, "pattern")]
        if found:
            return min(found, key=lambda place: place[0])[1]
        if self._conditions.pattern or self._conditions.stop_pattern:
            self._scanned = self._begin_of_unfinished_lines(log)
        return self._in_silence(log)

    def _first(self, log: LogReader, word: ConditionWord) -> list[tuple[int, Came]]:
        """Where this pattern matches first, if it does."""
        pattern = self._conditions.stop_pattern if word == "stop_pattern" else self._conditions.pattern
        if pattern is None:
            return []
        streams = self._conditions.streams
        result = search(
            log, pattern, streams=streams, since=self._scanned, limit=1, newest_first=False, count=False
        )
        asked = word == "pattern"
        return [(match.offset, Came(word, plain_line(match.line), asked)) for match in result.matches]

    def _begin_of_unfinished_lines(self, log: LogReader) -> int:
        """An unfinished line is searched again with what comes."""
        return min(
            _begin_of_unfinished_line(log, stream, self._scanned) for stream in self._conditions.streams
        )

    def _is_unheard(self) -> bool:
        """It waits; or its machine has told nothing of it yet."""
        job = self.job
        return isinstance(job.state, Queued) or (job.spec.target is not None and job.run is None)

    def _in_silence(self, log: LogReader) -> Came | None:
        if self._conditions.silence_s is None or self._is_unheard():
            return None
        is_silent = self._silent_s(log) >= self._conditions.silence_s
        return Came("silence") if is_silent and not self._is_at_end else None

    def _silent_s(self, log: LogReader) -> float:
        """By the monotonic clock, since our first look; by the wall clock only for the time before that."""
        now, end = time.monotonic(), max(log.end, self._shim.log_end)
        if end != self._seen:
            unseen_s = now - self._looked_at
            self._seen, self._silent_since = end, now - min(idle_s(self.job, log.written_at), unseen_s)
        self._looked_at = now
        return now - self._silent_since

    def _at_end(self, deadline: float) -> Came | None:
        if not self._is_at_end:
            return None
        if self._conditions.outlive_the_job and has_all_output(self._context, self.job, deadline):
            self.snapshot.reopen_log()  # the last process that it left may have printed since the snapshot
        return self.snapshot.read(self._in_output) or Came("exit", asked=not self._conditions.are_given)

    @property
    def _is_at_end(self) -> bool:
        """The job is over, and what is waited for can no longer come."""
        return not isinstance(self.job.state, Running) and not self.is_left_running

    @property
    def is_left_running(self) -> bool:
        """The job has ended, and what is waited for may still come from processes that it left.

        What those of a lost job print is not recorded, but they may open a port.
        """
        state, wanted = self.job.state, self._conditions
        can_come = wanted.port is not None if isinstance(state, Lost) else wanted.outlive_the_job
        is_over = not isinstance(state, Running)
        return is_over and can_come and left_running(self._context, self.job) > 0

    def _in_the_kernel(self, deadline: float) -> Came | None:
        if self._conditions.port is not None and (port := self._listening_port(deadline)):
            return Came("port", str(port))
        if self._conditions.for_input:
            waits = waits_for_input(self._context, self.job, deadline=deadline)
            return Came("input") if waits == "yes" else None
        return None

    def _at_prompt(self, deadline: float) -> Came | None:
        """Not asked for: but until the prompt is answered, nothing else will come."""
        is_started = isinstance(self.job.state, Running) and not isinstance(self.job.state, Queued)
        if not is_started or self._conditions.for_input or self._conditions.past_prompts:
            return None
        if self.log_end > self._told_up_to:
            self._knows_prompt = False
        if self.silent_s() < QUIET_S:
            return None
        if not self._sits_at_prompt(deadline):
            self._knows_prompt = False
            return None
        if self._knows_prompt:
            return None
        self.snapshot.reopen_log()  # what it printed before it asked may have come since the snapshot
        return self.snapshot.read(self._in_output) or Came("input", asked=False)

    def _sits_at_prompt(self, deadline: float) -> bool:
        """Return whether it sits at a prompt. While a guard takes over, the log may lack what the job has printed."""
        now = time.monotonic()
        by_log = now >= self._unanswered_since + SHIM_PATIENCE_S
        sits = sits_at_prompt(self._context, self.job, is_quiet=True, deadline=deadline, by_log=by_log)
        self._unanswered_since = math.inf if sits is not None else min(now, self._unanswered_since)
        return bool(sits)

    @property
    def has_silent_shim(self) -> bool:
        """At the last look the shim did not say whether the job is at a prompt."""
        return isinstance(self.job.state, Running) and self._unanswered_since < math.inf

    @property
    def log_end(self) -> int:
        return self.snapshot.read(lambda log: log.end)

    def silent_s(self) -> float:
        return self.snapshot.read(self._silent_s)

    def _listening_port(self, deadline: float) -> int | None:
        for held in self._listening(deadline):
            if self._conditions.port in (0, held.port):
                return held.port
        return None

    def _listening(self, deadline: float) -> Sequence[activity.Listening]:
        if self.job.remote is None:
            return activity.listening_ports(processes_of(self._context, self.job)) or ()
        from bgjob.api.remote import activity_from, status_at_target

        told = status_at_target(self._context, self.job, detail=True, deadline=deadline)
        used = activity_from(told.get("activity"))
        return (used.listening if used else None) or ()

    def last_line(self) -> str:
        output = tail_of(self._context, self.snapshot, 1, Shown(), since=None)
        return (output.stdout or output.stderr).strip()[-LAST_LINE_CHARACTERS:]

    # -- being woken --------------------------------------------------------------------------------

    @property
    def line(self) -> ShimConnection | None:
        """Readable when the shim has answered. Where there is no shim, the disk tells how the job stands."""
        return self._shim.line

    def arm(self, deadline: float) -> None:
        """Ask the shim to answer when something has happened since the snapshot.

        The shim of a job that has ended has nothing more to tell.
        """
        if not self._shim.is_armed and isinstance(self.job.state, Running):
            with self._asking(deadline) as deadline:
                self._shim.arm(self._beyond(), deadline)

    def _beyond(self) -> int | None:
        """None: output does not matter. A full disk may have swallowed output of which the shim has told."""
        if not self._conditions.want_output:
            return None
        return max(self.log_end, self._shim.log_end)

    def hear(self) -> None:
        """The shim has answered, or is gone."""
        self._shim.hear()

    def hang_up(self) -> None:
        self._shim.close()


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
