"""Starting a process that is no descendant of ours, and has none of our secrets: it works for other servers too."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

# The variables that such a process inherits: to find Python and its packages, and no secrets.
KEPT = frozenset(
    ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
)
KEPT_PREFIX = "PYTHON"
BY_HOME = ("BGJOB_HOME",)
"""What else a dispatcher inherits: by this variable a person finds the processes of a home."""
DETACHED = '"$@" &'
SHELL = "/bin/sh"


def kept(environ: Mapping[str, str], also: Collection[str] = ()) -> dict[str, str]:
    """Return the variables that a process inherits which serves the jobs of several starters."""
    return {
        name: value
        for name, value in environ.items()
        if name in KEPT or name in also or name.startswith(KEPT_PREFIX)
    }


def start_detached(arguments: Sequence[str], environ: Mapping[str, str], also: Collection[str] = ()) -> None:
    """`also`: further variables that the process inherits. OSError: it could not be started."""
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    words = [SHELL, "-c", DETACHED, SHELL, *arguments]
    try:
        shell = os.posix_spawn(SHELL, words, kept(environ, also), file_actions=null, setsid=True)
    except NotImplementedError:  # the process then leaves our session by itself
        shell = os.posix_spawn(SHELL, words, kept(environ, also), file_actions=null)
    os.waitpid(shell, 0)
