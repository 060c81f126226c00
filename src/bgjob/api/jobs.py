"""`Jobs`: the verbs as methods, on the jobs of one store. For callers that need many of them, such as a server."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Concatenate, Generic, ParamSpec, TypeVar

from bgjob.api.context import Context, open_context
from bgjob.api.events import job_events
from bgjob.api.execute import execute_command
from bgjob.api.find import find_job, find_typed, id_of, job_words
from bgjob.api.follow import follow_output
from bgjob.api.interact import interact_with_job
from bgjob.api.kill import kill_job
from bgjob.api.news import news
from bgjob.api.output import job_output, tail_output
from bgjob.api.processes import processes_of
from bgjob.api.queue import prioritize
from bgjob.api.read import read_output, read_tail
from bgjob.api.search import search_output
from bgjob.api.session import note_client
from bgjob.api.snapshot import Snapshot
from bgjob.api.start import start_job
from bgjob.api.status import job_status, list_jobs, newest_jobs, totals
from bgjob.api.wait import cursors_of, wait_for_conditions, wait_for_jobs
from bgjob.core.config import ConfigFile
from bgjob.output.log_reader import LogReader
from bgjob.store.store import Store
from bgjob.store.targets_file import Targets

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


class _Verb(Generic[Parameters, Answer]):
    """A function on a context, as a method of Jobs."""

    def __init__(self, function: Callable[Concatenate[Context, Parameters], Answer]) -> None:
        self._function = function

    def __get__(self, jobs: "Jobs", _owner: type["Jobs"]) -> Callable[Parameters, Answer]:
        return partial(self._function, jobs.context)


class _JobVerb(Generic[Parameters, Answer]):
    """A verb on one job, which a caller may name by its id, by how the id begins, or by its name."""

    def __init__(self, function: Callable[Concatenate[Context, str, Parameters], Answer]) -> None:
        self._function = function

    def __get__(self, jobs: "Jobs", _owner: type["Jobs"]) -> Callable[Concatenate[str, Parameters], Answer]:
        def verb(job: str, /, *arguments: Parameters.args, **named: Parameters.kwargs) -> Answer:
            return self._function(jobs.context, id_of(jobs.context, job), *arguments, **named)

        return verb


class Jobs:
    """The verbs, on the jobs of one store."""

    def __init__(self, context: Context) -> None:
        self.context = context

    run = _Verb(execute_command)
    execute = _Verb(start_job)
    status = _JobVerb(job_status)
    list = _Verb(list_jobs)
    totals = _Verb(totals)
    newest = _Verb(newest_jobs)
    words = _Verb(job_words)
    find = _Verb(find_job)
    find_typed = _Verb(find_typed)
    output = _JobVerb(job_output)
    tail = _JobVerb(tail_output)
    read = _JobVerb(read_output)
    read_tail = _JobVerb(read_tail)
    follow = _JobVerb(follow_output)
    search = _Verb(search_output)
    wait = _Verb(wait_for_conditions)
    wait_for = _Verb(wait_for_jobs)
    cursors = _Verb(cursors_of)
    events = _Verb(job_events)
    news = _Verb(news)
    note_client = _Verb(note_client)
    interact = _JobVerb(interact_with_job)
    prioritize = _JobVerb(prioritize)
    kill = _Verb(kill_job)

    def close(self) -> None:
        self.context.spawner.close()

    # -- what is where ------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        return self.context.store

    @property
    def home(self) -> str:
        return self.store.home

    @property
    def events_directory(self) -> str:
        return self.store.events

    def directory(self, job_id: str) -> str:
        return self.store.directory(job_id)

    def has_shim(self, job_id: str) -> bool:
        """True while the job runs, and after its end while processes of it are left."""
        return self.store.has_shim(job_id)

    def processes(self, job_id: str) -> Sequence[int]:
        """The ids of the job's processes that are alive."""
        return processes_of(self.context, self.store.load(job_id))

    def log(self, job_id: str) -> LogReader:
        return Snapshot(self.context, job_id).log


def open_jobs(
    environ: Mapping[str, str],
    *,
    many: bool = True,
    file: ConfigFile | None = None,
    targets: Targets | None = None,
) -> Jobs:
    """The jobs of the store that this environment names, see open_context."""
    return Jobs(open_context(environ, many=many, file=file, targets=targets))
