"""How a job ended, on disk. Room for the record is reserved before the job starts, and its last byte is a seal.

A disk may be full at each step, and the job's directory may be gone: neither stops the shim.
"""

from __future__ import annotations

import time

from bgjob.home import jobdir
from bgjob.home.log_format import STDERR, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.home.jobdir import Record
    from bgjob.home.log_writer import LogWriter
    from bgjob.shim.cause import Cause
    from bgjob.shim.child import Exit
    from bgjob.shim.limits import Limits


def reserve_outcome() -> None:
    try:
        jobdir.reserve_record(jobdir.OUTCOME)
    except OSError:
        pass  # the disk is full already: it will be tried again when there is an outcome


def outcome_of(dead: Exit, cause: Cause, duration_s: float, log: LogWriter, limits: Limits | None) -> Record:
    outcome = {
        "format": jobdir.FORMAT_VERSION,
        "cause": cause.kind,
        "exit_code": dead.exit_code,
        "signal": dead.signal,
        "ended_at": time.time(),
        "duration_s": duration_s,
        "output_bytes": log.end,
        "stdout_bytes": log.before[STDOUT],
        "stderr_bytes": log.before[STDERR],
    }
    if cause.limit:
        peak_bytes = limits.peak_memory_bytes() if limits else None
        outcome |= {"limit": cause.limit, "peak_memory_bytes": peak_bytes}
    return outcome


def write_outcome(outcome: Record) -> str | None:
    """Write the outcome. Return why it cannot be written now, e.g. because the disk is full; None: it is on disk."""
    try:
        jobdir.write_record(jobdir.OUTCOME, outcome)
    except FileNotFoundError:
        pass  # the job's directory was removed: no client will ask how it ended
    except OSError as error:
        return error.strerror or str(error)
    return None


def make_durable(lock: int) -> None:
    """The job itself, before the outcome that speaks of it."""
    try:
        jobdir.make_durable(lock)
    except OSError:
        pass  # the machine's trouble: the job runs all the same


def seal_outcome() -> None:
    """From now on the outcome is durable: the seal tells that to a reader after a power cut."""
    try:
        jobdir.seal_outcome()
    except OSError:
        pass  # the machine's trouble, and not the job's
