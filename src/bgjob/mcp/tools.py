"""The tools. Their docstrings are product text: models choose by them, and directories score them."""

from typing import Annotated, Any, Literal

from mcp_types import ToolAnnotations
from pydantic import Field

from bgjob.api import FEW_TOKENS, IfRunning, Jobs, Mode, Shown, Typed, View
from bgjob.core.job import StatusWord
from bgjob.core.options import ALL_OPTIONS
from bgjob.mcp.registry import Caller, Registry
from bgjob.mcp.results import FoundLines, Killing, Listing, Printed, Reply, Started, Status, Told, Waits
from bgjob.mcp.schema import UNLISTED

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
DOES_ANYTHING = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)
ENDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)

JobId = Annotated[str, Field(description="UUID from execute_command or list_jobs")]
Since = Annotated[str | None, Field(description="an earlier answer's cursor: only what is new")]
MaxTokens = Annotated[int | None, Field(ge=50, description="per stream")]
FewTokens = Annotated[int, Field(ge=50, description="per stream")]
Raw = Annotated[bool, Field(description="with colours, progress, repeats")]
Seen = Annotated[View, Field(description="interleaved has times; screen is a pty's")]
Look = Annotated[View | None, Field(description="default: screen if full-screen")]
Stream = Annotated[Literal["stdout", "stderr"] | None, Field(description="default: both")]

OPTIONS = (
    "Limits: memory '2GB', cpu_s, processes, open_files, file_size, output, on_output 'stop', silence_s. "
    "Queue: after_policy 'any', delay_s, priority, group. restart 'on-failure'|'always', max_restarts, backoff_s"
)
Unlisted = Field(json_schema_extra={UNLISTED: True})

TOOLS = Registry[Jobs]()


@TOOLS.tool(DOES_ANYTHING, blocks=True, options=ALL_OPTIONS)
def execute_command(
    jobs: Jobs,
    caller: Caller,
    command: Annotated[str, Field(description="E.g. 'npm ci && npm test 2>&1 | tee log'")],
    cwd: Annotated[str | None, Field(description="Absolute, or from the server's")] = None,
    env: Annotated[
        dict[str, str] | None,
        Field(description="Added, e.g. {'PORT': '3000'}; for secrets: others see command"),
    ] = None,
    name: Annotated[str | None, Field(description="Label, e.g. 'dev server'")] = None,
    timeout_s: Annotated[float | None, Field(gt=0, description="Kill it after")] = None,
    shell: Annotated[str | None, Field(description="sh (default), bash, dash, zsh, ksh")] = None,
    wait_s: Annotated[float, Field(ge=0, description="Longest wait for its end")] = 0,
    max_tokens: FewTokens = FEW_TOKENS,
    if_running: Annotated[IfRunning, Field(description="what if a job of this name runs")] = "new",
    pty: Annotated[bool, Field(description="on a terminal: editors, REPLs, passwords")] = False,
    rows: int = 24,
    cols: int = 80,
    queue: Annotated[bool, Field(description="wait for a free slot instead of failing")] = False,
    after: Annotated[list[str] | None, Field(description="queue it behind these ids or names")] = None,
    watch: Annotated[list[str] | None, Field(description="RE2; each match is an event")] = None,
    options: Annotated[dict[str, Any] | None, Field(description=OPTIONS)] = None,
    limits: Annotated[dict[str, Any] | None, Unlisted] = None,
) -> Started:
    """Start a shell command as a background job and return its job_id; with wait_s also its output, if it
    ends in time. Use it for builds, tests, servers, anything slow or interactive; use interact_with_job
    instead to type into a job that runs. Pipes, &&, globs and newlines work, with the user's full rights.
    Each job has a fresh shell: an earlier cd or export is gone. The job outlives this server; it ends by
    itself, by timeout_s or by kill_job. Next: wait_for_job. Errors: 'Invalid command' (blank or refused by
    policy), 'Job limit reached'."""
    return Started.of(
        jobs.run(
            command,
            cwd=cwd,
            env=env,
            name=name,
            timeout_s=timeout_s,
            shell=shell,
            pty=pty,
            rows=rows,
            cols=cols,
            queue=queue,
            after=after,
            watch=watch,
            options={**(limits or {}), **(options or {})},
            if_running=if_running,
            wait_s=wait_s,
            shown=Shown.within(max_tokens, view=None),
            cancellation=caller.cancellation,
            tell=caller.tell(wait_s),
        )
    )


