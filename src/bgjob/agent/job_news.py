"""What is new of one job: pieces of its log, its records, and how it ended.

Who keeps a copy writes the records first, then the pieces of the log in their order, then deletes what is gone,
and writes the outcome last: then the copy can be read at any time.
"""

import contextlib
import os
from typing import Any

from bgjob.agent import busy
from bgjob.agent.log_news import LogNews
from bgjob.core.errors import JobNotFound
from bgjob.core.job import Lost
from bgjob.home import jobdir
from bgjob.home.jobdir import LIMITS, LOG, OUTCOME, RUN, RUNS, SPEC, TERMINAL
from bgjob.home.layout import is_directory
from bgjob.remote.codec import RECORD_MAX_BYTES, Message, pack_bytes
from bgjob.store.store import Store

RECORDS = (RUN, RUNS, TERMINAL, LIMITS)
PREFIX = f"{LOG}/"


class JobNews:
    def __init__(self, store: Store, job_id: str, have: dict[str, int], *, delays_end: bool = False) -> None:
        """`have`: how many bytes of each file of the log are known. JobNotFound: it is no id.

        `delays_end`: the batch script of the job waits until its end was told.
        """
        self._store, self._job_id = store, job_id
        self.directory, self.log_directory = store.directory(job_id), store.log_directory(job_id)
        self.places = {self.directory, self.log_directory}
        told = {name.removeprefix(PREFIX): size for name, size in have.items()}
        self._log = LogNews(self.log_directory, told)
        # Of each record, the file that was told.
        self._records: dict[str, tuple[int, ...]] = {}
        self._has_outcome = self._is_missing = self._is_unended = False
        self._delays_end, self._busy = delays_end, -1
        self._delay_end()  # now: the job may end before the first look at it
        self.is_over = False
        """True: nothing will be new any more."""
        self.is_behind = False
        """True: there was more than was asked for."""

    def take(self, most_bytes: int) -> Message:
        """Empty: nothing is new."""
        if self.is_over:
            return {}
        try:
            return self._look(most_bytes) if is_directory(self.directory) else self._missing()
        except JobNotFound:  # removed meanwhile
            return self._missing()

    def note_arrived(self) -> None:
        """What was told so far has arrived."""
        if self.is_over:
            self.close()

    def close(self) -> None:
        if self._busy >= 0:
            os.close(self._busy)
            self._busy = -1

    def _look(self, most_bytes: int) -> Message:
        self._is_missing = False
        self._delay_end()
        # In this order: what is written before the lock is free is seen, if the lock was.
        is_held = jobdir.is_locked(f"{self.directory}/{SPEC}")
        outcome = None if self._has_outcome else self._outcome()
        log = self._log.take(most_bytes)
        # After the log: of the sizes of a terminal, those that its bytes need are there.
        records = dict(filter(None, map(self._changed_record, RECORDS)))
        self.is_behind = not log.is_all
        files = [
            {"name": PREFIX + piece.name, "at": piece.at, "data": pack_bytes(piece.data)}
            for piece in log.pieces
        ]
        news = {"files": files, "records": records, "gone": [PREFIX + name for name in log.gone]}
        end = self._end(outcome, is_held, records) if log.is_all else {}
        return {word: value for word, value in {**news, **end}.items() if value}

    def _delay_end(self) -> None:
        if self._delays_end and self._busy < 0:
            with contextlib.suppress(OSError):  # the directory does not exist yet, or was removed
                self._busy = busy.hold(self.directory)

    def _outcome(self) -> Message | None:
        """Of another machine's job, once it is sealed: until then its log may still be on its way to us."""
        path = f"{self.directory}/{OUTCOME}"
        may_read = not self._store.is_elsewhere or jobdir.is_sealed(path)
        record = jobdir.read_record(path) if may_read else None
        return record if len(str(record)) <= RECORD_MAX_BYTES else {"format": 1}

    def _end(self, outcome: Message | None, is_held: bool, records: Message) -> Message:
        """When all that was printed before has been told."""
        if outcome or not (is_held or self._has_outcome):
            state = self._store.load(self._job_id).state
            if isinstance(state, Lost):
                self.is_over = True
                return {"lost": state.reason}
        if outcome:
            records[OUTCOME], self._has_outcome = outcome, True
        if self._store.is_elsewhere and not self._has_outcome:
            return self._unended()
        self.is_over = self._has_outcome and not is_held
        return {"over": self.is_over}

    def _unended(self) -> Message:
        """Whether it runs is known on its own machine alone."""
        is_new, self._is_unended = not self._is_unended, True
        return {"unended": is_new}

    def _missing(self) -> Message:
        is_new, self._is_missing = not self._is_missing, True
        return {"missing": True} if is_new else {}

    def _changed_record(self, name: str) -> tuple[str, Any] | None:
        """Whole, if it is not the one that was told."""
        path = f"{self.directory}/{name}"
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return None
        file = (found.st_ino, found.st_size, found.st_mtime_ns)
        is_known = self._records.get(name) == file or found.st_size > RECORD_MAX_BYTES
        if is_known or (record := jobdir.read_record(path)) is None:
            return None
        self._records[name] = file
        return name, record
