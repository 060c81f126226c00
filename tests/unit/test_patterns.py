"""Patterns are matched line by line, in time that grows only with the text; what is wrong is said with its place."""

import gc
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from mmap import mmap

import pytest
import re2  # type: ignore[import-untyped]
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bgjob.core import linear_re
from bgjob.core.errors import InvalidArgument
from bgjob.core.patterns import PATTERN_MAX_BYTES, Pattern, compile_pattern, compile_whole


@pytest.fixture(params=["re2", "ours"], scope="module", autouse=True)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Everything holds on machines without google-re2 too."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "ours":
            patch.setitem(sys.modules, "re2", None)
        yield request.param


TEXT = "one two\nthree four\r\n\nÄrger 5 (a+b)\n".encode()


def matched(pattern: Pattern, data: bytes = TEXT) -> bytes | None:
    span = pattern.find(data, 0, len(data))
    return data[slice(*span)] if span else None


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("two", b"two"),
        ("t[a-z]+", b"two"),
        ("^three", b"three"),
        ("two$", b"two"),
        ("four$", b"four\r"),
        (r"\Athree", b"three"),
        (r"two\z", b"two"),
        ("w.*e", None),  # from one line to the next
        (r"two\s+three", None),
        ("two[^x]three", None),
        ("(?s)two.three", None),
        (r"[^\n]+", b"one two"),
        ("Ä.ger", "Ärger".encode()),
        (r"\pL+ \d", "Ärger 5".encode()),
        ("(?i)THREE", b"three"),
        (r"\$|five", None),
        ("[$]|four", b"four"),
        ("t.*?r", b"thr"),
        ("(?U)t.*r", b"thr"),
        ("one|one two", b"one"),
        (r"\Bn(?:e|e t)", b"ne"),
        (r"\(a\Q+b\E.", b"(a+b)"),
    ],
)
def test_a_regular_expression_is_matched_line_by_line(pattern: str, expected: bytes | None) -> None:
    assert matched(compile_pattern(pattern)) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("(a+b)", b"(a+b)"), ("TWO", None), ("Ärger", "Ärger".encode())]
)
def test_literal_text_means_itself(text: str, expected: bytes | None) -> None:
    assert matched(compile_pattern(text, literal=True)) == expected


@pytest.mark.parametrize(("text", "expected"), [("(?i)TH.EE", b"three"), ("(?i)ärger", "Ärger".encode())])
def test_a_regular_expression_can_ignore_case(text: str, expected: bytes) -> None:
    assert matched(compile_pattern(text)) == expected


def test_any_buffer_can_be_searched() -> None:
    pattern = compile_pattern("b+")
    with mmap(-1, 10) as mapped:
        mapped.write(b"aabba")
        assert pattern.find(mapped, 0, 10) == pattern.find(memoryview(b"aabba"), 0, 5) == (2, 4)
        assert pattern.find(mapped, 5, 10) is None


@pytest.mark.parametrize(
    ("pattern", "data", "count"),
    [
        ("a", b"a a\nb\na", 2),
        ("^$", b"\n\na\n\n", 3),
        ("$", b"a\nb\n", 2),
        ("$", b"a\nb", 2),
        ("b*", b"a\n\nbb\n", 3),
        ("a", b"", 0),
    ],
)
def test_lines_are_counted_not_matches(pattern: str, data: bytes, count: int) -> None:
    assert compile_pattern(pattern).count_lines(data, 0, len(data)) == count


@pytest.mark.parametrize(
    "data", [b"", b"ab", b"abab\n", b"ab\nab", b"\nab\n\nab ab\nba\n", b"b\na\n", b"ab\n\n"]
)
def test_lines_with_literal_text_are_counted_alike_in_every_way(data: bytes) -> None:
    expected = sum(b"ab" in line for line in data.split(b"\n"))
    for pattern in (compile_pattern("ab", literal=True), compile_pattern("ab"), compile_pattern("(?i)AB")):
        assert pattern.count_lines(data, 0, len(data)) == expected


