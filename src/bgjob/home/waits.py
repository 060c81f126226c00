"""Waits that outlive the call that began them, and its server.

    waits/<id>/wait.json    what is waited for, and for whom; its mtime is when the client last asked
    waits/<id>/end.json     how the wait ended: made once, by the process that is first
    waits/<id>/<key>        a prompt that was answered on the way

A wait that is for the end of one job has the job's id.
"""

from __future__ import annotations

import os
import time

from bgjob.home import jobdir
from bgjob.home.home_dir import make_inside
from bgjob.home.layout import is_directory, names_in
from bgjob.home.mtimes import mtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.home.jobdir import Record

WAITS, WAIT, END = "waits", "wait.json", "end.json"
# A client that asks tells its model of the end by itself; one that has not asked for so long may be gone.
ASKED_LATELY_S = 10.0


def path_of(home: str, wait_id: str) -> str:
    return f"{home}/{WAITS}/{wait_id}"


def job_ids_of(record: Record) -> list[str]:
    found = record.get("job_ids")
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def create(home: str, wait_id: str, record: Record) -> bool:
    """After this the wait survives a power cut. False: there is one of this id."""
    make_inside(home, [WAITS])
    try:
        os.mkdir(path_of(home, wait_id), 0o700)
    except FileExistsError:
        return False
    jobdir.write_record(f"{path_of(home, wait_id)}/{WAIT}", record, durable=True)
    jobdir.sync_directory(f"{home}/{WAITS}")
    return True


def read(home: str, wait_id: str) -> Record | None:
    directories = f"{home}/{WAITS}", path_of(home, wait_id)
    return jobdir.read_record(f"{directories[1]}/{WAIT}") if all(map(is_directory, directories)) else None


def end(home: str, wait_id: str, record: Record) -> Record:
    """How the wait has ended: as this record says, or as another process said first."""
    directory = path_of(home, wait_id)
    draft = f"{directory}/{END}.{os.getpid()}.{time.monotonic_ns()}"
    try:
        jobdir.write_record(draft, record, durable=True)
        os.link(draft, f"{directory}/{END}")
    except OSError:
        pass  # another process was first; or there is no room for it: then the next look ends it again
    try:
        os.unlink(draft)
    except OSError:
        pass
    return ended(home, wait_id) or record


def ended(home: str, wait_id: str) -> Record | None:
    """None: it goes on."""
    return jobdir.read_record(f"{path_of(home, wait_id)}/{END}")


def take_prompt(home: str, wait_id: str, key: str) -> bool:
    """True: the caller is the one to answer this prompt."""
    try:
        os.close(os.open(f"{path_of(home, wait_id)}/{key}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    return True


def prompts_taken(home: str, wait_id: str) -> list[str]:
    return [name for name in names_in(path_of(home, wait_id)) if not name.startswith((WAIT, END))]


def ids(home: str) -> list[str]:
    return names_in(f"{home}/{WAITS}") if is_directory(f"{home}/{WAITS}") else []


def asked_at(home: str, wait_id: str) -> float:
    """When its client last asked; of a wait that is just being kept, now; 0 if there is none."""
    return mtime(f"{path_of(home, wait_id)}/{WAIT}") or mtime(path_of(home, wait_id))


def note_asked(home: str, wait_id: str) -> None:
    try:
        os.utime(f"{path_of(home, wait_id)}/{WAIT}")
    except OSError:
        pass  # cleaned up


def jobs_asked_for(home: str, session: str) -> set[str]:
    """Jobs of waits that go on, and that a client of this session asks for: it hears of their ends by them."""
    records = filter(None, (read(home, wait_id) for wait_id in ids(home) if _is_asked_for(home, wait_id)))
    return {job_id for record in records if record.get("session") == session for job_id in job_ids_of(record)}


def _is_asked_for(home: str, wait_id: str) -> bool:
    is_recent = abs(time.time() - asked_at(home, wait_id)) < ASKED_LATELY_S
    return is_recent and not os.path.lexists(f"{path_of(home, wait_id)}/{END}")
