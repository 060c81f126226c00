"""Jobs as resources: listed, and read by view and by range. (Server Features, Resources.)"""

from collections.abc import Mapping
from typing import Any

from bgjob.api import Jobs, Output, Shown
from bgjob.core.errors import BgjobError, InvalidArgument, JobNotFound
from bgjob.core.job import SHORT_ID_CHARACTERS, Ended, Job, called, exit_code, status_word
from bgjob.mcp.answer_text import as_text
from bgjob.mcp.answers import Answer, plain
from bgjob.mcp.complaints import shown
from bgjob.mcp.fields import shortened, timestamp
from bgjob.mcp.listings import Listing
from bgjob.mcp.results import Status
from bgjob.mcp.uris import LIST_URI, OUTPUT_VIEWS, TARGETS, TARGETS_URI, VIEWS, ResourceUri, parsed, uri_of
from bgjob.output.cleaner import without_hidden
from bgjob.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, NO_RESOURCE_BEFORE_2026, RpcError
from bgjob.protocol.request import Request

Result = Mapping[str, Any]

PAGE_JOBS = 50
COMMAND_CHARACTERS = 100
TEXT, JSON = "text/plain", "application/json"
CURSOR_KEY = "bgjob/cursor"

JOBS_RESOURCE = {
    "uri": LIST_URI,
    "name": "jobs",
    "title": "Jobs",
    "description": "The newest jobs and how they stand, as list_jobs tells it.",
    "mimeType": JSON,
}
TARGETS_RESOURCE = {
    "uri": TARGETS_URI,
    "name": "targets",
    "title": "Targets",
    "description": "Other machines and clusters that execute_command can run a job on: whether each can be reached, "
    "its nodes with free CPUs, GPUs and memory, its queue, and our jobs there.",
    "mimeType": JSON,
}
WHAT_IT_SHOWS = {
    "stdout": "What a job printed to stdout",
    "stderr": "What a job printed to stderr",
    "output": "What a job printed to stdout and stderr, in one order, each line with its time",
}
RANGE = (
    "since: only what came after a cursor (bgjob/cursor in _meta of a content), lines: only the last, 1 to 1000, "
    "max_tokens: at most about so much, 50 or more; else 8000."
)
TEMPLATES: list[dict[str, str]] = [
    {
        "uriTemplate": f"{LIST_URI}/{{id}}/{{view}}",
        "name": "job",
        "title": "A job",
        "description": "One job. id: its id, the first characters of that, or its name. view: stdout, stderr, output "
        "(both, with times), screen (of a job on a terminal) or status (JSON, as get_job_status tells it).",
    },
    *(
        {
            "uriTemplate": f"{LIST_URI}/{{id}}/{view}{{?since,lines,max_tokens}}",
            "name": f"job {view}",
            "title": f"A part of a job's {view}",
            "description": f"{WHAT_IT_SHOWS[view]}. {RANGE}",
            "mimeType": TEXT,
        }
        for view in OUTPUT_VIEWS
    ),
    {
        "uriTemplate": f"{LIST_URI}{{?cursor}}",
        "name": "jobs from",
        "title": "Older jobs",
        "description": "The page of jobs after a cursor: next_cursor of the page before it.",
        "mimeType": JSON,
    },
]


# -- the list ---------------------------------------------------------------------------------------


def listing(jobs: Jobs, cursor: str | None) -> Result:
    """A page. Clients ask for it at every start: it opens no log and asks no shim."""
    found, next_cursor = jobs.newest(PAGE_JOBS, cursor)
    head = _heads(jobs) if cursor is None else []
    page = {"resources": [*head, *map(_listed, found)]}
    return page if next_cursor is None else {**page, "nextCursor": next_cursor}


def _heads(jobs: Jobs) -> list[Result]:
    return [JOBS_RESOURCE, TARGETS_RESOURCE] if jobs.context.targets else [JOBS_RESOURCE]


def list_resources(jobs: Jobs, request: Request) -> Result:
    cursor = request.params.get("cursor")
    try:
        if cursor is not None and not isinstance(cursor, str):
            raise InvalidArgument("cursor must be a text.")
        return listing(jobs, cursor)
    except InvalidArgument as problem:
        advice = "Pass nextCursor exactly as resources/list gave it, or no cursor for the newest jobs."
        raise RpcError(INVALID_PARAMS, without_hidden(f"{problem.what} {advice}")) from None
    except BgjobError as problem:
        raise RpcError(INTERNAL_ERROR, str(problem)) from None


