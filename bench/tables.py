"""Tables and figures of the load and the soak. Pure."""

import statistics
from collections.abc import Iterable, Sequence

from bench.report import Samples, slow_end

ENOUGH_SAMPLES = 100
"""For a p95 that can be held against anybody."""
NOT_JUDGED, YES, NO = "too few to judge", "yes", "**no**"
REACHED_STATUS, MISSED_STATUS, NOT_JUDGED_STATUS = 0, 1, 3


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [" | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in cells]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "".join(f"| {line} |\n" for line in lines)


def p95(samples: Samples) -> float:
    return slow_end(samples, "ms")


def p50_p95(samples: Samples) -> str:
    if not samples:
        return "—"
    return f"{digits(statistics.median(samples))} / {digits(p95(samples))}"


def digits(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def verdict(reached: bool | None) -> str:
    return {True: YES, False: NO, None: NOT_JUDGED}[reached]


def exit_status(verdicts: Iterable[str]) -> int:
    """Only what was judged and good is a success."""
    said = set(verdicts)
    if NO in said:
        return MISSED_STATUS
    return NOT_JUDGED_STATUS if NOT_JUDGED in said else REACHED_STATUS
