"""The rendered screen of a terminal job: what a person in front of it would see, as text.

Only the end of the log is replayed, however much a job has printed:

    end_of_log(window, offset, sizes)   the last part of a log -> the screen
        affordable_bytes(window, …)     how much of it can be replayed without a long wait
        starting_point(window)          where in the window to begin, and whether that is exact
        modes_in(bytes)                 the modes that the bytes before that point left set
        render(events, rows, columns)   replays bytes and resizes
"""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bgjob.terminal.emulator import Size, Terminal
from bgjob.terminal.page import Screen
from bgjob.terminal.size import drawable
from bgjob.terminal.style import PLAIN, styled

# So much is replayed first, whatever it draws: of vim, less, htop or a log that takes 100 ms.
REPLAY_BYTES = 192 * 1024
# The same time, if every few characters are a line, and each line moves all rows.
SCROLLED_ROWS = 2_500_000
# So much is replayed if a part of the screen is not known then: 0.4 s. What takes longer than a byte counts as
# several.
MOST_WORK = 768 * 1024
# To move so many rows or cells takes as long as an average byte.
MOVED_PER_BYTE = 6
# How much of the log's end to pass: modes are found in all of it.
WINDOW_BYTES = 3 << 19


# Offset in the log, rows and columns.
SizeAt = tuple[int, int, int]


@dataclass(frozen=True)
class Start:
    """Where to begin the replay of a window, and the modes to begin it with."""

    offset: int
    modes: bytes
    exact: bool


def end_of_log(window: bytes, offset: int, sizes: Sequence[SizeAt]) -> Screen:
    """The screen as the window leaves it.

    window: the last WINDOW_BYTES or less of the log; offset: where in the log it begins;
    sizes: (offset, rows, columns) of the terminal, from its first size on, in order.
    """
    drawn = [(at, *drawable(rows, columns)) for at, rows, columns in sizes]
    screen = terminal_at_end(window, offset, drawn).screen()
    return screen if drawn == [*sizes] else replace(screen, exact=False)


def terminal_at_end(
    window: bytes, offset: int, sizes: Sequence[SizeAt], modes_before: bytes | None = None
) -> Terminal:
    """The same as a terminal, which can go on. modes_before: what all that lies before the window left set;
    None: not known."""
    least = _least_bytes(sizes)
    terminal = _drawn(window, offset, sizes, least, modes_before)
    if not terminal.screen().exact and (most := affordable_bytes(window, sizes)) > least:
        terminal = _drawn(window, offset, sizes, most, modes_before)
    return terminal


def _drawn(
    window: bytes, offset: int, sizes: Sequence[SizeAt], most_bytes: int, modes_before: bytes | None
) -> Terminal:
    start = starting_point(
        window,
        max(rows for _, rows, _ in sizes),
        is_whole=offset == 0,
        most=most_bytes,
        resizes=[at - offset for at, _, _ in sizes[1:]],
        before=modes_before,
    )
    begin = offset + start.offset
    _, rows, columns = [sizes[0], *(size for size in sizes if size[0] <= begin)][-1]
    terminal = Terminal(rows, columns)
    terminal.feed(start.modes)
    if not start.exact:
        terminal.forget_pages()
    events: list[bytes | Size] = []
    position = start.offset
    for at, new_rows, new_columns in sizes:
        if at > begin:
            events += [window[position : at - offset], (new_rows, new_columns)]
            position = min(at - offset, len(window))
    _replay(terminal, [*events, window[position:]])
    return terminal


def render(events: Iterable[bytes | Size], rows: int, columns: int) -> Screen:
    """The screen after all events: bytes that were printed, or a new (rows, columns)."""
    terminal = Terminal(rows, columns)
    _replay(terminal, events)
    return terminal.screen()


def _replay(terminal: Terminal, events: Iterable[bytes | Size]) -> None:
    for event in events:
        if isinstance(event, bytes):
            terminal.feed(event)
        else:
            terminal.resize(*event)


# How much to replay

_MOVES_ROWS = re.compile(rb"\n|\x1b(?:[DEM]|\[[0-9;]*+[JLMST])")
_MOVES_CELLS = re.compile(rb"\x1b\[[0-9;]*+[@Pb]")
CHUNK_BYTES = 64 * 1024


