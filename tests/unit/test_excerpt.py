"""What an answer shows of a log: every kept byte is in some answer exactly once, and every number in a note is true."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bgjob.core.errors import InvalidArgument
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output import excerpt
from bgjob.output.cleaner import clean
from bgjob.output.excerpt import Excerpt, Window
from bgjob.output.log_reader import LogReader
from bgjob.output.tail import LINE_BYTES, tail
from bgjob.output.timeline import interleaved, interleaved_tail
from tests.support.logs import STREAMS, PipedLog, joined

NOTE = re.compile(
    r"\n?\[bgjob: (\d+) bytes "
    r"(?:left out here; get_job_output with since=\"(\d+-\d+)\" reads them|dropped here, [^\]]*)\]\n"
)
LINES = {
    STDOUT: b"".join(b"out %d %s\n" % (number, b"o" * (number * 7 % 90)) for number in range(20_000)),
    STDERR: b"".join(b"err %d %s" % (number, b"\n" * (number % 3)) for number in range(60_000)),
}
RELAXED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
STEPS = st.lists(st.tuples(st.sampled_from(STREAMS), st.integers(1, 6000)), min_size=1, max_size=40)
LIMITS = st.integers(1 << 10, 64 << 10)
BUDGETS = st.integers(1 << 10, 20_000)


@contextmanager
def log_of(
    steps: list[tuple[int, int]], limit: int, contents: dict[int, bytes] | None = None
) -> Iterator[PipedLog]:
    with (
        tempfile.TemporaryDirectory() as scratch,
        PipedLog(Path(scratch), limit, contents=contents or LINES) as log,
    ):
        for stream, size in steps:
            log.print(stream, size)
            log.take_all()
        yield log


def look(log: LogReader, stream: int, cursor: str | None, budget: int) -> Excerpt:
    return excerpt.whole(log, stream, excerpt.window(cursor, log.end), budget, is_running=False)


def read_all(log: LogReader, stream: int, cursor: str | None, budget: int) -> str:
    """As a model would: read, and read what was left out by the cursor in its note. Notes are then cut out."""
    text = look(log, stream, cursor, budget).text
    found = next((note for note in NOTE.finditer(text) if note[2]), None)
    if found is None:
        return NOTE.sub("", text)
    before, after = NOTE.sub("", text[: found.start()]), NOTE.sub("", text[found.end() :])
    return before + read_all(log, stream, found[2], budget) + after


def without_newlines(text: str) -> str:
    """A note may have put one before itself."""
    return text.replace("\n", "")


@RELAXED
@given(steps=STEPS, limit=LIMITS, budget=BUDGETS)
def test_head_tail_and_what_was_left_out_are_every_kept_byte_once(
    steps: list[tuple[int, int]], limit: int, budget: int
) -> None:
    with log_of(steps, limit) as log:
        reader = log.reader()
        for stream in STREAMS:
            kept = joined(list(reader.forward(stream, 0, reader.end))).decode()
            assert without_newlines(read_all(reader, stream, None, budget)) == without_newlines(kept)


@RELAXED
@given(steps=STEPS, limit=LIMITS, budget=BUDGETS)
def test_the_numbers_of_an_answer_add_up(steps: list[tuple[int, int]], limit: int, budget: int) -> None:
    with log_of(steps, limit) as log:
        reader = log.reader()
        for stream in STREAMS:
            answer = look(reader, stream, None, budget)
            notes = NOTE.findall(answer.text)
            assert sum(int(count) for count, cursor in notes if cursor) == answer.left_out_bytes
            assert sum(int(count) for count, cursor in notes if not cursor) == answer.dropped_bytes
            kept = reader.kept(stream, 0, reader.end)
            assert kept + answer.dropped_bytes == log.printed[stream]
            shown = len(without_newlines(NOTE.sub("", answer.text)))
            assert shown <= kept - answer.left_out_bytes <= budget


@RELAXED
@given(steps=STEPS, limit=LIMITS, budget=BUDGETS)
def test_reading_on_by_the_cursor_gives_what_is_new_and_nothing_twice(
    steps: list[tuple[int, int]], limit: int, budget: int
) -> None:
    """The log rotates meanwhile: what was dropped before it could be read is missing, and nothing else."""
    with log_of([], limit) as log:
        at = 0
        for stream, size in steps:
            log.print(stream, size)
            log.take_all()
            reader = log.reader()
            for each in STREAMS:
                new = joined(list(reader.forward(each, at, reader.end))).decode()
                assert without_newlines(read_all(reader, each, str(at), budget)) == without_newlines(new)
            at = reader.end


@RELAXED
@given(sizes=st.lists(st.integers(1, 6000), min_size=2, max_size=30), limit=st.integers(1 << 10, 8 << 10))
def test_what_a_reader_by_cursor_missed_is_counted_from_its_cursor_on(sizes: list[int], limit: int) -> None:
    """Bytes it has read already are not dropped again in a later answer."""
    with log_of([], limit) as log:
        at = read = dropped = 0
        for size in sizes:
            log.print(STDOUT, size)
            log.take_all()
            reader = log.reader()
            answer = look(reader, STDOUT, str(at), 1 << 20)
            read += reader.kept(STDOUT, at, reader.end)
            dropped += answer.dropped_bytes
            at = reader.end
        assert read + dropped == log.printed[STDOUT]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=400)


@RELAXED
@given(text=TEXT, cuts=st.lists(st.integers(1, 30), min_size=1, max_size=60), data=st.data())
def test_no_character_is_torn_whatever_is_printed_and_read_when(
    text: str, cuts: list[int], data: st.DataObject
) -> None:
    contents = {STDOUT: text.encode(), STDERR: ("é€😀" * 1000).encode()}
    with log_of([], 64 << 10, contents) as log:
        seen, at = {STDOUT: "", STDERR: ""}, 0
        for number, cut in enumerate(cuts):
            stream = STREAMS[number % 2]
            left = len(contents[stream]) - log._written[stream]
            log.print(stream, min(cut, left)) if left else None
            log.take_all()
            if data.draw(st.booleans()):
                at = read_on(log.reader(), at, seen, running=True)
        finish(log, contents)
        read_on(log.reader(), at, seen, running=False)
        assert seen == {stream: whole.decode() for stream, whole in contents.items()}


def finish(log: PipedLog, contents: dict[int, bytes]) -> None:
    for stream in STREAMS:
        if left := len(contents[stream]) - log._written[stream]:
            log.print(stream, left)
    log.take_all()


def read_on(log: LogReader, at: int, seen: dict[int, str], running: bool) -> int:
    for stream in STREAMS:
        seen[stream] += excerpt.whole(log, stream, Window(at, log.end), 1 << 20, running).text
    return log.end


def test_half_a_character_that_was_the_last_a_job_printed_is_shown_in_the_end(tmp_path: Path) -> None:
    """Held back while more could come; when the job has ended, it will not."""
    contents = {STDOUT: b"caf\xc3", STDERR: b""}
    with PipedLog(tmp_path / "log", 4096, contents=contents) as log:
        log.print(STDOUT, 4)
        log.take_all()
        seen = {STDOUT: "", STDERR: ""}
        at = read_on(log.reader(), 0, seen, running=True)
        assert seen[STDOUT] == "caf"
        read_on(log.reader(), at, seen, running=False)
        assert seen[STDOUT] == "caf\ufffd"


def test_a_part_that_was_left_out_is_shown_to_its_last_byte_while_the_job_runs(tmp_path: Path) -> None:
    """Its rest has come already: holding back is for the end of the log only."""
    contents = {STDOUT: b"\xf0" + b"\x80" * 5000, STDERR: b""}
    with PipedLog(tmp_path / "log", 64 << 10, contents=contents) as log:
        log.print(STDOUT, 5001)
        log.take_all()
        answer = excerpt.whole(log.reader(), STDOUT, Window(0, 1), 1024, is_running=True)
        assert answer.text == "\ufffd"


@pytest.mark.parametrize(("is_running", "head_part"), [(True, 1 / 2), (False, 1 / 4)])
def test_the_end_of_an_ended_job_is_worth_more_than_its_beginning(
    tmp_path: Path, is_running: bool, head_part: float
) -> None:
    data = b"".join(b"line %5d\n" % number for number in range(5000))
    with printed(tmp_path, data) as reader:
        view = Window(0, reader.end)
        both = interleaved(reader, view, 12_000, is_running)
        for text in (excerpt.whole(reader, STDOUT, view, 12_000, is_running).text, both.text):
            head, _, rest = text.partition("[bgjob: ")
            shown = len(head) + len(rest.partition("]\n")[2])
            assert shown > 9000
            assert abs(len(head) / shown - head_part) < 0.02


# -- escape sequences that the edge of an answer cuts ---------------------------------------------------

COLOURS = ["\x1b[0m", "\x1b[38;5;196m", "\x1b[1;31m", "\x9b1m", "\x1b(B", "\x1b=", "\x1b[?25l"]
LINKS = ["\x1b]8;;https://example.org/\x1b\\", "\x1b]8;;\x1b\\", "\x1b]0;title ü\x07", "\x1bP+q\x1b\\"]
SEQUENCES = st.sampled_from(["a", "Ω", "word ", "\n", "\t", *COLOURS, *LINKS])
WRITES = st.lists(st.integers(1, 40), min_size=1, max_size=40)


@RELAXED
@given(parts=st.lists(SEQUENCES, min_size=1, max_size=60), writes=WRITES, data=st.data())
def test_read_by_cursor_and_cleaned_a_stream_reads_as_it_does_whole(
    parts: list[str], writes: list[int], data: st.DataObject
) -> None:
    # Numbered, as the cleaner folds lines that repeat.
    text = "".join(part.replace("\n", f"{number}\n") for number, part in enumerate(parts))
    contents = {STDOUT: text.encode(), STDERR: b"e" * 10_000}
    with log_of([], 64 << 10, contents) as log:
        seen, at = "", 0
        for size in writes:
            left = len(contents[STDOUT]) - log.printed[STDOUT]
            log.print(STDOUT, min(size, left)) if left else None
            log.print(STDERR, 1)
            log.take_all()
            if data.draw(st.booleans()):
                reader = log.reader()
                seen += cleaned_part(reader, Window(at, reader.end), is_running=True)
                at = reader.end
        finish(log, contents)
        seen += cleaned_part(log.reader(), Window(at, log.writer.end), is_running=False)
        assert seen == clean(text)


def cleaned_part(log: LogReader, view: Window, is_running: bool) -> str:
    return clean(excerpt.whole(log, STDOUT, view, 1 << 20, is_running, cleaned=True).text)


def test_neither_the_edges_of_a_note_nor_of_a_long_line_have_debris_of_a_sequence(tmp_path: Path) -> None:
    data = b"\x1b[38;5;196mword\x1b[0m " * 2000
    with printed(tmp_path, data) as reader:
        for budget in range(1000, 1030):
            view = Window(0, reader.end)
            both = excerpt.whole(reader, STDOUT, view, budget, is_running=True, cleaned=True).text
            last = tail(reader, STDOUT, 1, budget, view, cleaned=True).text
            together = interleaved(reader, view, budget, is_running=True, cleaned=True).text
            for text in (both, last, together):
                (note,) = NOTE.finditer(text)
                middle = excerpt.window(note[2], reader.end)
                between = excerpt.whole(reader, STDOUT, middle, 1 << 20, is_running=True, cleaned=True).text
                parts = (text[: note.start()], between, text[note.end() :])
                assert "".join(LABEL.sub("", clean(part)) for part in parts) == "word " * 2000


def test_a_sequence_that_began_before_dropped_bytes_takes_nothing_from_what_follows_them(
    tmp_path: Path,
) -> None:
    contents = {STDOUT: b"\x1b[3" * 2000 + b"1 item\n" * 2000, STDERR: b""}
    with PipedLog(tmp_path / "log", 4096, contents=contents) as log:
        for _ in range(20):
            log.print(STDOUT, 1000)
            log.take_all()
        reader = log.reader()
        first = reader.gaps(STDOUT, 0, reader.end)[0].end
        assert joined(list(reader.forward(STDOUT, 0, first))).endswith((b"\x1b", b"\x1b[", b"\x1b[3"))
        shown = cleaned_part(reader, Window(first, reader.end), is_running=True)
        assert shown == clean(joined(list(reader.forward(STDOUT, first, reader.end))).decode())


# -- both streams in one order --------------------------------------------------------------------------

LABEL = re.compile(r"^\d\d:\d\d:\d\d\.\d{3} (?:out|err)\| ", re.MULTILINE)


def words_of(text: str) -> dict[int, str]:
    """The two streams print letters of two alphabets: which letter is whose is seen in a text of both."""
    shown = LABEL.sub("", NOTE.sub("\n", text)).replace("\n", "")
    return {
        STDOUT: "".join(letter for letter in shown if letter in "ä€😀"),
        STDERR: "".join(letter for letter in shown if letter in "ßж𝄞"),
    }


@RELAXED
@given(
    letters=st.lists(st.sampled_from("ä€😀\n"), max_size=300),
    others=st.lists(st.sampled_from("ßж𝄞\n"), max_size=300),
    writes=st.lists(st.tuples(st.sampled_from(STREAMS), st.integers(1, 40), st.booleans()), max_size=40),
    budget=st.integers(100, 3000),
)
def test_interleaved_no_character_is_torn_lost_or_told_twice(
    letters: list[str], others: list[str], writes: list[tuple[int, int, bool]], budget: int
) -> None:
    contents = {STDOUT: "".join(letters).encode(), STDERR: "".join(others).encode()}
    with log_of([], 64 << 10, contents) as log:
        seen, at = "", 0
        for stream, size, reads in writes:
            if left := len(contents[stream]) - log.printed[stream]:
                log.print(stream, min(size, left))
                log.take_all()
            if reads:
                seen += read_interleaved(log.reader(), Window(at, log.writer.end), budget, is_running=True)
                at = log.writer.end
        finish(log, contents)
        seen += read_interleaved(log.reader(), Window(at, log.writer.end), budget, is_running=False)
        assert "\ufffd" not in seen
        assert words_of(seen) == {
            stream: whole.decode().replace("\n", "") for stream, whole in contents.items()
        }


def read_interleaved(log: LogReader, view: Window, budget: int, is_running: bool) -> str:
    """With what was left out, read by the cursor in its note."""
    text = interleaved(log, view, budget, is_running).text
    found = next((note for note in NOTE.finditer(text) if note[2]), None)
    if found is None:
        return text
    middle = read_interleaved(log, excerpt.window(found[2], log.end), budget, is_running)
    return text[: found.start()] + "\n" + middle + "\n" + text[found.end() :]


def test_interleaved_head_and_tail_are_whole_lines(tmp_path: Path) -> None:
    data = b"".join(b"line %5d of a log\n" % number for number in range(5000))
    with printed(tmp_path, data) as reader:
        text = interleaved(reader, Window(0, reader.end), 5000, is_running=True).text
        lines = LABEL.sub("", NOTE.sub("\n", text)).splitlines(keepends=True)
        assert all(line.encode() in data for line in lines)


@RELAXED
@given(steps=STEPS, limit=LIMITS, budget=BUDGETS)
def test_the_numbers_of_an_interleaved_answer_add_up(
    steps: list[tuple[int, int]], limit: int, budget: int
) -> None:
    """What was dropped is said where it is missing, as when the streams are apart."""
    with log_of(steps, limit) as log:
        reader = log.reader()
        answer = interleaved(reader, Window(0, reader.end), budget, is_running=False)
        notes = NOTE.findall(answer.text)
        assert sum(int(count) for count, cursor in notes if cursor) == answer.left_out_bytes
        assert sum(int(count) for count, cursor in notes if not cursor) == answer.dropped_bytes
        kept = sum(reader.kept(stream, 0, reader.end) for stream in STREAMS)
        assert kept + answer.dropped_bytes == reader.end


def test_an_interleaved_tail_says_what_it_has_no_room_for(tmp_path: Path) -> None:
    data = b"".join(b"line %d\n" % number for number in range(1000))
    with printed(tmp_path, data) as reader:
        view = Window(0, reader.end)
        answer = interleaved_tail(reader, 50, 240, view, is_running=False)
        note = NOTE.match(answer.text)
        assert note is not None
        lines = LABEL.sub("", answer.text[note.end() :])
        assert data.endswith(lines.encode())
        assert int(note[1]) == answer.left_out_bytes == len(data) - len(lines)
        assert note[2] == f"0-{answer.left_out_bytes}"
        assert interleaved_tail(reader, 5, 2400, view, is_running=False).text.count("\n") == 5


def test_an_interleaved_tail_that_reaches_over_a_gap_says_so(tmp_path: Path) -> None:
    with PipedLog(tmp_path / "log", 4096, contents=LINES) as log:
        for _ in range(10):
            log.print(STDOUT, 5000)
            log.take_all()
        reader = log.reader()
        answer = interleaved_tail(reader, 1000, 1 << 20, Window(0, reader.end), is_running=False)
        assert answer.dropped_bytes == reader.end - reader.kept(STDOUT, 0, reader.end)
        assert f"{answer.dropped_bytes} bytes dropped here" in answer.text


# -- tail -----------------------------------------------------------------------------------------------


@RELAXED
@given(steps=STEPS, lines=st.integers(1, 1000))
def test_a_tail_is_the_last_lines_of_its_stream(steps: list[tuple[int, int]], lines: int) -> None:
    with log_of(steps, 1 << 20) as log:
        for stream in STREAMS:
            printed = LINES[stream][: log.printed[stream]].decode()
            wanted = "".join(printed.splitlines(True)[-lines:])
            assert tail(log.reader(), stream, lines, 1 << 20).text == wanted


@pytest.mark.parametrize(
    ("data", "count", "lines"),
    [
        (b"", 3, ""),
        (b"a\nb\nc\n", 2, "b\nc\n"),
        (b"a\nb\nc", 2, "b\nc"),
        (b"a\nb\nc\n", 3, "a\nb\nc\n"),
        (b"a\nb\nc\n", 100, "a\nb\nc\n"),
        (b"\n\n\n", 2, "\n\n"),
        (b"\n", 1, "\n"),
        (b"only", 1, "only"),
    ],
)
def test_an_unfinished_last_line_counts_as_one(tmp_path: Path, data: bytes, count: int, lines: str) -> None:
    with printed(tmp_path, data) as reader:
        assert tail(reader, STDOUT, count, 10_000).text == lines


@contextmanager
def printed(directory: Path, data: bytes) -> Iterator[LogReader]:
    with PipedLog(directory / "log", 8 << 20, contents={STDOUT: data, STDERR: b""}) as log:
        for start in range(0, len(data), 20_000):
            log.print(STDOUT, min(20_000, len(data) - start))
            log.take_all()
        yield log.reader()


def test_of_a_huge_line_a_tail_shows_the_two_ends_and_the_cursor_that_reads_the_rest(tmp_path: Path) -> None:
    line = b"begin " + b"x" * 300_000 + b" end\n"
    with printed(tmp_path, b"before\n" + line + b"after\n") as reader:
        answer = tail(reader, STDOUT, 2, 30_000)
        (note,) = NOTE.finditer(answer.text)
        head, rest = answer.text[: note.start()], answer.text[note.end() :]
        assert (head[:7], rest[-11:]) == ("begin x", " end\nafter\n")
        assert len(head) + len(rest) <= LINE_BYTES + len("after\n")
        assert int(note[1]) == answer.left_out_bytes == len(line) - len(head) - len(rest) + len("after\n")
        assert read_all(reader, STDOUT, note[2], 10_000) == "x" * answer.left_out_bytes


def test_huge_lines_leave_room_for_all_lines_of_a_tail(tmp_path: Path) -> None:
    data = b"".join(b"%d %s\n" % (number, b"x" * 20_000) for number in range(30))
    with printed(tmp_path, data) as reader:
        answer = tail(reader, STDOUT, 10, 30_000)
        numbers = [line.split()[0] for line in answer.text.splitlines() if line[0].isdigit()]
        assert numbers == [str(number) for number in range(20, 30)]


def test_lines_that_do_not_fit_into_a_tail_are_counted_in_its_note(tmp_path: Path) -> None:
    data = b"".join(b"line %d\n" % number for number in range(1000))
    with printed(tmp_path, data) as reader:
        answer = tail(reader, STDOUT, 900, 1000)
        note = NOTE.match(answer.text)
        assert note is not None
        assert int(note[1]) == answer.left_out_bytes == len(data) - len(answer.text[note.end() :])
        assert note[2] == f"0-{answer.left_out_bytes}"


def test_a_line_longer_than_a_tail_looks_back_is_shown_by_its_end(tmp_path: Path) -> None:
    with printed(tmp_path, b"x" * 3_000_000 + b" end") as reader:
        answer = tail(reader, STDOUT, 5, 30_000)
        note = NOTE.match(answer.text)
        assert note is not None
        assert answer.text.endswith("x end")
        assert int(note[1]) == answer.left_out_bytes == 3_000_004 - len(answer.text[note.end() :])


@RELAXED
@given(text=st.text("aé€😀\n", min_size=1, max_size=300), lines=st.integers(1, 5), budget=st.integers(1, 200))
def test_no_character_of_a_tail_is_torn_and_its_numbers_add_up(text: str, lines: int, budget: int) -> None:
    data = text.encode()
    with tempfile.TemporaryDirectory() as scratch, printed(Path(scratch), data) as reader:
        answer = tail(reader, STDOUT, lines, budget)
        shown = NOTE.sub("", answer.text)
        assert "\ufffd" not in answer.text
        assert len(shown.encode()) <= max(budget, 8)
        wanted = "".join(text.splitlines(True)[-lines:])
        noted = sum(int(count) for count, _ in NOTE.findall(answer.text))
        assert noted == answer.left_out_bytes >= len(wanted.encode()) - len(shown.encode()) - 1


def test_a_tail_that_reaches_over_a_gap_says_so(tmp_path: Path) -> None:
    """The end of the head and what comes after the gap are not one line, and not all lines between them are there."""
    with PipedLog(tmp_path / "log", 4096, contents=LINES) as log:
        for _ in range(10):
            log.print(STDOUT, 5000)
            log.take_all()
        answer = tail(log.reader(), STDOUT, 1000, 1 << 20)
        assert answer.dropped_bytes == log.printed[STDOUT] - log.reader().kept(STDOUT, 0, log.writer.end)
        assert f"{answer.dropped_bytes} bytes dropped here" in answer.text


def test_a_tail_that_stays_on_this_side_of_a_gap_does_not_mention_it(tmp_path: Path) -> None:
    with PipedLog(tmp_path / "log", 4096, contents=LINES) as log:
        for _ in range(10):
            log.print(STDOUT, 5000)
            log.take_all()
        answer = tail(log.reader(), STDOUT, 2, 1 << 20)
        assert (answer.dropped_bytes, "bgjob" in answer.text) == (0, False)


def test_half_a_character_is_held_back_from_a_tail_too(tmp_path: Path) -> None:
    """Whoever reads on by the cursor of a tail gets it whole."""
    contents = {STDOUT: b"abc\xc3\xa4def\n", STDERR: b""}
    with PipedLog(tmp_path / "log", 4096, contents=contents) as log:
        log.print(STDOUT, 4)
        log.take_all()
        view = Window(0, log.writer.end)
        lasts = (
            tail(log.reader(), STDOUT, 5, 1000, view, is_running=True).text,
            LABEL.sub("", interleaved_tail(log.reader(), 5, 1000, view, is_running=True).text),
        )
        assert lasts == ("abc", "abc")
        assert tail(log.reader(), STDOUT, 5, 1000, view, is_running=False).text == "abc\ufffd"
        finish(log, contents)
        view = Window(view.end, log.writer.end)
        assert tail(log.reader(), STDOUT, 5, 1000, view, is_running=True).text == "ädef\n"


def test_a_tail_of_a_range_ends_with_the_range(tmp_path: Path) -> None:
    with printed(tmp_path, b"one\ntwo\nthree\n") as reader:
        assert tail(reader, STDOUT, 1, 1000, Window(0, 8)).text == "two\n"
        assert (
            LABEL.sub("", interleaved_tail(reader, 1, 1000, Window(0, 8), is_running=False).text) == "two\n"
        )


# -- cursors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cursor", "window"),
    [
        (None, Window(0, 100)),
        ("0", Window(0, 100)),
        ("40", Window(40, 100)),
        ("100", Window(100, 100)),
        ("5000", Window(0, 100)),
        ("9" * 40, Window(0, 100)),
        ("10-20", Window(10, 20)),
        ("10-2000", Window(10, 100)),
    ],
)
def test_a_cursor_is_a_window_of_the_log_as_it_is_now(cursor: str | None, window: Window) -> None:
    assert excerpt.window(cursor, 100) == window


@pytest.mark.parametrize(
    "cursor", ["", "-", "-5", "5-", "1-2-3", "x", "1.5", "٣", " 5", "1e3", "0x10", "\0", "x" * 10_000]
)
def test_what_is_no_cursor_is_a_clear_error(cursor: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a cursor") as caught:
        excerpt.window(cursor, 100)
    assert len(str(caught.value)) < 300
