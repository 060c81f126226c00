"""Errors in the words of the command line: its verbs and options in place of tools and arguments."""

from collections.abc import Mapping

from bgjob.core.errors import (
    AlreadyRunning,
    BgjobError,
    InvalidArgument,
    JobLimitReached,
    JobNotFound,
    NotSteerable,
    StdinIsNull,
    StoreFull,
    WorkingDirectoryGone,
)
from bgjob.core.options import LIMIT_OPTIONS

RUNNING = "bgjob ps --status running shows what runs, bgjob kill ends one"
ADVICE: Mapping[type[BgjobError], str] = {
    JobLimitReached: f"bgjob run --queue has it start when a job ends; {RUNNING}.",
    StoreFull: f"Wait for a job to end; {RUNNING}.",
    JobNotFound: "bgjob ps shows the ids that exist.",
    AlreadyRunning: "Use it, or bgjob kill it first.",
    StdinIsNull: "Start it again by bgjob run: then it has one that can be typed into.",
    NotSteerable: "bgjob ps tells what is known of it.",
    WorkingDirectoryGone: "Go to a directory that exists, or say where it runs: --cwd with an absolute path.",
}
OPTIONS: Mapping[str, str] = {
    **{name: f"--limit {name}" for name in LIMIT_OPTIONS},
    "backoff_s": "--backoff",
    "cwd": "--cwd",
    "delay_s": "--delay",
    "env": "--env",
    "filter": "--filter",
    "grace_s": "--grace",
    "group": "--group",
    "hooks": "--hooks",
    "max_restarts": "--max-restarts",
    "name": "--name",
    "notify": "--notify",
    "priority": "--priority",
    "signal": "--signal",
    "since": "--since",
    "timeout_s": "--timeout",
    "watch": "--watch",
}
OPTION_ADVICE: Mapping[str, str] = {
    "since": "Give one exactly as bgjob events printed it, or none for the newest events."
}


def in_our_words(error: BgjobError) -> str:
    if isinstance(error, InvalidArgument) and error.argument in OPTIONS:
        what = OPTIONS[error.argument] + error.problem
        return f"{what} {OPTION_ADVICE.get(error.argument, error.advice)}".rstrip()
    return f"{error.what} {ADVICE.get(type(error), error.advice)}".rstrip()
