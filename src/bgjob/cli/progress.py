"""What is waited for, in one line on the terminal that is gone when the wait is over."""

import sys
from types import TracebackType
from typing import Self

from bgjob.cli import streams
from bgjob.core.values import duration_words
from bgjob.output.tty_text import cut, one_line

ERASE = "\r\x1b[K"


class Progress:
    """On stderr, where that is a terminal of a known width."""

    def __init__(self) -> None:
        self._columns = streams.columns(2) if sys.stderr.isatty() else None
        self._is_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_shown:
            streams.draw(ERASE)

    def tell(self, passed_s: float, text: str) -> None:
        """For the api's waits, which tell every second."""
        if self._columns:
            self._is_shown = True
            line = one_line(" ".join(f"{duration_words(passed_s)}  {text}".split()))
            streams.draw(ERASE + cut(line, self._columns - 1))
