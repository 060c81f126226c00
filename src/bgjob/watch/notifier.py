"""Tells people of events: by each rule of the home, in the order of the events.

Each rule has a place of its own in the log of events, and a process of its own for each notice. So a webhook
that is slow holds up neither another rule nor a hook nor a watch.
"""

import contextlib
import json
import os
import time
from typing import TYPE_CHECKING

from bgjob.core.errors import JobNotFound
from bgjob.core.frozen import replace
from bgjob.core.job import Event
from bgjob.core.notify import NotifyRule
from bgjob.home.event_log import Cursor
from bgjob.home.layout import NOTIFY
from bgjob.output.cleaner import without_hidden
from bgjob.store.event_reader import kept_place
from bgjob.store.notify_rules import Notified, notified, notify_rules, save_notified
from bgjob.store.store import Store
from bgjob.system.own_argv import DELIVERY
from bgjob.watch.event_runner import EventRun, EventRunner
from bgjob.watch.notice import Notice, last_line_of, notice_of

if TYPE_CHECKING:  # it imports what a watcher does not need
    from bgjob.watch.deliver import Request

# A webhook is tried four times, and each time has 10 s.
WEBHOOK_S, PROGRAM_S = 60.0, 10.0
FAILURE_CHARACTERS = 300


class Notifier:
    """All rules of a home."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read_from: tuple[int, ...] = ()
        self._runners: dict[str, RuleRunner] = {}

    @property
    def descriptors(self) -> list[int]:
        return [fd for runner in self._runners.values() for fd in runner.descriptors]

    def seconds_left(self) -> float:
        return min((runner.seconds_left() for runner in self._runners.values()), default=float("inf"))

    def advance(self) -> bool:
        """Do what can be done now, without waiting. True: all events were delivered or passed over."""
        self._follow_rules()
        # All of them: none waits for another.
        are_done = [runner.advance() for runner in self._runners.values()]
        return all(are_done)

    def save(self) -> None:
        """How far all rules have come."""
        found = {key: runner.notified for key, runner in self._runners.items()}
        with contextlib.suppress(OSError):
            save_notified(self._store.home, found)

    def _follow_rules(self) -> None:
        """Rules that were added or removed since the last turn."""
        if (found := _identity(f"{self._store.home}/{NOTIFY}")) == self._read_from:
            return
        self._read_from = found
        rules = {rule.key: rule for rule in notify_rules(self._store.home)}
        for key in self._runners.keys() - rules.keys():
            self._runners.pop(key).abandon()
        known = notified(self._store.home)
        for key, rule in rules.items():
            if key not in self._runners or self._runners[key].rule != rule:
                before = self._runners.pop(key, None)
                if before:
                    before.abandon()
                self._runners[key] = RuleRunner(self, self._store, rule, known.get(key, Notified()))


class RuleRunner(EventRunner[EventRun]):
    def __init__(self, notifier: Notifier, store: Store, rule: NotifyRule, known: Notified) -> None:
        super().__init__(store, max(kept_place(known.cursor), kept_place(rule.since)))
        self._notifier, self.rule, self.notified = notifier, rule, known

    def abandon(self) -> None:
        if self._run:
            self._run.abandon()

    def _may_want(self, kind: str) -> bool:
        return kind in ("ended", "input")

    def _begin(self, event: Event) -> EventRun | None:
        with contextlib.suppress(JobNotFound):
            spec = self._store.load(event["job_id"]).spec
            if kind := self.rule.kind_told(event, spec.notify):
                return self._run_for(notice_of(kind, event, spec, last_line_of(self._store, spec.id)))
        return None

    def _run_for(self, notice: Notice) -> EventRun | None:
        request, environment = request_for(self.rule, notice), dict(self.rule.environment)
        try:
            return EventRun(DELIVERY, request, environment, timeout_s(self.rule))
        except (OSError, ValueError) as why:  # not tried again: the next events wait
            self._note(f"no process could be started for it ({why})")
            return None

    def _note_end(self, run: EventRun, stderr_end: bytes) -> None:
        if not run.failure:
            self.notified = replace(self.notified, told_at=time.time())
        else:
            self._note(failure_of(run.failure, stderr_end))

    def _note(self, failure: str) -> None:
        self.notified = replace(self.notified, failed_at=time.time(), failure=failure)

    def _save(self, place: Cursor) -> None:
        self.notified = replace(self.notified, cursor=str(place))
        self._notifier.save()


def timeout_s(rule: NotifyRule) -> float:
    """Of the process that delivers."""
    return WEBHOOK_S if rule.way == "webhook" else PROGRAM_S


def request_for(rule: NotifyRule, notice: Notice) -> bytes:
    """What the process that delivers is given."""
    request: Request = {
        "way": rule.way,
        "target": rule.target,
        "terminal_ctime_ns": rule.terminal_ctime_ns,
        "headers": dict(rule.headers),
        "environment": dict(rule.environment),
        "title": notice.title,
        "body": notice.body,
        "payload": notice.payload,
    }
    return json.dumps(request).encode()


def failure_of(how: str, stderr: bytes) -> str:
    """The last line of what it said, or how it ended: other programs and hosts have their part in that."""
    lines = stderr.decode(errors="replace").strip().splitlines()
    said = without_hidden(lines[-1])[:FAILURE_CHARACTERS] if lines else ""
    return said if said and how == "ended with 1" else f"its process {how} {said}".rstrip()


def _identity(path: str) -> tuple[int, ...]:
    """Every change gives the file another inode."""
    try:
        info = os.stat(path)
    except OSError:
        return ()
    return info.st_ino, info.st_mtime_ns, info.st_size