def affordable_bytes(window: bytes, sizes: Sequence[SizeAt]) -> int:
    """How many of the last bytes can be replayed in a time that a caller does not mind."""
    most_rows, most_columns = max(rows for _, rows, _ in sizes), max(columns for _, _, columns in sizes)
    least_columns = min(columns for _, _, columns in sizes)
    work = affordable = 0
    for end in range(len(window), 0, -CHUNK_BYTES):
        chunk = window[max(0, end - CHUNK_BYTES) : end]
        # Text that is longer than a line may scroll at each end of the line.
        moved = (len(_MOVES_ROWS.findall(chunk)) + len(chunk) // least_columns) * most_rows
        moved += len(_MOVES_CELLS.findall(chunk)) * most_columns
        work += len(chunk) + moved // MOVED_PER_BYTE
        if work > MOST_WORK:
            break
        affordable += len(chunk)
    return max(affordable, _least_bytes(sizes))


def _least_bytes(sizes: Sequence[SizeAt]) -> int:
    return min(REPLAY_BYTES, *(columns * SCROLLED_ROWS // (rows + 80) for _, rows, columns in sizes))


# Where to begin

_HOME = rb"\[(?:1;1|1|;)?H"
_SGR = rb"(?>(?:\x1b\[[0-9;]*m)*)"
# Sequences that draw nothing.
_SETTINGS = rb"(?>(?:\x1b(?:\[[0-?]*+[ -/]*+[A-GI-~]|[=>]|[()][0-B])){0,20})"
_PAGE_EVENT = re.compile(
    rb"\x1b(?:(?P<reset>c)"
    rb"|(?P<clear>#8|" + _HOME + _SGR + rb"\x1b\[[02]?J|\[2J" + _SGR + rb"\x1b" + _HOME + rb")"
    rb"|\[\?(?:(?P<saves>1049)|1047|47)"
    rb"(?:(?P<leaves>l)|h(?:(?=(?P<places>" + _SETTINGS + rb"\x1b\[[0-9;]*+H))|)))"
)
_MODE_EVENT = re.compile(
    rb"\x1b(?:(?P<reset>c|\[!p)"
    rb"|\[(?P<modes>\??[0-9;]{1,64}[hl])"
    rb"|\[(?P<margins>[0-9;]{0,16}r)"
    rb"|(?P<charset>[()][0-9A-Z])"
    rb"|\](?P<title>[02];[^\x00-\x1f\x7f]{0,1024})(?:\x07|\x1b\\))"
)
_SGR_EVENT = re.compile(rb"\x1b(?:c|\[!p|\[(?P<sgr>[0-9;:]*+)m)")
STYLE_EVENTS = 256
_PLACED, _WHOLE = re.compile(rb"(?=\x1b\[[0-9;]*+H)"), re.compile(rb"\n|(?=\x1b)")
SOON_BYTES = 4096
ENTERED = b"\x1b[?1049h"
"""As modes_in says that the alternate page is shown."""
_KEPT_MODES = frozenset([b"4", b"20", b"?1", b"?6", b"?7", b"?25"])
_PAGE_MODES = frozenset([b"?47", b"?1047", b"?1049"])


def starting_point(
    window: bytes,
    rows: int = 24,
    *,
    is_whole: bool = False,
    most: int = REPLAY_BYTES,
    resizes: Sequence[int] = (),
    before: bytes | None = None,
) -> Start:
    """The last place from which a replay of `most` bytes shows the same as a replay of everything.

    That is where the page that is shown at the end was cleared, or where a screenful of plain lines begins,
    which scrolled everything else away. is_whole: nothing comes before the window; resizes: where the size
    changed; before: the modes that were set before the window, if they are known.
    """
    entered = before
    if entered is None:
        entered = ENTERED if not is_whole and _begins_on_alternate(window) else b""
    cleared = max(_last_clear(window, ENTERED in entered), _last_scrolled_away(window, rows, resizes))
    earliest = len(window) - most
    if cleared >= max(earliest, 0):
        return Start(cleared, modes_in(window[:cleared], resizes, entered), exact=True)
    if is_whole and earliest <= 0:
        return Start(0, b"", exact=True)
    begin = _sequence_start(window, max(earliest, 0))
    return Start(begin, modes_in(window[:begin], resizes, entered), exact=False)


def modes_in(data: bytes, resizes: Sequence[int] = (), before: bytes = b"") -> bytes:
    """The modes that these bytes leave set, as a short sequence. A resize resets the margins.

    Windows are joined by modes_in(newer, before=modes_in(older)).
    """
    resized = max((len(before) + at for at in resizes if 0 <= at <= len(data)), default=0)
    kept: dict[bytes, bytes] = {}
    for event in _MODE_EVENT.finditer(before + data):
        kind, body = event.lastgroup, event[event.lastgroup or 0]
        if kind == "reset":
            kept = {key: kept[key] for key in (b"page", b"title") if body != b"c" and key in kept}
        elif kind == "modes":
            kept.update(_single_modes(body))
        elif kind != "margins" or event.end() > resized:
            kept[body[:1] if kind == "charset" else str(kind).encode()] = event[0]
    page = kept.pop(b"page", b"")
    return page + b"".join(kept.values()) + _style_in(before + data)


def _style_in(data: bytes) -> bytes:
    """The style that these bytes leave set. A style is short-lived: of many, the last few tell it."""
    resets = [data.rfind(each) for each in (b"\x1b[m", b"\x1b[0m", b"\x1bc", b"\x1b[!p")]
    style = PLAIN
    for event in deque(_SGR_EVENT.finditer(data, max(0, *resets)), STYLE_EVENTS):
        style = PLAIN if event["sgr"] is None else styled(style, event["sgr"].decode())
    return style.sequence.encode()


def _single_modes(body: bytes) -> Iterable[tuple[bytes, bytes]]:
    mark, final = body[: body.startswith(b"?")], body[-1:]
    for number in body[len(mark) : -1].split(b";"):
        mode = mark + number
        if mode in _KEPT_MODES:
            yield mode, b"\x1b[" + mode + final
        elif mode in _PAGE_MODES:
            yield b"page", b"\x1b[?1049" + final


def page_entered_at(window: bytes) -> int | None:
    """Where the alternate page that is shown at the end was entered; None: not in this window."""
    entered: int | None = None
    for event in _PAGE_EVENT.finditer(window):
        if event["reset"] or event["leaves"]:
            entered = None
        elif not event["clear"] and entered is None:
            entered = event.start()
    return entered


def _last_clear(window: bytes, is_alternate: bool) -> int:
    """Where the page that is shown at the end of the window was last empty; -1 if nowhere in it."""
    cleared = {False: -1, True: -1}
    for event in _PAGE_EVENT.finditer(window):
        if event["reset"]:
            is_alternate = False
            cleared = {False: event.start(), True: event.start()}
        elif event["clear"]:
            cleared[is_alternate] = event.start()
        elif event["saves"] and bool(event["leaves"]) == is_alternate:
            # The page is blank when entered. The cursor stays where it was on the main page, unless it is
            # placed.
            cleared[True] = event.start() if event["places"] else cleared[False]
            is_alternate = not is_alternate
        else:
            is_alternate = not event["leaves"]
    return cleared[is_alternate]


def _last_scrolled_away(window: bytes, rows: int, resizes: Sequence[int]) -> int:
    """Where two screens of plain lines at the end begin; -1 if there are none.

    The first screen brings the cursor down, wherever it was; the second moves all else out of sight.
    """
    plain = max(window.rfind(b"\x1b"), window.rfind(b"\x0e"), window.rfind(b"\x0f")) + 1
    position = len(window)
    for _ in range(2 * rows + 1):
        position = window.rfind(b"\n", plain, position)
        if position < 0:
            return -1
    # After a \r the cursor is in the first column.
    position = window.rfind(b"\r", plain, position)
    if position < 0:
        return -1
    if re.search(rb"\x1b\[[1-9;][0-9;]*r\Z|\x1b\[[1-9;][0-9;]*r\x1b", modes_in(window[:position], resizes)):
        return -1  # the lines scroll in a part of the screen only
    return position


def _begins_on_alternate(window: bytes) -> bool:
    """An alternate page that is left before it is entered was entered before the window."""
    left, entered = (
        min((at for at in map(window.find, sequences) if at >= 0), default=len(window))
        for sequences in (
            [b"\x1b[" + mode + b"l" for mode in _PAGE_MODES],
            [b"\x1b[" + mode + b"h" for mode in _PAGE_MODES],
        )
    )
    return left < entered


def _sequence_start(window: bytes, offset: int) -> int:
    """Where the cursor is put to a place soon, else the next line or escape sequence: none is cut in the middle."""
    placed = _PLACED.search(window, offset, offset + SOON_BYTES)
    match = placed or _WHOLE.search(window, offset)
    return match.end() if match else offset
