"""The cleaner shows what a terminal would show last, hides nothing, and does it in linear time."""

import re
from time import process_time_ns
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bgjob.output.cleaner import REACH_LINES, WIDTH, clean

ESCAPES = {
    "ls colours": ("\x1b[0m\x1b[01;34msrc\x1b[0m  \x1b[01;32mrun.sh\x1b[0m\n", "src  run.sh\n"),
    "gcc": (
        "\x1b[01m\x1b[Ka.c:3:5:\x1b[m\x1b[K \x1b[01;31m\x1b[Kerror: \x1b[m\x1b[Kno '\x1b[01m\x1b[K;\x1b[m\x1b[K'\n",
        "a.c:3:5: error: no ';'\n",
    ),
    "24-bit colour": ("\x1b[38;2;255;0;0mred\x1b[38:5:1mred\x1b[m", "redred"),
    "private modes": ("\x1b[?25lhidden cursor\x1b[?25h\x1b[?2004h\x1b[>4;2m", "hidden cursor"),
    "a title with BEL": ("\x1b]0;user@host: ~\x07$ ls", "$ ls"),
    "a title with ST": ("\x1b]2;title\x1b\\$ ls", "$ ls"),
    "an unfinished title ends with its line": ("\x1b]0;title\nnext line\n", "\nnext line\n"),
    "a string cut by another sequence": ("\x1b]0;title\x1b[31mred", "red"),
    "a hyperlink keeps its text": ("\x1b]8;;https://a.example\x1b\\here\x1b]8;;\x1b\\ end", "here end"),
    "a hyperlink with BEL and an id": ("\x1b]8;id=1;https://a.example\x07here\x1b]8;;\x07", "here"),
    "clipboard": ("a\x1b]52;c;c2VjcmV0\x07b", "ab"),
    "clipboard of many lines": ("a\x1b]52;c;c2Vj\ncmV0\n\x1b\\b", "ab"),
    "clipboard without end": ("a\x1b]52;c;c2Vj\nnext\n", "a\nnext\n"),
    "clipboard through tmux": ("a\x1bPtmux;\x1b\x1b]52;c;c2VjcmV0\x07\x1b\\b", "ab"),
    "DCS SOS PM APC": ("a\x1bP+q544e\x1b\\b\x1bXx\x1b\\c\x1b^y\x1b\\d\x1b_Gz\x1b\\e", "abcde"),
    "charsets": ("\x1b(0\x1b)Bline\x1b(B\x1b%G", "line"),
    "single characters": ("\x1b=\x1b>\x1bc\x1b7text\x1bM", "text"),
    "C1 CSI": ("\x9b31mred\x9bm", "red"),
    "C1 OSC and DCS": ("\x9d0;title\x9ca\x90data\x9cb", "ab"),
    "C1 without end hides nothing": ("â\x80\x9dtext stays", "âtext stays"),
    "cut at the end": ("text\x1b[38;5", "text"),
    "cut after ESC": ("text\x1b", "text"),
    "cut at the start is text": ("5;1mtext", "5;1mtext"),
    "an endless number": ("\x1b[" + "9" * 9000 + "Cx", " x"),
    "vim": (
        (
            "\x1b[?1049h\x1b[22;0;0t\x1b[?1h\x1b=\x1b[1;24r\x1b[H\x1b[2J\x1b[1;1Hhello\x1b[2;1H\x1b[94m~  \x1b[3;1H~"
            "\x1b[m\x1b[24;63H0,0-1\x1b[8CAll\x1b[?25h\x1bP+q436f\x1b\\\x1b[?1049l"
        ),
        "hello\n~  \n~\n0,0-1 All",
    ),
}

