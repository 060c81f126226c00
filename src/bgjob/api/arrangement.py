"""The rows of a live view in the order that a person asked for, and those of them that fit a filter."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from bgjob.api.filter import job_filter
from bgjob.api.live import Live, Row
from bgjob.core.job import Ended

Order = Literal["state", "cpu", "memory", "age"]
"""state: who waits for a person, what runs, what is queued, what ended last. age: the newest job first."""
ORDERS: tuple[Order, ...] = ("state", "cpu", "memory", "age")
RANKS = {"asking": 0, "running": 1, "queued": 2, "ended": 3}


def _by_age(row: Row) -> float:
    return -row.job.spec.created_at


def _by_end(row: Row) -> float:
    state = row.job.state
    return -(state.ended_at if isinstance(state, Ended) else row.job.spec.created_at)


def _megabytes(row: Row) -> int:
    return -((row.memory_bytes or 0) >> 20)


# What wavers by less than is shown, or by less than a megabyte, moves no row.
KEYS: dict[Order, Callable[[Row], Any]] = {
    "state": lambda row: (RANKS[row.group], _by_age(row)),
    "cpu": lambda row: (-round(row.cpu_percent or 0), _megabytes(row), _by_age(row)),
    "memory": lambda row: (_megabytes(row), _by_age(row)),
    "age": _by_age,
}


class Arrangement:
    """What of the ended jobs fits, and in which order, is found out again only if they have changed."""

    def __init__(self, words: Sequence[str] = (), order: Order = "state") -> None:
        """InvalidArgument: the words are no filter."""
        self.words, self.order = tuple(words), order
        self._fits = job_filter(words)
        self._seen: tuple[Row, ...] | None = None
        self._ended: list[Row] = []
        """Those of `_seen` that fit, the last end first."""

    def reordered(self, order: Order) -> "Arrangement":
        """The same filter."""
        other = Arrangement(self.words, order)
        other._seen, other._ended = self._seen, self._ended
        return other

    def of(self, live: Live) -> list[Row]:
        if self._seen is not live.ended:
            self._ended = sorted(filter(self._is_shown, live.ended), key=_by_end)
            self._seen = live.ended
        rows = [*sorted(filter(self._is_shown, live.current), key=KEYS[self.order]), *self._ended]
        return sorted(rows, key=_by_age) if self.order == "age" else rows

    def _is_shown(self, row: Row) -> bool:
        return self._fits(row.job)
