"""The MCP server of bgjob: what it tells of itself, and how it is started over stdio."""

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress

from bgjob.api import Jobs, open_jobs
from bgjob.core.errors import BgjobError
from bgjob.mcp import stdio, target_schema
from bgjob.mcp.caller import Channel
from bgjob.mcp.service import Service
from bgjob.mcp.stderr import use_lossy_stderr
from bgjob.protocol.methods import COMPLETIONS, RESOURCES, TASKS, TASKS_EXTENSION, TOOLS
from bgjob.protocol.server import Server
from bgjob.system.client_session import client_process, session_in
from bgjob.system.own_package import full_version, import_when_idle

INSTRUCTIONS = """\
Shell commands as background jobs that outlive this server and its client, shared by agents and people.

Use it for what is slow, endless or asks: builds, test suites, dev servers, installs, REPLs, editors, password \
and y/n prompts, whatever must survive a restart. Your own shell is fine for quick looks: ls, git status, rg.

- Start: execute_command. wait_s=30 gives exit code and output in one call. A server: until={"port": 3000} or \
{"pattern": "ready in"}, name="dev", if_running="reuse": one call, one server. A program that asks: pty=true; \
the call returns at its prompt. Never end a command with & or nohup.
- Do not poll: wait_for_job returns when a job ends, prints a pattern, opens a port, falls silent, or asks. A long \
wait may become a task: go on working, its answer comes by itself.
- Answer prompts by interact_with_job (input, keys); it returns at the next prompt. Full-screen programs answer \
with their screen.
- Every answer has status and cursor; since=cursor reads only what is new. Output is cut to max_tokens with the \
cursor of what was left out; search_job_output finds a line; get_job_status has the log's path.
- A job is called by its id, the id's first characters, or its name.
- After a restart or compaction: list_jobs, job_events. kill_job ends a job with all that it started: do so when \
it is no longer needed."""

SERVER = Server(
    name="bgjob",
    title="Background jobs",
    version=full_version(),
    instructions=INSTRUCTIONS,
    methods=TOOLS | RESOURCES | COMPLETIONS | TASKS,
    capabilities={"tools": {}, "resources": {"subscribe": True, "listChanged": True}, "completions": {}},
    extensions={TASKS_EXTENSION: {}},
    handshake_tasks={"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}},
)


FOLDERS = (
    "api",
    "core",
    "home",
    "link",
    "mcp",
    "output",
    "protocol",
    "remote",
    "store",
    "system",
    "terminal",
    "watch",
)
"""The folders of the package that a server may use."""
PACKAGES = ("re2", "pyte")


def serve(environ: Mapping[str, str]) -> None:
    """Serves one client over stdin and stdout until the client is gone; does not return."""
    use_lossy_stderr()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    wire = stdio.claim()  # first: what the api starts must not hold the client's pipes
    try:
        jobs = open_jobs(environ)
    except BgjobError as problem:
        print(f"bgjob: {problem}", file=sys.stderr)
        sys.exit(2)
    import_when_idle(FOLDERS, PACKAGES, read_schemas)
    stdio.serve(
        server_for(jobs), lambda channel: service_for(jobs, channel), wire, OwnClient(jobs, environ).known
    )


def server_for(jobs: Jobs, server: Server = SERVER) -> Server:
    """What it tells of itself, with a line about other machines where there are some."""
    if not jobs.context.targets:
        return server
    return server._replace(instructions=server.instructions + target_schema.INSTRUCTIONS)


def read_schemas() -> None:
    """Read the tool schemas, a file of the package that is otherwise read late."""
    from bgjob.mcp.tools import TOOLS

    _ = TOOLS.schemas


class OwnClient:
    """The client that runs this server."""

    def __init__(self, jobs: Jobs, environ: Mapping[str, str]) -> None:
        self._jobs, self._environ = jobs, environ
        self._process, self._cwd = client_process(), None
        with suppress(OSError):  # deleted
            self._cwd = os.getcwd()
        self._noted = self._process

    def known(self, name: str | None) -> dict[str, str]:
        """What we know of it without being told: its session, and where it works. `name`: of the client."""
        session = session_in(self._environ, name) or self._process
        if self._process and session and session != self._noted:
            self._jobs.note_client(self._process, session)
            self._noted = session
        known = {"session": session, "cwd": self._cwd}
        return {word: text for word, text in known.items() if text}


def service_for(jobs: Jobs, channel: Channel) -> Service:
    return Service(jobs, channel=channel)
