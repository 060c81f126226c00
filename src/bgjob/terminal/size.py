"""How large a terminal may be: every size that is accepted can be drawn."""

MOST_ROWS, MOST_COLS = 500, 1000


def drawable(rows: int, columns: int) -> tuple[int, int]:
    """This size, cut to what can be drawn."""
    return max(1, min(rows, MOST_ROWS)), max(1, min(columns, MOST_COLS))
