"""Slots: how many jobs may run at once, exact across any number of processes.

    slots/<n>              locked by the shim that uses it, and by its guard
    slots/<group>:<n>      the same for a group of jobs

A slot is free the moment its last holder is gone, without being given back. The shim imports this module.
"""

from __future__ import annotations

import errno
import os

from bgjob.home.locks import open_locked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# No group has this name.
ALL = ""


def claim_all(directory: str, limit: int, group: str | None, group_limit: int | None) -> list[int] | str:
    """Descriptors of one running job; or, if all slots are taken, whose: ALL or the group's name."""
    held: list[int] = []
    try:
        for name, prefix, most in _wanted(limit, group, group_limit):
            fd = claim(directory, prefix, most)
            if fd is None:
                release(held)
                return name
            held.append(fd)
    except OSError:
        release(held)
        raise
    return held


def _wanted(limit: int, group: str | None, group_limit: int | None) -> Iterator[tuple[str, str, int]]:
    # The group first: its slots are scarcer.
    if group is not None and group_limit is not None:
        yield group, f"{group}:", group_limit
    yield ALL, "", limit


def claim(directory: str, prefix: str, limit: int) -> int | None:
    for number in range(limit):
        try:
            fd = open_locked(f"{directory}/{prefix}{number}")
        except OSError as error:
            if error.errno not in (errno.EISDIR, errno.ELOOP):
                raise
            continue  # something else is in its place: one slot less
        if fd is not None:
            return fd
    return None


def release(held: list[int]) -> None:
    for fd in held:
        os.close(fd)
