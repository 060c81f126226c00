"""What each key does in `bgjob top`: it changes the view, or asks for an act on a job or on the program."""

from collections.abc import Callable, Mapping
from typing import Literal

from bgjob.api.arrangement import ORDERS, Arrangement
from bgjob.cli.top.view import MOST_LINES, Mode, View
from bgjob.cli.words import in_our_words
from bgjob.core.errors import InvalidArgument
from bgjob.core.frozen import Frozen
from bgjob.core.job import Job, called


class Act(Frozen):
    verb: Literal["quit", "interrupt", "stop", "redraw", "attach", "kill"]
    """interrupt, stop: as ctrl-c and ctrl-z do."""
    job: Job | None = None


Press = Callable[[View], Act | None]
EVERYWHERE = {"ctrl-c": Act("interrupt"), "ctrl-z": Act("stop"), "ctrl-l": Act("redraw")}


def press(view: View, key: str) -> Act | None:
    if key in EVERYWHERE:
        return EVERYWHERE[key]
    view.message = ""
    return MODES[view.mode](view, key)


# -- the list ---------------------------------------------------------------------------------------


def _in_list(view: View, key: str) -> Act | None:
    act = LIST_KEYS.get(key)
    return act(view) if act else None


def _step(rows: int) -> Press:
    return lambda view: view.select(view.index + rows)


def _page(pages: int) -> Press:
    return lambda view: view.select(view.index + pages * view.layout.list_rows)


def _pause(view: View) -> None:
    view.is_paused = not view.is_paused


def _sort(view: View) -> None:
    following = (ORDERS.index(view.arrangement.order) + 1) % len(ORDERS)
    view.arrange(view.arrangement.reordered(ORDERS[following]))


def _clear_filter(view: View) -> None:
    view.arrange(Arrangement((), view.arrangement.order))


def _enter(view: View) -> Act | None:
    """A job that runs is entered; of one that does not, there is only what it printed."""
    if view.selected and view.selected.group in ("asking", "running") and not view.selected.left_running:
        return Act("attach", view.selected.job)
    _open_output(view)
    return None


def _open_output(view: View) -> None:
    if view.selected:
        view.open_output()


def _ask_to_kill(view: View) -> None:
    if view.selected is None:
        return
    if view.selected.group == "ended":
        view.message = f"{called(view.selected.job.spec)} has ended, and left nothing running."
    else:
        view.mode, view.to_kill = "kill", view.selected.job


def _help(view: View) -> None:
    view.mode = "help"


def _type_filter(view: View) -> None:
    view.mode, view.typed = "filter", " ".join(view.arrangement.words)
    view.filter_before = view.arrangement


LIST_KEYS: Mapping[str, Press] = {
    **dict.fromkeys(("up", "k"), _step(-1)),
    **dict.fromkeys(("down", "j"), _step(1)),
    "page up": _page(-1),
    "page down": _page(1),
    **dict.fromkeys(("home", "g"), lambda view: view.select_first()),
    **dict.fromkeys(("end", "G"), lambda view: view.select(len(view.rows))),
    "enter": _enter,
    "l": _open_output,
    "x": _ask_to_kill,
    "/": _type_filter,
    "escape": _clear_filter,
    "s": _sort,
    " ": _pause,
    "?": _help,
    "q": lambda view: Act("quit"),
}


# -- questions --------------------------------------------------------------------------------------


def _in_filter(view: View, key: str) -> None:
    if key == "enter":
        view.mode = "list"
        view.apply_typed_filter()
    elif key == "escape":
        view.mode, view.typed_filter = "list", None
        view.arrange(view.filter_before)
    elif key == "backspace":
        _filter(view, view.typed[:-1])
    elif key == "ctrl-u":
        _filter(view, "")
    elif len(key) == 1:
        _filter(view, view.typed + key)


def _filter(view: View, typed: str) -> None:
    """As it is typed; what is no filter yet leaves the list as it is."""
    view.typed = typed
    try:
        view.typed_filter = Arrangement(typed.split(), view.arrangement.order)
    except InvalidArgument as problem:
        view.message = in_our_words(problem)


def _in_question(view: View, key: str) -> Act | None:
    """Only y is a yes."""
    view.mode, job = "list", view.to_kill
    return Act("kill", job) if key in ("y", "Y") else None


def _in_help(view: View, key: str) -> None:
    view.mode = "list"


# -- the output -------------------------------------------------------------------------------------


def _in_output(view: View, key: str) -> None:
    page = view.layout.output_rows - 1
    steps = {"up": 1, "k": 1, "down": -1, "j": -1, "page up": page, "page down": -page, " ": -page}
    ends = {"home": MOST_LINES, "g": MOST_LINES, "end": -MOST_LINES, "G": -MOST_LINES}
    if key in ("q", "escape", "l", "enter"):
        view.mode = "list"
    else:
        view.scroll_output({**steps, **ends}.get(key, 0))


MODES: Mapping[Mode, Callable[[View, str], Act | None]] = {
    "list": _in_list,
    "filter": _in_filter,
    "kill": _in_question,
    "output": _in_output,
    "help": _in_help,
}
