"""One line about jobs of a session that ended since it was last told: once for each, nearly free if there is none.

What has not been told is on disk, see home/sessions. In memory is only how far this process has looked.
"""

import contextlib
from collections.abc import Collection, Iterable, Iterator

from bgjob.api.context import Context
from bgjob.api.session import claiming, note_prompts_told, note_told
from bgjob.core.errors import JobNotFound, StoreUnusable
from bgjob.core.job import JOB_ID, SHORT_ID_CHARACTERS, Ended, Job, called, end_details
from bgjob.home import jobdir, sessions
from bgjob.home.event_log import Cursor
from bgjob.output.cleaner import quoted
from bgjob.store import event_reader

MOST_NAMED = 3
NAME_CHARACTERS = 100


def news(
    context: Context,
    session: str | None,
    told: Collection[str] = (),
    asked: Collection[str] = (),
    prompts: Collection[str] = (),
) -> str | None:
    """Without jobs whose end this answer tells, and for now without those that the call asked about.

    `prompts`: jobs whose prompt the answer tells. All are ids, or what a caller writes for an id.
    """
    if session is None:
        return None
    with contextlib.suppress(OSError, StoreUnusable):  # it is told later
        note_told(context, session, _meant(context, session, told))
        note_prompts_told(context, session, _meant(context, session, prompts))
        if context.settings.news and context.news_gate.is_open(session):
            ended = untold_ends(context, session)
            withheld = _told_otherwise(context, session, asked) if ended else set()
            ours = _claimed(context, session, [job for job in ended if job.id not in withheld])
            if len(ours) < len(ended):
                context.news_gate.open(session)
            return _line(ours) if ours else None
    return None


def untold_ends(context: Context, session: str) -> list[Job]:
    """In the order in which they ended; those that nobody saw end come last."""
    found = []
    for job_id in sessions.ended(context.store.home, session):
        with contextlib.suppress(JobNotFound):
            found.append(context.store.load(job_id))
    return sorted(found, key=lambda job: job.state.ended_at if isinstance(job.state, Ended) else float("inf"))


def untold_in_log(context: Context, session: str) -> tuple[Cursor | None, Collection[str]]:
    """(the place in the log of events right before the first end that is to be told, the ids of all such jobs)

    The ends that the session has not been told, without those that a task will tell. None: there is none.
    """
    ended = untold_ends(context, session) if context.settings.news else []
    untold = {job.id for job in ended} - sessions.told_elsewhere(context.store.home, session)
    if not untold:
        return None, ()
    context.reconciler.reconcile(list(untold))  # an end that nobody saw is in the log from now on
    place, left = None, set(untold)
    for line in event_reader.newest_first(context.store.events):
        if line.kind == "ended" and line.job_id in left:
            left.discard(line.job_id)
            place = Cursor(line.behind.segment, line.behind.byte - len(line.text) - 1)
        if not left:
            break
    return place, untold


def _claimed(context: Context, session: str, jobs: list[Job]) -> list[Job]:
    home = context.store.home
    with claiming() as claims:
        return [job for job in jobs if sessions.claim_unless_held(home, session, job.id, claims)]


def _told_otherwise(context: Context, session: str, asked: Iterable[str]) -> set[str]:
    """What the call is about, and what the client asks for by itself."""
    return {*_meant(context, session, asked), *sessions.told_elsewhere(context.store.home, session)}


def _meant(context: Context, session: str, words: Iterable[str]) -> Iterator[str]:
    """Ids, of words that may be an id, its beginning or a name of a job that the session expects."""
    others = []
    for word in words:
        if JOB_ID.fullmatch(word):
            yield word
        else:
            others.append(word)
    expected = sessions.expected(context.store.home, session) if others else []
    for job_id in filter(JOB_ID.fullmatch, expected):
        if any(job_id.startswith(word) for word in others) or context.store.spec(job_id).name in others:
            yield job_id


def _line(jobs: list[Job]) -> str:
    sentences = [_sentence(job) for job in jobs[-MOST_NAMED:]]
    more = len(jobs) - len(sentences)
    return f"{', '.join([*sentences, f'and {more} more before'] if more else sentences)}."


def _sentence(job: Job) -> str:
    name = quoted(called(job.spec), NAME_CHARACTERS)
    return f"{name} ({job.id[:SHORT_ID_CHARACTERS]}) {jobdir.how_ended(end_details(job.state))}"
