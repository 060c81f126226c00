"""The session of the client that runs this process: an MCP server or a hook.

Some clients name it in the environment. Of the others the client's own process is the session: a client starts
its servers and its hooks, perhaps by a shell or a launcher, so that both find the same process above them. In a
container it may be PID 1, or nothing is above the server, whose client is outside: then the server's own process
stands for the client.
"""

from __future__ import annotations

import os

from bgjob.system.processes import PARENT, START_TICKS, boot_id, name_of, stat_of

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
# What adopts a process whose client is gone.
INITS = frozenset(("init", "systemd"))
# Of what a client calls its session, records have no more.
NAMED_CHARACTERS = 400


def shortened(name: str) -> str:
    """A session by the name under which servers and hooks both have it."""
    return name[:NAMED_CHARACTERS]


def session_in(environ: Mapping[str, str], client: str | None) -> str | None:
    """None: the client does not name it. `client`: what it calls itself.

    Another client that runs below Claude Code has inherited the variable: that is not its session.
    """
    named = environ.get(CLAUDE_SESSION) if client == CLAUDE_CODE else None
    return shortened(named) if named else None


def client_process() -> str | None:
    """The nearest process above us that is no launcher, or else our own: by a name that no other will have.

    None: the kernel does not tell.
    """
    return _name(_client_pid()) or _name(os.getpid())


def is_running(process: str) -> bool:
    """Whether the process of this name, as `client_process` gives it, is still there."""
    _, pid, *_ = (*process.split(), "", "")
    return pid.isdecimal() and len(pid) < 12 and _name(int(pid)) == process


def _client_pid() -> int:
    """0: there is none."""
    pid = os.getppid()
    while (name := name_of(pid)) in LAUNCHERS:
        pid = stat_of(pid)[PARENT]
    return 0 if name in INITS else pid


def _name(pid: int) -> str | None:
    started = stat_of(pid)[START_TICKS]
    return f"process {pid} of {started} in boot {boot_id()}" if started else None
