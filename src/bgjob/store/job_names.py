"""Which jobs there are, for readers that look again and again."""

import contextlib
import os
import time

from bgjob.home.layout import names_in

# The times of files may be so coarse: two changes can have the same.
SAME_TIME_NS = 50_000_000


class JobNames:
    """The jobs that there are. Their directory is listed again only if its time says so."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.names: set[str] = set()
        self._mtime_ns, self._may_be_same_time = -1, True
        self.have_changed()

    def note(self, name: str) -> None:
        """One that was found in another way: that it is gone is a change, also if it never was listed."""
        self.names.add(name)

    def have_changed(self) -> bool:
        with contextlib.suppress(OSError):
            mtime_ns = os.lstat(self._directory).st_mtime_ns
            if mtime_ns == self._mtime_ns and not self._may_be_same_time:
                return False
            self._may_be_same_time = time.time_ns() - mtime_ns < SAME_TIME_NS
            before, self.names = self.names, set(names_in(self._directory))
            self._mtime_ns = mtime_ns
            return before != self.names
        return False
