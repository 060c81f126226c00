"""What the verbs answer."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from bgjob.api.activity import Activity
from bgjob.core.frozen import NOTHING, Frozen
from bgjob.core.job import Job, PastRuns, StatusWord

KillWord = Literal["killed", "already_terminated", "not_found", "signaled"]
"""The last one only where the caller asked for a signal alone."""
ConditionWord = Literal["exit", "pattern", "stop_pattern", "port", "silence", "input"]
InputWord = Literal["yes", "no", "unknown"]
CheckWord = Literal["ok", "degraded", "missing", "broken"]
"""degraded: works, but less well. missing: something that a person may want. broken: does not work."""


class Picture(Frozen):
    """A terminal's screen; rows and columns count from 1."""

    text: str
    cursor_row: int
    cursor_column: int
    title: str | None
    highlight: list[str]
    """The texts that stand out, such as the selected line of a menu."""
    exact: bool
    """False: parts of it were drawn so long ago that they are not known, and are blank here."""


class Output(Frozen):
    stdout: str
    stderr: str
    cursor: str
    """Pass as `since` to get only what is printed after this answer."""
    stdout_left_out_bytes: int = 0
    """Bytes that this answer leaves out; the log has them. The text says where, and with which cursor."""
    stderr_left_out_bytes: int = 0
    stdout_dropped_bytes: int = 0
    """Bytes the log no longer has (output limit, full disk); the text says where."""
    stderr_dropped_bytes: int = 0
    interleaved: str | None = None
    """Both streams in one order, each line with its time; stdout and stderr are empty then."""
    picture: Picture | None = None
    """The screen, where it was asked for or tells more; stdout and stderr are empty then."""


class Reading(Frozen):
    """What a job printed, and how it stands."""

    job: Job
    output: Output
    waits_for_input: bool | None
    """As in a JobStatus."""
    prompt: str | None
    left_running: int
    """As in a JobStatus."""
    history: PastRuns | None = None
    """As in a JobStatus."""


class Interaction(Frozen):
    output: Output
    accepted_bytes: int
    """How much of the input went into the job's stdin."""
    unread_bytes: int | None
    """How much of that the job has not read yet; a terminal does not tell."""
    job: Job
    """As it was after the wait."""
    waits_for_input: bool | None = None
    """As in a JobStatus."""
    prompt: str | None = None
    history: PastRuns | None = None
    """As in a JobStatus."""
    cut_to_s: float | None = None
    """As in a Waited."""
    sent_bytes: int = 0
    """How much input there was: more than `accepted_bytes` if the job does not read it."""
    at: int = 0
    """Where the log ended before the input."""


class Kill(Frozen):
    status: KillWord
    processes: int
    """How many processes were alive when the kill began; none are when it answers. Or how many got the signal."""
    job: Job | None
    signal: int | None = None
    """The signal that was sent, where it was to be only that."""
    hint: str | None = None
    """The existing names, if no job has the given one; or that the end of the job cannot be recorded."""


class Place(Frozen):
    """Of a job in the queue."""

    position: int
    """1 is the next to start, if its conditions hold; 0: in the queue of a target, which does not tell."""
    reason: str
    """What the job waits for."""
    priority: int


class Totals(Frozen):
    """Of all jobs in the store."""

    by_status: Mapping[StatusWord, int]
    output_bytes: int


class Page(Frozen):
    jobs: list[Job]
    next_cursor: str | None
    """None: this was the last page."""
    asking: frozenset[str] = frozenset()
    """Ids of the jobs that sit at a prompt."""
    places: Mapping[str, Place] = NOTHING
    """By id, of the jobs in the queue."""
    left_running: Mapping[str, int] = NOTHING
    """By id, how many processes of it are alive, of the ended jobs that have some."""


class Chunk(Frozen):
    """Bytes as the job printed them; `dropped_bytes` are missing before them."""

    stream: int
    data: bytes
    end: int
    dropped_bytes: int
    time_us: int = 0
    """When they came, in microseconds since the epoch."""


class Hold(Frozen):
    """A person is attached to a job and types."""

    by: str
    since: float
    typed_at: float
    """When they typed last."""


