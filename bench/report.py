"""Rows, the goals they are held to, and the one table. Pure."""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

Samples = list[float]
ENOUGH_SAMPLES = 100
"""For a p95 that can be held against a goal."""
REACHED, MISSED, NOT_JUDGED = 0, 1, 3
WORDS = {True: "yes", False: "**no**", None: "too few to judge"}
HEADER = [
    *("measure", "against", "its p50", "its p95", "ours p50", "ours p95"),
    *("ours / its", "round by round", "goal", "reached"),
]
TASK_HEADER = ["task", *(f"{whose} {what}" for what in ("turns", "tokens", "s") for whose in ("its", "ours"))]
TASK_HEADER += ["largest answer of ours, tokens", "checked"]


@dataclass(frozen=True)
class Goal:
    """`reached` says None when there are too few samples to judge."""

    text: str
    reached: Callable[["Row"], bool | None]


@dataclass(frozen=True)
class Row:
    title: str
    unit: str
    ours: Samples
    baseline: Samples
    against: str
    goal: Goal | None = None

    @property
    def ratio(self) -> float:
        return statistics.median(self.ours) / statistics.median(self.baseline)

    @property
    def reached(self) -> bool | None:
        return self.goal.reached(self) if self.goal and self.ours else None

    def cells(self) -> list[str]:
        measured = [*_median_and_p95(self.baseline, self.unit), *_median_and_p95(self.ours, self.unit)]
        goal, verdict = (self.goal.text, WORDS[self.reached]) if self.goal else ("", "")
        return [self.title, self.against, *measured, self.ratio_text, _spread(self), goal, verdict]

    @property
    def ratio_text(self) -> str:
        if not self.ours or not self.baseline or not statistics.median(self.baseline):
            return "—"
        return f"{self.ratio:.{2 if self.ratio >= 0.2 else 3}f}"


@dataclass(frozen=True)
class Cost:
    """Of a task, to a model: calls, and tokens of all answers and of the largest."""

    turns: int
    tokens: int
    largest: int
    seconds: float

    def cells(self) -> list[str]:
        return [str(self.turns), f"{self.tokens:,}", digits(self.seconds)]


@dataclass(frozen=True)
class Task:
    """`its` is None where the other server cannot do it, or there is none."""

    title: str
    ours: Cost
    its: Cost | None
    checked: str

    def cells(self) -> list[str]:
        its = self.its.cells() if self.its else ["—"] * 3
        pairs = [cell for pair in zip(its, self.ours.cells(), strict=True) for cell in pair]
        return [self.title, *pairs, f"{self.ours.largest:,}", self.checked]


@dataclass(frozen=True)
class Result:
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)

    def add(self, other: "Result") -> None:
        self.rows.extend(other.rows)
        self.notes.extend(other.notes)
        self.failures.extend(other.failures)
        self.tasks.extend(other.tasks)

    def expect(self, what: str, found: object, wanted: object) -> None:
        """A note if it is so, a failure if not."""
        (self.notes if found == wanted else self.failures).append(f"{what}: {found}")


def ratio_at_most(bound: float) -> Goal:
    return Goal(f"≤ {bound:g}", lambda row: row.ratio <= bound)


def ratio_at_least(bound: float) -> Goal:
    return Goal(f"≥ {bound:g}", lambda row: row.ratio >= bound)


def ours_at_most(bound: float, unit: str) -> Goal:
    return Goal(f"≤ {bound:g} {unit}", lambda row: statistics.median(row.ours) <= bound)


def p95_at_most(bound: float, unit: str) -> Goal:
    return Goal(
        f"p95 ≤ {bound:g} {unit}",
        lambda row: slow_end(row.ours, unit) <= bound if _enough(row.ours) else None,
    )


def p95_ratio_at_most(bound: float) -> Goal:
    def reached(row: Row) -> bool | None:
        if not _enough(row.ours) or not _enough(row.baseline):
            return None
        return slow_end(row.ours, row.unit) <= bound * slow_end(row.baseline, row.unit)

    return Goal(f"p95 ≤ {bound:g} x", reached)


def _enough(samples: Samples) -> bool:
    return len(samples) >= ENOUGH_SAMPLES


def slow_end(samples: Samples, unit: str) -> float:
    """The 95th percentile (nearest rank), counted from the good side: of a throughput, the 5th."""
    ordered = sorted(samples, reverse=unit.endswith("/s"))
    return ordered[math.ceil(0.95 * len(ordered)) - 1]


def exit_status(result: Result) -> int:
    """Only what was judged and good is a success."""
    verdicts = [row.reached for row in result.rows if row.goal]
    if result.failures or False in verdicts:
        return MISSED
    return NOT_JUDGED if None in verdicts else REACHED


def unreached(result: Result) -> list[str]:
    """A line for each goal that is missed or cannot be judged."""
    words = {False: "missed", None: "too few samples to judge"}
    return [
        f"{words[row.reached]}: {row.title}, goal {row.goal.text}, "
        f"ours {_median_and_p95(row.ours, row.unit)[0]}, ratio {row.ratio_text}"
        for row in result.rows
        if row.goal and not row.reached
    ]


def markdown(result: Result, facts: Sequence[str]) -> str:
    failed = [f"**failed**: {failure}" for failure in result.failures]
    tables = [*_table(TASK_HEADER, result.tasks), *_table(HEADER, result.rows)]
    return "\n".join([*_items(facts), "", *tables, *_items([*result.notes, *failed])]).rstrip() + "\n"


def merged(old: str, new: str, command: str) -> str:
    """`new` between the command's marks of an existing page, or after it where it has none."""
    begin, end = (f"<!-- {command}: {which} -->" for which in ("begin", "end"))
    marked = f"{begin}\n{new}{end}"
    if begin in old and end in old:
        return old.partition(begin)[0] + marked + old.rpartition(end)[2]
    return old + ("\n" if old else "") + marked + "\n"


def _items(texts: Iterable[str]) -> Iterator[str]:
    return (f"- {text}" for text in texts)


def _table(header: list[str], rows: Sequence[Row | Task]) -> list[str]:
    """Its lines and an empty one; nothing where there are no rows."""
    cells = [header, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    return [*(_aligned(line, widths) for line in cells), ""] if rows else []


def _aligned(line: list[str], widths: list[int]) -> str:
    return "| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |"


def _median_and_p95(samples: Samples, unit: str) -> list[str]:
    if not samples:
        return ["—", "—"]
    median = f"{digits(statistics.median(samples))} {unit}".rstrip()
    # one sample has no spread
    return [median, digits(slow_end(samples, unit)) if len(samples) > 1 else ""]


def _spread(row: Row) -> str:
    """The middle half of the ratios of each round: how far the ratio can be trusted."""
    if len(row.ours) < 2 or len(row.ours) != len(row.baseline) or not all(row.baseline):
        return ""
    ratios = [ours / its for ours, its in zip(row.ours, row.baseline, strict=True)]
    low, _, high = statistics.quantiles(ratios, method="inclusive")
    return f"{low:.2f} … {high:.2f}"


def digits(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
