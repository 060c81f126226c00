"""The tools. Their docstrings are product text: models choose by them, and directories score them."""

from typing import Annotated, Any, Literal, TypedDict

from bgjob.api import FEW_TOKENS, IfRunning, Jobs, Mode, Shown, Typed, View
from bgjob.core.job import EventKind, StatusWord, StdinWord
from bgjob.core.options import ALL_OPTIONS, checked
from bgjob.mcp import tasks
from bgjob.mcp.caller import Caller
from bgjob.mcp.listings import FoundLines, Listing, Told
from bgjob.mcp.registry import UNLISTED, Kind, Registry
from bgjob.mcp.results import Killing, Read, Reply, Started, Status, Waits
from bgjob.protocol.tasks import Task

READS = Kind("read", {"readOnlyHint": True, "openWorldHint": False})
DOES_ANYTHING = Kind(
    "run",
    {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True},
)
ENDS = Kind(
    "kill",
    {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False},
)

JobId = Annotated[str, {"description": "Id, its first characters (4 or more), or name"}]
Since = Annotated[str | None, {"description": "Cursor of an earlier answer: only what is new"}]
MaxTokens = Annotated[int | None, {"minimum": 50, "description": "Per stream; else 8000 in all"}]
FewTokens = Annotated[int, {"minimum": 50, "description": "Per stream"}]
Pattern = Annotated[str | None, {"description": "RE2, e.g. 'ready in|listening'"}]
StopPattern = Annotated[str | None, {"description": "Ends the wait, not the job, e.g. '^error'"}]
Port = Annotated[int | None, {"minimum": 0, "maximum": 65535, "description": "It listens on it; 0: any"}]
Silence = Annotated[float | None, {"exclusiveMinimum": 0, "description": "Seconds without output"}]
ForInput = Annotated[bool, {"description": "It reads its stdin"}]

OPTIONS = (
    "Limits: memory, file_size, output (bytes or '2GB'), cpu_s, silence_s (seconds), processes, open_files; on_output "
    "'stop'. Queue: after_policy 'any', delay_s, priority -1000..1000, group. restart 'on-failure'|'always', "
    "max_restarts, backoff_s"
)
Unlisted = {UNLISTED: True}
"""Accepted, and described in docs/reference.md; the schema, which every caller pays for, does without."""
Raw = Annotated[bool, Unlisted]
Literally = Annotated[bool, Unlisted]
Stream = Annotated[Literal["stdout", "stderr"] | None, Unlisted]
Size = Annotated[int | None, Unlisted]

TOOLS = Registry[Jobs]("tools.json")


class UntilArgument(TypedDict, total=False):
    """As bgjob.api.wait.Until, with what the schema says of it."""

    pattern: str | None
    stop_pattern: str | None
    port: Annotated[int | None, {"minimum": 0, "maximum": 65535}]
    silence_s: Annotated[float | None, {"exclusiveMinimum": 0}]
    for_input: bool
    literal: Literally
    stream: Stream


