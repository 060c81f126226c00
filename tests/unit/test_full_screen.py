"""When the end of a terminal's log is read as a screen, and when as text."""

import time

import pytest

from bgjob.terminal.full_screen import is_full_screen

ENTER, LEAVE = b"\x1b[?1049h\x1b[H\x1b[2J", b"\x1b[?1049l"
PLACED = b"\x1b[3;5Htext"
ROWS = 24

SCREENS = {
    "alternate": b"$ vim\r\n" + ENTER + b"text",
    "alternate, among other modes": b"\x1b[?1;1049;25htext",
    "older alternate": b"\x1b[?47htext",
    "alternate for the second time": ENTER + LEAVE + b"$ vim\r\n" + ENTER,
    "placed": b"\x1b[H\x1b[2J" + PLACED,
    "placed by row": b"one\x1b[5dtwo",
    "home without a clear, as top redraws": b"\x1b[H\x1b[2Jone\r\ntwo\r\n\x1b[Hthree\x1b[K\r\n",
    "scrolled back": b"one\r\ntwo\x1bM",
    "lines inserted": b"one\r\n\x1b[2Lzero",
    "placed, and a few lines": PLACED + b"\r\nline" * ROWS,
}
TEXTS = {
    "nothing": b"",
    "plain": b"one\r\ntwo\r\n",
    "colours": b"\x1b[1;31mred\x1b[m\r\n",
    "a line redrawn": b"10%\r\x1b[K20%\x1b[4D\x1b[2C\x1b[5G",
    "lines redrawn from above": b"a\r\nb\r\n\x1b[2A\x1b[2Ka\x1b[1B\r\x1b[J",
    "cleared": b"old\r\n\x1b[H\x1b[2J\x1b[3Jnew\r\n",
    "cleared, the other way": b"\x1b[2J\x1b[3J\x1b[1;1Hnew\r\n",
    "erased from the top": b"\n\n\x1b[1;1H\x1b[0Jnew\r\n",
    "reset": PLACED + b"\x1bcnew\r\n",
    "placed, then cleared": PLACED + b"\x1b[H\x1b[Jnew\r\n",
    "the alternate was left": ENTER + PLACED + LEAVE + b"$ ",
    "a status line below": b"\x1b7\x1b[24;0f\x1b[42mProgress\x1b[49m\x1b8Unpacking\r\n",
    "a status line, saved otherwise": b"\x1b[s\x1b[24;1Hbusy\x1b[uUnpacking\r\n",
    "placed, and scrolled away": PLACED + b"\r\n\x1b[32mline\x1b[m" * (ROWS + 1),
    "modes only": b"\x1b[?2004h\x1b[?25l\x1b[?1h\x1b=$ ",
}


@pytest.mark.parametrize("name", SCREENS)
def test_a_page_that_is_drawn_is_a_screen(name: str) -> None:
    assert is_full_screen(SCREENS[name], ROWS, is_running=True)


@pytest.mark.parametrize("name", TEXTS)
def test_lines_and_their_progress_are_text(name: str) -> None:
    assert not is_full_screen(TEXTS[name], ROWS, is_running=True)
    assert not is_full_screen(TEXTS[name], ROWS, is_running=False)


def test_a_job_that_has_ended_has_a_screen_only_where_it_did_not_leave_it() -> None:
    are_screens = {name for name, data in SCREENS.items() if is_full_screen(data, ROWS, is_running=False)}
    assert are_screens == {name for name in SCREENS if "alternate" in name}


FLOODS = [
    *b"\x1b \x1b[ \x1b[? \x1b[?1; \x1b7 \x1b7x \x1b[s \x1b[3;4Hx \x1b[H \x1b[2J \x1b[H\x1b[m \x1b[?1049h".split(),
    b"x\r\n",
]


@pytest.mark.parametrize("flood", FLOODS, ids=repr)
def test_twice_the_bytes_take_about_twice_the_time(flood: bytes) -> None:
    def cost_s(size: int) -> float:
        data = flood * (size // len(flood))
        began = time.process_time()
        is_full_screen(data, ROWS, is_running=True)
        return time.process_time() - began

    small, large = min(cost_s(1 << 14) for _ in range(3)), cost_s(1 << 17)
    assert large < 8 * small * 4 + 0.02
