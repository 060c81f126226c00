"""What a client's session has still to be told: the ends of jobs that it started or waited for.

    sessions/<key>/<job id>    an empty file: this session has not been told of the end of this job;
                               locked by a call that waits for the job, whose answer will tell it
    sessions/<key>/<job id>.asked-<n>   an empty file: this session has been told that the job sits at a prompt,
                               when it had printed n bytes
    sessions/<key>.client      of a client's process: the session that its server knows; kept while it runs

The name of a session is its client's business, so a digest of it is the key. A process that is about to report
an end locks the file, writes its answer, and only then removes the file: of several processes that try, one gets
the lock. The file is there before the job, so that an end at once is not missed. A lock is free when its holder
is gone: the end that a killed process has not reported is reported by the next one that looks.

A client may begin a new session in the same process, of which its server is not told, but its hooks are.
"""

from __future__ import annotations

import os

from bgjob.home import jobdir, queue_dir, waits
from bgjob.home.home_dir import make_inside
from bgjob.home.layout import ID_CHARACTERS, READ_ONLY, is_directory
from bgjob.home.locks import try_lock
from bgjob.system.client_session import is_running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.home.jobdir import Record

SESSIONS = "sessions"
KEY_BYTES = 16
ASKED = ".asked-"
# A cleaner may remove a directory that we have just made.
TRIES = 3
LOCK_TRIES = 10
# Maximum at a time: each is a descriptor. The file of any further end is removed before the end is reported.
MOST_CLAIMED = 200
REMOVED = -1
LOST: Record = {"cause": "lost"}


def expect(home: str, session: str, job_id: str) -> None:
    """The session is to be told when this job ends."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    for left in reversed(range(TRIES)):
        make_inside(home, [SESSIONS, f"{SESSIONS}/{_key(session)}"])
        try:
            return os.close(os.open(_entry(home, session, job_id), flags, 0o600))
        except FileNotFoundError:
            if not left:
                raise


def expected(home: str, session: str) -> list[str]:
    """Ids of the jobs that run, or whose end the session has not been told: the oldest first."""
    directory = directory_of(home, session)
    if not _is_there(home, session):
        return []
    found = []
    with os.scandir(directory) as entries:
        for each in entries:
            try:
                found.append((each.stat(follow_symlinks=False).st_mtime_ns, each.name))
            except FileNotFoundError:
                pass  # told by another process meanwhile
    return [name for _, name in sorted(found) if len(name) == ID_CHARACTERS]


def ended(home: str, session: str) -> dict[str, Record]:
    """The outcomes of the expected jobs that have ended; of a lost job one that says so."""
    outcomes = {job_id: outcome_of(home, job_id) for job_id in expected(home, session)}
    return {job_id: outcome for job_id, outcome in outcomes.items() if outcome}


def outcome_of(home: str, job_id: str) -> Record | None:
    """None: the job runs or waits, or has no directory yet."""
    directory = queue_dir.job_directory(home, job_id)
    if not (is_directory(os.path.dirname(directory)) and is_directory(directory)):
        return None
    phase, outcome = queue_dir.phase(directory)
    return outcome or LOST if phase in ("ended", "lost") else None


class Claims:
    """The ends that one text reports. Until it is written, no other process reports them.

    If the process is killed before, the next one that looks reports them; if it is killed after the text was
    written and before `reported`, they are reported twice. Methods may be called from several threads.
    """

    def __init__(self) -> None:
        self._held: list[tuple[str, int | None]] = []
        self._is_over = False

    def add(self, path: str, fd: int | None) -> None:
        self._held.append((path, fd))
        if self._is_over:
            self.give_up()

    def reported(self) -> None:
        """The text is written."""
        self._release(is_reported=True)

    def give_up(self) -> None:
        """The text will not be written: others may report these ends and those that are added later."""
        self._release(is_reported=False)

    def deliver(self, write: Callable[[], object]) -> None:
        """Write the text. If that fails, others may report these ends."""
        try:
            write()
        except BaseException:
            self.give_up()
            raise
        self.reported()

    def __len__(self) -> int:
        return len(self._held)

    def _release(self, *, is_reported: bool) -> None:
        self._is_over = True
        while self._held:
            path, fd = self._held.pop()
            try:
                if fd == REMOVED and not is_reported:
                    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
                elif fd != REMOVED and is_reported:
                    os.unlink(path)
            except OSError:
                pass  # another answer has reported it
            if fd is not None and fd != REMOVED:
                os.close(fd)


def forget(home: str, session: str, job_id: str) -> None:
    """Stop expecting this end: the session does not have to be notified of it."""
    try:
        if _is_there(home, session):
            os.unlink(_entry(home, session, job_id))
    except OSError:
        pass


def claim(home: str, session: str, job_id: str, claims: Claims) -> None:
    """Claim this end for an answer that contains it, whether or not others have reported it."""
    if len(claims) < MOST_CLAIMED and (fd := hold(home, session, job_id)) is not None:
        claims.add(_entry(home, session, job_id), fd)
    elif _is_expected(home, session, job_id):
        claims.add(_entry(home, session, job_id), None)


def claim_unless_held(home: str, session: str, job_id: str, claims: Claims) -> bool:
    """Claim this end for news or a hook. False: another process reports it, or a call that waits for the job will."""
    path, fd = _entry(home, session, job_id), _opened(home, session, job_id)
    if fd is None:
        return False
    # If the file has no name any more, the end was reported after we opened it.
    is_ours = try_lock(fd) and os.fstat(fd).st_nlink > 0
    if is_ours and len(claims) < MOST_CLAIMED:
        claims.add(path, fd)
        return True
    if is_ours:
        os.unlink(path)
        claims.add(path, REMOVED)
    os.close(fd)
    return is_ours


def hold(home: str, session: str, job_id: str) -> int | None:
    """A descriptor: until it is closed, `claim_unless_held` fails. None: there is nothing to tell."""
    fd = _opened(home, session, job_id)
    if fd is None:
        return None
    if try_lock(fd, LOCK_TRIES, is_shared=True):
        return fd
    os.close(fd)
    return None


def claim_prompt(home: str, session: str, job_id: str, printed_bytes: int) -> bool:
    """True: the caller is the one to tell the session that the job sits at a prompt, with so much printed."""
    mark = f"{job_id}{ASKED}{printed_bytes}"
    directory = directory_of(home, session)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        names = os.listdir(directory) if _is_there(home, session) else []
        if job_id not in names:
            return False  # not a job of this session
        os.close(os.open(f"{directory}/{mark}", flags, 0o600))
        for name in names:
            if name.startswith(f"{job_id}{ASKED}"):
                os.unlink(f"{directory}/{name}")
    except OSError:
        return False
    return True


def told_elsewhere(home: str, session: str) -> set[str]:
    """Jobs for whose end the client asks by itself, so that news and hooks leave them out."""
    return waits.jobs_asked_for(home, session)


def note_client(home: str, process: str, session: str) -> None:
    """The server of this client's process has its jobs under this session."""
    make_inside(home, [SESSIONS])
    jobdir.write_record(client_file(home, process), {"session": session, "process": process})


