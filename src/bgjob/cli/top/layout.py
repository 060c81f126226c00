"""Where things are on the screen of `bgjob top`, for a terminal of any size.

0             how many jobs there are
1             headings
2 …           jobs
preview_at    which job this is, and below it what it shows
the last row  keys, a question or a message
"""

from bgjob.core.frozen import Frozen

LEAST_ROWS, LEAST_COLUMNS = 10, 40
LIST_AT = 2
# heading, headings, the line above the preview, keys
OTHER_ROWS = 4
LEAST_LIST, LEAST_PREVIEW = 3, 2


class Layout(Frozen):
    rows: int
    columns: int
    listed: int = 0
    """How many jobs the list has had room for: it grows with them up to its share, and then stays calm."""

    @property
    def is_too_small(self) -> bool:
        return self.rows < LEAST_ROWS or self.columns < LEAST_COLUMNS

    @property
    def list_rows(self) -> int:
        most = (self.rows - OTHER_ROWS) * 3 // 5
        return max(LEAST_LIST, min(most, self.listed + 1))

    @property
    def preview_at(self) -> int:
        return LIST_AT + self.list_rows

    @property
    def preview_rows(self) -> int:
        return max(LEAST_PREVIEW, self.rows - OTHER_ROWS - self.list_rows)

    @property
    def output_rows(self) -> int:
        """Where the output has all of the screen but its title and the keys."""
        return self.rows - 2

    def grown(self, listed: int) -> "Layout":
        return self if listed <= self.listed else Layout(self.rows, self.columns, listed)


class Columns(Frozen):
    """How wide each column of the list is; 0: there is no room for it."""

    state: int
    name: int
    cpu: int
    cpu_line: int
    memory: int
    memory_line: int
    age: int
    what: int
    gap: int

    def places(self) -> dict[str, tuple[int, int]]:
        """By name: where it begins, and how wide it is. Only those that there are."""
        at, found = 0, {}
        for name, wide in vars(self).items():
            if wide and name != "gap":
                found[name] = at, wide
                at += wide + self.gap
        return found


STATE, CPU, MEMORY, AGE = 9, 4, 4, 4
LEAST_NAME, MOST_NAME = 12, 32
# narrower terminals have less between columns, and not all of them
NARROW, WIDE = 80, 120


def columns_for(columns: int) -> Columns:
    name = max(LEAST_NAME, min(MOST_NAME, columns // 6))
    cpu_line = 0 if columns < NARROW else min(30, (columns - 40) // 5)
    memory_line = 0 if columns < WIDE else cpu_line // 2
    gap = 1 if columns < NARROW else 2
    taken = [STATE, name, CPU, cpu_line, MEMORY, memory_line, AGE]
    what = columns - sum(taken) - gap * sum(map(bool, taken))
    return Columns(STATE, name, CPU, cpu_line, MEMORY, memory_line, AGE, max(0, what), gap)
