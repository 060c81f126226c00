"""What a person looks at in `bgjob top`: which jobs, which of them is selected, what of its output."""

from typing import Literal

from bgjob.api.arrangement import Arrangement
from bgjob.api.live import Live, Row
from bgjob.api.preview import Preview
from bgjob.api.preview_reader import Wish
from bgjob.cli.top.layout import Layout
from bgjob.cli.top.text import fitting
from bgjob.core.job import Job

Mode = Literal["list", "filter", "kill", "output", "help"]
MOST_LINES = 10_000
"""Of a job's output that can be scrolled through."""


class View:
    """It knows no terminal, and reads no files."""

    def __init__(self, arrangement: Arrangement) -> None:
        self.arrangement = arrangement
        self.mode: Mode = "list"
        self.live, self.rows = Live(), list[Row]()
        self.layout = Layout(24, 80)
        self.first = self.index = 0
        """The first row that is shown, and the one that is selected."""
        self.is_paused = False
        self.message = ""
        """Until the next key."""
        self.typed, self.filter_before = "", arrangement
        self.typed_filter: Arrangement | None = None
        """It is to be applied when no key waits: what is typed is seen first, whatever the number of jobs."""
        self.to_kill: Job | None = None
        self.preview: Preview | None = None
        self.back = 0
        """In the output: so many of its lines are below the last one that is shown."""
        self._selected: str | None = None
        """None: the first row, whichever job that is."""
        self._opened: Row | None = None

    # -- what is new --------------------------------------------------------------------------------

    def update(self, live: Live) -> None:
        if not self.is_paused:
            self.live = live
            self.arrange(self.arrangement)

    def arrange(self, arrangement: Arrangement) -> None:
        self.arrangement = arrangement
        self.rows = arrangement.of(self.live)
        self.layout = self.layout.grown(len(self.rows))
        self._find_selected()
        self._scroll()
        if self._opened and self.selected and self.selected.job.id == self._opened.job.id:
            self._opened = self.selected

    def apply_typed_filter(self) -> None:
        if self.typed_filter:
            self.arrange(self.typed_filter)
            self.typed_filter = None

    def resize(self, rows: int, columns: int) -> None:
        self.layout = Layout(rows, columns, len(self.rows))
        self._scroll()
        self.show_preview(self.preview)

    def show_preview(self, preview: Preview | None) -> None:
        self.preview = preview
        self.back = min(self.back, self._most_back())

    # -- the selected job ---------------------------------------------------------------------------

    @property
    def shown(self) -> Row | None:
        """The job whose output is looked at."""
        return self._opened if self.mode == "output" else self.selected

    @property
    def selected(self) -> Row | None:
        return self.rows[self.index] if self.rows else None

    def select(self, index: int) -> None:
        self.index = max(0, min(index, len(self.rows) - 1))
        self._selected = self.rows[self.index].job.id if self.rows else None
        self._scroll()

    def select_first(self) -> None:
        """Whichever job that will be."""
        self.index, self._selected = 0, None
        self._scroll()

    def _find_selected(self) -> None:
        """The selected job stays selected wherever it moves; if it is gone, the one in its place is."""
        if self._selected is None:
            self.index = 0
        elif not (self.index < len(self.rows) and self.rows[self.index].job.id == self._selected):
            places = (place for place, row in enumerate(self.rows) if row.job.id == self._selected)
            self.select(next(places, self.index))

    def _scroll(self) -> None:
        """The selected row is in sight, and no row is left empty that could be filled."""
        most = self.layout.list_rows
        self.first = max(self.index - most + 1, min(self.first, self.index))
        self.first = max(0, min(self.first, len(self.rows) - most))

    # -- what it shows ------------------------------------------------------------------------------

    @property
    def wish(self) -> Wish | None:
        """What is to be read of the selected job. Who scrolls back wants nothing to move."""
        if self.shown is None:
            return None
        job_id = self.shown.job.id
        if self.mode != "output":
            return Wish(job_id, self.layout.preview_rows, not self.is_paused)
        return Wish(job_id, MOST_LINES, follows=False) if self.back else Wish(job_id, self.layout.output_rows)

    def open_output(self) -> None:
        self.mode, self.back = "output", 0
        self.select(self.index)
        self._opened = self.selected

    def scroll_output(self, lines: int) -> None:
        """Back by so many lines, or forward."""
        self.back = max(0, min(self.back + lines, self._most_back()))

    def _most_back(self) -> int:
        preview, layout = self.preview, self.layout
        if preview is None:
            return 0
        if preview.has_more and preview.asked < MOST_LINES:
            return MOST_LINES  # as soon as there is a wish to go back, more of them are read
        return len(preview.lines) - fitting(preview.lines, layout.columns, layout.output_rows)
