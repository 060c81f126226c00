"""A list of jobs as a table that fits the terminal."""

from collections.abc import Iterator, Sequence

from bgjob.api.results import Page
from bgjob.cli.outcome import end
from bgjob.core.job import Job, status_word
from bgjob.output.tty_text import cut, one_line, width

HEAD = ("ID", "STATUS", "END", "AGE", "NAME", "COMMAND")
RIGHT = ("END", "AGE")
GAP = "  "
LEAST_NAME, LEAST_COMMAND = 12, 20
MOST_COMMAND = 150  # where no terminal says how much fits


def table(pages: Sequence[Page], now: float, columns: int | None) -> Iterator[str]:
    """No line is wider than `columns`; None: there is no terminal, and names are whole."""
    rows = [
        HEAD,
        *(_cells(job, page.left_running.get(job.id, 0), now) for page in pages for job in page.jobs),
    ]
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    if columns is None:
        widths[5] = min(widths[5], MOST_COMMAND)
    else:
        left = columns - sum(widths[:4]) - 4 * len(GAP)
        widths[4] = min(widths[4], max(LEAST_NAME, left - len(GAP) - LEAST_COMMAND))
        widths[5] = max(0, left - widths[4] - len(GAP))
    for row in rows:
        line = GAP.join(map(_padded, row, widths, HEAD)).rstrip()
        yield line if columns is None else cut(line, columns)


def _cells(job: Job, left_running: int, now: float) -> tuple[str, ...]:
    return (
        job.id[:8],
        status_word(job.state),
        end(job.state) + (f", {left_running} left" if left_running else ""),
        _age(now - job.spec.created_at),
        one_line(job.spec.name or "-"),
        one_line(" ".join(job.spec.command.split())),
    )


def _padded(cell: str, columns: int, head: str) -> str:
    text = cut(cell, columns)
    blanks = " " * (columns - width(text))
    return blanks + text if head in RIGHT else text + blanks


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"
