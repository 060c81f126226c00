"""Lines of a hook that report to a client's session which of its jobs have ended.

Names and output are text of unknown origin: hidden characters are made visible, and all of it is quoted.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from bgjob.core.errors import JobNotFound
from bgjob.core.job import (
    JOB_ID,
    SHORT_ID_CHARACTERS,
    Ended,
    Exited,
    Job,
    Killed,
    called,
    end_details,
    reason,
)
from bgjob.home import sessions
from bgjob.home.jobdir import how_ended
from bgjob.output.cleaner import quoted
from bgjob.output.log_end import last_line, prompt_in
from bgjob.output.log_reader import LogReader
from bgjob.output.log_segments import Rotated
from bgjob.store.store import Store

MOST_NAMED = 5
LINE_CHARACTERS = 200
NAME_CHARACTERS = 100


def tell_ends(
    store: Store,
    ended: Mapping[str, str],
    deliver: Callable[[str], object],
    only_with: Collection[str] | None = None,
) -> bool:
    """False: nothing is told. Others have told them meanwhile, or will.

    `ended`: the session that expects each job. `only_with`: without one of these, the others are not told either.
    """
    elsewhere = {session: sessions.told_elsewhere(store.home, session) for session in set(ended.values())}
    claims = sessions.Claims()

    def claimed(job_ids: Iterable[str]) -> list[str]:
        untold = [job_id for job_id in job_ids if job_id not in elsewhere[ended[job_id]]]
        return [each for each in untold if sessions.claim_unless_held(store.home, ended[each], each, claims)]

    first = ended if only_with is None else only_with
    ours = claimed(first)
    if not ours:
        return False
    ours += claimed(job_id for job_id in ended if job_id not in first)
    claims.deliver(lambda: deliver(text_of_ends(store, ours)))
    return True


def text_of_ends(store: Store, job_ids: Collection[str]) -> str:
    """What did not succeed first, then the newest; a line each, and one for those that are not named."""
    jobs = sorted(_loaded(store, job_ids), key=lambda job: (is_success(job), -_ended_at(job)))
    lines = [end_line(store, job) for job in jobs[:MOST_NAMED]]
    more = len(job_ids) - len(lines)
    return "\n".join(
        [*lines, f"bgjob: {more} more jobs have ended: list_jobs shows them."] if more else lines
    )


def end_line(store: Store, job: Job) -> str:
    """How the job ended, after how long, its last line of output, and the call that tells more."""
    state, shown_id = job.state, job.id[:SHORT_ID_CHARACTERS]
    how = how_ended(end_details(state))
    if isinstance(state, Ended) and reason(state) is None:
        how += f" after {duration(state.duration_s)}"
    said = reason(state) or _last_line(store, job)
    tool = "get_job_status" if reason(state) or said is None else "tail_job_output"
    last = f": {quoted(said, LINE_CHARACTERS)}" if said else ", without output"
    return f'bgjob: job {_name(job)} ({shown_id}) {how}{last}. {tool}(job_id="{shown_id}") shows more.'


def running_line(store: Store, job_ids: Sequence[str]) -> str | None:
    """Which of these jobs still run, for a model that may have forgotten it."""
    names = [
        f"{_name(job)} ({job.id[:SHORT_ID_CHARACTERS]})" for job in _loaded(store, job_ids[-MOST_NAMED:])
    ]
    if not names:
        return None
    more = [f"and {len(job_ids) - len(names)} more"] if len(job_ids) > len(names) else []
    return f'bgjob: still running: {", ".join([*names, *more])}. list_jobs(status="running") shows more.'


def prompt_line(store: Store, job_id: str) -> str | None:
    """What the job asks, and how to answer; None: the job is gone."""
    for job in _loaded(store, [job_id]):
        shown_id, asked = job.id[:SHORT_ID_CHARACTERS], None
        with contextlib.suppress(Rotated, OSError):
            asked = prompt_in(LogReader(store.log_directory(job.id)))
        question = f": {quoted(asked, LINE_CHARACTERS)}" if asked else ""
        return (
            f"bgjob: job {_name(job)} ({shown_id}) waits for input{question}. "
            f'Answer by interact_with_job(job_id="{shown_id}").'
        )
    return None


def duration(seconds: float) -> str:
    """In its two largest units."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    return f"{minutes}m {int(seconds % 60)}s" if minutes < 60 else f"{hours}h {minutes % 60}m"


def is_success(job: Job) -> bool:
    """Also a job that a caller has killed: that was wanted."""
    return (isinstance(job.state, Exited) and job.state.code == 0) or isinstance(job.state, Killed)


def _loaded(store: Store, job_ids: Collection[str]) -> list[Job]:
    jobs = []
    for job_id in filter(JOB_ID.fullmatch, job_ids):
        with contextlib.suppress(JobNotFound):  # removed meanwhile
            jobs.append(store.load(job_id))
    return jobs


def _ended_at(job: Job) -> float:
    return job.state.ended_at if isinstance(job.state, Ended) else float("inf")


def _name(job: Job) -> str:
    return quoted(called(job.spec), NAME_CHARACTERS)


def _last_line(store: Store, job: Job) -> str | None:
    """None also if its log is gone."""
    with contextlib.suppress(Rotated, OSError):
        return last_line(LogReader(store.log_directory(job.id)))
    return None
