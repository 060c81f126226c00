"""The size of the job's terminal: now, and at each byte of its log, because a screen is drawn with both."""

from __future__ import annotations

import os

from bgjob.home import jobdir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.home.jobdir import Record
    from bgjob.shim.stdin import Stdin

    Size = tuple[int, int]

MOST_ROWS_OR_COLS = (1 << 16) - 1
# A person who drags the edge of a window makes many; the oldest are of output that is long gone.
MOST_RESIZES = 1000


class TerminalSize:
    def __init__(self, spec: Record, stdin: Stdin, log_end: Callable[[], int]) -> None:
        """`log_end`: where the log ends with all that was printed until now."""
        self._spec, self._stdin, self._log_end = spec, stdin, log_end
        self._resizes: list[list[int]] | None = None

    def now(self) -> Size | None:
        """Rows and columns. None: the job has no terminal, or it is closed."""
        if self._stdin.terminal is None:
            return None
        columns, rows = os.get_terminal_size(self._stdin.terminal)
        return rows, columns

    def change(self, rows: int, cols: int) -> None:
        """ValueError: the job has no terminal."""
        rows, cols = (min(max(1, number), MOST_ROWS_OR_COLS) for number in (rows, cols))
        at = self._log_end()  # first: a program that is told draws at once, and for the new size
        self._stdin.resize(rows, cols)
        self._record(at, rows, cols)

    def begin_run(self) -> None:
        """Each run has a new terminal, of the size that the job was started with."""
        if self._known() and self.now():
            self._record(self._log_end(), self._spec["rows"], self._spec["cols"])

    def _record(self, at: int, rows: int, cols: int) -> None:
        resizes = self._known()
        if resizes and resizes[-1][0] == at:
            resizes.pop()  # nothing was printed at that size
        resizes.append([at, rows, cols])
        del resizes[:-MOST_RESIZES]
        jobdir.write_record(jobdir.TERMINAL, {"format": jobdir.FORMAT_VERSION, "resizes": resizes})

    def _known(self) -> list[list[int]]:
        if self._resizes is None:
            self._resizes = (jobdir.read_record(jobdir.TERMINAL) or {}).get("resizes", [])
        return self._resizes