REDRAWS = {
    "windows line ends": ("a\r\nb\r\r\nc\r\n", "a\nb\nc\n"),
    "shorter over longer": ("long text\rabc\n", "abcg text\n"),
    "erase to the end": ("long text\rabc\x1b[K\n", "abc\n"),
    "erase the line": ("long text\x1b[2K\rabc\n", "abc\n"),
    "erase to the cursor": ("long text\b\b\b\b\x1b[1K\n", "      ext\n"),
    "erase keeps the column": ("abc\x1b[2Kd", "   d"),
    "blanked": ("Progress 99%\r            \rdone\n", "done\n"),
    "backspace": ("99%\b\b\b100%\n", "100%\n"),
    "backspace at the start": ("\b\b\bab\n", "ab\n"),
    "bold by overstriking": ("N\bNA\bAM\bME\bE\n", "NAME\n"),
    "a prompt keeps its blank": ("\r\x1b[KPassword: ", "Password: "),
    "a waiting return": ("50%\r100%\r", "100%"),
    "spinner": ("⠋ building\r⠙ building\r⠹ building\r\x1b[K✔ built\n", "✔ built\n"),
    "twirl": ("wait |\b/\b-\b\\\b done\n", "wait  done\n"),
    "pip": (
        (
            "Collecting pyte\n\x1b[?25l   \x1b[90m━━━━\x1b[0m \x1b[32m0.0/1.2 MB\x1b[0m"
            " \x1b[31m?\x1b[0m eta \x1b[36m-:--:--\x1b[0m"
            "\r\x1b[2K   \x1b[91m━━━━\x1b[0m \x1b[32m1.2/1.2 MB\x1b[0m \x1b[31m9 MB/s\x1b[0m eta \x1b[36m0:00:00\x1b[0m"
            "\n\x1b[?25hInstalling\n"
        ),
        "Collecting pyte\n   ━━━━ 1.2/1.2 MB 9 MB/s eta 0:00:00\nInstalling\n",
    ),
    "npm": (
        "\x1b[1G\x1b[0K⠙\x1b[1G\x1b[0K⠹\x1b[1G\x1b[0K\nadded 57 packages in 2s\n\x1b[1G\x1b[0K⠸\x1b[1G\x1b[0K",
        "\nadded 57 packages in 2s\n",
    ),
    "cargo": (
        (
            "\x1b[K   Compiling a v1\n    Building [=>   ] 1/9: a\r\x1b[K   Compiling b v1\n"
            "    Building [==>  ] 2/9: b\r\x1b[K    Finished dev\n"
        ),
        "   Compiling a v1\n   Compiling b v1\n    Finished dev\n",
    ),
    "tqdm": (
        (
            "\r  0%|          | 0/3 [00:00<?, ?it/s]\r 33%|###3      | 1/3 [00:01<00:02,  1.00s/it]"
            "\r100%|##########| 3/3 [00:03<00:00,  1.00s/it]\n"
        ),
        "100%|##########| 3/3 [00:03<00:00,  1.00s/it]\n",
    ),
    "git clone": (
        (
            "Cloning into 'a'...\n"
            "remote: Counting objects:  50% (1/2)\x1b[K\rremote: Counting objects: 100% (2/2)\x1b[K\r"
            "remote: Counting objects: 100% (2/2), done.\x1b[K\n"
            "Receiving objects:  50% (1/2)\rReceiving objects: 100% (2/2), done.\n"
        ),
        "Cloning into 'a'...\nremote: Counting objects: 100% (2/2), done.\nReceiving objects: 100% (2/2), done.\n",
    ),
    "wget": (
        (
            "\ra.iso   0%[            ]       0  --.-KB/s               "
            "\ra.iso 100%[===========>]   1.00M  --.-KB/s    in 0.01s   \n\n"
        ),
        "a.iso 100%[===========>]   1.00M  --.-KB/s    in 0.01s\n\n",
    ),
    "curl": (
        "  % Total    % Received\n\r  0     0    0     0\r 50   100   50    50\r100   100  100   100\n",
        "  % Total    % Received\n100   100  100   100\n",
    ),
    "pytest": (
        (
            "\x1b[1mcollecting ... \x1b[0m\x1b[1mcollected 2 items\x1b[0m\n\ntest_a.py \x1b[32m.\x1b[0m\x1b[31mF\x1b[0m"
            "\x1b[31m      [100%]\x1b[0m\n"
        ),
        "collecting ... collected 2 items\n\ntest_a.py .F      [100%]\n",
    ),
    "pytest on a terminal": (
        "\x1b[1mcollecting ... \x1b[0m\x1b[1m\rcollected 2 items\x1b[0m\n",
        "collected 2 items\n",
    ),
    "docker pull": (
        (
            "a1: Pulling fs layer\nb2: Pulling fs layer\n\x1b[2A\x1b[2K\ra1: Downloading  1MB/9MB\r\x1b[2B"
            "\x1b[1A\x1b[2K\rb2: Pull complete\r\x1b[1B\x1b[2A\x1b[2K\ra1: Pull complete\r\x1b[2BDigest: sha256:1\n"
        ),
        "a1: Pull complete\nb2: Pull complete\nDigest: sha256:1\n",
    ),
    "docker build": (
        (
            "\x1b[?25l[+] Building 0.1s (0/2)\n => [1/2] FROM a\n\x1b[?25h\x1b[1A\x1b[1A\x1b[0G\x1b[?25l"
            "[+] Building 3.2s (2/2) FINISHED\n"
            "\x1b[34m => [1/2] FROM a\x1b[0m\n\x1b[34m => [2/2] RUN b\x1b[0m\n\x1b[?25h"
        ),
        "[+] Building 3.2s (2/2) FINISHED\n => [1/2] FROM a\n => [2/2] RUN b\n",
    ),
    "lines erased upwards": (
        "one\ntwo\nthree\n\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K\x1b[Gdone\n",
        "done\n",
    ),
    "screen erased below": ("one\ntwo\nthree\n\x1b[3A\x1b[Jdone\n", "done\n"),
    "previous and next line": ("one\ntwo\n\x1b[2FONE\x1b[ETWO\n", "ONE\nTWO\n"),
    "columns far away become one blank": ("Starting sshd\x1b[75G[ OK ]\n", "Starting sshd [ OK ]\n"),
    "apt": (
        "Unpacking a ...\n\x1b7\x1b[24;0f\x1b[42mProgress: [ 50%]\x1b[49m\x1b8Setting up a ...\n",
        "Unpacking a ...\nProgress: [ 50%]\nSetting up a ...\n",
    ),
    "clear loses nothing": ("before\n\x1b[H\x1b[2J\x1b[3Jafter\n", "before\nafter\n"),
}

