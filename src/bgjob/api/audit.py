"""The audit trail: kills, signals, typing, refusals, logins and token use, each with its actor.

    audit/<n>     lines like those of events/, in segments of their own, so a flood in one log leaves the other

An entry names its actor (the uid, and what the face knows: client, session, token, login, user). It never holds a
secret, a command or typed text. Repeated entries are counted for a while, and the count is written afterwards.
"""

import atexit
import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, get_args

from bgjob.core.frozen import NOTHING
from bgjob.core.job import AuditKind
from bgjob.home import event_log, home_dir
from bgjob.home.layout import AUDIT
from bgjob.system.client_session import shortened
from bgjob.system.own_user import own_user

AUDIT_KINDS = frozenset(get_args(AuditKind))
NO_JOB = "00000000-0000-4000-8000-000000000000"
"""Replaces the id in entries that are not about a job."""
REPEATED_S: Mapping[str, float] = {"token_used": 3600.0}
EACH_REPEATED_S = 60.0
MOST_REFUSALS = 32
"""Maximum number of different refusals at a time: a refused client chooses its own name."""
KNOWN = ("client", "session", "token", "login", "user", "terminal")

Key = tuple[object, ...]
_actor: ContextVar[Mapping[str, str]] = ContextVar("actor", default=NOTHING)


@contextlib.contextmanager
def acting(who: Mapping[str, str]) -> Iterator[None]:
    """Attribute everything that is done inside to this actor, in addition to what is already known."""
    known = {word: shortened(text) for word, text in who.items() if word in KNOWN and text}
    before = _actor.set({**_actor.get(), **known})
    try:
        yield
    finally:
        _actor.reset(before)


def note(home: str, kind: AuditKind, job_id: str | None = None, **details: str | int | None) -> None:
    """Add an entry. An error is ignored: the action has happened, or was refused, in any case.

    `uid`: that of the actor, or None if it is unknown; ours by default.
    """
    _TRAIL.note(home, kind, {**(_actor.get() or _at_terminal())}, job_id or NO_JOB, details)


def _at_terminal() -> dict[str, str]:
    """Describe the person or program at the command line."""
    who = {"client": "bgjob", "user": own_user()}
    with contextlib.suppress(OSError):
        who["terminal"] = os.ttyname(0)
    return who


class _Repeated:
    def __init__(self, until: float, entry: Mapping[str, Any]) -> None:
        self.until, self.entry, self.count = until, entry, 0


class _Trail:
    """The entries that this process has written recently."""

    def __init__(self) -> None:
        self._mutex, self._lately = threading.Lock(), dict[Key, _Repeated]()
        atexit.register(self.close)

    def note(
        self,
        home: str,
        kind: str,
        who: Mapping[str, str],
        job_id: str,
        details: Mapping[str, str | int | None],
    ) -> None:
        words = tuple(value for name, value in details.items() if name != "bytes")
        key: Key = (home, kind, job_id, *who.values(), *words)
        with self._mutex:
            self._write_repeated(time.monotonic())
            if kind == "refused" and key not in self._lately and self._refusals() >= MOST_REFUSALS:
                key, who = (home, kind, "others"), {"client": "others"}
            if known := self._lately.get(key):
                known.count += 1
                return
            entry = {"kind": kind, "job_id": job_id, "uid": os.getuid(), **who, **details}
            until = time.monotonic() + REPEATED_S.get(kind, EACH_REPEATED_S)
            self._lately[key] = _Repeated(until, entry)
        _write(home, entry)

    def close(self) -> None:
        with self._mutex:
            self._write_repeated(float("inf"))

    def _refusals(self) -> int:
        return sum(key[1] == "refused" for key in self._lately)

    def _write_repeated(self, now: float) -> None:
        for key in [key for key, each in self._lately.items() if each.until <= now]:
            repeated = self._lately.pop(key)
            if repeated.count:
                _write(str(key[0]), {**repeated.entry, "repeated": repeated.count})


def _write(home: str, entry: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError, home_dir.Unsafe):
        home_dir.make_inside(home, [AUDIT])
        details = {
            word: value
            for word, value in entry.items()
            if word not in ("kind", "job_id") and value is not None
        }
        event_log.append(f"{home}/{AUDIT}", entry["kind"], entry["job_id"], **details)


_TRAIL = _Trail()
