"""Finding the job that is meant: by its id, by its name, or by how one of them begins."""

from collections.abc import Sequence

from bgjob.api.context import Context
from bgjob.core.errors import InvalidArgument, JobNotFound
from bgjob.core.job import JOB_ID, Job, Running

UNMISTAKABLE_CHARACTERS = 8  # of an id: as many as a list of jobs shows
STEERING_CHARACTERS = 3
CUTS = ("…", "...")  # as a list shows a name that did not fit, or as it is typed
CANDIDATES_SHOWN = 5


def find_job(context: Context, word: str) -> Job:
    """By its id; or the newest of this name."""
    if JOB_ID.fullmatch(word):
        return context.store.load(word)
    if named := _named(context, word):
        return named
    raise JobNotFound(word)


def find_typed(context: Context, word: str, *, steered: type[Running] | None = None) -> Job:
    """Also by how its id or its name begins: for people, who do not type UUIDs. A name may look like either.

    steered: the caller is about to do what cannot be undone, to a job in this state. Then a name means the
    one job that is in it; a beginning of an id must not be short, and one of a name must end in an ellipsis.
    """
    by_id = [job_id for _, job_id in context.store.ids() if word and job_id.startswith(word)]
    named = None if by_id and len(word) >= UNMISTAKABLE_CHARACTERS else _named(context, word, steered)
    if job := named or _begun(context, word, by_id, steered) or _cut(context, word, steered):
        return job
    raise JobNotFound(word)


def _named(context: Context, name: str, steered: type[Running] | None = None) -> Job | None:
    """The newest; to be steered, the only one in that state, if any is."""
    jobs = (job for _, job in context.store.jobs() if job.spec.name == name)
    if steered is None:
        return next(jobs, None)
    found = list(jobs)
    able = [job for job in found if isinstance(job.state, steered)]
    if len(able) > 1:
        shown = _some([job.id for job in able])
        raise InvalidArgument(f"{name!r} is the name of {len(able)} jobs: {shown}. Give the id of one.")
    return next(iter(able or found), None)


def _begun(context: Context, word: str, by_id: Sequence[str], steered: type[Running] | None) -> Job | None:
    if not by_id:
        return None
    if steered and len(word) < STEERING_CHARACTERS:
        raise InvalidArgument(
            f"{word!r} is too little of an id. Give at least {STEERING_CHARACTERS} characters of it, or a name."
        )
    if len(by_id) > 1:
        raise InvalidArgument(f"{word!r} fits {len(by_id)} jobs: {_some(by_id)}. Give more of the id.")
    return context.store.load(by_id[0])


def _cut(context: Context, word: str, steered: type[Running] | None) -> Job | None:
    """By the beginning of a name."""
    cut = next(filter(word.endswith, CUTS), "")
    beginning = word.removesuffix(cut)
    if not beginning or (steered and not cut):
        return None
    all_names = {job.spec.name or "" for _, job in context.store.jobs()}
    names = sorted(name for name in all_names if name.startswith(beginning))
    if len(names) > 1:
        shown = _some([repr(name) for name in names])
        raise InvalidArgument(f"{word!r} fits {len(names)} names: {shown}. Give more of it, or an id.")
    return _named(context, names[0], steered) if names else None


def _some(words: Sequence[str]) -> str:
    more = ["…"] if len(words) > CANDIDATES_SHOWN else []
    return ", ".join([*words[:CANDIDATES_SHOWN], *more])
