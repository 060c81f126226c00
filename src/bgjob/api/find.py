"""Finding the job that is meant: by its id, by its name, or by how one of them begins."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence

from bgjob.api.context import Context
from bgjob.api.processes import left_running
from bgjob.core.errors import InvalidArgument, JobNotFound
from bgjob.core.job import JOB_ID, Job, Running

UNMISTAKABLE_CHARACTERS = 8  # of an id: as many as a list of jobs shows
BEGINNING_CHARACTERS = 4
STEERING_CHARACTERS = 3
CUTS = ("…", "...")  # as a list shows a name that did not fit, or as it is typed
CANDIDATES_SHOWN = 5
RESEMBLING_JOBS, MOST_TYPED_CHARACTERS = 500, 100


def id_of(context: Context, word: str, *, to_end: bool = False) -> str:
    """The id of the job that is meant; an id is taken as it is, whether or not there is such a job.

    The start of a job that we have just started is over by then: it runs, or has failed.
    """
    job_id = word if JOB_ID.fullmatch(word) else find_job(context, _without_wait(word), to_end=to_end).id
    context.starts.finish(job_id)
    return job_id


def _without_wait(word: str) -> str:
    """The id of a wait for a job begins with that of the job, and may be all that a model was shown."""
    job_id, _, number = word.partition(".")
    return job_id if JOB_ID.fullmatch(job_id) and number.isdecimal() else word


def ids_of(context: Context, words: Sequence[str]) -> list[str]:
    """Each job once."""
    return list(dict.fromkeys(id_of(context, word) for word in words))


def find_job(context: Context, word: str, *, to_end: bool = False) -> Job:
    """By its id, its name, or how its id begins. Of a name: the one that runs, else the newest.

    to_end: where none runs, the newest that has left processes running comes first.
    """
    if JOB_ID.fullmatch(word):
        return context.store.load(word)
    beginning = _without_cut(word)
    by_id = _ids_from(context, beginning) if len(beginning) >= BEGINNING_CHARACTERS else []
    if job := _by_name_or_id(context, word, by_id, Running, to_end=to_end):
        return job
    raise JobNotFound(word)


def find_typed(context: Context, word: str, *, steered: type[Running] | None = None) -> Job:
    """Also by how its name begins, and by less of its id: for people, who do not type UUIDs.

    steered: the caller is about to do what cannot be undone, to a job in this state. Then a name means the
    one job that is in it; a beginning of an id must not be short, and one of a name must end in an ellipsis.
    """
    by_id = _ids_from(context, word) if word else []
    if (
        steered
        and by_id
        and len(word) < STEERING_CHARACTERS
        and not _named(context, word, steered, to_end=False)
    ):
        raise InvalidArgument(
            f"{word!r} is too little of an id. Give at least {STEERING_CHARACTERS} characters of it, or a name."
        )
    to_end = steered is Running
    if job := _by_name_or_id(context, word, by_id, steered, to_end=to_end) or _cut(context, word, steered):
        return job
    raise JobNotFound(word, _resembling(context, word))


def _resembling(context: Context, word: str) -> str | None:
    """What may have been meant by a word that fits no job: a name, or what a list shows of an id."""
    if not word or len(word) > MOST_TYPED_CHARACTERS:
        return None
    from difflib import get_close_matches  # here: only a typo needs it

    words = (each[:UNMISTAKABLE_CHARACTERS] if JOB_ID.fullmatch(each) else each for each in _words(context))
    return next(iter(get_close_matches(word, dict.fromkeys(words), n=1)), None)


def _words(context: Context) -> Iterator[str]:
    return itertools.islice(job_words(context, named=RESEMBLING_JOBS), 2 * RESEMBLING_JOBS)


def job_words(context: Context, named: int) -> Iterator[str]:
    """What jobs may be called by, newest first: the name and the id of each, the name only of the newest."""
    for count, (_, job_id) in enumerate(context.store.ids()):
        with contextlib.suppress(JobNotFound):  # cleaned up meanwhile
            if count < named and (name := context.store.load(job_id).spec.name):
                yield name
            yield job_id


def _ids_from(context: Context, beginning: str) -> list[str]:
    return [job_id for _, job_id in context.store.ids() if job_id.startswith(beginning)]


def _by_name_or_id(
    context: Context, word: str, by_id: Sequence[str], wanted: type[Running] | None, *, to_end: bool
) -> Job | None:
    """A name may look like the beginning of an id: a long beginning counts first."""
    is_id = by_id and len(word) >= UNMISTAKABLE_CHARACTERS
    named = None if is_id else _named(context, word, wanted, to_end=to_end)
    if named or not by_id:
        return named
    if len(by_id) > 1:
        raise InvalidArgument(f"{word!r} fits {len(by_id)} jobs: {some(by_id)}. Give more of the id.")
    return context.store.load(by_id[0])


def _named(context: Context, name: str, wanted: type[Running] | None, *, to_end: bool) -> Job | None:
    """The only one in the wanted state, if any is in it; else the newest."""
    alive = list(jobs_named(context, name, may_run=True)) if wanted or to_end else []
    able = [job for job in alive if wanted and isinstance(job.state, wanted)]
    if len(able) > 1:
        shown = some([job.id for job in able])
        raise InvalidArgument(
            f"{name!r} is the name of {len(able)} running jobs: {shown}. Give the id of one."
        )
    if to_end and not able:
        able = [job for job in alive if left_running(context, job)]
    return next(iter(able), None) or next(jobs_named(context, name), None)


def jobs_named(context: Context, name: str, *, may_run: bool = False) -> Iterator[Job]:
    """Yield the jobs with this name, newest first. `may_run`: skip those that ended and left no process."""
    for job_id in context.store.named(name):
        with contextlib.suppress(JobNotFound):  # removed meanwhile
            if not may_run or context.store.may_run(job_id):
                job = context.store.load(job_id)
                if job.spec.name == name:
                    yield job


def _without_cut(word: str) -> str:
    return word.removesuffix(next(filter(word.endswith, CUTS), ""))


def _cut(context: Context, word: str, steered: type[Running] | None) -> Job | None:
    """By the beginning of a name."""
    beginning = _without_cut(word)
    if not beginning or (steered and beginning == word):
        return None
    names = sorted(name for name in set(context.store.names().values()) if name.startswith(beginning))
    if len(names) > 1:
        shown = some([repr(name) for name in names])
        raise InvalidArgument(f"{word!r} fits {len(names)} names: {shown}. Give more of it, or an id.")
    return _named(context, names[0], steered, to_end=steered is Running) if names else None


def some(words: Sequence[str]) -> str:
    more = ["…"] if len(words) > CANDIDATES_SHOWN else []
    return ", ".join([*words[:CANDIDATES_SHOWN], *more])
