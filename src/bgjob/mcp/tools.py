"""The seven tools. Their docstrings are product text: models choose by them, and directories score them."""

import time
from typing import Annotated

from mcp_types import ToolAnnotations
from pydantic import Field

from bgjob.api import Jobs
from bgjob.job import StatusWord
from bgjob.mcp.answers import Killing, Listing, Printed, Reply, Started, Status
from bgjob.mcp.toolbox import Toolbox

READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
DOES_ANYTHING = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)
ENDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

JobId = Annotated[str, Field(description="UUID from execute_command or list_jobs")]

TOOLS = Toolbox[Jobs]()


@TOOLS.tool(DOES_ANYTHING, blocks=True)
def execute_command(
    jobs: Jobs,
    command: Annotated[str, Field(description="E.g. 'npm ci && npm test 2>&1 | tee log'")],
    cwd: Annotated[
        str | None, Field(description="Directory, absolute or from the server's (default)")
    ] = None,
    env: Annotated[
        dict[str, str] | None, Field(description='Added to the server\'s, e.g. {"PORT": "3000"}')
    ] = None,
    name: Annotated[str | None, Field(description="Label for list_jobs")] = None,
    timeout_s: Annotated[
        float | None,
        Field(gt=0, description="Kill the job after so many seconds; default: server setting or never"),
    ] = None,
    shell: Annotated[str | None, Field(description="sh (default), bash, dash, zsh, ksh")] = None,
) -> Started:
    """Start a shell command as a background job and return its job_id at once, while it runs on. Use it for
    builds, tests, servers, anything slow or interactive; use interact_with_job instead to type into a job
    that already runs. Pipes, &&, redirection, globs and newlines work, with the user's full rights. Each job
    has a fresh shell: give cwd and env, an earlier cd or export is gone. The job outlives this server and
    ends only by itself, by timeout_s or by kill_job; get_job_status tells how it stands, tail_job_output what
    it printed. Errors: 'Invalid command' (blank or refused by policy), 'Job limit reached' (kill_job one, or
    wait)."""
    return Started.of(jobs.execute(command, cwd=cwd, env=env, name=name, timeout_s=timeout_s, shell=shell))


@TOOLS.tool(READS)
def get_job_status(jobs: Jobs, job_id: JobId) -> Status:
    """Tell whether one job still runs or how it ended, without its output. completed = exit code 0; failed =
    other exit code, never started, or lost (nobody saw its end); killed = by a signal, timeout or kill_job;
    cause says which. Answers at once, never waits: check a long job every few seconds, not in a tight loop.
    Use list_jobs instead for many jobs or a forgotten id, tail_job_output for what it printed. Ended jobs
    stay known for days, over server restarts too. Error for a wrong or cleaned-up id: 'Job <id> not
    found'."""
    return Status.of(jobs.look(job_id), now=time.time())


@TOOLS.tool(READS)
def get_job_output(
    jobs: Jobs,
    job_id: JobId,
    since: Annotated[
        str | None,
        Field(description="cursor of an earlier answer, to get only what came after; default: the start"),
    ] = None,
) -> Printed:
    """Read all that a job printed, stdout and stderr apart, or only what is new since a cursor; while it runs
    or after. Use tail_job_output instead when the last lines are enough. To follow a job, pass each answer's
    cursor as since; empty = nothing new. Never waits, consumes nothing. Of a stream over ~100 kB you get head
    and tail, and between them a line with the number of bytes left out and the cursor to read them. Dropped
    bytes exceeded the job's storage limit and are gone. Error: 'Job <id> not found'."""
    return Printed.of(jobs.output(job_id, since))


@TOOLS.tool(READS)
def tail_job_output(
    jobs: Jobs,
    job_id: JobId,
    lines: Annotated[int, Field(ge=1, le=1000, description="Lines per stream")] = 50,
) -> Printed:
    """Read the last lines of a job's stdout and of its stderr: progress, a prompt, the error at the end.
    Cheap on any size of log, while the job runs or after; an unfinished last line is included. Never waits,
    consumes nothing. Use get_job_output instead for all output, or with this answer's cursor as since for
    what comes next. Error: 'Job <id> not found'."""
    return Printed.of(jobs.tail(job_id, lines))


@TOOLS.tool(READS)
def list_jobs(
    jobs: Jobs,
    status: Annotated[StatusWord | None, Field(description="Only these; default: all")] = None,
    limit: Annotated[int, Field(ge=1, le=1000, description="Page size")] = 100,
    cursor: Annotated[str | None, Field(description="next_cursor of the page before; same status")] = None,
) -> Listing:
    """List jobs, newest first, running and ended, those of the user's other and earlier servers included. Use
    it to find a job_id or see what runs; use get_job_status instead for one known job. next_cursor is there
    only when more follow. Commands over 500 characters are shortened. Ended jobs are cleaned up after days;
    running ones never."""
    return Listing.of(jobs.list(status, limit, cursor))


@TOOLS.tool(DOES_ANYTHING, blocks=True)
def interact_with_job(
    jobs: Jobs,
    job_id: JobId,
    input: Annotated[str, Field(description="Text for stdin, e.g. 'yes'; a missing final newline is added")],
    wait_s: Annotated[float, Field(ge=0, le=1, description="Longest wait for a reply")] = 0.5,
    close_stdin: Annotated[
        bool, Field(description="Then send EOF, for a job that reads to the end; input may be ''")
    ] = False,
) -> Reply:
    """Type into a running job's stdin and return what it prints right after: for prompts, REPLs, consoles.
    What was read cannot be taken back. Returns once the job has printed and gone quiet, at latest after
    wait_s; read a later reply by get_job_output with since=cursor. unread_bytes: not yet read by the job;
    accepted_bytes below the input's length: its buffer is full, send the rest later. Use execute_command
    instead to start a command, kill_job with signal INT for Ctrl-C. Errors: not found; 'is not running and
    cannot accept input'; stdin closed."""
    return Reply.to(jobs.interact(job_id, input, wait_s=wait_s, close_stdin=close_stdin))


@TOOLS.tool(ENDS, blocks=True)
def kill_job(
    jobs: Jobs,
    job_id: JobId,
    grace_s: Annotated[float, Field(ge=0, le=60, description="Seconds between signal and SIGKILL")] = 5,
    signal: Annotated[str, Field(description="First signal, e.g. TERM, INT, HUP, KILL")] = "TERM",
) -> Killing:
    """End a running job with all its processes, children and daemons too. Final, but its output stays
    readable. Sends signal, then SIGKILL to what is left after grace_s, and returns when nothing is alive;
    other calls are served meanwhile. already_terminated = it had ended before; not_found = no such id:
    answers, not errors, so a repeat is safe. Use interact_with_job instead to quit politely ('exit' or
    close_stdin), or timeout_s of execute_command to limit a job in advance."""
    return Killing.of(jobs.kill(job_id, grace_s=grace_s, signal=signal))
