"""Everything that can go wrong and is not a bug.

    BgjobError
    ├── InvalidCommand      the command is empty, malformed or refused by the policy
    ├── InvalidArgument     another argument is not acceptable
    ├── WorkingDirectoryGone  our working directory was deleted, and the job was to run there
    ├── CannotStart         the machine has no room for another job: disk, memory, processes
    ├── JobLimitReached     no free slot
    ├── StoreFull           the running jobs alone exceed the size of the store
    ├── JobNotFound         no such job
    ├── AlreadyRunning      a job of this name runs, and the caller did not want a second
    ├── NotRunning          the job has ended, or not begun, and takes no input
    ├── StdinClosed         the job runs, but its stdin is closed
    ├── StdinIsNull         the job was started without a stdin that can be typed into
    ├── HeldByPerson        a person is attached to the job and types
    ├── NotSteerable        the job's shim does not answer
    ├── TargetUnreachable   the machine of a job of a target does not answer
    ├── CannotRemove        another job needs it, or its files cannot be moved away
    │   └── InUse           the job runs, waits or has left processes running
    ├── NotAllowed          this server's allow-list does not let it type into the job
    ├── StoreUnusable       the job store cannot be used safely
    ├── ImpossibleRequest   a cluster cannot have what is asked for, now or later
    ├── CannotServe         the HTTP server cannot listen where it was told to
    ├── BadConfigFile       the config file cannot be used
    ├── BadTargetsFile      the file of targets cannot be used
    └── BadSetting          an environment variable or the config file has a value we do not accept

A message says what was wrong, and what to do next in the words of the tools. What to do next is also an
attribute, `advice`: a face whose users know other words gives its own.
"""

import errno


class BgjobError(Exception):
    trouble = ""
    """What keeps a target from being used, if known: a word of core.target_trouble."""

    def __init__(self, what: str, advice: str = "") -> None:
        self.what, self.advice = what, advice
        super().__init__(f"{what} {advice}" if advice else what)


class InvalidCommand(BgjobError):
    def __init__(self, why: str) -> None:
        super().__init__(f"Invalid command: {why}")


class InvalidArgument(BgjobError):
    """`argument` is its name, if the message begins with the name."""

    def __init__(self, what: str, advice: str = "", *, argument: str = "") -> None:
        super().__init__(argument + what, advice)
        self.argument, self.problem = argument, what


class WorkingDirectoryGone(BgjobError):
    def __init__(self, path: str) -> None:
        super().__init__(
            f"The working directory {path!r} was deleted. Nothing was run.",
            "Pass an absolute cwd, or have the server started again in a directory that exists.",
        )


class CannotStart(BgjobError):
    def __init__(self, why: OSError, home: str) -> None:
        remedy = "mend that and call again"
        if why.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = f"make room on the disk of the job store {home}, or set BGJOB_HOME, and call again"
        super().__init__(f"The job could not be started: {why}. Nothing was run; {remedy}.")


class JobLimitReached(BgjobError):
    def __init__(self, limit: int, group: str | None = None) -> None:
        where = f" in group {group}" if group else ""
        super().__init__(
            f"Job limit reached: Maximum concurrent jobs limit ({limit}) reached{where}.",
            "Pass queue=true to have it start when a job ends, or kill_job one; "
            "list_jobs with status=running shows them.",
        )


class StoreFull(BgjobError):
    def __init__(self, running_bytes: int, cap_bytes: int) -> None:
        super().__init__(
            f"The job store is full: the jobs that run now take {running_bytes} bytes on disk, and all jobs together "
            f"may take {cap_bytes} (MCP_BG_MAX_STORE_SIZE). Nothing was run.",
            "Wait for a job to end or kill_job one; list_jobs with status=running shows them.",
        )


