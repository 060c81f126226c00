"""A job as it was at one moment, and its log. A call takes one snapshot, so it reads each of them once."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from bgjob.api.context import Context
from bgjob.core.errors import StoreUnusable
from bgjob.core.frozen import replace
from bgjob.core.job import Ended, Job, Running
from bgjob.home import target_dir
from bgjob.link.control import NoShim, ask_shim
from bgjob.output.log_reader import LogReader
from bgjob.output.log_segments import Rotated
from bgjob.store.records import end_from
from bgjob.system.processes import alive

Answer = TypeVar("Answer")
READ_TRIES = 20
END_PATIENCE_S = 2.0


class Snapshot:
    def __init__(self, context: Context, job_id: str) -> None:
        """JobNotFound: there is no such job."""
        self._store = context.store
        self.job: Job = self._store.load(job_id)
        if self.job.remote and isinstance(self.job.state, Running):
            # It keeps what is read here up to date.
            target_dir.ensure_relay(self._store.home, self.job.remote.target, context.environment)
        self._log: LogReader | None = None

    def find_unrecorded_end(self, deadline: float) -> bool:
        """Ask the shim of a running job whether it has ended and the shim cannot record that."""
        job = self.job
        if not isinstance(job.state, Running) or job.remote or job.run is None or alive([job.run.pid]):
            return False
        with contextlib.suppress(NoShim, TimeoutError):
            if told := ask_shim(self._store.control_path(job.id), deadline, op="status").get("unrecorded"):
                self.job = replace(job, state=end_from(told))
                return True
        return False

    @property
    def log(self) -> LogReader:
        """Opened after the job was loaded: the log of a job that had ended by then is whole."""
        if self._log is None:
            state = self.job.state
            printed = (state.stdout_bytes, state.stderr_bytes) if isinstance(state, Ended) else (0, 0)
            self._log = LogReader(self._store.log_directory(self.job.id), printed)
        return self._log

    def reopen_log(self) -> None:
        """The next reader sees what was printed meanwhile."""
        self._log = None

    def read(self, read: Callable[[LogReader], Answer]) -> Answer:
        """What `read` makes of the log; called again, with the log as it is then, if a segment is gone.

        Output that is replaced faster than it can be read is held in memory first: such a log is small.
        """
        with self.readable():
            for _ in range(READ_TRIES):
                with contextlib.suppress(Rotated):
                    return read(self.log)
                self.reopen_log()
            self.log.hold()
            return read(self.log)

    @contextlib.contextmanager
    def readable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnusable(
                f"The output of job {self.job.id} cannot be read: {error.strerror or error}. "
                "The job is not touched by that."
            ) from error


def with_unrecorded_end(context: Context, job_id: str) -> Job:
    """Load a job. If its shim knows how it ended but cannot record that, it has that end."""
    snapshot = Snapshot(context, job_id)
    snapshot.find_unrecorded_end(time.monotonic() + END_PATIENCE_S)
    return snapshot.job
