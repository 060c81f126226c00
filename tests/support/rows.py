"""Rows of a live view, made by hand."""

from typing import Any

from bgjob.api.live import Live, Row
from bgjob.core.job import Exited, Job, Queued, Running, State
from tests.support.stores import new_spec


def a_row(name: str, group: str = "running", *, created_at: float = 1000.0, **more: Any) -> Row:
    """An ended one ended as many seconds after 1000 as it was created before."""
    state: State = Running(None)
    if group == "queued":
        state = Queued(None)
    elif group == "ended":
        state = Exited(2000.0 - created_at, 1.0, 0, 0, 0)
    return Row(Job(new_spec(created_at, name=name), state, None), group, **more)  # type: ignore[arg-type]


def live(*rows: Row) -> Live:
    ended = tuple(row for row in rows if row.group == "ended")
    return Live(tuple(row for row in rows if row.group != "ended"), ended, is_complete=True)


def names(rows: list[Row]) -> str:
    return " ".join(row.job.spec.name or "" for row in rows)
