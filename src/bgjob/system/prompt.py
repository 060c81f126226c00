"""Whether a job that waits for input sits at a prompt: whether its next step is the user's.

That a process waits for input (stdin_wait) is not enough: a dev server that listens for keys waits for them
too, and goes on without. The first line of this table that fits decides, once the job has been quiet for
`quiet_s`:

    its last line   its terminal   the waiting process                                     a prompt?
    any             any            the kernel shows none                                   no
    ends in a mark  any            any                                                     yes: a REPL
    any             any            watches, and something of it is at work: a test runner  no
    unfinished      any            any                                                     yes: read -p
    finished        in raw mode    has no connection, and does not wake by itself: a menu  yes
    finished        in raw mode    the same, wakes by itself, but draws: vim, a menu       yes
    finished        any            is blocked in read, and nothing else of the job runs    yes: cat, read
    finished        any            any other: vite, nodemon, ssh host command              no

The last line is unfinished if that of one of its streams is; a mark is one of `> : ? $ #`. A program draws if
it has placed its cursor, or has hidden it. At work is another thread that runs, or a child that neither waits
for input of its own, nor is stopped, nor in the background of a shell. Nothing else runs: it has one thread,
all other processes of the job are above it, none listens on a port. The shim imports this module.
"""

from __future__ import annotations

import os
import re
import termios

from bgjob.system import processes
from bgjob.system.stdin_wait import input_of, waits_for_input

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
MARKS = (b">", b":", b"?", b"$", b"#")
# The cursor put anywhere but to the top left: a program that clears the screen goes there too.
PLACED = rb"\x1b\[(?![01]?;?[01]?H)[0-9;]+H"
HIDDEN, SHOWN = b"\x1b[?25l", b"\x1b[?25h"


def sits_at_prompt(wait: Wait, tree: Sequence[int], ends: Sequence[bytes], terminal: int | None) -> bool:
    """`tree`: the job's processes. `ends`: of its output streams. `terminal`: either end of it."""
    if wait.answer != "yes":
        return False
    if asks(wait, ends):
        return True
    if wait.pid is None:
        return False
    if terminal is not None and _waits_at_raw(wait, terminal) and _waits_for_keys_alone(wait, ends):
        return True
    return wait.how == "reading" and runs_alone(wait.pid, tree) and not any(map(_listens, tree))


def asks(wait: Wait, ends: Sequence[bytes]) -> bool:
    """Whether its last line does."""
    if any(map(_ends_in_mark, ends)):
        return True
    return any(map(is_unfinished, ends)) and not _watches_at_work(wait)


def goes_on_by_itself(wait: Wait) -> bool:
    """Whether one that watches for input may do more before any comes."""
    return wait.is_timed or _watches_at_work(wait) or has_connection(wait.pid or 0)


def quiet_s(wait: Wait) -> float:
    """How long it must have printed nothing: a server may still be on its way to the end of a line."""
    is_connected = wait.how == "watching" and wait.pid is not None and has_connection(wait.pid)
    return CONNECTED_QUIET_S if is_connected else QUIET_S


def is_unfinished(printed: bytes) -> bool:
    """Whether something that can be seen follows the last newline."""
    return bool(_last_line_seen(printed))


def _ends_in_mark(printed: bytes) -> bool:
    return _last_line_seen(printed).endswith(MARKS)


def _last_line_seen(printed: bytes) -> bytes:
    return re.sub(UNSEEN, b"", printed.rpartition(b"\n")[2])


def _watches_at_work(wait: Wait) -> bool:
    return wait.how == "watching" and wait.pid is not None and _is_at_work(wait.pid)


def _is_at_work(pid: int) -> bool:
    """Whether more of it runs than the thread that watches for input."""
    try:
        is_computing = any(processes.is_computing(int(thread)) for thread in processes.threads(pid))
    except OSError:
        return False  # the process is gone
    return is_computing or any(_works(child, pid) for child in processes.descendants(pid))


def _works(child: int, ancestor: int) -> bool:
    """A process that has children works if one of them does."""
    if _is_in_background(child, ancestor):
        return False
    if processes.is_computing(child):
        return True
    if not processes.is_asleep(child) or processes.children(child):
        return False
    return waits_for_input([child], input_of(child)).answer != "yes"


def _is_in_background(child: int, shell: int) -> bool:
    """A shell at its prompt is in the foreground itself."""
    own, its = processes.stat_of(child), processes.stat_of(shell)
    return own[processes.SESSION] == its[processes.SESSION] and own[processes.GROUP] != its[processes.GROUP]


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


def _waits_for_keys_alone(wait: Wait, ends: Sequence[bytes]) -> bool:
    if has_connection(wait.pid or 0) or _watches_at_work(wait):
        return False
    return not wait.is_timed or any(map(_draws, ends))


def _draws(printed: bytes) -> bool:
    """Whether it shows more than lines: it has placed its cursor, or has hidden it and points itself."""
    return bool(re.search(PLACED, printed)) or printed.rfind(HIDDEN) > printed.rfind(SHOWN)


def is_raw(terminal: int) -> bool:
    """Whether a program gets each key from it, not lines."""
    try:
        return not termios.tcgetattr(terminal)[3] & termios.ICANON
    except termios.error:
        return False  # no terminal, or no process has it open


def hides_input(pid: int) -> bool:
    """Whether the terminal of its stdin takes lines and does not show what is typed: for a password."""
    try:
        with open(f"/proc/{pid}/fd/0", "rb", buffering=0, opener=_open_terminal) as terminal:
            flags: int = termios.tcgetattr(terminal)[3]
    except (OSError, termios.error):
        return False  # the process is gone or another user's, or its stdin is no terminal
    return bool(flags & termios.ICANON) and not flags & termios.ECHO


def _waits_at_raw(wait: Wait, terminal: int) -> bool:
    try:
        if not wait.is_nested:
            return is_raw(terminal)
        with open(f"/proc/{wait.pid}/fd/0", "rb", buffering=0, opener=_open_terminal) as nested:
            return is_raw(nested.fileno())
    except OSError:
        return False  # the process is gone


def _open_terminal(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOCTTY | os.O_NONBLOCK)


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
