"""Where the replay of a log begins, and the screen against hostile bytes."""

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wcwidth import wcwidth

from bgjob.terminal import emulator
from bgjob.terminal.emulator import Terminal
from bgjob.terminal.page import Screen
from bgjob.terminal.screen import (
    MOST_WORK,
    REPLAY_BYTES,
    WINDOW_BYTES,
    affordable_bytes,
    end_of_log,
    modes_in,
    render,
    starting_point,
)
from bgjob.terminal.size import MOST_COLS, MOST_ROWS

CLEAR = b"\x1b[H\x1b[2J"
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


PLAIN = b"".join(b"line %d\r\n" % number for number in range(30_000))


def replayed(data: bytes, limit: int = REPLAY_BYTES, rows: int = 5, columns: int = 10) -> Screen:
    """As a server would: only the end of the log is read."""
    window = data[-limit:]
    return end_of_log(window, len(data) - len(window), [(0, rows, columns)])


EXACT = {
    "all of a short log": b"abc\r\n\x1b[2;5Hx",
    "home and clear": PLAIN + CLEAR + b"new",
    "clear and home": PLAIN + b"\x1b[2J\x1b[1;1Hnew",
    "home and erase below": PLAIN + b"\x1b[H\x1b[m\x1b[Jnew",
    "reset": PLAIN + b"\x1b[?1049h\x1bcnew",
    "alternate": PLAIN + ENTER + b"\x1b[Hnew",
    "cleared in the alternate": ENTER + b"\x1b[?1h\x1b[?25l\x1b]2;vim\x07" + PLAIN + CLEAR + b"new",
    "main, cleared before the alternate": PLAIN + CLEAR + b"main" + ENTER + CLEAR + b"alt" + LEAVE + b"!",
    "margins set before": b"\x1b[2;4r" + PLAIN + CLEAR + b"a\n\n\n\n\n\nb",
    "plain lines": PLAIN + b"prompt> ",
    "plain lines after colours": CLEAR + b"\x1b[31mred\x1b[m\r\n" + PLAIN,
}


@pytest.mark.parametrize("name", EXACT)
def test_the_end_of_a_log_shows_the_same_as_all_of_it(name: str) -> None:
    whole = render([EXACT[name]], 5, 10)
    assert whole.lines
    assert replayed(EXACT[name], limit=len(EXACT[name])) == whole


def test_only_what_follows_the_last_clear_is_replayed() -> None:
    window = PLAIN + CLEAR + b"new"
    assert starting_point(window).offset == len(PLAIN)


def test_a_main_page_that_comes_back_is_not_taken_for_cleared() -> None:
    """What it shows was printed before the full-screen program began."""
    data = b"before\r\n" + ENTER + CLEAR + b"alt" + LEAVE + b"after"
    assert replayed(data).lines == ["before", "after"]
    cut = replayed(data, limit=len(data) - len(b"before\r\n"))
    assert cut.lines == ["after"]
    assert not cut.exact


def test_a_program_that_is_left_in_the_window_leaves_nothing_on_the_main_page() -> None:
    window = b"\x1b[3;1Hof vim\x1b[2;1H~\x1b[?1049l\r\n$ "
    view = end_of_log(window, 1000, [(0, 5, 10)])
    assert (view.lines, view.is_alternate, view.exact) == (["", "$"], False, False)


def test_a_replay_without_a_clear_begins_whole_and_says_that_it_is_not_exact() -> None:
    view = end_of_log(b"5;1Hcut\r\n\x1b[2;1Hwhole", 1000, [(0, 5, 10)])
    assert (view.lines, view.exact) == (["", "whole"], False)


def test_lines_that_scroll_in_a_part_of_the_screen_are_not_taken_for_all_of_it() -> None:
    data = b"\x1b[5;1Hstatus\x1b[1;4r\x1b[4;1H" + b"line\r\n" * 100
    assert replayed(data).lines[-1] == "status"


def test_a_clear_too_far_back_is_not_replayed_from() -> None:
    window = CLEAR + b"\x1b[?1h" + b"\x1b[1;1Hx" * REPLAY_BYTES
    start = starting_point(window, is_whole=True)
    assert len(window) - REPLAY_BYTES <= start.offset < len(window) - REPLAY_BYTES + 10
    assert not start.exact
    assert start.modes == b"\x1b[?1h"