UNSEEN = {
    "C0 and DEL": ("a\x00b\x07c\x0bd\x0ce\x7ff\x18g", "abcdefg"),
    "tab and newline stay": ("a\tb\nc\x00", "a\tb\nc"),
    "C1": ("a\x85b\x80c", "abc"),
    "bidi": ("access\u202e\u2066 // admin\u2069", "access\ufffd // admin\ufffd"),
    "marks": ("a\u200eb\u200fc\u061cd", "a\ufffdb\ufffdc\ufffdd"),
    "zero width": ("pass\u200b\u200c\u2060word", "pass\ufffdword"),
    "a byte order mark": ("\ufeffname,age\n", "name,age\n"),
    "tags": ("hi" + "".join(chr(0xE0000 + ord(letter)) for letter in "rm -rf") + "!", "hi\ufffd!"),
    "one selector chooses a glyph": ("葛\U000e0100城 a\ufe0f", "葛城 a"),
    "a run of selectors": ("😀\U000e0158\U000e0159\ufe01", "😀\ufffd"),
    "emoji": ("👩‍💻 ❤️ 🏳️‍🌈 1️⃣ ⚠️ ☑︎", "👩‍💻 ❤️ 🏳️‍🌈 1️⃣ ⚠️ ☑︎"),
    "a joiner that joins no emoji": ("a\u200db 👩\u200d 👩\u200d\u200d💻", "a\ufffdb 👩\ufffd 👩\ufffd💻"),
    "a selector before a false joiner": ("❤\ufe0f\u200dx a\ufe0f\u200d👩", "❤\ufffdx a\ufffd👩"),
    "line separators": ("a\u2028b", "a\ufffdb"),
}


