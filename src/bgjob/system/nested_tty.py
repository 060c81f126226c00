"""Terminals that processes of a job make for their children, as script, sudo and expect do.

Such a process watches its input only to pass it on. Whether the job waits is for the processes at the new
terminal to say. The shim imports this module.
"""

from __future__ import annotations

import os

from bgjob.system import processes
from bgjob.system.stdin_wait import input_of, waits_for_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bgjob.system.stdin_wait import Input, Wait

# Of pseudo-terminals, by the kernel's list of devices.
FIRST_PTS_MAJOR, LAST_PTS_MAJOR = 136, 143


def innermost_wait(pids: Iterable[int], stdin: Input | None) -> Wait:
    """How the job waits for what is typed; behind a terminal of its own, how a process there does."""
    wait = waits_for_input(pids, stdin)
    if stdin is None or wait.how != "watching" or wait.pid is None:
        return wait
    below = processes.descendants(wait.pid)
    nested = [innermost_wait(below, terminal) for terminal in _other_terminals(below, stdin)]
    for inner in nested:
        inner.is_nested = True
    return next((inner for inner in nested if inner.answer == "yes"), nested[0]) if nested else wait


def _other_terminals(pids: Sequence[int], stdin: Input) -> Iterable[Input]:
    found = {source.inode: source for source in map(input_of, pids) if source and _is_terminal(source)}
    found.pop(stdin.inode, None)
    return found.values()


def _is_terminal(source: Input) -> bool:
    major = None if source.terminal is None else os.major(source.terminal)
    return major is not None and FIRST_PTS_MAJOR <= major <= LAST_PTS_MAJOR
