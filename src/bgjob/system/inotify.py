"""Wakes when something changes in a directory: by inotify if the system has it, else by looking often."""

import ctypes
import os
import select
import struct
import sys
from collections.abc import Sequence

MODIFY, CREATE, MOVED_TO = 0x2, 0x100, 0x80
# Watch, mask, cookie, and how long the name is that follows.
EVENT = struct.Struct("iIII")
# In place of a watch: there were more changes than the kernel keeps.
OVERFLOW = -1
LOOK_EVERY_S = 0.1
# Some file systems send no notifications.
SAFETY_S = 1.0


class Inotify:
    """Watches some directories. Most systems allow a user 128 instances: without one, we look often."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self._watched: dict[str, int] = {}
        self._changed: set[int] = set()
        has_inotify = sys.platform == "linux" and hasattr(self._libc, "inotify_init1")
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC) if has_inotify else -1

    @property
    def is_available(self) -> bool:
        """False: we look often instead."""
        return bool(self._fd >= 0)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def watch(self, directory: str) -> bool:
        """False: there is no such directory, or the system allows no more watches."""
        if directory not in self._watched and self._fd >= 0:
            number = self._libc.inotify_add_watch(
                self._fd, os.fsencode(directory), MODIFY | CREATE | MOVED_TO
            )
            if number < 0:
                return False
            self._watched[directory] = number
        return True

    def forget(self, directory: str) -> None:
        number = self._watched.pop(directory, None)
        if number is not None:
            self._libc.inotify_rm_watch(self._fd, number)

    def wait(self, timeout_s: float, also: Sequence[int] = ()) -> set[int]:
        """Until a directory changes, a descriptor is readable, or time is up; the readable descriptors."""
        longest_s = SAFETY_S if self._fd >= 0 else LOOK_EVERY_S
        poll = select.poll()
        for fd in (self._fd, *also):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(max(0.0, min(timeout_s, longest_s)) * 1000)}
        if self._fd in ready:
            self._changed |= _watches_in(os.read(self._fd, 1 << 16))
        return ready & set(also)

    def changed(self) -> set[str] | None:
        """The directories that changed in waits since the last call; None: any of them may have."""
        changed, self._changed = self._changed, set()
        if self._fd < 0 or OVERFLOW in changed:
            return None
        return {directory for directory, number in list(self._watched.items()) if number in changed}


def _watches_in(events: bytes) -> set[int]:
    found, at = set(), 0
    while at < len(events):
        number, _, _, name_bytes = EVENT.unpack_from(events, at)
        found.add(number)
        at += EVENT.size + name_bytes
    return found
