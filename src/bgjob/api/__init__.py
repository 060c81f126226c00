"""The verbs that every face uses: functions on a Context, and `Jobs`, which has them as methods.

The faces import this folder; it imports everything below but the shim.

    context     what every verb is given: store, settings, environment, spawner
    connect     a connection to a job's shim, or to its guard
    snapshot    a job and its log, as they were at one moment
    execute     run a command: start it or find it running, and wait for it
    spec        what a caller asks for, checked, as the spec of a job
    start       start a job, now or in its turn
    find        the job that is meant by an id, a name or the beginning of one
    status      how a job stands; a page of jobs
    processes   the processes of a job, its shim and its guard
    prompt      whether a job waits for input, and sits at a prompt
    activity    what processes do: CPU, memory, ports
    idle        how long a job has run and been silent
    hints       what may help a caller, and the job does not say
    output      what a job printed: all, the last lines, as it comes
    screen      the screen of a job on a terminal
    read        what a job printed, and how it stands
    search      lines that match, in one job or all
    wait        wait until conditions come true
    kept_waits  waits that go on when their call has been answered
    missed      what came true while nobody waited
    conditions  what a wait is for, and whether it has come true
    interact    type into a job
    kill        end a job
    signal      send it one signal, and no more
    queue       places in the queue: tell, move, cancel
    changes     what has changed since the last look, of jobs of any server
    events      what happened to jobs since a cursor
    session     the session of a caller, which is told once of each end
    news        the line about jobs that ended since a session was last told
    news_gate   whether a job has ended since the last look for news
    notify      the rules by which a person is told of jobs: for the command line
    results     what the verbs answer
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Concatenate, Generic, ParamSpec, TypeVar

from bgjob.api.conditions import Conditions
from bgjob.api.context import Context
from bgjob.api.events import job_events
from bgjob.api.execute import IfRunning, execute_command
from bgjob.api.find import find_job, find_typed, id_of, job_words
from bgjob.api.interact import Typed, interact_with_job
from bgjob.api.kill import kill_job
from bgjob.api.news import news
from bgjob.api.output import FEW_TOKENS, Shown, View, follow_output, job_output, tail_output
from bgjob.api.processes import processes_of
from bgjob.api.queue import prioritize
from bgjob.api.read import read_output, read_tail
from bgjob.api.results import (
    Chunk,
    EventPage,
    Executed,
    Found,
    FoundInJob,
    Interaction,
    JobEvent,
    JobStatus,
    Kill,
    KillWord,
    Match,
    Output,
    Page,
    Picture,
    Reading,
    Waited,
)
from bgjob.api.search import search_output
from bgjob.api.session import note_client
from bgjob.api.snapshot import Snapshot
from bgjob.api.spec import absolute
from bgjob.api.start import start_job
from bgjob.api.status import job_status, list_jobs, newest_jobs, totals
from bgjob.api.wait import Cancellation, Mode, cursors_of, wait_for_conditions, wait_for_jobs
from bgjob.core import options
from bgjob.core.config import Settings, settings_from, unknown_settings
from bgjob.core.errors import BadSetting, InvalidArgument
from bgjob.home.home_dir import home_from
from bgjob.link.spawn import Spawner
from bgjob.output.log_reader import LogReader
from bgjob.store.store import Store

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")

__all__ = [
    "FEW_TOKENS",
    "Cancellation",
    "Chunk",
    "Conditions",
    "EventPage",
    "Executed",
    "Found",
    "FoundInJob",
    "IfRunning",
    "Interaction",
    "JobEvent",
    "JobStatus",
    "Jobs",
    "Kill",
    "KillWord",
    "Match",
    "Mode",
    "Output",
    "Page",
    "Picture",
    "Reading",
    "Shown",
    "Typed",
    "View",
    "Waited",
    "absolute",
    "home_from",
    "open_jobs",
]


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

    def __init__(
        self, store: Store, settings: Settings, environ: Mapping[str, str], spawner: Spawner
    ) -> None:
        self.context = Context.of(store, settings, environ, spawner)

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


def open_jobs(environ: Mapping[str, str], *, many: bool = True) -> Jobs:
    """The jobs of the store that this environment names. `many`: so many starts that a zygote is worth it."""
    settings = settings_from(environ)
    _warn_of(unknown_settings(environ))
    if not os.path.isdir(settings.working_dir):
        raise BadSetting("MCP_BG_WORKING_DIR", settings.working_dir, "a directory that exists")
    _check_limits(settings.limits)
    return Jobs(Store(home_from(environ)), settings, environ, Spawner(zygote=many))


def _warn_of(problems: list[str]) -> None:
    for problem in problems:
        print(f"bgjob: WARNING: {problem}", file=sys.stderr)


def _check_limits(limits: Mapping[str, str]) -> None:
    try:
        options.checked(limits, options.LIMIT_OPTIONS)
    except InvalidArgument as problem:
        text = ",".join(f"{name}={value}" for name, value in limits.items())
        raise BadSetting("MCP_BG_LIMITS", text, str(problem)) from None
