"""Draws `bgjob top`: from a view to the screen."""

from bgjob.api.live import Row
from bgjob.cli.columns import unreachable
from bgjob.cli.top.layout import LEAST_COLUMNS, LEAST_ROWS, LIST_AT, Columns, columns_for
from bgjob.cli.top.output import draw_output, draw_preview
from bgjob.cli.top.pieces import GAP, put_in_turn, put_keys, put_right
from bgjob.cli.top.rows import HEADINGS, RIGHT, cells, style_of
from bgjob.cli.top.screen import Screen, Style
from bgjob.cli.top.view import View
from bgjob.core.job import called

LEAST_WHAT = 40
# in a narrow terminal the last ones are not shown
KEYS = (
    ("enter", "attach"),
    ("l", "output"),
    ("x", "kill"),
    ("/", "filter"),
    ("q", "quit"),
    ("?", "help"),
    ("s", "sort"),
    ("space", "pause"),
)
HELP = """\
up down  j k          the job above, or below
page up, page down    a page of jobs
home end  g G         the first job, the last one
enter                 attach: enter the job's terminal, or its stdin
l                     its output, on all of the screen
x                     kill it, with everything it started
/                     filter: text in its id, name, command, directory
                      or starter; name= cwd= by= status= target= of one
esc                   no filter
s                     sort by state, CPU, memory or age
space                 pause: nothing moves until it is pressed again
q                     quit; the jobs go on"""
HELP_AT = 22


def draw(screen: Screen, view: View, now: float) -> None:
    screen.clear()
    if view.layout.is_too_small:
        rows, columns = screen.size
        screen.put(0, 0, f"{columns}x{rows} is too small:")
        screen.put(1, 0, f"bgjob top needs {LEAST_COLUMNS}x{LEAST_ROWS}.")
    elif view.mode == "output":
        draw_output(screen, view)
    elif view.mode == "help":
        _draw_help(screen, view)
    else:
        _draw_counts(screen, view)
        _draw_list(screen, view, now)
        draw_preview(screen, view)
        _draw_foot(screen, view)
    screen.show()


# -- the list ---------------------------------------------------------------------------------------


def _draw_counts(screen: Screen, view: View) -> None:
    groups = [row.group for row in view.live.current]
    ended = f"{len(view.live.ended):,}{'' if view.live.is_complete else '+'} ended"
    parts: list[tuple[str, Style]] = [("bgjob", "strong")]
    if asking := groups.count("asking"):
        parts.append((f"{asking} {'waits' if asking == 1 else 'wait'} for you", "asking"))
    parts.append((f"{groups.count('running')} running", "plain"))
    if queued := groups.count("queued"):
        parts.append((f"{queued} queued", "plain"))
    column = put_in_turn(screen, 0, [*parts, (ended, "plain")])
    put_right(screen, 0, column, _told_right(view))


def _told_right(view: View) -> str:
    place = f"{view.index + 1:,}/{len(view.rows):,}" if view.rows else "none"
    filtered = f"filter {' '.join(view.arrangement.words)}" if view.arrangement.words else ""
    order = "" if view.arrangement.order == "state" else f"by {view.arrangement.order}"
    return "   ".join(filter(None, ("paused" if view.is_paused else "", filtered, order, place)))


def _draw_list(screen: Screen, view: View, now: float) -> None:
    _draw_headings(screen, view)
    shown = view.rows[view.first : view.first + view.layout.list_rows]
    for number, row in enumerate(shown):
        _draw_row(screen, LIST_AT + number, row, view.first + number == view.index, now)
    if not shown:
        screen.put(LIST_AT, 0, _why_none(view), "faint")


def _why_none(view: View) -> str:
    if view.arrangement.words:
        return "No job fits the filter."
    return "There are no jobs yet: bgjob run -- COMMAND starts one." if view.live.is_complete else ""


def _draw_headings(screen: Screen, view: View) -> None:
    for name, (column, wide) in columns_for(screen.size[1]).places().items():
        text = HEADINGS.get(name, "")
        style: Style = "strong" if name == view.arrangement.order else "faint"
        screen.put(1, column, text.rjust(wide) if name in RIGHT else text, style, wide)


def _draw_row(screen: Screen, at: int, row: Row, is_selected: bool, now: float) -> None:
    columns = columns_for(screen.size[1])
    told = cells(row, columns, now, is_utf8=screen.is_utf8)
    if is_selected:
        screen.fill(at, "selected")
    for name, (column, wide) in _places(row, columns).items():
        text = told[name].rjust(wide) if name in RIGHT else told[name]
        screen.put(at, column, text, "selected" if is_selected else _cell_style(row, name), wide)


def _places(row: Row, columns: Columns) -> dict[str, tuple[int, int]]:
    """In a narrow list, what a job asks or waits for is worth more than what it uses."""
    places = columns.places()
    if columns.what >= LEAST_WHAT or not (row.prompt or row.reason or unreachable(row.job)):
        return places
    begin, end = places["cpu"][0], sum(places["what"])
    return {"state": places["state"], "name": places["name"], "what": (begin, end - begin)}


def _cell_style(row: Row, column: str) -> Style:
    if column == "state" or (column == "what" and row.prompt):
        return style_of(row)
    is_idle = column in ("cpu", "cpu_line") and not round(row.cpu_percent or 0)
    return "faint" if is_idle or row.group == "ended" else "plain"


# -- the last row -----------------------------------------------------------------------------------


def _draw_foot(screen: Screen, view: View) -> None:
    at = view.layout.rows - 1
    if view.mode == "kill" and view.to_kill:
        job = view.to_kill
        question = f"Kill {called(job.spec)} ({job.id[:8]}) and all it started? y/n"
        screen.put(at, 0, question, "asking")
    elif view.mode == "filter":
        column = put_in_turn(screen, at, [(f"/{view.typed}", "strong")]) - GAP
        screen.put(at, column, " ", "selected")
        put_right(screen, at, column, view.message or "enter keeps it, esc drops it")
    elif problem := view.message or view.live.problem:
        screen.put(at, 0, problem, "asking" if view.message else "failed")
    else:
        put_keys(screen, at, KEYS)


def _draw_help(screen: Screen, view: View) -> None:
    for number, line in enumerate(HELP.splitlines()):
        screen.put(number, 0, line[:HELP_AT].rstrip(), "strong")
        screen.put(number, HELP_AT, line[HELP_AT:])
    screen.put(view.layout.rows - 1, 0, "any key goes back", "faint")
