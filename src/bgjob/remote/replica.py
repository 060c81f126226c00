"""The copy of one job of a target: its directory in our store, written by what its machine tells.

The copy is right at every moment for whoever reads it, as the original is: the runs of a segment come before the
bytes that they label, and the outcome after the last byte. A relay that is killed goes on from what is on disk.
"""

import asyncio
import contextlib
import fcntl
import os
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bgjob.core.job import JOB_ID, Spec
from bgjob.home import event_log, jobdir, queue_dir, target_dir
from bgjob.home.jobdir import OUTCOME, REMOTE, REQUEST, SPEC
from bgjob.home.layout import is_directory
from bgjob.home.locks import open_locked
from bgjob.remote.copied_log import CopiedLog
from bgjob.remote.messages import said
from bgjob.store.records import read_remote, read_spec
from bgjob.store.store import Store

RECORDS = frozenset((jobdir.RUN, jobdir.RUNS, jobdir.TERMINAL, jobdir.LIMITS, OUTCOME))
# Of an outcome, what the event of an end tells.
ENDED_WORDS = ("cause", "exit_code", "signal", "limit", "reason", "duration_s", "output_bytes")
LOCK_TRIES = 50
# Files that are written before other work of the relay has its turn.
FILES_AT_ONCE = 256
# Slurm may know better than a shim how a job ended: the outcome is written only after its answer.
ENGINES_WORD_S = 1.0


