"""What of a job's output reaches the terminal of a person who is attached: what draws, and nothing that acts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bgjob.terminal.emulator import Terminal
from bgjob.terminal.live import LONGEST_STRING, MOST_QUESTIONS, LiveOutput, questions_in
from bgjob.terminal.replies import answer_to, are_replies
from tests.support.escapes import ESCAPES

DRAWS = [
    b"plain text\r\n\t\x08\x07",
    "ünï ☃ 漢字 👨‍👩‍👧".encode(),
    b"\x1b[1;31mred\x1b[0m \x1b[38;2;1;2;3m \x1b[4:3m",
    b"\x1b[2J\x1b[H\x1b[5;7H\x1b[K\x1b[3;10r\x1b[2L\x1b[4@\x1b[99X\x1b[2S",
    b"\x1b[?1049h\x1b[?25l\x1b[?1h\x1b=\x1b[?2004h\x1b[?1000;1006h\x1b[?1004h\x1b[4h\x1b[4l\x1b[?2026h",
    b"\x1b7\x1b8\x1bM\x1bD\x1bE\x1b(0lqk\x1b(B\x1b#8",
    b"\x1b[5 q\x1b[>4;2m\x1b[>31u\x1b[<u",
    b"\x1b]8;;http://127.0.0.1/\x1b\\link\x1b]8;;\x1b\\",
]
QUESTIONS = [
    *(b"\x1b[c", b"\x1b[>c", b"\x1b[=c", b"\x1b[0c", b"\x1bZ", b"\x1b[5n", b"\x1b[6n", b"\x1b[?6n"),
    *(b"\x1b[?2026$p", b"\x1b[>0q", b"\x1b[>q", b"\x1b[?u", b"\x1b[14t", b"\x1b[16t", b"\x1b[18t", b"\x1b[x"),
    *(b"\x1b]10;?\x07", b"\x1b]11;?\x1b\\", b"\x1b]4;7;?\x07", b"\x1bP$qm\x1b\\", b"\x1bP+q544e;436f\x1b\\"),
]
ANSWERS = {
    b"\x1b[c": b"\x1b[?62;22c",
    b"\x1bZ": b"\x1b[?62;22c",
    b"\x1b[5n": b"\x1b[0n",
    b"\x1b[6n": b"\x1b[3;7R",
    b"\x1b[?6n": b"\x1b[?3;7R",
    b"\x1b[18t": b"\x1b[8;24;80t",
    b"\x1b[?2026$p": b"\x1b[?2026;0$y",
    b"\x1bP$qm\x1b\\": b"\x1bP0$r\x1b\\",
    b"\x1bP+q544e\x1b\\": b"\x1bP0+r\x1b\\",
    b"\x1b]11;?\x07": b"",
    b"\x1b[?u": b"",
}
NEVER = [
    *(b"\x1b]2;a title\x07", b"\x1b]0;another\x1b\\", b"\x1b]1;x\x07", b"\x1b]104\x07"),
    *(b"\x1b[?2031h", b"\x1b[?2048h", b"\x1b[>3p", b"\x1b[?1049s"),
    *(b"\x05", b"\x1b[20t", b"\x1b[21t", b"\x1b[8;1;1t", b"\x1b[22;0t", b"\x1b[5i", b"\x1b[?4i", b"\x1b[3J"),
    *(b"\x1b[2h", b"\x1b[12l", b"\x1b[?3h", b"\x1b[1;1;1;1;1;1*y", b"\x1b%@", b"\x1b G", b"\x1b[1$r"),
    *(b"\x1b]52;c;UA==\x07", b"\x1b]52;p;?\x07", b"\x1b]9;x\x07", b"\x1b]777;notify;x\x07"),
    *(b"\x1b]7;file://\x07", b"\x1b]4;0;#ff0000\x07", b"\x1b]10;#000000\x07", b"\x1b]1337;File=:UA==\x07"),
    *(b"\x1b]133;A\x07", b"\x1bPq#0~~\x1b\\", b"\x1bP0;1|17/50\x1b\\", b"\x1bPtmux;\x1b\\"),
    *(b"\x1b_Ga=T;x\x1b\\", b"\x1b^x\x1b\\", b"\x1bXx\x1b\\", b"\x1bktitle\x1b\\", b"\xc2\x9b6n"),
    *(b"\xc2\x9d52;c;UA==\x07", b"\x9b6n", b"\xc2\x90$qm\xc2\x9c"),
    *(b"\x1b]2;a\xc2\x9c\xc2\x9b6n\x07", b"\x1b]2;a\x9b6n\x07", b"\x1b]2;a\x086n\x07"),
    *(b"\x1b[5\x08n", b"\x1b\x08[6n", b"\x1b\x00[6n", b"\x1b\x7f[6n", b"\x1b[\x006n"),
    *(b"\xc2\x05\x9b6n", b"\x1b\x05[6n", b"\x1b\xc2\x9b[6n"),
]
# What a terminal takes for a sequence: nothing of it is left of what may not pass.
ACTS = re.compile(rb"\x1b|\x05|\xc2[\x80-\x9f]|(?<![\x80-\xf4])[\x80-\x9f]")


def passed(data: bytes) -> bytes:
    live = LiveOutput()
    return live.feed(data) + live.feed(b"")


@pytest.mark.parametrize("data", DRAWS)
def test_what_draws_or_changes_how_keys_are_sent_passes_as_it_is(data: bytes) -> None:
    assert passed(data) == data


@pytest.mark.parametrize("data", QUESTIONS)
@pytest.mark.parametrize("step", [1, 2, 100])
def test_a_question_does_not_pass_and_is_known(data: bytes, step: int) -> None:
    live, text = LiveOutput(), b"a" + data + b"b"
    assert b"".join(live.feed(text[at : at + step]) for at in range(0, len(text), step)) == b"ab"
    assert live.questions() == [data]
    assert live.questions() == []


def test_the_questions_alone_can_be_answered_later() -> None:
    data = b"".join([*DRAWS, *QUESTIONS, *NEVER[:20]])
    assert questions_in(data) == QUESTIONS


def test_of_many_questions_the_last_are_known() -> None:
    assert questions_in(b"\x1b[c" * 1000 + b"\x1b[6n") == [b"\x1b[c"] * (MOST_QUESTIONS - 1) + [b"\x1b[6n"]


@pytest.mark.parametrize(("question", "answer"), ANSWERS.items())
def test_the_emulator_answers_as_a_plain_terminal(question: bytes, answer: bytes) -> None:
    assert answer_to(question, lambda: (3, 7), lambda: (24, 80)) == answer
    assert answer == b"" or are_replies(answer)


@pytest.mark.parametrize("reset", [b"\x1bc", b"\x1b[!p"])
def test_a_reset_passes_as_what_draws_the_same(reset: bytes) -> None:
    shown = passed(b"a" + reset + b"b")
    assert reset not in shown
    assert passed(shown) == shown
    terminal, expected = Terminal(5, 10), Terminal(5, 10)
    before = b"\x1b[2;4r\x1b[?6h\x1b[31mred\x1b[?25l\x1b[4h\x1b(0q"
    terminal.feed(before + passed(reset) + b"after")
    expected.feed(before + reset + b"after")
    assert terminal.rows() == expected.rows()


def test_titles_pass_to_the_page_alone() -> None:
    title = b"\x1b]2;a title\x07\x1b]0;another\x1b\\"
    assert passed(title) == b""
    assert LiveOutput(titles=True).feed(title) == title


def test_of_several_modes_those_pass_that_are_known() -> None:
    assert passed(b"\x1b[?1006;2031;25h\x1b[?3h\x1b[?1034h") == b"\x1b[?1006;25h"


# Whatever passes is one of these, or text: nothing that reports, renames, resets or acts elsewhere.
PASSES = re.compile(
    rb"\x1b(?:\[[0-9;:]*[@A-Za-z^`]|\[\?[0-9;]*[hlJK]|\[[0-6]? q|\[>4(?:;[0-3])?m|\[[<>=][0-9;]*u|\]8;"
    rb"|[789=>DEHMNO6no|}~]|[()*+./-][%\"&]?[0-~]|#[3-8]|\\)"
)
REPORTS = re.compile(rb"\x1b\[[0-?]*[cntxi]|\x1b\[[0-?]*\$|\x1b\[\?u|\x1b\][^8]|\x1b[Zc]|\x1b\[!p|\x05")
INSIDE = st.sampled_from([*b"0123456789;:?<>=!$\"' #()%[]PX^_k\\\x07\x1b\x18\x9b\xc2hlmnctqpuJZRr"])


@given(st.lists(st.sampled_from(b"\x1b\x9b\x07a") | INSIDE, max_size=40), st.integers(1, 5))
def test_at_random_nothing_passes_but_what_draws(letters: list[int], step: int) -> None:
    data = bytes(letters)
    live = LiveOutput()
    shown = b"".join(live.feed(data[at : at + step]) for at in range(0, len(data), step))
    assert REPORTS.findall(shown) == []
    assert len(PASSES.findall(shown)) == shown.count(b"\x1b")


@pytest.mark.parametrize("data", NEVER)
def test_what_acts_beyond_the_screen_never_passes(data: bytes) -> None:
    assert ACTS.findall(passed(b"a" + data + b"\x07")) == []


@pytest.mark.parametrize("data", [b"\x1b\x1b[6n[6n", b"\x1b]2;open\x1b[6n", b"\x1b[3\x1b[6n"])
def test_a_sequence_that_another_one_breaks_off_does_not_pass(data: bytes) -> None:
    assert ACTS.findall(passed(data)) == []


@pytest.mark.parametrize("data", [*DRAWS, *QUESTIONS, *NEVER, *ESCAPES.values()])
def test_pieces_are_judged_as_the_whole_is(data: bytes) -> None:
    whole = passed(b"a" + data + b"b\x07c")
    live = LiveOutput()
    assert b"".join(live.feed(bytes([byte])) for byte in b"a" + data + b"b\x07c") == whole


@given(st.lists(st.sampled_from([*QUESTIONS, *NEVER, *DRAWS, b"\x1b", b"[", b"]", b"\x1b\\"]), max_size=6))
def test_nothing_that_is_dropped_joins_what_is_left(parts: list[bytes]) -> None:
    """What has passed once passes again: no new sequence came to be."""
    once = passed(b"".join(parts))
    assert passed(once) == once


@pytest.mark.parametrize("begin", [b"\x1b]0;", b"\x1bP", b"\x1b_"])
def test_a_string_without_an_end_takes_no_memory(begin: bytes) -> None:
    live = LiveOutput()
    live.feed(begin)
    assert [live.feed(b"x" * LONGEST_STRING) for _ in range(5)] == [b""] * 5
    assert len(live._held) <= 2 * LONGEST_STRING
    assert live.feed(b"\x1b\\shown") == b"shown"


@pytest.mark.parametrize("data", [*DRAWS, *QUESTIONS, *NEVER, b"\x1bP" + b"x" * (3 * LONGEST_STRING)])
@pytest.mark.parametrize("step", [1, 7, LONGEST_STRING])
def test_what_is_withheld_can_be_fed_to_another_one(data: bytes, step: int) -> None:
    """Who goes on elsewhere begins with it, and sees what would have been seen here."""
    fed, live, seen = b"a" + data + b"\x1b\\b\x07c", LiveOutput(), b""
    for at in range(0, len(fed), step):
        seen += live.feed(fed[at : at + step])
        rest = min(at + step, len(fed)) - live.withheld_bytes
        assert seen + LiveOutput().feed(fed[rest:]) == passed(fed)
        if at > 200:
            break


def test_a_control_character_of_one_byte_behind_one_of_two_does_not_pass() -> None:
    assert LiveOutput().feed(b"\xc2\x90$qm\xc2\x9c\x9b6n") == b"$qm6n"
    assert LiveOutput().feed("é漢😀".encode()) == "é漢😀".encode()