@TOOLS.tool("Run a command", DOES_ANYTHING, blocks=True, options=ALL_OPTIONS, may_be_task=True)
def execute_command(
    jobs: Jobs,
    caller: Caller,
    command: Annotated[str, {"description": "E.g. 'npm ci && npm test'; no & at its end"}],
    cwd: Annotated[str | None, {"description": "Default: server's"}] = None,
    env: Annotated[
        dict[str, str] | None,
        {"description": "To add; for secrets: others can see command"},
    ] = None,
    name: Annotated[str | None, {"description": "E.g. 'dev'; usable as job_id"}] = None,
    timeout_s: Annotated[
        float | None, {"exclusiveMinimum": 0, "description": "Kill the job after; to wait, wait_s"}
    ] = None,
    shell: Annotated[str | None, Unlisted] = None,
    wait_s: Annotated[
        float, {"minimum": 0, "description": "Wait up to so long (45 s) for its end or a prompt"}
    ] = 0,
    until: Annotated[UntilArgument | None, {"description": "Wait for this instead"}] = None,
    stdin: Annotated[
        StdinWord | None, {"description": "null: /dev/null, default with wait_s; open: to type into"}
    ] = None,
    pty: Annotated[bool, {"description": "A terminal: REPLs, editors, menus, passwords"}] = False,
    if_running: Annotated[
        IfRunning,
        {"description": "If one of this name runs: start another, use it, fail, kill it"},
    ] = "new",
    max_tokens: FewTokens = FEW_TOKENS,
    queue: Annotated[bool, {"description": "If no slot is free, wait for one"}] = False,
    after: Annotated[list[str] | None, {"description": "Start when these jobs succeeded"}] = None,
    watch: Annotated[list[str] | None, {"description": "RE2; matching lines become events"}] = None,
    options: Annotated[dict[str, Any] | None, {"description": OPTIONS}] = None,
    limits: Annotated[dict[str, Any] | None, Unlisted] = None,
    rows: Annotated[int, Unlisted] = 24,
    cols: Annotated[int, Unlisted] = 80,
    target: Annotated[str | None, Unlisted] = None,
) -> Started | Task:
    """Start a shell command as a background job and return its job_id; with wait_s or until also its output, exit
    code or prompt. Use it for builds, tests, servers, installs, whatever is slow or asks; use interact_with_job
    instead to type into a job that runs. It has the user's full rights and a fresh bash (no earlier cd or
    export), outlives this server, and ends by itself, by timeout_s or by kill_job. When the wait is up it goes
    on: next wait_for_job with since=cursor; if it waits_for_input, interact_with_job. Errors: 'Invalid command'
    (blank or refused), 'Job limit reached'."""
    shown, chosen = Shown.within(max_tokens, view=None), {**(limits or {}), **(options or {})}
    return tasks.of_start(
        jobs,
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
            stdin=stdin,
            queue=queue,
            after=after,
            watch=watch,
            options=chosen,
            target=target,
            if_running=if_running,
            wait_s=wait_s,
            until=until,
            by=caller.by,
            most_s=caller.most_s,
            shown=shown,
            cancellation=caller.cancellation,
            tell=caller.tell,
        ),
        wait_s,
        caller,
        until=until or {},
        max_bytes=shown.max_bytes,
        kills=checked(chosen).get("kill_on_cancel", False),
    )


@TOOLS.tool("Wait for jobs", READS, blocks=True, may_be_task=True)
def wait_for_job(
    jobs: Jobs,
    caller: Caller,
    job_ids: Annotated[list[str], {"description": "Ids, first characters or names"}],
    pattern: Pattern = None,
    stop_pattern: StopPattern = None,
    port: Port = None,
    silence_s: Silence = None,
    for_input: ForInput = False,
    mode: Annotated[Mode, {"description": "One job suffices, or all"}] = "any",
    since: Annotated[
        str | dict[str, str] | None,
        {"description": "Cursor: only what is new; or {job_id: cursor}"},
    ] = None,
    timeout_s: Annotated[float, {"minimum": 0, "description": "At most 45 a call"}] = 45,
    max_tokens: FewTokens = FEW_TOKENS,
    literal: Literally = False,
    stream: Stream = None,
    raw: Raw = False,
) -> Waits | Task:
    """Wait until a job ends or one of the given conditions comes true, and return what it printed: one call instead
    of polling. met: what you asked for came true; condition: what ended the wait. A job that ends or prints
    stop_pattern first, or sits at a prompt (input), answers early with met=false. Output from before the call
    counts, unless since excludes it. No condition: time was up; call again with since=cursor, nothing is lost.
    Cancelling leaves the job alone. Use execute_command with wait_s or until instead to start and wait at once,
    tail_job_output to look without waiting. Errors: 'Job <id> not found'; invalid pattern."""
    until: UntilArgument = {
        "pattern": pattern,
        "literal": literal,
        "stop_pattern": stop_pattern,
        "stream": stream,
        "port": port,
        "silence_s": silence_s,
        "for_input": for_input,
    }
    shown = Shown.within(max_tokens, raw, view=None)
    waited = jobs.wait_for(
        job_ids,
        mode=mode,
        since=since,
        timeout_s=timeout_s,
        most_s=caller.most_s,
        shown=shown,
        session=caller.session,
        cancellation=caller.cancellation,
        tell=caller.tell,
        **until,
    )
    return tasks.of_wait(
        jobs,
        waited,
        mode,
        timeout_s,
        caller,
        until=until,
        since=jobs.cursors(job_ids, since),
        max_bytes=shown.max_bytes,
        raw=raw,
    )