@given(
    lines=st.lists(
        st.sampled_from([b"", b"a", b"b", b"ab", b"a\r", b"\xff", b"a\xffb", "éa".encode(), b"b a"])
    ),
    unfinished=st.booleans(),
    pattern=st.sampled_from(["a", "^a", "a$", "b|^$", "a*", r"\ba", "[^a]", "(?i)B", "x", "^", r"\Qa"]),
)
def test_runs_of_lines_are_counted_as_each_line_would_be(
    lines: list[bytes], unfinished: bool, pattern: str
) -> None:
    compiled = compile_pattern(pattern)
    data = b"".join(line + b"\n" for line in lines) + b"ab" * unfinished
    alone = [*lines, *[b"ab"] * unfinished]
    expected = sum(compiled.find(line, 0, len(line)) is not None for line in alone)
    assert compiled.count_lines(data, 0, len(data)) == expected


@pytest.mark.parametrize(
    ("pattern", "complaint", "position", "hint"),
    [
        ("a(b", "missing )", 1, "literal"),
        (r"\((b(c)", "missing )", 2, "literal"),
        ("a)b", "unexpected )", 1, "literal"),
        ("[a][b", "missing ]", 3, "literal"),
        ("ab\\", "trailing \\", 2, "literal"),
        ("*a", "no argument for repetition operator", 0, "literal"),
        ("[z-a]", "invalid character class range 'z-a'", 1, ""),
        ("[[:foo:]]", "'[:foo:]'", 1, ""),
        ("é(?=x)", "'(?='", 1, "no look-ahead"),
        ("a(?!x)", "'(?!'", 1, "no look-ahead"),
        ("(?<=x)a", "'(?<='", 0, "no look-behind"),
        ("(?<!x)a", "'(?<!'", 0, "no look-behind"),
        (r"(a)\1", r"'\1'", 3, "no back-references"),
        (r"\\1(a)\1", r"'\1'", 6, "no back-references"),
        ("(?P=a)", "'(?P'", 0, "no back-references"),
        ("(?>a)", "'(?>'", 0, "no atomic groups"),
        ("a++", "'++'", 1, "possessive"),
        (r"a\Z", r"'\Z'", 1, "$"),
        ("(?x) a", "'(?x'", 0, "RE2 knows i, m, s"),
        ("a{1001}", "'{1001}'", 1, "at most 1000"),
        (r"a\nb", "a newline", 1, "line by line"),
        ("a\nb", "a newline", 1, "line by line"),
        (r"\Ca", r"\C", 0, "write ."),
        ("a(?i-m:^b)", "(?i-m", 1, "ends of a line"),
        ("a\udc80", "not valid Unicode", 1, ""),
    ],
)
def test_what_is_wrong_with_a_pattern_is_said_with_its_place(
    pattern: str, complaint: str, position: int, hint: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        compile_pattern(pattern)
    message = str(refused.value)
    assert complaint in message
    assert f" at position {position}." in message
    assert hint in message


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "empty"),
        ("a" * (PATTERN_MAX_BYTES + 1), "is the most"),
        ("(" + r"\pL\PN" * 6 + "){1000}", "too large"),
        ("((a{100}){100}){100}", "at most 1000"),
        ("(" * 4000, "missing"),
    ],
)
def test_a_pattern_that_would_take_too_much_is_refused_in_few_words(pattern: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why) as refused:
        compile_pattern(pattern)
    assert len(str(refused.value)) < 300


def test_literal_text_with_a_newline_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="line by line"):
        compile_pattern("a\nb", literal=True)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+$", "(a*)*b", "(?:.*){20}=", "^(([a-z])+.)+[A-Z]([a-z])+$"]
)
def test_a_pattern_that_python_would_never_finish_is_done_at_once(pattern: str) -> None:
    data = b"a" * (1 << 20) + b"!"
    began = time.process_time()
    compile_pattern(pattern).find(data, 0, len(data))
    assert time.process_time() - began < 5


def test_the_engine_is_loaded_only_when_a_pattern_is_made() -> None:
    check = "import bgjob.core.patterns, bgjob.output.log_search, sys; sys.exit('re2' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


