"""One job as a row of `bgjob top`: the text of each column, and its style."""

from collections.abc import Sequence

from bgjob.api.live import Row
from bgjob.cli.amounts import ASCII_BLOCKS, BLOCKS, age, percent, size, sparkline
from bgjob.cli.columns import unreachable
from bgjob.cli.outcome import end
from bgjob.cli.top.layout import Columns
from bgjob.cli.top.screen import Style
from bgjob.core.job import NeverStarted, State, status_word

HEADINGS = {
    "state": "STATE",
    "name": "NAME",
    "cpu": "CPU",
    "memory": "MEM",
    "age": "AGE",
    "what": "COMMAND",
}
RIGHT = ("cpu", "memory", "age")
WORDS = {"asking": "waits", "running": "running", "queued": "queued"}
FULL_PERCENT = 100.0
GROWN = 1.5


def cells(row: Row, columns: Columns, now: float, *, is_utf8: bool) -> dict[str, str]:
    """By the names of the columns."""
    blocks = BLOCKS if is_utf8 else ASCII_BLOCKS
    return {
        "state": state_word(row),
        "name": row.job.spec.name or row.job.id[:8],
        "cpu": "" if row.cpu_percent is None else percent(row.cpu_percent),
        "cpu_line": _cpu_line(row.cpu_history, columns.cpu_line, blocks),
        "memory": "" if row.memory_bytes is None else size(row.memory_bytes),
        "memory_line": _memory_line(row.memory_history, columns.memory_line, blocks),
        "age": age(now - row.job.spec.created_at),
        "what": _what(row, columns.what),
    }


def _cpu_line(history: Sequence[float], columns: int, blocks: str) -> str:
    """Full at one processor, or at the most that it used."""
    return sparkline(history, columns, low=0, high=max(FULL_PERCENT, *history, 0), blocks=blocks)


def _memory_line(history: Sequence[float], columns: int, blocks: str) -> str:
    """Above the least that it took: what it grows by is seen, and what wavers a little is flat."""
    low = min(history, default=0)
    return sparkline(history, columns, low=low, high=max(GROWN * low, *history, 0), blocks=blocks)


def state_word(row: Row) -> str:
    if row.left_running:
        return f"{row.left_running} left"
    return WORDS.get(row.group) or _cause(row.job.state)


def _cause(state: State) -> str:
    """In nine columns, which is all that the list has room for."""
    return "not begun" if isinstance(state, NeverStarted) else end(state)


def style_of(row: Row) -> Style:
    match row.group:
        case "asking":
            return "asking"
        case "running":
            return "running"
        case "queued":
            return "plain"
        case "ended":
            return "faint" if status_word(row.job.state) == "completed" else "failed"


def _what(row: Row, columns: int) -> str:
    """What matters most of it: that it is out of reach, its question, why it waits, where it listens; its command."""
    if gone := unreachable(row.job):
        return gone
    if row.prompt or row.reason:
        return row.prompt or row.reason or ""
    ports = "".join(f":{port} " for port in row.ports)
    target = f"@{row.job.spec.target} " if row.job.spec.target else ""
    return target + ports + " ".join(row.job.spec.command[: 4 * columns].split())
