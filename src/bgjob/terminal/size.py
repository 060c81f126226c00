"""How large a terminal may be: what is accepted is what can be drawn."""

MOST_ROWS, MOST_COLS = 500, 1000


def drawable(rows: int, columns: int) -> tuple[int, int]:
    """This size, or what is drawn of it."""
    return max(1, min(rows, MOST_ROWS)), max(1, min(columns, MOST_COLS))
