"""What a job is at, as its shim sees it: Running, Pausing or Over. Each carries what is known only then.

In every phase `stopping` is the cause for which processes are being ended, if they are: also those that an
ended run has left behind.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.home.jobdir import Record
    from bgjob.shim.cause import Cause
    from bgjob.shim.child import Exit
    from bgjob.shim.loop import Timer


class Running:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        """0 until the job is started."""
        self.stopping: Cause | None = None
        self.unrecorded: Unrecorded | None = None


class Pausing:
    """Between two runs: the last has ended, and the next begins at `until`, by the monotonic clock."""

    pid = 0

    def __init__(self, last: Exit, cause: Cause, until: float) -> None:
        self.last, self.cause, self.until = last, cause, until
        self.stopping: Cause | None = None
        self.unrecorded: Unrecorded | None = None
        self.timer: Timer | None = None
        """Begins the next run; None while processes of the last are left."""


class Unrecorded:
    """How the job ended, if that cannot be written down yet. Its process stays a zombie until it is."""

    def __init__(self, outcome: Record, why: str) -> None:
        self.outcome, self.why = outcome, why

    def told(self) -> Record:
        return {**self.outcome, "reason": f"this end cannot be recorded: {self.why}"}


class Over:
    """The outcome is on disk. Processes that the job has left behind may still live."""

    unrecorded = None

    def __init__(self, pid: int, outcome: Record, stopping: Cause | None = None) -> None:
        self.pid, self.outcome, self.stopping = pid, outcome, stopping


if TYPE_CHECKING:
    Phase = Running | Pausing | Over