# Of a terminal with 24 rows: a line at the top that is painted once, and a counter that is painted all the time.
HEADER = ENTER + CLEAR + b"header"
COUNTED = b"".join(b"\x1b[3;1Hcount %07d\x1b[K" % number for number in range(100_000))


def test_what_was_painted_once_is_shown_while_the_replay_of_all_since_is_affordable() -> None:
    drawn = PLAIN + HEADER + COUNTED[: 3 * REPLAY_BYTES]
    view = replayed(drawn, WINDOW_BYTES, 24, 80)
    assert (view.lines[0], view.exact) == ("header", True)


def test_a_large_screen_is_drawn_from_its_clear_also_if_all_of_it_was_painted_twice() -> None:
    rows = MOST_ROWS // 2
    page = b"".join(b"\x1b[%d;1H%s" % (row, b"x" * (MOST_COLS - 10)) for row in range(1, rows + 1))
    view = replayed(PLAIN + HEADER + 2 * page + b"\x1b[1;7H\x1b[K", WINDOW_BYTES, rows, MOST_COLS)
    assert (view.lines[0], len(view.lines), view.exact) == ("x" * 6, rows, True)


def test_a_screen_whose_parts_were_painted_too_long_ago_is_not_exact_until_all_is_painted_again() -> None:
    drawn = HEADER + COUNTED
    view = replayed(drawn, WINDOW_BYTES, 24, 80)
    assert (view.lines[0], view.lines[2][:7], view.exact) == ("", "count 0", False)
    again = b"".join(b"\x1b[%d;1Hrow %d\x1b[K" % (row, row) for row in range(1, 25))
    painted = replayed(drawn + again, WINDOW_BYTES, 24, 80)
    assert (painted.lines[0], painted.lines[23], painted.exact) == ("row 1", "row 24", True)
    assert replayed(drawn + b"\x1b[1;1H\x1b[J", WINDOW_BYTES, 24, 80).exact


def test_coloured_lines_that_scrolled_everything_away_are_exact() -> None:
    lines = b"".join(b"\x1b[32mline\x1b[m %d\r\n" % number for number in range(100_000))
    view = replayed(HEADER + lines, WINDOW_BYTES, 24, 80)
    assert (view.lines[-1], view.exact) == ("line 99999", True)


@settings(max_examples=500)
@given(st.lists(st.sampled_from([CLEAR, b"line\r\n", b"\x1b[2;2Htext", b"\x1b[5;1H"]), max_size=9), st.data())
def test_what_is_called_exact_is_what_a_replay_of_everything_shows(
    before: list[bytes], data: st.DataObject
) -> None:
    pieces = b"\x1b[3;3H \x1b[H \x1b[K \x1b[J \x1b[2J \x1bM \x1b[L \x1b[M some-text a \x1b[A \x1b[2@".split()
    drawn = data.draw(st.lists(st.sampled_from([*pieces, b"line\r\n" * 4, b"\r\n", b"\r", b" " * 10])))
    unseen, window = b"".join(before), b"\x1b[H" + b"".join(drawn)
    view = end_of_log(window, len(unseen), [(0, 5, 10)]) if unseen else render([window], 5, 10)
    assert not view.exact or view == render([unseen + window], 5, 10)


@pytest.mark.parametrize("flood", [b"\x1b[Lx", b"y\x1b[m\r\n", b"x\x1b[999b", b"\x1b[H\x1b[1J"])
def test_less_is_replayed_of_what_takes_long(flood: bytes) -> None:
    assert affordable_bytes(flood * MOST_WORK, [(0, MOST_ROWS, MOST_COLS)]) == REPLAY_BYTES
    assert affordable_bytes(b"x" * 2 * MOST_WORK, [(0, 24, 200)]) > MOST_WORK // 2


