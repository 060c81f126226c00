"""bgjob wait: until jobs end, print, listen, fall silent or ask."""

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import Any

from bgjob.api.conditions import Conditions
from bgjob.api.context import Context, open_context
from bgjob.api.job_json import job_as_json
from bgjob.api.output import Shown
from bgjob.api.results import Waited
from bgjob.api.wait import MOST_JOBS, Mode, conditions_of, wait_for_conditions
from bgjob.cli import streams
from bgjob.cli.arguments import port, seconds
from bgjob.cli.as_json import as_line
from bgjob.cli.chosen import add_jobs, jobs_meant
from bgjob.cli.labels import labels
from bgjob.cli.outcome import CODES, TIMED_OUT, as_own_failure, end_line, result
from bgjob.cli.progress import Progress
from bgjob.core.errors import InvalidArgument
from bgjob.core.frozen import replace
from bgjob.core.job import status_word
from bgjob.output.tty_text import one_line

NOT_MET = 1
NO_OUTPUT = Shown(max_bytes=1)
EPILOG = f"""\
Without a condition the wait is for the end. With several, whatever comes true first; a job that has ended, and
has left nothing running from which it could come, ends the wait too. What was printed before the wait counts.

{CODES}
With a condition: 0 it came true; if the job ended before, its exit code, or 1 where that is 0; 1 for the
--stop-pattern; 124 also when the --timeout of the wait was up. Of several jobs the first code that is not 0, in
the order in which they were typed; with --any that of the first for which something came true."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pattern", metavar="RE", help="until a line matches (RE2, see bgjob grep)")
    parser.add_argument("--stop-pattern", metavar="RE", help="give up when a line matches this")
    parser.add_argument("--port", type=port, metavar="N", help="until it listens on this port, or on any")
    parser.add_argument("--input", action="store_true", help="until it waits at a prompt")
    parser.add_argument(
        "--silence", type=seconds, metavar="S", help="until it has printed nothing for so long"
    )
    parser.add_argument("--timeout", type=seconds, metavar="S", help="at most so long: seconds, or 5m, 2h")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--any", action="store_true", help="of several jobs, until it is true of one")
    mode.add_argument("--all", action="store_true", help="... of all of them (the default)")
    parser.add_argument("--json", action="store_true", help="a JSON object per job")
    add_jobs(parser)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    def act() -> int:
        context = open_context(environ, many=False)
        waited = wait_until(
            context,
            _chosen(context, options.ids),
            _conditions(options),
            mode="any" if options.any else "all",
            timeout_s=math.inf if options.timeout is None else options.timeout,
        )
        _tell(waited, as_json=options.json)
        return _code(waited, is_any=options.any)

    return as_own_failure(act)


def _chosen(context: Context, words: list[str]) -> list[str]:
    jobs = jobs_meant(context, words)
    if len(jobs) > MOST_JOBS:
        raise InvalidArgument(f"{len(jobs)} jobs are too many for one wait.", f"Give at most {MOST_JOBS}.")
    return [job.id for job in jobs]


def _conditions(options: argparse.Namespace) -> Conditions:
    return conditions_of(
        pattern=options.pattern,
        stop_pattern=options.stop_pattern,
        port=options.port,
        silence_s=options.silence,
        for_input=options.input,
    )


def wait_until(
    context: Context,
    job_ids: Sequence[str],
    conditions: Conditions,
    *,
    mode: Mode = "all",
    timeout_s: float = math.inf,
) -> list[Waited]:
    """However long it takes. A prompt does not end a wait for something else: another may answer it."""
    with Progress() as progress:
        return wait_for_conditions(
            context,
            job_ids,
            replace(conditions, past_prompts=True),
            mode=mode,
            timeout_s=timeout_s,
            most_s=math.inf,
            shown=NO_OUTPUT,
            tell=progress.tell,
        )


def what_came(waited: Waited) -> str:
    """In a few words that follow the name of the job."""
    job, came = waited.status.job, waited.came
    if came is None:
        return f"still {status_word(job.state)}"
    if came.condition == "exit":
        return end_line(job)
    if came.condition == "input":
        return f"waits for input: {one_line(waited.status.prompt or '')}".removesuffix(": ")
    words = {"port": f"listens on port {came.detail}", "silence": "has fallen silent"}
    return words.get(came.condition, f"printed: {one_line(came.detail or '')}")


def code_of(waited: Waited) -> int:
    if waited.came is None:
        return TIMED_OUT
    if waited.came.condition == "exit":
        code = result(waited.status.job.state)
        return code if waited.came.asked else code or NOT_MET
    return 0 if waited.came.asked else NOT_MET


def waited_as_json(waited: Waited) -> dict[str, Any]:
    came = waited.came
    known = {"met": waited.met, "condition": came and came.condition, "detail": came and came.detail}
    said = {"prompt": waited.status.prompt, **known}
    return {
        **job_as_json(waited.status.job),
        **{word: value for word, value in said.items() if value is not None},
    }


def _tell(waited: Sequence[Waited], *, as_json: bool) -> None:
    names = labels([each.status.job for each in waited])
    for each in waited:
        if as_json:
            streams.say(as_line(waited_as_json(each)))
        else:
            streams.say(f"{names[each.status.job.id]}: {what_came(each)}")


def _code(waited: Sequence[Waited], *, is_any: bool) -> int:
    if is_any:
        return next((code_of(each) for each in waited if each.came), TIMED_OUT)
    return next(filter(None, map(code_of, waited)), 0)
