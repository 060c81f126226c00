"""The session of the client that runs this process: an MCP server or a hook.

Some clients name it in the environment. Of the others the client's own process is the session: a client starts
its servers and its hooks, perhaps by a shell or a launcher, so that both find the same process above them.
"""

from __future__ import annotations

import os

from bgjob.system.processes import PARENT, START_TICKS, name_of, stat_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CLAUDE_SESSION = "CLAUDE_CODE_SESSION_ID"
# What Claude Code calls itself.
CLAUDE_CODE = "claude-code"
# What stands between a client and what it runs.
LAUNCHERS = frozenset(
    ("sh", "bash", "dash", "zsh", "ksh", "fish", "env", "nice", "timeout", "npx", "pipx", "tee", "uv", "uvx")
)


def session_in(environ: Mapping[str, str], client: str | None) -> str | None:
    """None: the client does not name it. `client`: what it calls itself.

    Another client that runs below Claude Code has inherited the variable: that is not its session.
    """
    return environ.get(CLAUDE_SESSION) or None if client == CLAUDE_CODE else None


def client_process() -> str | None:
    """The nearest process above us that is no launcher, by a name that no other process will have."""
    pid = os.getppid()
    while pid > 1 and name_of(pid) in LAUNCHERS:
        pid = stat_of(pid)[PARENT]
    started = stat_of(pid)[START_TICKS] if pid > 1 else 0
    return f"process {pid} of {started}" if started else None
