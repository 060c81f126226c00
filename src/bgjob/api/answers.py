"""What the verbs answer."""

from dataclasses import dataclass
from typing import Literal

from bgjob.job import Job

KillWord = Literal["killed", "already_terminated", "not_found"]


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
class Page:
    jobs: list[Job]
    next_cursor: str | None
    """None: this was the last page."""


@dataclass(frozen=True)
class Chunk:
    """Bytes as the job printed them; `dropped_bytes` are missing before them."""

    stream: int
    data: bytes
    end: int
    dropped_bytes: int


@dataclass(frozen=True)
class Look:
    job: Job
    output_bytes: int
    descendants: int
    """Processes of the job that are alive now, its main process included while it runs."""
