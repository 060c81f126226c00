"""Errors in the words of the command line: its verbs and options in place of tools and arguments."""

from collections.abc import Mapping

from bgjob.core.errors import (
    AlreadyRunning,
    BgjobError,
    HeldByPerson,
    InUse,
    InvalidArgument,
    JobLimitReached,
    JobNotFound,
    NotSteerable,
    StdinIsNull,
    StoreFull,
    TargetUnreachable,
    WorkingDirectoryGone,
)
from bgjob.core.options import LIMIT_OPTIONS

RUNNING = "bgjob ps --status running shows what runs, bgjob kill ends one"
ADVICE: Mapping[type[BgjobError], str] = {
    JobLimitReached: f"bgjob run --queue has it start when a job ends; {RUNNING}.",
    StoreFull: f"Wait for a job to end; {RUNNING}.",
    JobNotFound: "bgjob ps shows the jobs that exist.",
    AlreadyRunning: "Use it, or bgjob kill it first.",
    InUse: "bgjob kill ends it; bgjob rm -f ends and removes it.",
    StdinIsNull: "Start it again by bgjob run: then it has one that can be typed into.",
    HeldByPerson: "bgjob attach enters it beside them; bgjob send works when they have detached.",
    TargetUnreachable: "bgjob targets --check says what to do; its jobs go on.",
    NotSteerable: "bgjob ps tells what is known of it.",
    WorkingDirectoryGone: "Go to a directory that exists, or say where it runs: --cwd with an absolute path.",
}
OPTIONS: Mapping[str, str] = {
    **{name: f"--limit {name}" for name in LIMIT_OPTIONS},
    "backoff_s": "--backoff",
    "cpus": "--cpus",
    "cwd": "--cwd",
    "delay_s": "--delay",
    "env": "--env",
    "filter": "--filter",
    "gpus": "--gpus",
    "grace_s": "--grace",
    "group": "--group",
    "hooks": "--hooks",
    "input": "The text",
    "labels": "--label",
    "max_restarts": "--max-restarts",
    "name": "--name",
    "notify": "--notify",
    "priority": "--priority",
    "session": "--session",
    "shell": "--shell",
    "signal": "--signal",
    "since": "--since",
    "stdin": "--stdin",
    "target": "--target",
    "time_limit": "--time-limit",
    "timeout_s": "--timeout",
    "watch": "--watch",
}
OPTION_ADVICE: Mapping[str, str] = {
    "time_limit": "--timeout ends a job anywhere.",
    "input": "Type shorter lines; bytes as they are go by bgjob send ID - into a job without a terminal.",
    "since": "Give one exactly as bgjob printed it, or a time, e.g. 8h.",
}


def in_our_words(error: BgjobError) -> str:
    if isinstance(error, InvalidArgument) and error.argument in OPTIONS:
        what = OPTIONS[error.argument] + error.problem
        return f"{what} {OPTION_ADVICE.get(error.argument, error.advice)}".rstrip()
    return f"{error.what} {_advice(error)}".rstrip()


def _advice(error: BgjobError) -> str:
    """Return what to do; of a target, what is known about this trouble is better than our general advice."""
    if isinstance(error, TargetUnreachable) and error.advice != TargetUnreachable.TRY_AGAIN:
        return error.advice
    return ADVICE.get(type(error), error.advice)
