"""Rows, the goals they are held to, and the table. Pure."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Samples = list[float]
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
HEADER = [
    "measure",
    "against",
    "its p50",
    "its p95",
    "ours p50",
    "ours p95",
    "ours / its",
    "round by round",
    "goal",
    "reached",
]


@dataclass(frozen=True)
class Goal:
    """What `of` may be: the ratio of the medians, or our median itself."""

    of: Literal["ratio", "ours"]
    relation: Literal["≤", "≥"]
    bound: float

    def reached(self, ratio: float | None, ours: float | None) -> bool | None:
        value = ratio if self.of == "ratio" else ours
        if value is None:
            return None
        return value <= self.bound if self.relation == "≤" else value >= self.bound


@dataclass(frozen=True)
class Row:
    title: str
    unit: str
    ours: Samples | None
    baseline: Samples | None
    against: str = "reference"
    goal: Goal | None = None

    @property
    def ratio(self) -> float | None:
        if not self.ours or not self.baseline:
            return None
        return statistics.median(self.ours) / statistics.median(self.baseline)

    @property
    def reached(self) -> bool | None:
        """None: there is no goal, or ours was not measured."""
        ours = statistics.median(self.ours) if self.ours else None
        return self.goal.reached(self.ratio, ours) if self.goal else None


@dataclass(frozen=True)
class Result:
    rows: list[Row]
    notes: list[str]


def ratio_at_most(bound: float) -> Goal:
    return Goal("ratio", "≤", bound)


def ratio_at_least(bound: float) -> Goal:
    return Goal("ratio", "≥", bound)


def ours_at_most(bound: float) -> Goal:
    return Goal("ours", "≤", bound)


def slow_end(samples: Samples, unit: str) -> float:
    """The 95th percentile (nearest rank), counted from the good side: of a throughput, the 5th."""
    ordered = sorted(samples, reverse=unit.endswith("/s"))
    return ordered[math.ceil(0.95 * len(ordered)) - 1]


def markdown(rows: Sequence[Row], notes: Sequence[str], facts: Sequence[str]) -> str:
    lines = [*(f"- {fact}" for fact in facts), "", *_table(rows), ""]
    return "\n".join([*lines, *(f"- {note}" for note in notes)]).rstrip() + "\n"


def merged(old: str, new: str) -> str:
    """`new` between the marks of an existing page, or alone between marks where it has none."""
    marked = f"{BEGIN}\n{new}{END}"
    if BEGIN in old and END in old:
        return old.partition(BEGIN)[0] + marked + old.rpartition(END)[2]
    return old + ("\n" if old else "") + marked + "\n"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    cells = [HEADER, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for number, line in enumerate(cells):
        yield "| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |"
        if number == 0:
            yield "| " + " | ".join("-" * width for width in widths) + " |"


def _cells(row: Row) -> list[str]:
    ratio = "—" if row.ratio is None else f"{row.ratio:.2f}"
    reached = {True: "yes", False: "**no**", None: ""}[row.reached]
    return [
        row.title,
        row.against,
        *_median_and_p95(row.baseline, row.unit),
        *_median_and_p95(row.ours, row.unit),
        ratio,
        _spread(row),
        _goal(row),
        reached,
    ]


def _median_and_p95(samples: Samples | None, unit: str) -> list[str]:
    if not samples:
        return ["—", "—"]
    median = f"{_digits(statistics.median(samples))} {unit}"
    # one sample has no spread
    return [median, _digits(slow_end(samples, unit)) if len(samples) > 1 else ""]


def _spread(row: Row) -> str:
    """The middle half of the ratios of each round: how far the ratio can be trusted."""
    if not row.ours or not row.baseline or len(row.ours) < 2:
        return ""
    ratios = [ours / its for ours, its in zip(row.ours, row.baseline, strict=True)]
    low, _, high = statistics.quantiles(ratios, method="inclusive")
    return f"{low:.2f} … {high:.2f}"


def _digits(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _goal(row: Row) -> str:
    if not row.goal:
        return ""
    unit = "" if row.goal.of == "ratio" else f" {row.unit}"
    return f"{row.goal.relation} {row.goal.bound:g}{unit}"