class JobStatus(Frozen):
    job: Job
    output_bytes: int
    descendants: int
    """Processes of the job that are alive now, its main process included while it runs."""
    left_running: int = 0
    """Processes that an ended job has left behind, and that its shim is not ending."""
    waits_for_input: bool | None = None
    """Whether the job sits at a prompt. None: it has ended, or the kernel does not tell."""
    prompt: str | None = None
    """The unfinished last line of a job that sits at a prompt."""
    activity: Activity | None = None
    held: Hold | None = None
    """By whom, where the caller asked for details; None: by nobody."""
    ran_s: float | None = None
    """How long a running job has run."""
    idle_s: float | None = None
    """How long a running job has printed nothing."""
    hint: str | None = None
    """What may help and the job did not say, such as which process holds its port."""
    place: Place | None = None
    """None: the job is not queued."""
    history: PastRuns | None = None
    """Of a job with a restart policy."""
    limits: Mapping[str, float | str] | None = None
    """What the job may use, as the caller gave it; None: it has no limits."""
    log: str | None = None
    """A file with all output that is kept; None: not asked for, or there is none."""
    log_note: str | None = None
    """That the file falls behind the job, or why there is none."""
    limited_by: Mapping[str, str] | None = None
    """What enforces each limit: cgroup, rlimit, watched."""


class Executed(Frozen):
    job: Job
    reused: bool
    """True: the job ran before this call."""
    waited: "Waited | None"
    """None: the caller did not want to wait."""
    met: bool | None = None
    """Whether what the caller waits for came true; None: that was the end, or nothing."""
    place: Place | None = None
    """None: the job is not queued."""
    left_running: int = 0
    """As in JobStatus, where there is no `waited` to tell."""
    asked_command: str | None = None
    """What the caller asked to run; None: the job runs just that."""


class Match(Frozen):
    """A line that a search found."""

    line: str
    """Of a long line the part around the match, with an ellipsis where it was cut."""
    cursor: str
    """Pass as `since` to read the whole line."""
    stream: Literal["stdout", "stderr"]
    at: float | None
    """Seconds since the epoch; None: the caller did not ask."""
    before: list[str]
    after: list[str]


class FoundInJob(Frozen):
    job: Job
    matches: list[Match]
    """In the order of the log."""


class Found(Frozen):
    jobs: list[FoundInJob]
    """Those with lines to show, newest first."""
    count: int
    """Of all lines that match, shown or not."""
    searched_jobs: int
    complete: bool
    """False: the time was up before everything was searched, or a log could not be read."""
    shown: int | None = None
    """How many lines are shown, if fewer fit into the answer than were asked for."""
    counts: Sequence[tuple[Job, int]] = ()
    """How many lines match in each job that has any, shown or not."""


class JobEvent(Frozen):
    """An event."""

    at: float
    """Seconds since the epoch."""
    kind: str
    job_id: str
    name: str | None
    command: str | None
    """The beginning of the command of a job without a name; None: it has a name, or was cleaned up."""
    details: dict[str, Any]


class EventPage(Frozen):
    events: list[JobEvent]
    cursor: str
    """Behind the last of these events."""
    more: bool = False
    """True: more events are there after the cursor; they did not fit."""
    left_out: int = 0
    """How many older events there are, where the caller gave no cursor."""
    earlier: str | None = None
    """A cursor that reads the older ones, oldest first."""
    gone_bytes: int = 0
    """About how many bytes of events after the given cursor are no longer kept."""
    cut_to_s: float | None = None
    """How long it waited, where nothing happened and the caller wanted to wait longer than a call may."""


class Came(Frozen):
    """What ended the wait for a job."""

    condition: ConditionWord
    detail: str | None = None
    """The line that matched, or the port."""
    asked: bool = True
    """False: it is not what the caller waits for, but nothing else is to be expected."""

    @property
    def is_unasked_prompt(self) -> bool:
        return self.condition == "input" and not self.asked


class Waited(Frozen):
    """One job of a wait."""

    status: JobStatus
    came: Came | None
    """None: nothing came true for this job in time."""
    output: Output
    cut_to_s: float | None = None
    """How long it waited, where nothing came true and the caller wanted to wait longer than a call may."""

    @property
    def met(self) -> bool:
        return self.came is not None and self.came.asked


class Check(Frozen):
    """Of this machine, by doctor."""

    about: str
    state: CheckWord
    found: str
    """What there is, or what does not work because it is not there."""
    advice: str = ""