def _listed(job: Job) -> Result:
    """Of a job that runs, size and time of its output are in its log alone."""
    name, state = called(job.spec), job.state
    described: dict[str, Any] = {
        "uri": uri_of(job.id, "output"),
        "name": name,
        "title": f"{name} ({job.id[:SHORT_ID_CHARACTERS]})",
        "description": f"{_standing(job)}: {shortened(job.spec.command, COMMAND_CHARACTERS)}",
        "mimeType": TEXT,
    }
    if isinstance(state, Ended):
        modified = {"lastModified": timestamp(state.ended_at)}
        described |= {"size": state.output_bytes, "annotations": modified}
    return dict(plain(described))


def _standing(job: Job) -> str:
    word, code = status_word(job.state), exit_code(job.state)
    return word if code is None else f"{word}, exit code {code}"


# -- one --------------------------------------------------------------------------------------------


def read_resource(jobs: Jobs, request: Request) -> Result:
    uri = request.text("uri")
    resource = located(uri, request)
    if resource.view == TARGETS and not jobs.context.targets:
        raise _not_found(uri, request)
    try:
        return {"contents": [{"uri": uri, **_content(jobs, resource)}]}
    except BgjobError as problem:
        raise told(problem, uri, request) from None


def located(uri: str, request: Request) -> ResourceUri:
    """RpcError: there can be no such resource, whatever jobs there are."""
    resource = parsed(uri)
    if resource is None:
        raise _not_found(uri, request)
    return resource


def _content(jobs: Jobs, resource: ResourceUri) -> Result:
    job, view, given = resource.job, resource.view, resource.range
    if view == TARGETS:
        return _json(_targets(jobs))
    if job is None:
        return _json(Listing.of(jobs.list(cursor=given.get("cursor"))))
    if view == "status":
        return _json(Status.of(jobs.status(job, with_log=True), ""))
    output = _output(jobs, job, view, given)
    return {"mimeType": TEXT, "text": _text(output, view), "_meta": {CURSOR_KEY: output.cursor}}


def _output(jobs: Jobs, job: str, view: str, given: Mapping[str, Any]) -> Output:
    match view:
        case "stdout" | "stderr":
            wanted = Shown.within(given.get("max_tokens"), stream=view)
        case "screen":
            wanted = Shown.within(given.get("max_tokens"), view="screen")
        case _:
            wanted = Shown.within(given.get("max_tokens"), view="interleaved")
    if "lines" in given:
        return jobs.tail(job, given["lines"], wanted, given.get("since"))
    return jobs.output(job, given.get("since"), wanted)


def _text(output: Output, view: str) -> str:
    if output.picture:
        return without_hidden(output.picture.text)
    return {"stdout": output.stdout, "stderr": output.stderr}.get(view, output.interleaved or "")


def _targets(jobs: Jobs) -> Result:
    from bgjob.api.targets import MOST_NODES, target_as_json, target_statuses

    found = target_statuses(jobs.context)
    return {"targets": [target_as_json(status, timestamp, MOST_NODES) for status in found]}


def _json(answer: Answer | Result) -> Result:
    return {"mimeType": JSON, "text": as_text(plain(answer))}


# -- what went wrong --------------------------------------------------------------------------------


def told(problem: BgjobError, uri: str, request: Request) -> RpcError:
    if isinstance(problem, JobNotFound):
        return _not_found(uri, request)
    code = INVALID_PARAMS if isinstance(problem, InvalidArgument) else INTERNAL_ERROR
    return RpcError(code, without_hidden(str(problem)), {"uri": uri})


def _not_found(uri: str, request: Request) -> RpcError:
    """Resources, Error Handling: of another code before 2026-07-28."""
    message = (
        f"Resource not found: {without_hidden(shown(uri))}. There are {LIST_URI} and {LIST_URI}/{{id}}/{{view}}; "
        f"view is one of {', '.join(VIEWS)}, and resources/list has the ids."
    )
    code = INVALID_PARAMS if request.is_stateless else NO_RESOURCE_BEFORE_2026
    return RpcError(code, message, {"uri": uri})