# -- where there is no google-re2 ---------------------------------------------------------------------------

ATOMS = [
    "a",
    "b",
    "é",
    "K",
    ".",
    "x",
    r"\d",
    r"\w",
    r"\W",
    r"\b",
    r"\B",
    "^",
    "$",
    "[a-c]",
    "[A-Z]",
    "[^A-Z]",
    "[^b]",
    "[[:alpha:]é]",
]
ATOMS += [r"[^\s\d]", r"\pL", r"\PL", r"\x{e9}", r"\Qa.\E", r"\.", "(?i)", "(?i:k)", "(?U)", "(?s)", "|", "1"]
REPEATS = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,3}?", "{2,}", "{0}"])
PATTERNS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda each: f"({'|'.join(each)})"),
        st.builds("(?:{}){}".format, inner, REPEATS),
        st.builds("{}{}".format, inner, REPEATS),
    ),
    max_leaves=8,
)
LINES = st.lists(
    st.text("abckKBßſsσς1 é.\r\u212a", max_size=8).map(str.encode) | st.sampled_from([b"\xff", b"a\xc3b"]),
    max_size=4,
).map(b"\n".join)


def match_begins(text: str, data: bytes) -> int | str | None:
    """Where a match ends is in the tables above: RE2 simplifies `(?:a*?)*` to `a*`, which ends elsewhere."""
    try:
        span = compile_pattern(text).find(data, 0, len(data))
    except InvalidArgument as refusal:
        return str(refusal)
    return span and span[0]


@settings(max_examples=1000, derandomize=True)
@given(text=PATTERNS, data=LINES)
def test_our_engine_finds_what_google_re2_finds(text: str, data: bytes) -> None:
    assume(data.isascii() or r"\B" not in text)  # to RE2 it matches inside a character of several bytes, too
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "re2", re2)
        expected = match_begins(text, data)
        patch.setitem(sys.modules, "re2", None)
        assert match_begins(text, data) == expected


def test_what_our_engine_keeps_while_it_reads_is_bounded() -> None:
    """This pattern has a million sets of threads, and random text meets a new one at nearly every character."""
    engine = linear_re.RE2(b"(?:a|b)*a(?:a|b){19}c", linear_re.Options())
    text = "".join(random.Random(7).choices("ab", k=30_000)).encode()
    gc.collect()
    before = sum(isinstance(each, linear_re.ThreadSet) for each in gc.get_objects())
    assert engine.Match(linear_re.RE2.Anchor.UNANCHORED, text, 0, len(text)) == linear_re.NOWHERE
    gc.collect()
    kept = sum(isinstance(each, linear_re.ThreadSet) for each in gc.get_objects()) - before
    assert 0 < kept < 20_000


COSTLY = "a.{0,900}z"


def test_our_engine_gives_up_what_takes_too_long_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    monkeypatch.setattr(linear_re, "MAX_WORK", 20_000)
    line = "".join(random.Random(7).choices("ab", k=10_000)).encode()
    cheap, costly = compile_pattern("b[b]*z"), compile_pattern(COSTLY)
    assert cheap.find(line, 0, len(line)) is None
    assert not cheap.gave_up
    assert costly.find(line, 0, len(line)) is None
    assert costly.gave_up


@pytest.mark.parametrize(
    ("pattern", "text", "is_allowed"),
    [("echo [^A-Z]+", "echo FILES", False), ("echo [^a-z]+", "echo 12", True), ("[^a]", "A", False)],
)
def test_what_ignores_case_is_negated_after_that(pattern: str, text: str, is_allowed: bool) -> None:
    whole = compile_whole(pattern)
    assert (whole.begins(text), whole.is_in(text)) == (is_allowed, is_allowed)


def test_a_letter_of_which_the_other_case_is_two_letters_is_one() -> None:
    pattern, line = compile_pattern(r"(?i)\pN"), "Hauptstraße".encode()
    assert pattern.find(line, 0, len(line)) is None
