"""From a job's files to nouns: its state, or why that is not known. The rules are in record_schema."""

import os
import stat
from collections.abc import Mapping
from typing import Any

from bgjob import __version__
from bgjob.core.job import (
    End,
    Ended,
    Lost,
    PastRuns,
    Queued,
    Run,
    Running,
    Spec,
    State,
    Unreadable,
    UnreadableSpec,
    end_details,
)
from bgjob.core.late_pattern import late_pattern
from bgjob.home import jobdir, queue_dir, target_dir
from bgjob.home.jobdir import (
    LAUNCH,
    LAUNCH_TAKEN,
    LIMITS,
    LOG,
    OUTCOME,
    REMOTE,
    RUN,
    RUNS,
    SPEC,
    TERMINAL,
    WATCH,
)
from bgjob.home.layout import is_directory
from bgjob.store.record_schema import (
    Malformed,
    Record,
    end_of,
    groups_of,
    history_of,
    limited_by_of,
    remote_of,
    resizes_of,
    run_of,
    spec_of,
    unreachable_of,
    watch_state_of,
)
from bgjob.system import processes

VERSION = late_pattern(r"[0-9][0-9A-Za-z.+!-]{0,30}")


def read_spec(job_id: str, directory: str) -> Spec:
    """A spec that cannot be read has the time of its directory: the job's age must be known."""
    try:
        if not is_directory(directory):
            raise Malformed("it is missing")
        return spec_of(job_id, _read(f"{directory}/{SPEC}"))
    except Malformed as why:
        return UnreadableSpec(job_id, f"({SPEC} cannot be read: {why})", "", "", _changed_at(directory), 0)


def _changed_at(directory: str) -> float:
    try:
        return max(0.0, os.lstat(directory).st_mtime)
    except OSError:
        return 0.0  # the directory was removed, or may not be entered


def read_state(directory: str) -> State:
    return _credible(_found_state(directory), directory)


def _found_state(directory: str) -> State:
    match queue_dir.phase(directory):
        case "ended", outcome:
            return end_from(outcome)
        case "running", _:
            return Running(run_from(jobdir.read_record(f"{directory}/{RUN}")))
        case "queued", _:
            return Queued(None)
        case _, remote:
            return Lost(str(remote["reason"]) if remote.get("reason") else _why_lost(directory))


def read_remote(directory: str) -> dict[str, Any]:
    """How a job stands at its target; empty if that cannot be read."""
    try:
        return remote_of(_read(f"{directory}/{REMOTE}"))
    except Malformed:
        return {}


def read_unreachable(home: str, target: str) -> Mapping[str, tuple[float, str]]:
    """Return since when and why hosts of a target cannot be reached; empty if that cannot be read."""
    try:
        return unreachable_of(_read(f"{target_dir.directory(home, target)}/{target_dir.STATE}"))
    except Malformed:
        return {}


def read_resizes(directory: str) -> list[tuple[int, int, int]]:
    """(offset in the log, rows, columns) of each resize; empty if they cannot be read."""
    try:
        return resizes_of(_read(f"{directory}/{TERMINAL}"))
    except Malformed:
        return []


def read_history(directory: str) -> PastRuns:
    """Empty if it cannot be read."""
    try:
        return history_of(_read(f"{directory}/{RUNS}"))
    except Malformed:
        return PastRuns(0, (), False)


def read_watch_state(directory: str) -> dict[str, Any]:
    """How far its watches have looked. Empty if that cannot be read: then they look once more."""
    try:
        return watch_state_of(_read(f"{directory}/{WATCH}"))
    except Malformed:
        return {}


def read_limited_by(directory: str) -> dict[str, str]:
    """Which mechanism enforces each limit of a job; empty if there is no record."""
    try:
        return limited_by_of(_read(f"{directory}/{LIMITS}"))
    except Malformed:
        return {}


def read_groups(directory: str) -> list[str]:
    """The control groups that were made for a job."""
    try:
        return groups_of(_read(f"{directory}/{LIMITS}"))
    except Malformed:
        return []


def run_from(record: Record | None) -> Run | None:
    try:
        return run_of(_understood(record)) if record else None
    except Malformed:
        return None