@TOOLS.tool("Job status", READS)
def get_job_status(
    jobs: Jobs,
    job_id: JobId,
    detail: Annotated[bool, {"description": "Also CPU, memory, processes, ports"}] = False,
) -> Status:
    """Tell how one job stands, without its output: status, exit code, prompt if it waits for input, times, path of
    its log for your own grep. completed = exit code 0; failed = another, never started, or lost (its end was
    not seen); killed = by a signal, timeout, limit or kill_job; queued = not started yet. Answers at once. Use
    wait_for_job instead of asking again and again, list_jobs for a forgotten id. Error: 'Job <id> not found'
    (wrong, or cleaned up)."""
    return Status.of(jobs.status(job_id, detail=detail, with_log=True), job_id)


@TOOLS.tool("Job output", READS)
def get_job_output(
    jobs: Jobs,
    job_id: JobId,
    since: Since = None,
    max_tokens: MaxTokens = None,
    raw: Annotated[bool, {"description": "With colours and progress"}] = False,
    view: Annotated[
        View,
        {"description": "interleaved: with times; screen: a pty's"},
    ] = "apart",
) -> Read:
    """Read all that a job printed, or what is new since a cursor; while it runs or after. Never waits, consumes
    nothing. Use tail_job_output instead when the last lines are enough, search_job_output to find a line,
    wait_for_job to wait for more. Beyond max_tokens it is head and tail, and between them a line with the number
    of bytes left out and the cursor that reads them. Of a job 10 MB are kept; older bytes count as dropped.
    Error: 'Job <id> not found'."""
    return Read.of(jobs.read(job_id, since, Shown.within(max_tokens, raw, view)), job_id)


@TOOLS.tool("Tail of a job's output", READS)
def tail_job_output(
    jobs: Jobs,
    job_id: JobId,
    lines: Annotated[
        int, {"minimum": 1, "maximum": 1000, "description": "Per stream; max_tokens cuts further"}
    ] = 50,
    since: Since = None,
    max_tokens: MaxTokens = None,
    view: Annotated[View | None, Unlisted] = None,
    raw: Raw = False,
) -> Read:
    """Read the last lines of a job's stdout and stderr (or its screen, if full-screen): progress, the error at the
    end. Cheap on any log, at any time; an unfinished line counts, a huge one is cut. Never
    waits: do not poll, use wait_for_job instead; get_job_output for all, or with this cursor for what comes
    next. Error: 'Job <id> not found'."""
    return Read.of(jobs.read_tail(job_id, lines, Shown.within(max_tokens, raw, view), since), job_id)


@TOOLS.tool("Search in output", READS, blocks=True)
def search_job_output(
    jobs: Jobs,
    pattern: Annotated[str, {"description": "RE2, e.g. '(?i)error|failed'"}],
    job_ids: Annotated[list[str] | None, {"description": "Default: all jobs"}] = None,
    context_lines: Annotated[int, {"minimum": 0, "maximum": 20, "description": "Lines around each"}] = 0,
    limit: Annotated[int, {"minimum": 1, "maximum": 500, "description": "The newest so many"}] = 20,
    literal: Literally = False,
    stream: Stream = None,
    after: Annotated[str | None, Unlisted] = None,
    before: Annotated[str | None, Unlisted] = None,
    oldest_first: Annotated[bool, Unlisted] = False,
    times: Annotated[bool, Unlisted] = False,
) -> FoundLines:
    """Find lines in what jobs printed: an error in a long log, or which job printed something. Grouped by job, in
    the log's order. Fast on gigabytes; changes nothing. Use get_job_output instead for all of a cut line
    (since=its cursor), wait_for_job for a line that is not there yet. Errors: 'Job <id> not found'; an invalid
    pattern, with its place."""
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
            times=times,
        )
    )


