"""Finding the job that is meant: by its id, by its name, or by how one of them begins."""

from collections.abc import Sequence

from bgjob.api.context import Door
from bgjob.core.errors import InvalidArgument, JobNotFound
from bgjob.core.job import JOB_ID, Job, Running

UNMISTAKABLE_CHARACTERS = 8  # of an id: as many as a list of jobs shows
STEERING_CHARACTERS = 3
CUTS = ("…", "...")  # as a list shows a name that did not fit, or as it is typed
CANDIDATES_SHOWN = 5


class Finding(Door):
    def find(self, word: str) -> Job:
        """By its id; or the newest of this name."""
        if JOB_ID.fullmatch(word):
            return self._store.load(word)
        if named := self._named(word):
            return named
        raise JobNotFound(word)

    def find_typed(self, word: str, *, steered: type[Running] | None = None) -> Job:
        """Also by how its id or its name begins: for people, who do not type UUIDs. A name may look like either.

        steered: what is about to be done takes a job in this state, and cannot be taken back. Then a name is that of
        the one that stands so; a beginning of an id must not be short, and one of a name must say that it is one.
        """
        by_id = [job_id for _, job_id in self._store.ids() if word and job_id.startswith(word)]
        named = None if by_id and len(word) >= UNMISTAKABLE_CHARACTERS else self._named(word, steered)
        if job := named or self._begun(word, by_id, steered) or self._cut(word, steered):
            return job
        raise JobNotFound(word)

    def _named(self, name: str, steered: type[Running] | None = None) -> Job | None:
        """The newest; to be steered, the only one that can be, if any can."""
        jobs = (job for _, job in self._store.jobs() if job.spec.name == name)
        if steered is None:
            return next(jobs, None)
        found = list(jobs)
        able = [job for job in found if isinstance(job.state, steered)]
        if len(able) > 1:
            shown = _some([job.id for job in able])
            raise InvalidArgument(f"{name!r} is the name of {len(able)} jobs: {shown}. Give the id of one.")
        return next(iter(able or found), None)

    def _begun(self, word: str, by_id: Sequence[str], steered: type[Running] | None) -> Job | None:
        if not by_id:
            return None
        if steered and len(word) < STEERING_CHARACTERS:
            raise InvalidArgument(
                f"{word!r} is too little of an id. Give at least {STEERING_CHARACTERS} characters of it, or a name."
            )
        if len(by_id) > 1:
            raise InvalidArgument(f"{word!r} fits {len(by_id)} jobs: {_some(by_id)}. Give more of the id.")
        return self._store.load(by_id[0])

    def _cut(self, word: str, steered: type[Running] | None) -> Job | None:
        """By the beginning of a name."""
        cut = next(filter(word.endswith, CUTS), "")
        beginning = word.removesuffix(cut)
        if not beginning or (steered and not cut):
            return None
        names = sorted(
            {name for _, job in self._store.jobs() if (name := job.spec.name or "").startswith(beginning)}
        )
        if len(names) > 1:
            shown = _some([repr(name) for name in names])
            raise InvalidArgument(f"{word!r} fits {len(names)} names: {shown}. Give more of it, or an id.")
        return self._named(names[0], steered) if names else None


def _some(words: Sequence[str]) -> str:
    more = ["…"] if len(words) > CANDIDATES_SHOWN else []
    return ", ".join([*words[:CANDIDATES_SHOWN], *more])
