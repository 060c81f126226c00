"""The commands: parse, call the api, print."""

import argparse
import contextlib
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping

from bgjob import __version__
from bgjob.api import JobEvent, Jobs, Page, absolute, open_jobs
from bgjob.cli import notify, serve, serve_mcp, streams, token
from bgjob.cli.outcome import last_words, result
from bgjob.cli.parser import parser
from bgjob.cli.streams import CannotPrint, JobStream, say
from bgjob.cli.table import table
from bgjob.cli.words import in_our_words
from bgjob.core.errors import BgjobError
from bgjob.core.job import Queued, Running, StatusWord
from bgjob.core.options import LIMIT_OPTIONS, checked
from bgjob.home.log_format import STDERR
from bgjob.output.tty_text import one_line

FOLLOW_S = 30.0
EVENT_TOKENS = 20_000
OUTPUT_FAILED = 74  # EX_IOERR of sysexits.h


def exit_code(arguments: list[str]) -> int:
    """Does what the arguments say."""
    try:
        done = _act(arguments)
        streams.flush()
        return done
    except BrokenPipeError:  # `bgjob logs x | head` ends quietly
        return 0
    except CannotPrint as problem:
        streams.complain(str(problem))
        return OUTPUT_FAILED
    except BgjobError as error:
        streams.complain(in_our_words(error))
        return 1
    except KeyboardInterrupt:
        return 130


def _act(arguments: list[str]) -> int:
    try:
        options = parser().parse_args(arguments)
    except SystemExit as told:  # the help or the version, or what is wrong with the arguments
        return int(told.code or 0)
    return VERBS[options.verb](options)


def _jobs() -> Jobs:
    return open_jobs(os.environ, many=False)


def _run(options: argparse.Namespace) -> int:
    streams.check_stdout()  # a job whose id cannot be printed is better not started
    command = options.command[0] if len(options.command) == 1 else shlex.join(options.command)
    jobs = _jobs()
    job = jobs.execute(
        command,
        cwd=absolute(os.path.expanduser(options.cwd or ".")),
        env=dict(options.env),
        name=options.name,
        timeout_s=options.timeout,
        queue=options.queue,
        after=[jobs.find_typed(each).id for each in options.after or ()],
        options={
            "after_policy": "any" if options.after_any else None,
            "delay_s": options.delay,
            "priority": options.priority,
            "group": options.group,
            "restart": options.restart,
            "max_restarts": options.max_restarts,
            "backoff_s": options.backoff,
            "notify": options.notify,
            **checked(dict(options.limit), LIMIT_OPTIONS),
        },
        watch=options.watch,
        by=_ourselves(),
    )
    streams.tell(job.id, done=f"job {job.id} was started")
    return 0


def _ourselves() -> dict[str, str]:
    """Who starts the job, as its record says it."""
    with contextlib.suppress(OSError):  # deleted
        return {"client": "bgjob", "version": __version__, "cwd": os.getcwd()}
    return {"client": "bgjob", "version": __version__}


def _ps(options: argparse.Namespace) -> int:
    pages = _pages(_jobs(), options.status, options.limit)
    for line in table(pages, time.time(), streams.columns()):
        say(line)
    if pages[-1].next_cursor:
        streams.note(f"(older ones not shown; --limit {options.limit * 5} shows more)")
    return 0


def _pages(jobs: Jobs, wanted: StatusWord | None, limit: int) -> list[Page]:
    """Together `limit` jobs, or all: a page is bounded also by its size."""
    pages = [jobs.list(wanted, limit)]
    while (cursor := pages[-1].next_cursor) and (left := limit - sum(len(page.jobs) for page in pages)):
        pages.append(jobs.list(wanted, left, cursor))
    return pages


def _logs(options: argparse.Namespace) -> int:
    jobs = _jobs()
    job_id = jobs.find_typed(options.id).id
    stdout, stderr = (JobStream(stream, raw=options.raw) for stream in (sys.stdout, sys.stderr))
    try:
        for chunk in jobs.follow(job_id, options.follow):
            if chunk.dropped_bytes:
                streams.note(f"[bgjob: {chunk.dropped_bytes} bytes dropped here]")
            (stderr if chunk.stream == STDERR else stdout).write(chunk.data)
    finally:  # after a ctrl-c too, the terminal has its own colours again
        stdout.finish()
        stderr.finish()
    job = jobs.status(job_id).job
    if isinstance(job.state, Running) or result(job.state) == 0:
        return 0
    if options.follow or sys.stderr.isatty():
        below = "\n" if sys.stderr.isatty() and (stdout.is_within_a_line or stderr.is_within_a_line) else ""
        streams.note(f"{below}[bgjob: {last_words(job)}]")
    return result(job.state) if options.follow else 0


def _events(options: argparse.Namespace) -> int:
    jobs, since = _jobs(), options.since
    job_ids = [jobs.find_typed(each).id for each in options.ids] or None
    while True:
        # The first look does not wait: it shows the newest events, from which on the others are followed.
        timeout_s = FOLLOW_S if options.follow and since else 0
        found = jobs.events(since, job_ids=job_ids, timeout_s=timeout_s, max_tokens=EVENT_TOKENS)
        for event in found.events:
            say(_event_row(event))
        since = found.cursor
        if not (found.more or options.follow):
            streams.note(f"(bgjob events --since {since} shows what comes next)")
            return 0


def _printable(text: str) -> str:
    return one_line(" ".join(text.split()))


def _event_row(event: JobEvent) -> str:
    when = time.strftime("%F %T", time.localtime(event.at))
    details = " ".join(_printable(f"{word}={value}") for word, value in event.details.items())
    job_id, name, kind = _printable(event.job_id[:8]), _printable(event.name or "-"), _printable(event.kind)
    return f"{when}  {job_id}  {name:12.12}  {kind:10}  {details}".rstrip()


def _kill(options: argparse.Namespace) -> int:
    jobs = _jobs()
    job_id = jobs.find_typed(options.id, steered=Running).id
    done = jobs.kill(job_id, grace_s=options.grace, signal=options.signal)
    outcome = f"{done.status} ({done.processes} {'process' if done.processes == 1 else 'processes'})"
    streams.tell(outcome, done=outcome)
    return 0


def _priority(options: argparse.Namespace) -> int:
    jobs = _jobs()
    jobs.prioritize(jobs.find_typed(options.id, steered=Queued).id, options.priority)
    return 0


def _mcp(_options: argparse.Namespace) -> int:
    serve_mcp()
    return 0


def _hook(options: argparse.Namespace) -> int:
    """From a terminal: for all others the command does not come here."""
    from bgjob.cli import hook

    return hook.run([options.client, *filter(None, [options.event])], os.environ)


def _client(options: argparse.Namespace) -> int:
    from bgjob.cli import client

    return client.act(options, os.environ)


VERBS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "run": _run,
    "ps": _ps,
    "logs": _logs,
    "events": _events,
    "priority": _priority,
    "kill": _kill,
    "mcp": _mcp,
    "client": _client,
    "hook": _hook,
    "serve": lambda options: serve.run(options, os.environ),
    "token": lambda options: token.run(options, os.environ),
    "notify": lambda options: notify.run(options, os.environ),
}
