"""The limit of open files that jobs get, where a server has raised its own.

A server for many clients needs more descriptors than programs that use `select` can bear. It notes the limit that
it was started with in a variable, which its shims read.
"""

import os

VARIABLE = "BGJOB_OPEN_FILES"


def raise_limit(wanted: int) -> None:
    """For this process, and not for the jobs that it starts."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < most:
        os.environ[VARIABLE] = str(soft)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def noted_limit() -> dict[str, str]:
    """Return the noted limit as a variable for the environment of a shim."""
    return {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}


def restore_limit() -> None:
    """In a process that may have inherited a raised limit."""
    before = os.environ.pop(VARIABLE, "")
    if not before.isdecimal():
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(before), hard))
