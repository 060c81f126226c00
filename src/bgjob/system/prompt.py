"""Whether a job that waits for input sits at a prompt: whether its next step is the user's.

That a process waits for input (stdin_wait) is not enough: a dev server that listens for keys waits for them
too, and goes on without. The first line of this table that fits decides, once the job has been quiet for
`quiet_s`:

    its last line   its terminal   the waiting process                                     a prompt?
    any             any            the kernel shows none                                   no
    unfinished      any            any                                                     yes: read -p, a REPL
    finished        in raw mode    has no connection: a menu, an editor, a pager           yes
    finished        any            is blocked in read, and nothing else of the job runs    yes: cat, read
    finished        any            any other: vite, nodemon, ssh host command              no

Nothing else runs: it has one thread, all other processes of the job are above it, none listens on a port.
The shim imports this module.
"""

from __future__ import annotations

import os
import re
import termios

from bgjob.system import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bgjob.system.stdin_wait import Wait

QUIET_S = 0.15
CONNECTED_QUIET_S = 1.0
# Of a terminal: escape sequences, which move the cursor or colour, and other controls. None can be seen.
UNSEEN = rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|[\0-\x20\x7f]"
NETWORK = (b"TCP", b"UDP", b"MPTCP", b"SCTP")
TCP_LISTEN = b"0A"


def sits_at_prompt(wait: Wait, tree: Sequence[int], printed: bytes, terminal: int | None) -> bool:
    """`tree`: the job's processes. `printed`: the end of its output. `terminal`: either end of it."""
    if wait.answer != "yes":
        return False
    if is_unfinished(printed):
        return True
    if wait.pid is None:
        return False
    if terminal is not None and _is_raw(terminal) and not has_connection(wait.pid):
        return True
    return wait.how == "reading" and runs_alone(wait.pid, tree) and not any(map(_listens, tree))


def quiet_s(wait: Wait) -> float:
    """How long it must have printed nothing: a server may still be on its way to the end of a line."""
    is_connected = wait.how == "watching" and wait.pid is not None and has_connection(wait.pid)
    return CONNECTED_QUIET_S if is_connected else QUIET_S


def is_unfinished(printed: bytes) -> bool:
    """Whether something that can be seen follows the last newline."""
    return bool(re.sub(UNSEEN, b"", printed.rpartition(b"\n")[2]))


def runs_alone(pid: int, tree: Sequence[int]) -> bool:
    """Whether it has one thread, and all other processes of the tree are above it."""
    others, at = set(processes.alive(list(tree))) - {pid}, pid
    while (at := processes.stat_of(at)[processes.PARENT]) in others:
        others.remove(at)
    try:
        return not others and len(processes.threads(pid)) == 1
    except OSError:
        return False  # the process is gone


def has_connection(pid: int) -> bool:
    """Whether it has a socket of a network, connected or not."""
    return any(protocol.startswith(NETWORK) for _, protocol in _sockets(pid))


def _is_raw(terminal: int) -> bool:
    try:
        return not termios.tcgetattr(terminal)[3] & termios.ICANON
    except termios.error:
        return False  # no terminal, or no process has it open


def _listens(pid: int) -> bool:
    inodes = {inode for inode, protocol in _sockets(pid) if protocol.startswith(NETWORK)}
    return bool(inodes) and not inodes.isdisjoint(_listening(pid))


def _sockets(pid: int) -> Iterable[tuple[bytes, bytes]]:
    """The inode and the protocol of each socket; none if we may not look."""
    directory = f"/proc/{pid}/fd"
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in names:
        target = processes.link_target(f"{directory}/{name}")
        if target.startswith("socket:["):
            try:
                protocol = os.getxattr(f"{directory}/{name}", "system.sockprotoname")
            except OSError:
                continue  # closed meanwhile
            yield target[8:-1].encode(), protocol


def _listening(pid: int) -> Iterable[bytes]:
    """The inodes of the sockets that listen in its network. The kernel lists these first, then connections."""
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{name}", "rb") as lines:
                next(lines, None)  # the headings
                for fields in map(bytes.split, lines):
                    if fields[3] != TCP_LISTEN:
                        break
                    yield fields[9]
        except OSError:
            pass  # no IPv6, or the process has just ended
