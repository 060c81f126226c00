"""The session of a caller: it is told once of the end of each job that it expects, by an answer or by a hook."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar

from bgjob.api.context import Context
from bgjob.api.snapshot import Snapshot
from bgjob.core.errors import BgjobError
from bgjob.core.job import Job, Running
from bgjob.home import sessions
from bgjob.home.sessions import Claims

MOST_HELD = 100
_REPORTED: ContextVar[Claims | None] = ContextVar("_REPORTED", default=None)


def expect(context: Context, session: str | None, job_id: str) -> None:
    """The session is to be told when this job ends. Without room on the disk it is not."""
    if session is not None:
        with contextlib.suppress(OSError):
            sessions.expect(context.store.home, session, job_id)
        context.news_gate.open(session)  # the job may have ended meanwhile


def note_client(context: Context, process: str, session: str) -> None:
    """What hooks of this client need to find its jobs."""
    with contextlib.suppress(OSError):
        sessions.note_client(context.store.home, process, session)


@contextlib.contextmanager
def answering(context: Context, session: str | None, job_ids: Sequence[str]) -> Iterator[None]:
    """While it lasts, hooks and other answers do not tell the session of the ends of these jobs.

    For a call whose own answer will tell them, by `note_told`, or will not: then they can be told again.
    """
    with contextlib.ExitStack() as held:
        for job_id in job_ids[:MOST_HELD] if session is not None else ():
            fd = sessions.hold(context.store.home, session or "", job_id)
            if fd is not None:
                held.callback(os.close, fd)
        yield


@contextlib.contextmanager
def reporting(claims: Claims) -> Iterator[None]:
    """Collect in `claims` the ends that the answer made inside reports. Call `reported` once it is written."""
    token = _REPORTED.set(claims)
    try:
        yield
    except BaseException:
        claims.give_up()
        raise
    finally:
        _REPORTED.reset(token)


@contextlib.contextmanager
def claiming() -> Iterator[Claims]:
    """Yield the claims of the answer that is being made. Outside of `reporting`, it counts as written at once."""
    claims = _REPORTED.get()
    if claims is not None:
        yield claims
        return
    claims = Claims()
    with reporting(claims):
        yield claims
    claims.reported()


def note_told(context: Context, session: str | None, job_ids: Iterable[str]) -> None:
    """An answer says that these jobs have ended."""
    if session is not None:
        with claiming() as claims:
            for job_id in job_ids:
                sessions.claim(context.store.home, session, job_id, claims)


def note_prompts_told(context: Context, session: str, job_ids: Iterable[str]) -> None:
    """An answer says that these jobs sit at prompts, which it tells."""
    for job_id in job_ids:
        log_end = context.prompts_told.log_end(job_id)
        with contextlib.suppress(BgjobError):  # removed meanwhile
            if log_end is None:
                log_end = Snapshot(context, job_id).read(lambda log: log.end)
            sessions.claim_prompt(context.store.home, session, job_id, log_end)


def note_told_if_over(context: Context, session: str | None, job: Job) -> None:
    if not isinstance(job.state, Running):
        note_told(context, session, [job.id])