@TOOLS.tool(READS, blocks=True)
def wait_for_job(
    jobs: Jobs,
    caller: Caller,
    job_ids: Annotated[list[str], Field(description="One or more ids")],
    pattern: Annotated[str | None, Field(description="RE2, e.g. 'listening on|ready in'")] = None,
    stop_pattern: Annotated[str | None, Field(description="Ends it as a failure, e.g. '^error'")] = None,
    literal: Annotated[bool, Field(description="patterns are plain text")] = False,
    stream: Stream = None,
    port: Annotated[int | None, Field(ge=0, le=65535, description="The job listens on it; 0: any")] = None,
    silence_s: Annotated[float | None, Field(gt=0, description="No output for so long")] = None,
    for_input: Annotated[bool, Field(description="The job waits for input")] = False,
    mode: Annotated[Mode, Field(description="first job, or every one")] = "any",
    since: Annotated[str | dict[str, str] | None, Field(description="cursor, or {job_id: cursor}")] = None,
    timeout_s: Annotated[float, Field(ge=0, description="Longest wait")] = 45,
    max_tokens: FewTokens = FEW_TOKENS,
    raw: Raw = False,
) -> Waits:
    """Wait until a job ends or one of the given conditions comes true, and return what it printed since the
    cursor: one call instead of polling. Output from before the call counts, unless since excludes it. An
    ended job answers at once (condition exit). On time-out met is false: call again with since=cursor,
    nothing is lost. Cancelling leaves the job alone. Use execute_command with wait_s instead to start and
    wait at once, tail_job_output to look without waiting. Errors: 'Job <id> not found'; invalid pattern."""
    return Waits.of(
        jobs.wait_for(
            job_ids,
            pattern=pattern,
            literal=literal,
            stop_pattern=stop_pattern,
            stream=stream,
            port=port,
            silence_s=silence_s,
            for_input=for_input,
            mode=mode,
            since=since,
            timeout_s=timeout_s,
            shown=Shown.within(max_tokens, raw, view=None),
            cancellation=caller.cancellation,
            tell=caller.tell(timeout_s),
        ),
        mode,
    )


@TOOLS.tool(READS)
def get_job_status(
    jobs: Jobs,
    job_id: JobId,
    detail: Annotated[bool, Field(description="also CPU, memory, process tree, ports, I/O")] = False,
) -> Status:
    """Tell whether one job runs, waits for input (with its prompt), or how it ended, without its output.
    completed = exit code 0; failed = other exit code, never started, or lost (nobody saw its end); killed =
    by a signal, timeout or kill_job. Answers at once; use wait_for_job instead of asking again and again,
    list_jobs for a forgotten id, tail_job_output for what it printed. Error for a wrong or cleaned-up id:
    'Job <id> not found'."""
    return Status.of(jobs.status(job_id, detail=detail, with_log=True))


@TOOLS.tool(READS)
def get_job_output(
    jobs: Jobs,
    job_id: JobId,
    since: Since = None,
    max_tokens: MaxTokens = None,
    raw: Raw = False,
    view: Seen = "apart",
) -> Printed:
    """Read all that a job printed, or what is new since a cursor; while it runs or after. Never waits,
    consumes nothing. Use tail_job_output instead when the last lines are enough, search_job_output to find a
    line, wait_for_job to wait for more. Over max_tokens (or 32 kB a stream) it is head and tail, and
    between them a line with the bytes left out and the cursor to read them. Dropped bytes are gone. Error:
    'Job <id> not found'."""
    return Printed.of(jobs.output(job_id, since, Shown.within(max_tokens, raw, view)))


@TOOLS.tool(READS)
def tail_job_output(
    jobs: Jobs,
    job_id: JobId,
    lines: Annotated[int, Field(ge=1, le=1000, description="Lines per stream")] = 50,
    since: Since = None,
    max_tokens: MaxTokens = None,
    raw: Raw = False,
    view: Look = None,
) -> Printed:
    """Read the last lines of a job's stdout and stderr: progress, a prompt, the error at the end. Cheap on
    any log, while the job runs or after; an unfinished last line counts. Never waits, consumes nothing. Use
    get_job_output instead for all output, or with this cursor as since for what comes next. Error: 'Job <id>
    not found'."""
    return Printed.of(jobs.tail(job_id, lines, Shown.within(max_tokens, raw, view), since))


@TOOLS.tool(READS, blocks=True)
def search_job_output(
    jobs: Jobs,
    pattern: Annotated[str, Field(description="RE2, e.g. '(?i)error|failed'")],
    job_ids: Annotated[list[str] | None, Field(description="default: all jobs, ended ones too")] = None,
    literal: Annotated[bool, Field(description="pattern is plain text")] = False,
    stream: Stream = None,
    context_lines: Annotated[int, Field(ge=0, le=20, description="around each")] = 0,
    after: Annotated[str | None, Field(description="ISO 8601, e.g. 2026-07-28T12:30:00Z")] = None,
    before: Annotated[str | None, Field(description="likewise")] = None,
    limit: Annotated[int, Field(ge=1, le=500)] = 20,
    oldest_first: Annotated[bool, Field(description="default: newest")] = False,
) -> FoundLines:
    """Find lines in what jobs printed: an error in a long log, or which job printed something. Fast on
    gigabytes; changes nothing. Use get_job_output instead to read a match whole (since=its cursor),
    wait_for_job for a line that is not there yet. Errors: 'Job <id> not found'; an invalid pattern, with its
    place."""
    return FoundLines.of(
        jobs.search(
            pattern,
            job_ids=job_ids,
            literal=literal,
            stream=stream,
            context_lines=context_lines,
            after=after,
            before=before,
            limit=limit,
            oldest_first=oldest_first,
        )
    )


