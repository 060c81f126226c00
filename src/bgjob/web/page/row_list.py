"""All jobs as rows of the page, each with the version of the list in which it changed last.

A page says which version it knows, and is sent the rows that have changed since. Versions are those of one
list: a position of another one, such as that of another server, is unknown here, and its page is sent all.
"""

import json
import secrets
import threading
from collections.abc import Iterator
from typing import NamedTuple

from bgjob.api.live import Live, Row
from bgjob.mcp.answers import plain
from bgjob.web.page.rows import encoded_row

# Of so many removed jobs it is known that they were there. A page that knows older ones is sent all.
MOST_REMOVED = 10_000
MOST_ROWS = 1000


class Entry(NamedTuple):
    version: int
    row: Row | None
    """None: the job was removed."""
    encoded: bytes


class Changes(NamedTuple):
    version: int
    """The list of the page, once it has these."""
    whole: bool
    """The page forgets what it knew before."""
    complete: bool
    rows: list[bytes]
    removed: list[str]
    problem: str | None


class RowList:
    """For any thread, but for `update`."""

    def __init__(self) -> None:
        self._name = secrets.token_hex(6)
        self._mutex = threading.Lock()
        self._entries: dict[str, Entry] = {}
        """In the order of their versions."""
        self._removed: dict[str, None] = {}
        self._version = self._forgotten = 0
        """The last version, and the last of which not all removed jobs are known any more."""
        self._ended: tuple[Row, ...] = ()
        self._ended_ids: set[str] = set()
        self._live: Live | None = None

    # -- what the reader finds ----------------------------------------------------------------------

    def update(self, live: Live) -> None:
        """By one thread alone. Rows are encoded before others have to wait."""
        rows = live.current if live.ended is self._ended else (*live.current, *live.ended)
        new = [(row, encoded_row(row)) for row in rows if not self._has(row)]
        with self._mutex:
            self._live = live
            for row, encoded in new:
                self._note(row, encoded)
            if live.ended is not self._ended:
                self._ended, self._ended_ids = live.ended, {row.job.id for row in live.ended}
            self._note_removed({row.job.id for row in live.current} | self._ended_ids)

    def _has(self, row: Row) -> bool:
        known = self._entries.get(row.job.id)
        return known is not None and known.row is row

    def _note(self, row: Row, encoded: bytes) -> None:
        before = self._entries.get(row.job.id)
        if before and before.encoded == encoded:
            self._entries[row.job.id] = before._replace(row=row)
        else:
            self._removed.pop(row.job.id, None)
            self._enter(row.job.id, row, encoded)

    def _note_removed(self, ids: set[str]) -> None:
        if len(ids) == len(self._entries) - len(self._removed):
            return  # each of these has an entry
        for job_id in self._entries.keys() - self._removed.keys() - ids:
            self._enter(job_id, None, b"")
            self._removed[job_id] = None
        while len(self._removed) > MOST_REMOVED:
            oldest = next(iter(self._removed))
            del self._removed[oldest]
            self._forgotten = self._entries.pop(oldest).version

    def _enter(self, job_id: str, row: Row | None, encoded: bytes) -> None:
        self._entries.pop(job_id, None)
        self._version += 1
        self._entries[job_id] = Entry(self._version, row, encoded)

    # -- what a page is sent ------------------------------------------------------------------------

    @property
    def is_begun(self) -> bool:
        """False: nothing was read yet."""
        return self._live is not None

    def position(self, version: int) -> str:
        return f"{self._name}.{version}"

    def version_at(self, position: str) -> int | None:
        """None: that is no version of this list, or too old."""
        name, _, text = position.partition(".")
        is_ours = name == self._name and text.isascii() and text.isdecimal() and len(text) < 16
        with self._mutex:
            return int(text) if is_ours and self._forgotten <= int(text) <= self._version else None

    def since(self, version: int | None, most: int = MOST_ROWS) -> Changes:
        """At most so many: there may be more behind the version that is told. None: from the beginning."""
        with self._mutex:
            is_whole = version is None or version < self._forgotten
            changed = list(self._changed(0 if version is None or is_whole else version))[::-1]
            is_all = len(changed) <= most
            reached = self._version if is_all else changed[most - 1][1].version
            rows = [entry.encoded for _, entry in changed[:most] if entry.row]
            removed = [job_id for job_id, entry in changed[:most] if entry.row is None]
            live = self._live or Live()
            complete = is_all and live.is_complete
            return Changes(reached, is_whole, complete, rows, [] if is_whole else removed, live.problem)

    def _changed(self, version: int) -> Iterator[tuple[str, Entry]]:
        """The newest first."""
        for job_id, entry in reversed(self._entries.items()):
            if entry.version <= version:
                return
            yield job_id, entry


def encoded_changes(changes: Changes, position: str) -> bytes:
    head = {
        "position": position,
        "whole": changes.whole,
        "complete": changes.complete,
        "removed": changes.removed,
        "problem": plain(changes.problem),
    }
    return json.dumps(head)[:-1].encode() + b', "rows": [' + b",".join(changes.rows) + b"]}"