@TOOLS.tool("What happened to jobs", READS, blocks=True)
def job_events(
    jobs: Jobs,
    caller: Caller,
    since: Annotated[
        str | None,
        {"description": "Your last cursor; default: last 10; with timeout_s: from now"},
    ] = None,
    job_ids: Annotated[list[str] | None, {"description": "Default: all jobs"}] = None,
    kinds: Annotated[list[EventKind] | None, {"description": "Default: all"}] = None,
    timeout_s: Annotated[float, {"minimum": 0, "description": "Wait for one, at most 45"}] = 0,
    max_tokens: Annotated[int | None, {"minimum": 50, "description": "Default 2000"}] = None,
) -> Told:
    """Tell what happened to jobs: ended with its cause, input (sits at a prompt), matched (a watch), limits, starts.
    Call it after a restart or compaction, or to wait for any job: with your last cursor it misses nothing,
    whoever started the jobs. Changes nothing; old events are deleted one day (gone_bytes). Use list_jobs with
    status=failed instead to see only failures, wait_for_job for one job. Errors: 'Job <id> not found'; invalid
    cursor."""
    return Told.of(
        jobs.events(
            since,
            job_ids=job_ids,
            kinds=kinds,
            timeout_s=timeout_s,
            max_tokens=max_tokens,
            newest=10,
            condensed=True,
            session=caller.session,
            cancellation=caller.cancellation,
            tell=caller.tell,
        )
    )


@TOOLS.tool("List jobs", READS)
def list_jobs(
    jobs: Jobs,
    status: Annotated[StatusWord | None, {"description": "Default: all"}] = None,
    limit: Annotated[int, {"minimum": 1, "maximum": 1000, "description": "Page size"}] = 20,
    cursor: Annotated[str | None, {"description": "next_cursor of the page before"}] = None,
) -> Listing:
    """List jobs, newest first, of all this user's servers and people on this machine. Use it to find a job_id, or
    what runs (status=running: also ended jobs that left processes) or failed; use get_job_status instead for one
    known job and its whole command. next_cursor: more follow. Ended jobs are removed after 7 days or beyond
    1000, running ones never."""
    return Listing.of(jobs.list(status, limit, cursor))


@TOOLS.tool("Type into a job", DOES_ANYTHING, blocks=True)
def interact_with_job(
    jobs: Jobs,
    caller: Caller,
    job_id: JobId,
    input: Annotated[str | None, {"description": "Text; Enter is added unless keys follow"}] = None,
    keys: Annotated[
        list[str] | None,
        {"description": "Pressed after input, e.g. ['down','enter','ctrl-c']"},
    ] = None,
    wait_s: Annotated[float, {"minimum": 0, "description": "At most 45"}] = 5,
    close_stdin: Annotated[bool, {"description": "Then EOF"}] = False,
    max_tokens: FewTokens = FEW_TOKENS,
    view: Annotated[View | None, Unlisted] = None,
    add_newline: Annotated[bool | None, Unlisted] = None,
    rows: Size = None,
    cols: Size = None,
    raw: Raw = False,
) -> Reply:
    """Type into a running job's stdin or terminal and return what it prints: for prompts, REPLs, editors. Cannot be
    taken back. Returns when the job has worked it off: it waits for input again or has ended, at latest after
    wait_s; if still busy then, wait_for_job with since=cursor. Without a pty ctrl-c interrupts, ctrl-d is EOF.
    accepted_bytes below the input's length: its buffer is full, send the rest later. Use execute_command instead
    to start a command, kill_job to end one. Errors: not found; 'is not running and cannot accept input'; stdin
    closed or null."""
    return Reply.to(
        jobs.interact(
            job_id,
            Typed(input, keys or (), add_newline, close_stdin),
            resize=None if rows is None and cols is None else (rows, cols),
            wait_s=wait_s,
            shown=Shown.within(max_tokens, raw, view),
            session=caller.session,
        ),
        job_id,
    )


@TOOLS.tool("End a job", ENDS, blocks=True)
def kill_job(
    jobs: Jobs,
    caller: Caller,
    job_id: JobId,
    grace_s: Annotated[float, {"minimum": 0, "maximum": 60, "description": "Until SIGKILL; 0: at once"}] = 5,
    signal: Annotated[str, {"description": "E.g. TERM, INT, HUP"}] = "TERM",
    only_signal: Annotated[bool, {"description": "Send signal and no more"}] = False,
) -> Killing:
    """End a job with all its processes, also daemons it left, or take it out of the queue. Final, but its output
    stays readable. Sends signal, after grace_s SIGKILL, and returns when nothing is alive. already_terminated =
    it had ended before; not_found = no such job: answers, not errors, so a repeat is safe. Use interact_with_job
    instead to quit politely (exit, ctrl-c), timeout_s of execute_command to limit a job."""
    done = jobs.kill(job_id, grace_s=grace_s, signal=signal, only_signal=only_signal, session=caller.session)
    return Killing.of(done, job_id)