@pytest.mark.parametrize(
    ("raw", "shown"),
    [pytest.param(*pair, id=name) for table in (ESCAPES, REDRAWS, UNSEEN) for name, pair in table.items()],
)
def test_output_shows_what_a_terminal_would_show_last(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_plain_text_is_untouched() -> None:
    text = "über\ttabs,  blanks  \n\n  日本語 العربية ─ █ \n[bgjob: 5 bytes dropped here]\nno end"
    assert clean(text) == text


def test_redraws_reach_fifty_lines_and_no_more() -> None:
    lines = [f"line {number}" for number in range(200)]
    shown = clean("\n".join(lines) + "\x1b[999A\r\x1b[2Kredrawn")
    lines[200 - REACH_LINES] = "redrawn"
    assert shown == "\n".join(lines)


def test_erasing_again_and_again_reaches_no_farther() -> None:
    text = "".join(f"line {number}\n" for number in range(200))
    assert "line 150\n" in clean(text + "\x1b[49A\x1b[J" * 9)


def test_a_line_wider_than_any_screen_loses_nothing() -> None:
    wide = "a" * (WIDTH + 1)
    assert clean(f"{wide}\rb") == f"{wide}b"
    assert clean(f"b\n{wide}\x1b[A\x1b[2Kc") == f"c\n{wide}"


NOTE = '[bgjob: 5 bytes left out here; get_job_output with since="3-8" reads them]\n'


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (f"one\n{NOTE}two\n", f"one\n{NOTE}two\n"),
        (f"one\n{NOTE}\x1b[5A\x1b[2Ktwo\n", f"one\n{NOTE}two\n"),
        (f"one\ntwo\n\x1b[2A\n{NOTE}three\n", f"one\ntwo\n{NOTE}three\n"),
        (f"10%\r20%\n{NOTE}\r90%\r99%\n", f"20%\n{NOTE}99%\n"),
        (NOTE * 4, NOTE * 4),
    ],
)
def test_notes_are_never_redrawn_or_folded(raw: str, shown: str) -> None:
    assert clean(raw) == shown


FOLDS = {
    "three": ("connection refused, again\n" * 3, "connection refused, again\n[bgjob: the line above 2 more times]\n"),
    "two stay": ("connection refused, again\n" * 2, "connection refused, again\n" * 2),
    "a fold longer than the lines": ("a\n" * 9, "a\n" * 9),
    "many short ones": ("a\n" * 101, "a\n[bgjob: the line above 100 more times]\n"),
    "the last without its end": ("retrying in a moment, really\n" * 2 + "retrying in a moment, really",
                                 "retrying in a moment, really\n[bgjob: the line above 2 more times]"),
    "a few empty lines": ("a\n\n\n\n\nb\n", "a\n\n\n\n\nb\n"),
    "alike only when clean": ("\x1b[32mwaiting for the database\x1b[m\nwaiting for the database\r\n" * 2,
                              "waiting for the database\n[bgjob: the line above 3 more times]\n"),
}  # fmt: skip


@pytest.mark.parametrize(("raw", "shown"), FOLDS.values(), ids=FOLDS)
def test_repeated_lines_are_shown_once(raw: str, shown: str) -> None:
    assert clean(raw) == shown


PIECES = (
    "\x1b \x9b \x1b[ \x1b[K \x1b[1K \x1b[2K \x1b[J \x1b[2J \x1b[A \x1b[3A \x1b[99A \x1b[B \x1b[9B \x1b[C"
    " \x1b[40C \x1b[D \x1b[G \x1b[80G \x1b[H \x1b[2;3H \x1b[E \x1b[F \x1b7 \x1b8 \x1b[s \x1b[u \x9bK \x9bA"
    " \x9bH \x1b[31m \x1b[?25l \x1b[1;2 \x1b] \x1b]0;t \x1b]8;; \x1b]52;c;QUJD \x07 \x1b\\ \x9c \x9d \x90"
    " \x1bP \x1bX \x1b( \x1b(B \r \b \b\b \x00 \x0b \x0c \x7f \x85 \u200b \u200d \u200d\u200d \u202e"
    " \u2066 \u2069 \u200e \u061c \ufeff \ufe0f \ufe0e \ufe01 \U000e0100 \U000e0041 \u00ad 👩 ❤ ❤\ufe0f"
    " 👩\u200d💻 [bgjob: aaaa bb c 0 1 8 9 ; m [ ] ü 日"
)
LINE_ENDS = (
    "\n",
    "\n",
    "\r\n",
    "\r",
    "\t",
    " ",
    "same line\nsame line\nsame line\n" * 5,
    "w" * 600,
    "\n" * 60,
)
rich_text = st.lists(
    st.one_of(st.sampled_from(PIECES.split(" ")), st.sampled_from(LINE_ENDS), st.text(max_size=4)),
    max_size=60,
).map("".join)
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200c\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\U000e0000-\U000e01ef]"
    "|[\ufe00-\ufe0f]{2}|[\u0000-\u20ff]\u200d|\u200d[\u0000-\u20ff]|\u200d$"
)