def is_of_running_client(path: str) -> bool:
    """Whether the client of a file `<key>.client` is still there."""
    process = (jobdir.read_record(path) or {}).get("process")
    return isinstance(process, str) and is_running(process)


def known_to_server(home: str, process: str) -> str | None:
    """The session under which the server of this client's process has its jobs."""
    if not is_directory(f"{home}/{SESSIONS}"):
        return None
    session = (jobdir.read_record(client_file(home, process)) or {}).get("session")
    return session if isinstance(session, str) else None


def _is_there(home: str, session: str) -> bool:
    """A link in the place of a directory may lead out of the home. OSError: that cannot be known."""
    return is_directory(f"{home}/{SESSIONS}") and is_directory(directory_of(home, session))


def directory_of(home: str, session: str) -> str:
    return f"{home}/{SESSIONS}/{_key(session)}"


def client_file(home: str, process: str) -> str:
    return f"{home}/{SESSIONS}/{_key(process)}.client"


def _is_expected(home: str, session: str, job_id: str) -> bool:
    try:
        return _is_there(home, session) and os.path.lexists(_entry(home, session, job_id))
    except OSError:
        return False


def _opened(home: str, session: str, job_id: str) -> int | None:
    try:
        return os.open(_entry(home, session, job_id), READ_ONLY) if _is_there(home, session) else None
    except OSError:
        return None


def _entry(home: str, session: str, job_id: str) -> str:
    return f"{directory_of(home, session)}/{job_id}"


def _key(session: str) -> str:
    import hashlib

    return hashlib.blake2b(session.encode(errors="replace"), digest_size=KEY_BYTES).hexdigest()