def test_resizes_are_applied_where_they_happened() -> None:
    data = b"0123456789ab" + CLEAR + b"0123456789ab" + b"\r\n0123456789ab"
    clear, resize = 12, 12 + len(CLEAR) + 12
    sizes = [(0, 5, 8), (clear, 5, 10), (resize, 5, 20)]
    expected = ["0123456789", "ab", "0123456789ab"]
    assert end_of_log(data, 0, sizes).lines == expected
    assert end_of_log(data[5:], 5, sizes).lines == expected
    assert end_of_log(data, 0, [*sizes, (len(data), 2, 20)]).lines == expected[1:]


def test_the_screen_is_as_wide_and_as_high_as_a_terminal_may_be() -> None:
    wide = b"x" * MOST_COLS + b"\r\n" + b"y\r\n" * (MOST_ROWS - 2) + b"end"
    view = end_of_log(wide, 0, [(0, MOST_ROWS, MOST_COLS)])
    assert (view.lines[0], view.lines[-1], view.exact) == ("x" * MOST_COLS, "end", True)
    assert (len(view.lines), view.cursor_row) == (MOST_ROWS, MOST_ROWS)


@pytest.mark.parametrize("sizes", [[(0, MOST_ROWS + 1, 80)], [(0, 24, 80), (0, 24, MOST_COLS + 1)]])
def test_a_screen_smaller_than_its_terminal_is_not_exact(sizes: list[tuple[int, int, int]]) -> None:
    assert not end_of_log(b"x", 0, sizes).exact


def test_a_resize_takes_the_margins_back() -> None:
    before, lines = b"\x1b[1;24r", b"\r\n".join(b"%d" % number for number in range(1, 31))
    view = end_of_log(before + CLEAR + lines, 0, [(0, 24, 80), (len(before), 30, 80)])
    assert view.lines == [str(number) for number in range(1, 31)]
    assert view.exact


sizes = st.tuples(st.integers(1, 8), st.integers(1, 12))


MODES = [
    *b"\x1b[?1h \x1b[?1l \x1b[?25l \x1b[?25;7h \x1b[?1049h \x1b[?1049l \x1b[2;4r \x1b[r \x1b[4h \x1b[?6h".split(),
    *b"\x1b(0 \x1b(B \x1b]2;a\x07 \x1b]0;b\x1b\\ \x1bc \x1b[!p text\r\n".split(),
    *b"\x1b[7m \x1b[27m \x1b[m \x1b[41;1m \x1b[0;48;5;9m \x1b[49m \x1b[48:2::1:2:3m".split(),
]


