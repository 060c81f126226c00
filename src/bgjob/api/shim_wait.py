"""Being woken by a job's shim: when the job has printed more, or has ended."""

import contextlib
import math

from bgjob.api.context import Context
from bgjob.link.control import NoShim, ShimConnection

SHIM_PATIENCE_S = 10.0
HEAR_PATIENCE_S = 1.0  # the shim has begun to answer, and its answer fits into one packet


class ShimWait:
    """One request at a time. Where there is no shim, `line` is None, and the disk tells how the job stands."""

    def __init__(self, context: Context, job_id: str) -> None:
        self._path = context.store.control_path(job_id)
        self.is_armed = False
        self.line: ShimConnection | None = None
        """Readable when the shim has answered, or is gone."""
        self.log_end = 0
        """As the shim told it last. The log may have less: a full disk swallows output."""

    def arm(self, beyond: int | None, deadline: float = math.inf) -> None:
        """Ask the shim to answer when the log has more than that; None: when the job has ended.

        `deadline`: when to give up connecting.
        """
        try:
            self.line = self.line or ShimConnection(self._path, deadline)
            self.line.send(SHIM_PATIENCE_S, op="wait", beyond=beyond)
            self.is_armed = True
        except (NoShim, TimeoutError):
            self.close()

    def hear(self) -> None:
        """The shim has answered, or is gone."""
        self.is_armed = False
        try:
            if self.line:
                self.log_end = self.line.receive(HEAR_PATIENCE_S)["end"]
        except (NoShim, TimeoutError):
            self.close()

    def close(self) -> None:
        self.is_armed = False
        with contextlib.suppress(OSError):
            if self.line:
                self.line.close()
        self.line = None
