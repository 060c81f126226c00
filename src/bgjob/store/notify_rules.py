"""The rules by which people are told of jobs, and how far each has come.

    notify.json     {"format": 1, "rules": {key: rule}}         changed by `bgjob notify`, one process at a time
    notify.lock     held by the process that changes it
    notified.json   {"format": 1, "rules": {key: how far}}      rewritten whole by the watcher

Both files are 0600: the headers of a webhook may be secrets.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

from bgjob.core.frozen import Frozen
from bgjob.core.notify import Notify, NotifyRule
from bgjob.home import jobdir
from bgjob.home.layout import NOTIFIED, NOTIFY, NOTIFY_LOCK
from bgjob.store.record_schema import Malformed, notified_of, notify_rule_of
from bgjob.store.row_file import changing, rows_in, rows_or_error

ROWS = "rules"


class Notified(Frozen):
    """How far a rule has come, and what became of its notices."""

    cursor: str = "0.0"
    """Behind the last event that was delivered or passed over."""
    told_at: float = 0.0
    failed_at: float = 0.0
    failure: str = ""
    """Why the last notice that failed was not delivered."""


def notify_rules(home: str) -> list[NotifyRule]:
    """In the order in which they were added. One that cannot be read is none: it stops no job."""
    return _rules(rows_in(f"{home}/{NOTIFY}", ROWS))


def rules_or_error(home: str) -> list[NotifyRule]:
    """The same for the user, who is told if the file cannot be read: StoreUnusable."""
    return _rules(rows_or_error(f"{home}/{NOTIFY}", ROWS))


def applies_to(home: str, notify: Notify | None) -> bool:
    """Whether a rule is for the events of a job that chose so."""
    return notify != {} and any(rule.kinds_for(notify) for rule in notify_rules(home))


def add(home: str, rule: NotifyRule) -> None:
    """In place of one for the same way and target."""
    with changing(f"{home}/{NOTIFY}", f"{home}/{NOTIFY_LOCK}", ROWS) as rows:
        rows[rule.key] = vars(rule)


def remove(home: str, keys: list[str]) -> None:
    with changing(f"{home}/{NOTIFY}", f"{home}/{NOTIFY_LOCK}", ROWS) as rows:
        for key in keys:
            rows.pop(key, None)


def notified(home: str) -> dict[str, Notified]:
    found = dict[str, Notified]()
    for key, row in rows_in(f"{home}/{NOTIFIED}", ROWS).items():
        with contextlib.suppress(Malformed):
            found[key] = Notified(**notified_of(row))
    return found


def save_notified(home: str, found: Mapping[str, Notified]) -> None:
    rows = {key: vars(each) for key, each in found.items()}
    jobdir.write_record(f"{home}/{NOTIFIED}", {"format": 1, ROWS: rows})


def _rules(rows: Mapping[str, Any]) -> list[NotifyRule]:
    return [rule for row in rows.values() if (rule := _rule(row))]


def _rule(row: Any) -> NotifyRule | None:
    try:
        return notify_rule_of(row)
    except Malformed:
        return None