def assert_clean(text: str) -> None:
    shown = clean(text)
    assert not FORBIDDEN.search(shown)
    assert clean(shown) == shown
    assert len(shown) <= len(text)


@given(rich_text)
@settings(max_examples=600, deadline=None)
def test_any_text_comes_out_clean_stable_and_no_longer(text: str) -> None:
    assert_clean(text)


@given(rich_text, st.data())
@settings(max_examples=200, deadline=None)
def test_so_does_text_cut_at_any_byte(text: str, data: st.DataObject) -> None:
    encoded = text.encode()
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(encoded))] * 2)))
    assert_clean(encoded[start:end].decode("utf-8", "replace"))


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_so_do_bytes_that_are_no_text(data: bytes) -> None:
    assert_clean(data.decode("utf-8", "replace"))
    assert_clean(data.decode("latin-1"))


@given(rich_text, rich_text)
@settings(max_examples=200, deadline=None)
def test_a_note_survives_whatever_stands_around_it(before: str, after: str) -> None:
    assert NOTE in clean(f"{before}\n{NOTE}{after}")


@given(st.lists(st.text("abcXYZ 019~[", min_size=1, max_size=7)).map("\n".join))
def test_text_without_controls_only_folds(text: str) -> None:
    assert clean(text) == text or "[bgjob: the line above " in clean(text)


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "\r",
                    "\b",
                    "\x1b[K",
                    "\x1b[0K",
                    "\x1b[1K",
                    "\x1b[2K",
                    "\x1b[D",
                    "\x1b[3D",
                    "\x1b[m",
                    "\x1b[G",
                ]
            ),
            st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=9),
        ),
        max_size=50,
    ).map("".join)
)
@settings(max_examples=300, deadline=None)
def test_a_line_looks_as_it_does_on_a_terminal(line: str) -> None:
    pyte: Any = pytest.importorskip("pyte")
    screen = pyte.Screen(500, 2)
    pyte.Stream(screen).feed(line)
    assert clean(line).rstrip(" ") == screen.display[0].rstrip(" ")


ADVERSARIAL = {
    "open strings": "\x1b]",
    "open C1 strings": "\x9dx",
    "open clipboards": "\x1b]52;c;AAAA\n",
    "escapes": "\x1b",
    "open CSI": "\x1b[1;",
    "returns": "\r",
    "short frames": "\rx",
    "overstrikes": "x\b",
    "erased lines": "xxxxxxxx\x1b[2K",
    "far columns": "\ra\x9b512G\x9b2Kx",
    "up and down": "\x1b[99A\x1b[99Bx",
    "redrawn screens": "x\n\n\n\x9b3A\x9bJ",
    "places": "\x9bHx",
    "controls on lines": "\b\n",
    "joiners": "👩\u200d",
    "selectors": "a\ufe0f",
    "notes": "[bgjob: \b\n",
    "pairs of lines": "a\na\nb\nb\n",
}


def cost_ns(text: str) -> int:
    start = process_time_ns()
    clean(text)
    return process_time_ns() - start


@pytest.mark.parametrize("piece", ADVERSARIAL.values(), ids=ADVERSARIAL)
def test_ten_times_the_text_costs_about_ten_times_as_much(piece: str) -> None:
    small, large = piece * (100_000 // len(piece)), piece * (1_000_000 // len(piece))
    assert cost_ns(large) < 40 * cost_ns(small) + 50_000_000


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[" + "1" * 1_000_000,
        "\x1b]52;c;" + "A" * 1_000_000,
        "a" * 500_000 + "\n\x1b[A" + "\bx" * 100_000,
        "a" * 500_000 + "\x1b[2Kx" * 50_000,
        "a" * 500_000 + "\x1b[1Kx" * 50_000,
    ],
    ids=["a long number", "a long string", "up to a long line", "a long line erased", "and its start"],
)
def test_one_huge_piece_costs_no_more(text: str) -> None:
    assert cost_ns(text) < 2_000_000_000  # a quadratic step would take minutes
