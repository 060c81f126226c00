"""Of a shim whose job runs in the allocation of an engine: the process above it that holds the allocation.

The engine looks for what it started below that process and in its control groups, and nowhere else. So a shim in an
allocation makes no groups of its own, and ends its job when that process has ended. Set once, before any fork.
"""

from __future__ import annotations

import os


class Allocation:
    is_ours = False
    """This process is in one."""
    is_shared = False
    """Other jobs run in it, too."""
    holder: int | None = None
    """A descriptor that becomes readable when the holder has ended; None where the system has no such thing."""


def enter(*, is_shared: bool) -> None:
    """In a process that the holder has started."""
    Allocation.is_ours, Allocation.is_shared = True, is_shared
    try:
        Allocation.holder = os.pidfd_open(os.getppid())
    except (AttributeError, OSError):
        pass  # an old kernel: the engine ends what it can find
