"""What the verbs answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bgjob.api.activity import Activity
from bgjob.core.job import Job, PastRuns

KillWord = Literal["killed", "already_terminated", "not_found"]
ConditionWord = Literal["exit", "pattern", "stop_pattern", "port", "silence", "input"]
InputWord = Literal["yes", "no", "unknown"]


@dataclass(frozen=True)
class Picture:
    """A terminal's screen; rows and columns count from 1."""

    text: str
    cursor_row: int
    cursor_column: int
    title: str | None


@dataclass(frozen=True)
class Output:
    stdout: str
    stderr: str
    cursor: str
    """Pass as `since` to get only what is printed after this answer."""
    stdout_left_out_bytes: int = 0
    """Bytes this answer leaves out but the log still has; the text says where, and the cursor to read them."""
    stderr_left_out_bytes: int = 0
    stdout_dropped_bytes: int = 0
    """Bytes the log no longer has (output limit, full disk); the text says where."""
    stderr_dropped_bytes: int = 0
    interleaved: str | None = None
    """Both streams in one order, each line with its time; stdout and stderr are empty then."""
    picture: Picture | None = None
    """The screen, where it was asked for; stdout and stderr are empty then."""


@dataclass(frozen=True)
class Interaction:
    output: Output
    accepted_bytes: int
    """How much of the input went into the job's stdin."""
    unread_bytes: int | None
    """How much of that the job has not read yet; a terminal does not tell."""


@dataclass(frozen=True)
class Kill:
    status: KillWord
    processes: int
    """How many processes were alive when the kill began; none are when it answers."""
    job: Job | None


@dataclass(frozen=True)
class Place:
    """In the queue."""

    position: int
    """1 is the next to start, as far as its conditions hold."""
    reason: str
    """What it waits for."""
    priority: int


@dataclass(frozen=True)
class Page:
    jobs: list[Job]
    next_cursor: str | None
    """None: this was the last page."""
    asking: frozenset[str] = frozenset()
    """Ids of those that wait for input."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """In the queue, of those that are in it."""
    command_characters: int | None = None
    """How much of each command to show; None: all of it."""


@dataclass(frozen=True)
class Chunk:
    """Bytes as the job printed them; `dropped_bytes` are missing before them."""

    stream: int
    data: bytes
    end: int
    dropped_bytes: int


@dataclass(frozen=True)
class JobStatus:
    job: Job
    output_bytes: int
    descendants: int
    """Processes of the job that are alive now, its main process included while it runs."""
    waits_for_input: InputWord | None = None
    """None: it has ended."""
    prompt: str | None = None
    """The unfinished last line of a job that waits for input."""
    activity: Activity | None = None
    ran_s: float | None = None
    """How long a running job has run."""
    idle_s: float | None = None
    """How long a running job has printed nothing."""
    hint: str | None = None
    """What may help, where we know something the job did not say."""
    place: Place | None = None
    """None: it is not queued."""
    history: PastRuns | None = None
    """Of a job with a restart policy."""
    limits: Mapping[str, float | str] | None = None
    """What it may use, as it was asked for; None: it has no limits."""
    limited_by: Mapping[str, str] | None = None
    """What sees to each of them: cgroup, rlimit, watched."""


@dataclass(frozen=True)
class Executed:
    job: Job
    reused: bool
    """It ran before this call."""
    waited: "Waited | None"
    place: Place | None = None
    """None: it is not queued."""


@dataclass(frozen=True)
class Match:
    """A line that a search found."""

    job: Job
    cursor: str
    """Reads the whole line."""
    stream: Literal["stdout", "stderr"]
    at: float
    """Seconds since the epoch."""
    line: str
    before: list[str]
    after: list[str]


@dataclass(frozen=True)
class Found:
    matches: list[Match]
    count: int
    """All there are, whether they are among `matches` or not."""
    searched_jobs: int
    complete: bool
    """False: there was no time to look at everything."""


@dataclass(frozen=True)
class JobEvent:
    """An event."""

    at: float
    """Seconds since the epoch."""
    kind: str
    job_id: str
    name: str | None
    details: dict[str, Any]


@dataclass(frozen=True)
class EventPage:
    events: list[JobEvent]
    cursor: str
    """Behind the last of them: what has been read up to here."""
    more: bool = False
    """There are more after the cursor now; they did not fit."""
    left_out: int = 0
    """Older ones that did not fit, where no cursor said from where on."""
    earlier: str | None = None
    """A cursor that reads those, oldest first."""
    gone_bytes: int = 0
    """About how much of what came after the given cursor is no longer kept."""


@dataclass(frozen=True)
class Met:
    condition: ConditionWord
    detail: str | None = None
    """The line that matched, or the port."""


@dataclass(frozen=True)
class Waited:
    status: JobStatus
    met: Met | None
    """None: nothing came true for this job in time."""
    output: Output
