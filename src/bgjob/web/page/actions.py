"""What a page does to jobs, by the verbs of the api that the command line uses.

POST /api/start     {arguments of the tool execute_command}     run    it does not wait for the job; to restart: kill
POST /api/answer    {job, text, keys, enter, eof}               run    typed into the job
POST /api/rerun     {job}                                       run
POST /api/priority  {job, priority}                             run    of a job in the queue
POST /api/kill      {jobs, grace_s}                             kill   {"jobs": {id: a word, or why not}}
POST /api/remove    {jobs}                                      kill   likewise
POST /api/signal    {job, signal}                               kill
POST /api/pause     {job}                                       kill
POST /api/resume    {job}                                       kill
"""

from typing import Any

from starlette.routing import Route

from bgjob import __version__
from bgjob.api import Jobs
from bgjob.api.hold import note_typed
from bgjob.api.interact import Typed, check_all_taken, interact_with_job
from bgjob.api.kill_many import kill_jobs
from bgjob.api.output import Shown
from bgjob.api.pause import Pause, pause_job, resume_job, what_goes_on
from bgjob.api.queue import prioritize
from bgjob.api.remove import remove_jobs
from bgjob.api.rerun import rerun_job
from bgjob.api.results import Kill
from bgjob.api.signal import HasEnded, signal_job, signal_number
from bgjob.core.errors import BgjobError, InvalidArgument, JobNotFound
from bgjob.core.job import Job
from bgjob.core.options import MOST_PRIORITY
from bgjob.core.scopes import scopes_of_start
from bgjob.mcp.answers import plain
from bgjob.mcp.caller import Caller
from bgjob.mcp.server import SERVER
from bgjob.mcp.tools import TOOLS
from bgjob.protocol.request import Client, Request
from bgjob.protocol.revisions import SUPPORTED
from bgjob.system.own_user import own_user
from bgjob.web.page.endpoint import Asked, check_scopes, post
from bgjob.web.page.live import SharedLive
from bgjob.web.page.viewer import own_name
from bgjob.web.page.words import in_page_words

CLIENT = "page"
WAITS = ("wait_s", "until", "max_tokens")
"""Arguments of a caller that waits for the job. A page is told of it by its stream."""
GRACE_S = 5.0
MOST_GRACE_S = 3600
MOST_JOBS = 10_000
DOES_NOT_READ = "Nothing more is typed."


class Actions:
    def __init__(self, jobs: Jobs, live: SharedLive) -> None:
        self._jobs, self._context, self._live = jobs, jobs.context, live

    def routes(self) -> list[Route]:
        return [
            post("/api/start", self._start, "run"),
            post("/api/answer", self._answer, "run"),
            post("/api/rerun", self._rerun, "run"),
            post("/api/priority", self._prioritize, "run"),
            post("/api/kill", self._kill, "kill"),
            post("/api/remove", self._remove, "kill"),
            post("/api/signal", self._signal, "kill"),
            post("/api/pause", self._pause, "kill"),
            post("/api/resume", self._resume, "kill"),
        ]

    # -- what runs something ------------------------------------------------------------------------

    def _start(self, asked: Asked) -> dict[str, Any]:
        check_scopes(asked.login, scopes_of_start(asked.given))
        given = {name: value for name, value in asked.given.items() if name not in WAITS}
        started = plain(TOOLS.perform(self._jobs, "execute_command", given, _caller()))
        self._live.look_at(started["job_id"])
        return {"job": started["job_id"], **started}

    def _answer(self, asked: Asked) -> dict[str, Any]:
        job = self._job(asked)
        if not (asked.has("text") or asked.has("keys") or asked.flag("eof")):
            raise InvalidArgument("Nothing to type. Give text ('' presses Enter), keys or eof.")
        typed = Typed(
            text=asked.text("text") if asked.has("text") else None,
            keys=asked.texts("keys") if asked.has("keys") else (),
            add_newline=asked.flag("enter") if asked.has("enter") else None,
            close_stdin=asked.flag("eof"),
        )
        done = interact_with_job(self._context, job.id, typed, wait_s=0, shown=Shown(max_bytes=1))
        note_typed(self._context, job, own_name(), done.accepted_bytes)
        self._live.look_at(job.id)
        check_all_taken(done, DOES_NOT_READ)
        return {}

    def _rerun(self, asked: Asked) -> dict[str, Any]:
        done = rerun_job(self._context, self._job(asked).id, by=_caller().by)
        self._live.look_at(done.job.id)
        return {"job": done.job.id, "has_environment": done.has_environment}

    def _prioritize(self, asked: Asked) -> dict[str, Any]:
        job = self._job(asked)
        prioritize(self._context, job.id, asked.number("priority", least=-MOST_PRIORITY, most=MOST_PRIORITY))
        self._live.look_at(job.id)
        return {}

    # -- what ends something ------------------------------------------------------------------------

    def _kill(self, asked: Asked) -> dict[str, Any]:
        told, jobs = dict[str, str](), list[Job]()
        for job_id in _ids(asked):
            try:
                jobs.append(self._context.store.load(job_id))
            except JobNotFound:
                told[job_id] = "not_found"
        grace_s = asked.number("grace_s", int(GRACE_S), most=MOST_GRACE_S)
        for job, done in kill_jobs(self._context, jobs, grace_s=grace_s, signal="TERM"):
            told[job.id] = in_page_words(done) if isinstance(done, BgjobError) else done.status
        self._live.look_at(*told)
        return {"jobs": told}

    def _remove(self, asked: Asked) -> dict[str, Any]:
        told = {
            job_id: in_page_words(done) if isinstance(done, BgjobError) else "removed"
            for job_id, done in remove_jobs(self._context, _ids(asked))
        }
        self._live.look_now()
        return {"jobs": told}

    def _signal(self, asked: Asked) -> dict[str, Any]:
        job = self._job(asked)
        number = signal_number(asked.text("signal"))
        return self._done(job, signal_job(self._context, job.id, number))

    def _pause(self, asked: Asked) -> dict[str, Any]:
        job = self._job(asked)
        return {**self._done(job, pause_job(self._context, job.id)), "goes_on": what_goes_on(job)}

    def _resume(self, asked: Asked) -> dict[str, Any]:
        job = self._job(asked)
        return self._done(job, resume_job(self._context, job.id))

    def _done(self, job: Job, done: Kill | Pause) -> dict[str, Any]:
        self._live.look_at(job.id)
        if done.status in ("already_terminated", "not_found"):
            raise HasEnded(job.id)
        return {"status": done.status, "processes": done.processes}

    def _job(self, asked: Asked) -> Job:
        return self._context.store.load(asked.text("job"))


def _ids(asked: Asked) -> list[str]:
    ids = list(dict.fromkeys(asked.texts("jobs")))
    if not 0 < len(ids) <= MOST_JOBS:
        raise InvalidArgument(f" has {len(ids)} ids. Give 1 to {MOST_JOBS}.", argument="jobs")
    return ids


def _caller() -> Caller:
    """As the tools know one: nothing is sent to it."""
    request = Request(0, "tools/call", {}, SUPPORTED[0], Client(CLIENT, __version__), SERVER)
    return Caller(request, lambda _message: None, known={"user": own_user()})