class Replica:
    def __init__(self, store: Store, job_id: str) -> None:
        """OSError or ValueError: there is no such job, or another process holds its lock."""
        self.id, self._store = job_id, store
        self.directory = f"jobs/{job_id}"
        """From the home, the working directory of a relay: so it is short enough for a socket."""
        lock = open_locked(f"{self.directory}/{SPEC}", flags=0, tries=LOCK_TRIES)
        if lock is None:
            raise ValueError(f"another process holds job {job_id}")
        self._lock = lock
        self.spec: Spec = read_spec(job_id, self.directory)
        self._record: dict[str, Any] = {"phase": "submitting", **read_remote(self.directory)}
        self.is_over = self.has_outcome
        self._log = CopiedLog(self.directory, self.spec.max_output_bytes)
        self.holds_outcome = False
        """True: an outcome that its machine tells is not its end yet, but kept for who decides on that."""
        self.told_outcome: Mapping[str, Any] | None = None
        self.asked = self.looked = 0
        """The numbers of the last look that was requested and the last that was answered. See Host.copied."""
        self._changed = asyncio.Event()

    # -- what is known -----------------------------------------------------------------------------

    @property
    def phase(self) -> str:
        return str(self._record["phase"])

    def get(self, name: str) -> Any:
        """A field of its record."""
        return self._record.get(name)

    @property
    def is_unsent(self) -> bool:
        """Whether provably nothing of it has left this machine, so that it can be ended here."""
        return self.phase == "submitting" and self.get("handover") == target_dir.HERE and not self.is_over

    def sending(self) -> None:
        """Note that the first request is about to be sent: from now on only the target knows whether it runs."""
        self.note(handover=target_dir.SENT)

    @property
    def request(self) -> dict[str, Any] | None:
        """What is asked of the target; None once the target has it."""
        return jobdir.read_record(f"{self.directory}/{REQUEST}")

    @property
    def has_outcome(self) -> bool:
        return os.path.lexists(f"{self.directory}/{OUTCOME}")

    @property
    def log_end(self) -> int:
        return self._log.end

    def have(self) -> dict[str, int]:
        """How much of each file of its log is here."""
        return self._log.have()

    # -- what its machine tells ----------------------------------------------------------------------

    def note(self, **changes: object) -> None:
        """Into its record, which readers and the next relay go by."""
        if any(self._record.get(name) != value for name, value in changes.items()):
            self._record |= changes
            jobdir.write_record(f"{self.directory}/{REMOTE}", {"format": 1, **self._record})

    def accepted(self, **known: object) -> None:
        """The target has the job. What was asked of it may hold secrets, and goes."""
        self.note(handover=target_dir.TAKEN, **known)
        self.drop_request()

    def drop_request(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.directory}/{REQUEST}")

    def ask_with_variables(self, variables: Mapping[str, str]) -> None:
        """What is asked of its target has these variables of the environment, too: an engine has chosen them."""
        if (request := self.request) and variables:
            asked = request["start"]["asked"]
            asked["env"] = {**(asked.get("env") or {}), **variables}
            jobdir.write_record(f"{self.directory}/{REQUEST}", request)

    def apply(self, news: Mapping[str, Any]) -> None:
        """OSError: it could not be written; `have` tells how far it came."""
        records = {name: record for name, record in news.get("records", {}).items() if name in RECORDS}
        outcome = records.pop(OUTCOME, None)
        for name, record in records.items():
            jobdir.write_record(f"{self.directory}/{name}", dict(record))
        try:
            for file in news.get("files", ()):
                self._log.append(file["name"], file["at"], b64decode(file["data"]))
            for name in news.get("gone", ()):
                self._log.remove(name)
        finally:
            self._log.make_room()
        if outcome is not None and isinstance(outcome.get("reason"), str):
            outcome = {**outcome, "reason": said(str(self.spec.target), outcome["reason"])}
        if outcome is not None and self.holds_outcome:
            self.told_outcome = outcome
        elif outcome is not None:
            self._write_outcome(outcome)
        self._wake()

    def _write_outcome(self, outcome: Mapping[str, Any]) -> None:
        if not self.has_outcome:
            jobdir.write_record(f"{self.directory}/{OUTCOME}", dict(outcome))
            jobdir.seal_outcome(self.directory)

    # -- its end -------------------------------------------------------------------------------------

    def end(self, **how: object) -> None:
        """By what its target says: the job's shim has left no outcome."""
        self.conclude(how)

    def conclude(self, outcome: Mapping[str, Any]) -> None:
        """With what its shim has left, or only with how it ended: then it ends now."""
        if self.has_outcome:
            return
        if "ended_at" not in outcome:
            outcome = {
                **jobdir.unstarted(**outcome),
                "output_bytes": self.log_end,
                "duration_s": self._ran_s(),
            }
        self._write_outcome(outcome)
        known = {name: outcome.get(name) for name in ENDED_WORDS}
        self.tell("ended", **{name: value for name, value in known.items() if value is not None})
        self._wake()

    def _ran_s(self) -> float:
        run = jobdir.read_record(f"{self.directory}/{jobdir.RUN}") or {}
        started_at = run.get("started_at")
        return max(0.0, time.time() - started_at) if isinstance(started_at, int | float) else 0.0

    def refuse(self, why: str) -> None:
        """Record that nothing was started. Its starter writes the event, or the process that finds it missing."""
        if not self.has_outcome:
            self._write_outcome(jobdir.unstarted(cause="never_started", reason=why))
        self.finish()

    def lose(self, why: str) -> None:
        """Its end is not known, and will not be."""
        self.note(phase="lost", reason=why)
        self.tell("ended", cause="lost", reason=why)
        self._wake()

    def tell(self, kind: str, **details: object) -> None:
        event_log.append(self._store.events, kind, self.id, name=self.spec.name, **details)

    def finish(self) -> None:
        """Nothing more will come of it: other processes may remove it, and start what was to follow it."""
        self.is_over = True
        self.drop_request()
        self.release()
        queue_dir.wake(os.curdir)
        self._wake()

    def release(self) -> None:
        if self._lock >= 0:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            os.close(self._lock)
            self._lock = -1

    # -- being waited for ------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def until_has(self, log_end: int, *, outcome: bool, look: int) -> None:
        """Wait until the log reaches this offset, or that look is answered: a log with a gap may never reach it."""
        while not (self.has(log_end, outcome=outcome) or self.looked >= look):
            await self._changed.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ENGINES_WORD_S):
                while outcome and not self.has(0, outcome=True):
                    await self._changed.wait()

    def has(self, log_end: int, *, outcome: bool) -> bool:
        return self.is_over or (self.log_end >= log_end and (self.has_outcome or not outcome))

    def note_look(self, number: int) -> None:
        """Note that all that its host had when this look was requested is here."""
        self.looked = max(self.looked, number)
        self._wake()

    async def until_over(self, patience_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while not self.is_over:
                    await self._changed.wait()
        return self.is_over

    async def until_accepted(self, patience_s: float) -> bool:
        """False: the target has not answered yet."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while self.phase == "submitting" and not self.is_over:
                    await self._changed.wait()
        return self.phase != "submitting"


def in_parts(news: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Split the news of a job so that each part is quickly applied. After each of them the copy is right."""
    files, gone = news.get("files", ()), news.get("gone", ())
    if len(files) + len(gone) <= FILES_AT_ONCE:
        yield news
        return
    records = dict(news.get("records", {}))
    outcome = {OUTCOME: records.pop(OUTCOME)} if OUTCOME in records else {}
    yield {"records": records}
    for word, names in (("files", files), ("gone", gone)):
        for at in range(0, len(names), FILES_AT_ONCE):
            yield {word: names[at : at + FILES_AT_ONCE]}
    yield {"records": outcome}


def own_jobs(store: Store, job_ids: Sequence[str]) -> list[str]:
    """Those that are there: a starter that was killed may have added one and not made it."""
    return [each for each in job_ids if JOB_ID.fullmatch(each) and is_directory(store.directory(each))]
