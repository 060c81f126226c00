"""Draws what the selected job of `bgjob top` prints: below the list, or on all of the screen."""

from bgjob.api.filter import started_by
from bgjob.api.live import Row
from bgjob.cli.top.pieces import GAP, put_in_turn, put_keys, put_right
from bgjob.cli.top.rows import state_word
from bgjob.cli.top.screen import Screen, Style
from bgjob.cli.top.text import last_rows, wrapped
from bgjob.cli.top.view import View
from bgjob.core.job import called

KEYS = (("↑↓", "scroll"), ("home", "oldest"), ("end", "follow"), ("q", "back"))


def draw_preview(screen: Screen, view: View) -> None:
    at, most = view.layout.preview_at, view.layout.preview_rows
    _draw_title(screen, at, view.selected)
    for number, (line, style) in enumerate(_preview_lines(view, most)):
        screen.put(at + 1 + number, 0, line, style)


def _preview_lines(view: View, most: int) -> list[tuple[str, Style]]:
    told, preview = _told_instead(view), view.preview
    if told or preview is None:
        return told
    lines = preview.lines[:most] if preview.is_screen else preview.lines[-most:]
    return [(line, "plain") for line in lines]


def _told_instead(view: View) -> list[tuple[str, Style]]:
    """Where there are no lines to show. Those of another job are not shown: that of this one come at once."""
    preview, row = view.preview, view.shown
    if preview is None or row is None or preview.job_id != row.job.id:
        return [("", "plain")]
    if preview.problem:
        return [(line, "failed") for line in wrapped(preview.problem, view.layout.columns)]
    nothing = "(it printed nothing)" if row.group == "ended" else "(it has printed nothing yet)"
    return [] if preview.lines else [(nothing, "faint")]


def _draw_title(screen: Screen, at: int, row: Row | None) -> None:
    screen.put(at, 0, "─" * screen.size[1], "faint")
    if row:
        spec = row.job.spec
        facts = [row.job.id[:8], *(f":{port}" for port in row.ports), spec.cwd]
        by = started_by(row.job)
        told = " · ".join([*facts, *([f"by {by}"] if by else [])])
        column = put_in_turn(screen, at, [(f" {called(spec)} ", "strong")], begin=2)
        screen.put(at, column - GAP, f"· {told} ", "faint")


def draw_output(screen: Screen, view: View) -> None:
    _draw_title(screen, 0, view.shown)
    for number, (line, style) in enumerate(_output_lines(view)):
        screen.put(1 + number, 0, line, style)
    column = put_keys(screen, view.layout.rows - 1, KEYS)
    state = state_word(view.shown) if view.shown else ""
    where = f"{view.back:,} lines below" if view.back else state
    put_right(screen, view.layout.rows - 1, column, where)


def _output_lines(view: View) -> list[tuple[str, Style]]:
    told, preview, rows = _told_instead(view), view.preview, view.layout.output_rows
    if told or preview is None:
        return told
    if preview.is_screen:
        return [(line, "plain") for line in preview.lines[:rows]]
    lines = preview.lines[: len(preview.lines) - view.back]
    return [(row, "plain") for row in last_rows(lines, view.layout.columns, rows)]