@given(st.lists(st.sampled_from(MODES), max_size=12))
def test_modes_are_remembered_as_if_all_had_been_replayed(pieces: list[bytes]) -> None:
    rest = CLEAR + b"qqq\x1b[3;3Hq\n\n\n\n\nq" + b"x" * 12
    data = b"".join(pieces)
    middle = len(b"".join(pieces[: len(pieces) // 2]))
    whole = render([data + rest], 5, 10)
    assert render([modes_in(data), rest], 5, 10) == whole
    assert modes_in(data[middle:], before=modes_in(data[:middle])) == modes_in(data)


# Hostile bytes

FRAGMENTS = [
    *b"\x1b [ ] P ? ; : 0 1 H J K a \x1b[ \x1b] \x1bP \x1b#8 \x1b(0 \x0e \x1bc \x1b[!p".split(),
    *b"\x1b[?1049h \x1b[?1049l \x1b[?47h \x1b[?1047l \x1b[?3h \x1b[?5h \x1b[?6h \x1b[?7l \x1b[4h \x1b[2;3r".split(),
    *b"\x1b[99999999B \x1b[99999999b \x1b[999999@ \x1b[999999P \x1b[99S \x1b[99T \x1b[99L \x1b[99M".split(),
    *b"\x1b[?1;2c \x1b[6n \x1b[?4m \x1b[8;1;1t \x1b[\xc2\xb2J \x1bH \x1b[3g \x1b[0;0r \x1b[9d \x1b[?6;4h".split(),
    *b"\x1b7 \x1b8 \x1bM \x1bD \x1b[Z \x1b[9I \x07 \x18 \x9b \xff \xe6\xbc some-text".split(),
    *[b"\t", b"\b", b"\r", b"\n", b"\x1b[" + b"9" * 5000 + b"A"],
    *(text.encode() for text in ["漢", "\u0301", "👩\u200d💻", "ｱ\u0e33"]),
]

hostile = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.binary(max_size=6), sizes), max_size=60)


@settings(max_examples=500)
@given(hostile, sizes)
@example([b"\x1b#8", (1, 1), "漢\u0301".encode()], (8, 12))
def test_nothing_a_job_prints_breaks_the_screen(
    events: list[bytes | tuple[int, int]], size: tuple[int, int]
) -> None:
    view = render(events, *size)
    rows, columns = next((event for event in reversed(events) if isinstance(event, tuple)), size)
    assert 1 <= view.cursor_row <= rows
    assert 1 <= view.cursor_column <= columns
    assert len(view.lines) <= rows
    assert all(sum(max(0, wcwidth(char)) for char in line) <= columns for line in view.lines)


@settings(max_examples=300)
@given(st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.binary(max_size=6)), max_size=60))
def test_no_sequence_makes_pyte_raise(pieces: list[bytes]) -> None:
    """The guard against it is for what we do not know yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emulator, "_PYTE_FAULTS", ())
        shown = Terminal(5, 10)
        for piece in pieces:
            shown.feed(piece)


DRAWN = [
    *b"\x1b[?1049h \x1b[?1049l \x1b[?1h \x1b[?25l \x1b[2;4r \x1b[r \x1b[3;3H \x1b[K \x1b[J \x1bM \x1b[L a".split(),
    *[CLEAR, b"\x1bc", b"\x1b[2J\x1b[H", b"\x1b[H\x1b[J", b"some text", b"line\r\n" * 20, b"\r\n", b"\n"],
]


@settings(max_examples=500)
@given(st.lists(st.sampled_from(DRAWN), max_size=30))
@example([CLEAR, b"some text", LEAVE, ENTER])
@example([b"some text", ENTER, LEAVE, b"\x1b[3;3H"])
@example([b"some text", ENTER, b"\x1b[3;3H", LEAVE, ENTER])
def test_the_end_of_any_drawing_shows_the_same_as_all_of_it(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    assert end_of_log(data, 0, [(0, 5, 10)]) == render([data], 5, 10)


@settings(max_examples=500)
@given(st.lists(st.one_of(st.sampled_from(DRAWN), sizes), max_size=30))
@example([b"\x1b[2;4r", (8, 10), CLEAR, b"line\r\n" * 20])
def test_the_end_of_a_drawing_with_resizes_shows_the_same_as_all_of_it(
    events: list[bytes | tuple[int, int]],
) -> None:
    data, changes = b"", [(0, 5, 10)]
    for event in events:
        if isinstance(event, bytes):
            data += event
        else:
            changes.append((len(data), *event))
    assert end_of_log(data, 0, changes) == render(events, 5, 10)


FLOODS = [
    *b"\x1b \x1b[ \x1b[1; 1; \x1b]0; \x1bP x \xff \x1b[K \x1b[2J \x1b[@x \x1b[Px \x1b[Lx \x1b[99Sx".split(),
    *b"x\x1b[99999999b \x1b7 \x1bH\x1b[C \xcc\x81 \xe6\xbc\xa2 \x1b[?1049h".split(),
    *[b"\n", b"\t\r", b"y\r\n", b"\x1b[mx\r\n"],
]


@pytest.mark.parametrize("flood", FLOODS, ids=repr)
@pytest.mark.parametrize("opening", [b"", b"\x1b[", b"\x1b]0;", b"\x1bPq", b"a"], ids=repr)
def test_twice_the_bytes_take_about_twice_the_time(opening: bytes, flood: bytes) -> None:
    def cost_s(size: int) -> float:
        data = opening + flood * (size // len(flood))
        pieces = [data[at : at + 4096] for at in range(0, len(data), 4096)]
        began = time.process_time()
        render(pieces, 24, 80)
        return time.process_time() - began

    small, large = min(cost_s(8192) for _ in range(3)), cost_s(65536)
    assert large < 8 * small * 4 + 0.02
