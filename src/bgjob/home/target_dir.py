"""The targets whose jobs are here, and the relay of each: the process that keeps their copies up to date.

    targets/<name>/target.json   what the target is, as its file told when a job was last started there
    targets/<name>/jobs/<id>     a job of it that is not over: an empty file
    targets/<name>/lock          held by the relay
    targets/<name>/ctl           the relay's socket
    targets/<name>/state.json    which of its machines cannot be reached, since when and why; by the relay
    targets/<name>/cursors/      how far the events of each machine have been copied; by the relay

A job is added before the lock is checked, and the relay looks for jobs once more after it has freed the lock:
so no job is missed.
"""

from __future__ import annotations

import os
import time

from bgjob.home import jobdir
from bgjob.home.home_dir import make_inside
from bgjob.home.layout import ID_CHARACTERS, is_directory
from bgjob.home.locks import open_locked
from bgjob.home.mtimes import mtime
from bgjob.system.detached import start_detached
from bgjob.system.own_argv import RELAY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from bgjob.home.jobdir import Record

TARGETS, TARGET, JOBS, LOCK, CONTROL, STATE, CURSORS = (
    *("targets", "target.json", "jobs", "lock", "ctl"),
    *("state.json", "cursors"),
)
ABANDONED_S = 60.0
# How far the request for a start has come, in the record of a job. Records of older versions lack it.
HERE, SENT, TAKEN = HANDOVERS = ("here", "sent", "taken")
# What programs that reach other machines need beside the variables that every detached process has.
KEPT = frozenset(
    (
        *("KRB5CCNAME", "SSH_AGENT_PID", "SSH_AUTH_SOCK", "SHELL", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"),
        *("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT", "RAY_ADDRESS", "RAY_AUTH_TOKEN_PATH"),
    )
)


def directory(home: str, target: str) -> str:
    return f"{home}/{TARGETS}/{target}"


def make(home: str, target: str, record: Record) -> None:
    """Its directory, with what the target is. The relay reads that again when it connects."""
    make_inside(home, [TARGETS])
    make_inside(f"{home}/{TARGETS}", [target])
    place = directory(home, target)
    make_inside(place, [JOBS, CURSORS])
    if jobdir.read_record(f"{place}/{TARGET}") != record:
        draft = f"{place}/{TARGET}.{os.urandom(8).hex()}"  # several starters may write at the same moment
        jobdir.write_record(draft, record)
        os.rename(draft, f"{place}/{TARGET}")


def names(home: str) -> list[str]:
    """Of the targets that have or had jobs of this home."""
    place = f"{home}/{TARGETS}"
    if not is_directory(place):
        return []
    with os.scandir(place) as entries:
        return sorted(each.name for each in entries if each.is_dir(follow_symlinks=False))


def add(home: str, target: str, job_id: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(f"{directory(home, target)}/{JOBS}/{job_id}", flags, 0o600))


def remove(home: str, target: str, job_id: str) -> None:
    try:
        os.unlink(f"{directory(home, target)}/{JOBS}/{job_id}")
    except FileNotFoundError:
        pass


def remove_abandoned(home: str, target: str, job_id: str) -> None:
    """A job that was added long ago and never made: its starter was killed."""
    made_at = mtime(f"{directory(home, target)}/{JOBS}/{job_id}")
    if abs(time.time() - made_at) > ABANDONED_S:
        remove(home, target, job_id)


def registered(home: str, target: str) -> list[str]:
    """Ids of its jobs that are not over."""
    try:
        with os.scandir(f"{directory(home, target)}/{JOBS}") as entries:
            return [each.name for each in entries if len(each.name) == ID_CHARACTERS]
    except (FileNotFoundError, NotADirectoryError):
        return []


def has_jobs(home: str, target: str) -> bool:
    """Any that is not over. Asked at each call: their number does not count."""
    try:
        with os.scandir(f"{directory(home, target)}/{JOBS}") as entries:
            return any(len(each.name) == ID_CHARACTERS for each in entries)
    except (FileNotFoundError, NotADirectoryError):
        return False


def take_lock(home: str, target: str, tries: int = 1) -> int | None:
    """None: there is a relay already."""
    return open_locked(f"{directory(home, target)}/{LOCK}", tries=tries)


def has_relay(home: str, target: str) -> bool:
    return jobdir.is_locked(f"{directory(home, target)}/{LOCK}")


def start_relay(home: str, target: str, environ: Mapping[str, str]) -> None:
    """It ends at once if there is one already. OSError: it could not be started."""
    start_detached([*RELAY, home, target], environ, KEPT)


def ensure_relays(home: str, environ: Mapping[str, str]) -> None:
    """Each target with jobs that are not over has a relay. Raises nothing: the next caller tries again."""
    try:
        for target in names(home):
            if has_jobs(home, target):
                ensure_relay(home, target, environ)
    except OSError:
        pass


def ensure_relay(home: str, target: str, environ: Mapping[str, str]) -> None:
    """Of a target with jobs that are not over. Raises nothing, as above."""
    try:
        if not has_relay(home, target):
            start_relay(home, target, environ)
    except OSError:
        pass