@TOOLS.tool(READS, blocks=True)
def job_events(
    jobs: Jobs,
    caller: Caller,
    since: Annotated[str | None, Field(description="cursor of the last answer; default: the newest")] = None,
    job_ids: Annotated[list[str] | None, Field(description="default: all jobs")] = None,
    kinds: Annotated[list[str] | None, Unlisted] = None,
    timeout_s: Annotated[float, Field(ge=0, description="Longest wait if there are none")] = 0,
    max_tokens: Annotated[int | None, Field(ge=50, description="of the answer")] = None,
) -> Told:
    """Tell what happened to jobs since a cursor: started, matched (a watch), input (waits for it),
    limit_near, limit_hit, queued, ended with its cause. Call it after a restart or compaction, or instead of
    asking job by job: with your last cursor it misses nothing, whoever started the jobs. Changes nothing;
    events are kept for long, not for ever (gone_bytes). Use wait_for_job instead for one job's output,
    list_jobs for what runs now. Errors: 'Job <id> not found'; invalid cursor."""
    return Told.of(
        jobs.events(
            since,
            job_ids=job_ids,
            kinds=kinds,
            timeout_s=timeout_s,
            max_tokens=max_tokens,
            cancellation=caller.cancellation,
            tell=caller.tell(timeout_s),
        )
    )


@TOOLS.tool(READS)
def list_jobs(
    jobs: Jobs,
    status: Annotated[StatusWord | None, Field(description="Only these; default: all")] = None,
    limit: Annotated[int, Field(ge=1, le=1000, description="Page size")] = 100,
    cursor: Annotated[str | None, Field(description="next_cursor of the page before")] = None,
) -> Listing:
    """List jobs, newest first, running and ended, of this and the user's other servers. Use it to find a
    job_id or see what runs; use get_job_status instead for one known job. next_cursor is there only when more
    follow. Ended jobs are cleaned up after days; running ones never."""
    return Listing.of(jobs.list(status, limit, cursor))


@TOOLS.tool(DOES_ANYTHING, blocks=True)
def interact_with_job(
    jobs: Jobs,
    job_id: JobId,
    input: Annotated[str, Field(description="E.g. 'yes'; a missing newline is added")],
    keys: Annotated[
        list[str] | None, Field(description="After it, e.g. ['ctrl-c','up','enter','f5']")
    ] = None,
    add_newline: bool = True,
    wait_s: Annotated[float, Field(ge=0, le=1, description="Longest wait for a reply")] = 0.5,
    close_stdin: Annotated[bool, Field(description="Then send EOF; input may be ''")] = False,
    rows: Annotated[int | None, Field(description="with cols: resize the pty")] = None,
    cols: int | None = None,
    max_tokens: FewTokens = FEW_TOKENS,
    raw: Raw = False,
    view: Look = None,
) -> Reply:
    """Type into a running job's stdin or terminal and return what it prints right after: for prompts, REPLs,
    editors. Cannot be taken back. Returns once the job has answered, at latest after wait_s; read a later
    reply by get_job_output with since=cursor. accepted_bytes below the input's length: its buffer is full,
    send the rest later. Use execute_command instead to start a command, kill_job to end one. Errors: not
    found; 'is not running and cannot accept input'; stdin closed."""
    return Reply.to(
        jobs.interact(
            job_id,
            Typed(input, keys or (), add_newline, close_stdin),
            resize=(rows, cols) if rows and cols else None,
            wait_s=wait_s,
            shown=Shown.within(max_tokens, raw, view),
        )
    )


@TOOLS.tool(ENDS, blocks=True)
def kill_job(
    jobs: Jobs,
    job_id: JobId,
    grace_s: Annotated[float, Field(ge=0, le=60, description="Seconds between signal and SIGKILL")] = 5,
    signal: Annotated[str, Field(description="First signal, e.g. TERM, INT, HUP, KILL")] = "TERM",
) -> Killing:
    """End a job with all its processes, daemons too. Final, but its output stays readable. Sends signal, then
    SIGKILL to what is left after grace_s, and returns when nothing is alive; other calls are served
    meanwhile. already_terminated = it had ended before; not_found = no such id: answers, not errors, so a
    repeat is safe. Use interact_with_job instead to quit politely (exit, ctrl-c, close_stdin), timeout_s of
    execute_command to limit one."""
    return Killing.of(jobs.kill(job_id, grace_s=grace_s, signal=signal))