class JobNotFound(BgjobError):
    """`meant`: a name or id that there is, and that looks like it."""

    def __init__(self, job_id: str, meant: str | None = None) -> None:
        self.job_id = job_id
        guess = f" Did you mean {_short(meant)!r}?" if meant else ""
        super().__init__(f"Job {_short(job_id)} not found.{guess}", "list_jobs shows the ids that exist.")


class AlreadyRunning(BgjobError):
    def __init__(self, name: str, job_id: str) -> None:
        super().__init__(
            f"A job named {_short(name)!r} is running already: {job_id}.",
            "Use it, or pass if_running=restart or new.",
        )


class NotRunning(BgjobError):
    """`how` it stands or has ended; `advice` where there is something to do."""

    def __init__(self, job_id: str, how: str, advice: str = "") -> None:
        super().__init__(f"Job {job_id} is not running and cannot accept input: {how}.", advice)


class StdinClosed(BgjobError):
    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"Job {job_id} has no open stdin: it was closed by an earlier call or by the job itself."
        )


class StdinIsNull(BgjobError):
    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"Job {job_id} cannot be typed into: its stdin is /dev/null.",
            "Start it with stdin='open', or with pty=true for a terminal.",
        )


class HeldByPerson(BgjobError):
    """`by` whom, `since` when and `typed` when last, as texts."""

    def __init__(self, job_id: str, by: str, since: str, typed: str) -> None:
        super().__init__(
            f"Job {job_id} is held by a person who is attached to it and types ({by}, since {since}, typed last "
            f"{typed}). Nothing was typed.",
            "It is free when the person detaches. Until then it can be read, waited for and killed; call "
            "wait_for_job to see what they do.",
        )


class NotSteerable(BgjobError):
    def __init__(self, job_id: str, why: str) -> None:
        super().__init__(
            f"Job {job_id} cannot be steered: {why}.", "get_job_status tells what is known of it."
        )


class TargetUnreachable(BgjobError):
    """Says nothing about its jobs, which go on. `why`: as the program that reaches it told."""

    TRY_AGAIN = "Try again; its jobs keep running."

    def __init__(self, target: str, why: str, advice: str = TRY_AGAIN, trouble: str = "") -> None:
        super().__init__(f"Target {target} cannot be reached: {_short(why.rstrip('.'), 500)}.", advice)
        self.target, self.why, self.trouble = target, why, trouble


class StillReachable(BgjobError):
    def __init__(self, job_id: str) -> None:
        super().__init__(f"Job {job_id} is not given up: its machine can be reached.", "Kill it instead.")


class CannotRemove(BgjobError):
    def __init__(self, job_id: str, why: str, advice: str = "") -> None:
        super().__init__(f"Job {job_id} is not removed: {why}.", advice)


class InUse(CannotRemove):
    def __init__(self, job_id: str, why: str) -> None:
        super().__init__(job_id, why, "kill_job ends it.")


class NotAllowed(BgjobError):
    def __init__(self, job_id: str, why: str) -> None:
        super().__init__(
            f"Job {job_id} cannot be steered by this server: {why}. It can still be read, waited for and killed."
        )


class StoreUnusable(BgjobError):
    pass


class ImpossibleRequest(BgjobError):
    """`why`: in the words of the cluster."""

    def __init__(self, target: str, why: str) -> None:
        self.target, self.why = target, why
        super().__init__(
            f"Target {_short(target)} cannot run this job: {why}. Nothing was run.",
            "Ask for less, or for other labels.",
        )


class CannotServe(BgjobError):
    pass


class BadConfigFile(BgjobError):
    pass


class BadTargetsFile(BgjobError):
    pass


class BadSetting(BgjobError):
    """`name` is the variable, or the config file and its key."""

    def __init__(self, name: str, value: object, accepted: str) -> None:
        shown = repr(_short(value)) if isinstance(value, str) else _short(repr(value))
        super().__init__(f"{name}={shown} is not valid. Accepted: {accepted}.")


def _short(text: str, limit: int = 100) -> str:
    """An id or value as a message shows it, never kilobytes."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