def end_from(record: Record) -> End | Unreadable:
    """Any record tells that the job has ended, even if not how."""
    try:
        return end_of(_understood(record))
    except Malformed as why:
        return Unreadable(f"how it ended is in its {OUTCOME}, which bgjob {__version__} cannot read: {why}")


def _read(path: str) -> Record:
    """The record at this path; Malformed says why there is none."""
    record = jobdir.read_record(path)
    if record is None:
        raise Malformed(_why_unread(path))
    return _understood(record)


def _why_unread(path: str) -> str:
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return "it is missing"
    except OSError as error:
        return f"it cannot be reached ({error.strerror})"
    if not stat.S_ISREG(info.st_mode):
        return "it is no file"
    if not os.access(path, os.R_OK):
        return "it may not be opened (Permission denied)"
    return "it is torn or no record" if info.st_size <= jobdir.RECORD_MAX_BYTES else "it is too large"


def _understood(record: Record) -> Record:
    """The record, if its format is not newer than ours."""
    number = record.get("format", 1)
    if not isinstance(number, int) or number < 1:
        raise Malformed("its format is no number")
    if number > jobdir.FORMAT_VERSION:
        raise Malformed(f"it is of format {str(number)[:20]}; {_reader(record.get('needs'))} reads that")
    return record


def _reader(version: object) -> str:
    is_one = isinstance(version, str) and VERSION.fullmatch(version)
    return f"bgjob {version} or newer" if is_one else "a newer bgjob"


def _credible(state: State, directory: str) -> State:
    """After a power cut an outcome without its seal may be ahead of the output it speaks of."""
    if not isinstance(state, Ended) or state.output_bytes == 0:
        return state
    outcome, spec = f"{directory}/{OUTCOME}", f"{directory}/{SPEC}"
    if jobdir.is_sealed(outcome) or not _is_of_another_boot(directory) or jobdir.is_locked(spec):
        return state
    how = jobdir.how_ended(end_details(state))
    return Lost(
        f"the machine was restarted before its end was safely on disk: on record is that it {how}, and output may "
        "be missing"
    )


def _is_of_another_boot(directory: str) -> bool:
    """By its spec, the first file of a job that is on disk."""
    return not jobdir.is_of_this_boot(jobdir.read_record(f"{directory}/{SPEC}") or {})


def _why_lost(directory: str) -> str:
    """As exactly as it is known. A record that cannot be read is not said to be missing."""
    if not _is_plain_file(f"{directory}/{SPEC}"):
        return f"its {SPEC} is gone or cannot be opened, so that nobody can tell whether it runs"
    if os.path.lexists(f"{directory}/{OUTCOME}"):
        return f"its {OUTCOME} cannot be read: {_why_unread(f'{directory}/{OUTCOME}')}"
    run = run_from(jobdir.read_record(f"{directory}/{RUN}"))
    if run is None and os.path.lexists(f"{directory}/{RUN}"):
        return f"nobody saw its end, and its {RUN} cannot be read"
    if run is None and jobdir.read_record(f"{directory}/{SPEC}") is None:
        return f"its {SPEC} cannot be read, and nothing tells whether it was started"
    if run is None and _is_of_another_boot(directory):
        return "the machine was restarted; whether it had started is not known"
    if run is None and (
        jobdir.is_reserved(f"{directory}/{OUTCOME}") or os.path.lexists(f"{directory}/{LOG}")
    ):
        return "its shim and its guard were killed as they started it: whether it ran is not known"
    if run is None:
        return "it was never started: its starter is gone"
    if not processes.is_this_boot(run.boot_id):
        return "the machine was restarted while it ran"
    return "its shim and its guard were killed while it ran"


def has_never_started(directory: str) -> bool:
    """To be called by the holder of the job's lock. True: provably nothing was run, not even in part.

    A shim reserves the room of the outcome before it starts anything. A launch file that was taken from the
    queue says that a shim was about to start the job.
    """
    signs = (OUTCOME, f"{OUTCOME}.new", RUN, LOG, LAUNCH, LAUNCH_TAKEN)
    if any(os.path.lexists(f"{directory}/{name}") for name in signs):
        return False
    return jobdir.read_record(f"{directory}/{SPEC}") is not None and not _is_of_another_boot(directory)


def _is_plain_file(path: str) -> bool:
    """A file whose lock can be checked."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode) and os.access(path, os.R_OK)
    except OSError:
        return False
