"""The MCP server: the tools on the api, served over stdio in both eras of the protocol."""

import logging
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

from bgjob import __version__
from bgjob.api import Jobs, News, open_jobs
from bgjob.core.errors import BgjobError
from bgjob.core.job import beginning
from bgjob.mcp import stdio
from bgjob.mcp.registry import Annotate
from bgjob.mcp.tools import TOOLS

INSTRUCTIONS = """\
Shell commands as background jobs that outlive this server and its client, shared by agents and people.

Use it for what is slow, endless or asks: builds, test suites, dev servers, installs, REPLs, editors, password \
and y/n prompts, whatever must survive a restart. Your own shell is fine for quick looks: ls, git status, rg.

- Start: execute_command. wait_s=30 gives exit code and output in one call. A server: until={"port": 3000} or \
{"pattern": "ready in"}, name="dev", if_running="reuse": one call, one server. A program that asks: pty=true; \
the call returns at its prompt. Never end a command with & or nohup.
- Do not poll: wait_for_job returns when a job ends, prints a pattern, opens a port, falls silent, or asks.
- Answer prompts by interact_with_job (input, keys); it returns at the next prompt. Full-screen programs answer \
with their screen.
- Every answer has status and cursor; since=cursor reads only what is new. Output is cut to max_tokens with the \
cursor of what was left out; search_job_output finds a line; get_job_status has the log's path.
- A job is called by its id, the id's first characters, or its name.
- After a restart or compaction: list_jobs, job_events. kill_job ends a job with all that it started: do so when \
it is no longer needed."""

log = logging.getLogger(__name__)

OVER = frozenset({"completed", "failed", "killed", "already_terminated"})
AN_HOUR = CacheHint(ttl_ms=3_600_000, scope="public")


def serve(environ: Mapping[str, str]) -> None:
    """Serves one client over stdin and stdout until the client is gone; does not return."""
    logging.basicConfig(level=logging.WARNING, format="bgjob: %(levelname)s: %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    wire = stdio.claim()  # first: what the api starts must not hold the client's pipes
    try:
        jobs = open_jobs(environ)
    except BgjobError as problem:
        print(f"bgjob: {problem}", file=sys.stderr)
        sys.exit(2)
    stdio.serve(server_for(jobs), wire)


def server_for(jobs: Jobs) -> Server:
    news = jobs.news()
    annotate = annotate_with(news)

    async def list_tools(
        context: ServerRequestContext, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=TOOLS.listing)

    async def call_tool(context: ServerRequestContext, params: CallToolRequestParams) -> CallToolResult:
        progress = context.session.report_progress
        given = from_untold_end(news, params.name, params.arguments or {})
        return await TOOLS.call(jobs, params.name, given, progress, annotate)

    server = Server(
        "bgjob",
        version=__version__,
        title="Background jobs",
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": AN_HOUR, "server/discover": AN_HOUR},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    server.middleware.clear()  # its tracing, which no exporter collects, took a tenth of each call
    return server


def from_untold_end(news: News | None, tool: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A client that waits for events without a cursor waits for no end that it has not been told yet."""
    if news is None or tool != "job_events" or not given.get("timeout_s") or given.get("since") is not None:
        return given
    untold = news.first_untold()
    return {**given, "since": untold} if untold else given


def annotate_with(news: News | None) -> Annotate | None:
    """The line `news` of an answer: jobs of this client that ended since its last call."""
    if news is None:
        return None

    def annotate(given: Mapping[str, Any], answer: Mapping[str, Any]) -> Mapping[str, str]:
        try:
            if "command" in given and "job_id" in answer:  # execute_command
                called = str(given.get("name") or beginning(str(given["command"])))
                news.add(answer["job_id"], called, restarts=given.get("if_running") == "restart")
            line = news.line(_ends(given, answer), _asked(given, answer))
        except Exception:  # the call has done its work: told that it failed, the client would do it again
            log.exception("Internal error in the line of news")
            return {}
        return {"news": line} if line else {}

    return annotate


def _ends(given: Mapping[str, Any], answer: Mapping[str, Any]) -> Iterator[str]:
    """Ids of the jobs of which this answer says that they have ended."""
    if answer.get("status") in OVER:
        yield str(answer.get("job_id") or given.get("job_id"))
    for row in answer.get("jobs", ()):
        if row.get("status") in OVER:
            yield row["job_id"]
    for event in answer.get("events", ()):
        if event["kind"] == "ended":
            yield event["job_id"]


def _asked(given: Mapping[str, Any], answer: Mapping[str, Any]) -> Iterator[str]:
    """What the call is about, as its caller wrote it or as the answer does."""
    for words in (given.get("job_id"), answer.get("job_id"), given.get("job_ids")):
        yield from map(str, words if isinstance(words, list) else filter(None, [words]))
