"""Whether the end of a log is best read as a screen: the text of a full-screen program is debris.

alternate screen            vim, less, htop: a screen, until it is left
cursor put to a place,      top, dialog on the main screen: a screen, until it is cleared, left or scrolled
lines inserted or deleted   away
home and erase              a new page of plain text: text
save, place, restore        a status line at the edge, as apt draws: text, which the cleaner leaves
cursor up and down, \\r      progress: text, as the cleaner redraws it
"""

import re
from collections import deque

from bgjob.core.late_pattern import late_pattern

# How much of the log's end to pass.
WINDOW_BYTES = 768 * 1024

_HOME, _SGR = rb"\x1b\[(?:[01]?;?[01]?)H", rb"(?>(?:\x1b\[[0-9;]*+m)*)"
_PAGE_MODE = late_pattern(
    rb"\x1b(?:c|\[\?(?:[0-9]{1,5};){0,16}?(?:1049|1047|47)(?>(?:;[0-9]{1,5}){0,16})(?P<enters>h|l))"
)
_NEW_PAGE = late_pattern(
    rb"\x1bc|\x1b\[\?[0-9;]*+l|" + _HOME + _SGR + rb"\x1b\[[02]?J|\x1b\[2J(?:\x1b\[3J)?" + _SGR + _HOME
)
_PLACED = late_pattern(rb"\x1b(?:M|\[[0-9;]*+[HfdLMST])")
_STATUS_LINE = late_pattern(rb"\x1b(?:7|\[s)(?>(?:[^\n\x1b]|\x1b(?![78]|\[[su]))*)\x1b(?:8|\[u)")


def is_full_screen(window: bytes, rows: int, is_running: bool) -> bool:
    """window: the end of what a job printed on its terminal; rows: of the terminal.

    A job that has ended on the main screen has left its text there, for the next line of a shell.
    """
    if b"\x1b" not in window:
        return False
    return is_alternate(window) or (is_running and _is_placed(window, rows))


def is_alternate(window: bytes) -> bool:
    last = _last(_PAGE_MODE, window)
    return last is not None and last["enters"] == b"h"


def _is_placed(window: bytes, rows: int) -> bool:
    """Whether text was put at a place of the page that is shown now, and has not scrolled away since."""
    page = _STATUS_LINE.sub(b"", window[_page_start(window) :])
    last = _last(_PLACED, page)
    return last is not None and page.count(b"\n", last.end()) <= rows


def _page_start(window: bytes) -> int:
    start = 0
    for event in _NEW_PAGE.finditer(window):
        if not event[0].startswith(b"\x1b[?") or _PAGE_MODE.match(event[0]):
            start = event.end()
    return start


def _last(pattern: re.Pattern[bytes], data: bytes) -> re.Match[bytes] | None:
    return next(iter(deque(pattern.finditer(data), maxlen=1)), None)
