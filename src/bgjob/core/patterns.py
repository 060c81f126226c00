"""Patterns of callers and of the allow-list: regular expressions on RE2, or literal text. The cost is linear.

Python's `re` takes exponential time on some patterns, so that a caller could block a server with an argument.
RE2 does not, and lets other threads run meanwhile. A caller's pattern is matched line by line: `^` and `$`
are the ends of a line, and nothing matches a newline, so that one call searches any number of lines. `$` also
matches before the \\r of a \\r\\n, which is what terminals write. Bytes that are not UTF-8 match no
character, not even `.`.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from mmap import mmap
from typing import Any, NoReturn

from bgjob.core.errors import InvalidArgument
from bgjob.core.late_pattern import late_pattern

PATTERN_MAX_BYTES = 4096
# Memory for program and states: less makes harmless patterns slow.
RE2_MAX_BYTES = 8 << 20
SHOWN_CHARACTERS = 60
END_OF_LINE = r"(?:\r?$)"
# \C is the newline: nothing else of RE2 matches one here.
LINES_WITH = rb"(?m)(?:.*(?:%b).*$\C)+"

Buffer = bytes | mmap | memoryview
Span = tuple[int, int]
Find = Callable[[Buffer, int, int], list[Span]]

TOKEN = late_pattern(
    r"""\\Q.*?(?:\\E|\Z)                                      # quoted
      | \\.                                                   # escaped
      | \[\^?+\]?+(?>(?:\[:\^?\w++:\]|\\.|[^\]\\])*)\]        # a class
      | \(\?[a-zA-Z]*+-[a-zA-Z]*+                             # flags turned off
      | .""",
    re.DOTALL | re.VERBOSE,
)
REWRITTEN = {"$": END_OF_LINE, r"\z": END_OF_LINE, r"\A": "^"}
UNBALANCED = ("missing )", "unexpected )")
BY_LINE = "a pattern is matched line by line and cannot contain a line end; search for one of the lines"
AS_IT_STANDS = "to find it as it stands, put a backslash before it or search for literal text"
HINTS = {
    r"\(\?<?[=!]": "RE2 has no look-ahead and no look-behind; write what is to match",
    r"\\[1-9]|\\k|\(\?P": "RE2 has no back-references, and a named group is (?P<name>...)",
    r"\\Z": "the end of a line is $",
    r"\(\?>|[*+?}]\+": "RE2 has no atomic groups and no possessive repetition, and needs none",
    r"\(\?": "flags are written (?i), and RE2 knows i, m, s and U",
    r"\{": "a repetition is at most 1000, nested ones multiplied",
    r"\\": "RE2 does not know this escape; for a backslash write two, or search for literal text",
    r"[*+?]": AS_IT_STANDS,
}


class Pattern:
    """Made by compile_pattern."""

    __slots__ = ("_engine", "_find", "_find_run", "_needle")

    def __init__(self, find: Find, find_run: Find | None, needle: bytes, engine: object = None) -> None:
        # find_run finds lines that all match, from a position on. needle is empty if the pattern is no plain
        # text.
        self._find, self._find_run, self._needle, self._engine = find, find_run, needle, engine

    @property
    def gave_up(self) -> bool:
        """A search took too long and did not look at everything. RE2 never gives up, our own engine may."""
        return getattr(self._engine, "gave_up", False)

    def find(self, data: Buffer, start: int, end: int) -> Span | None:
        """Where the first match between two positions begins and ends. `start` is the beginning of a line,
        and `end` the end of one or of the data."""
        span = self._find(data, start, end)[0]
        return span if span[0] >= 0 else None

    def count_lines(self, data: bytes, start: int, end: int) -> int:
        """How many of the lines between two positions match. Fast also where most of them do."""
        if start >= end or (first := self.find(data, start, end)) is None:
            return 0
        if self._needle:
            between = data[first[0] : end].split(self._needle)[1:-1]
            return sum([b"\n" in text for text in between]) + 1
        return self._count_one_by_one(data, start, end)

    def _count_one_by_one(self, data: bytes, start: int, end: int) -> int:
        find, find_run, newline, count = self._find, self._find_run, data.find, 0
        # No line begins after the last newline.
        last = end - data.endswith(b"\n", start, end)
        while start <= last:
            left, right = find(data, start, last)[0]
            if left < 0:
                break
            if find_run and newline(b"\n", start, left) < 0:
                run_end = find_run(data, start, end)[0][1]
                if run_end > start:
                    count += data.count(b"\n", start, run_end)
                    start = run_end
                    continue
            count += 1
            start = newline(b"\n", right, last) + 1 or end + 1
        return count


class WholePattern:
    """Made by compile_whole."""

    __slots__ = ("_find", "_find_at_start", "text")

    def __init__(self, text: str, find: Find, find_at_start: Find) -> None:
        self.text, self._find, self._find_at_start = text, find, find_at_start

    def is_in(self, text: str) -> bool:
        data = text.encode()
        return self._find(data, 0, len(data))[0][0] >= 0

    def begins(self, text: str) -> bool:
        data = text.encode()
        return self._find_at_start(data, 0, len(data))[0][0] >= 0


class BothPatterns(WholePattern):
    """Matches what each of two patterns matches."""

    __slots__ = ("_both",)

    def __init__(self, first: WholePattern, second: WholePattern) -> None:
        self._both, self.text = (first, second), f"{first.text} (and {second.text})"

    def is_in(self, text: str) -> bool:
        return all(each.is_in(text) for each in self._both)

    def begins(self, text: str) -> bool:
        return all(each.begins(text) for each in self._both)


def narrowed(outer: Sequence[WholePattern], inner: Sequence[WholePattern]) -> tuple[WholePattern, ...]:
    """Return an allow-list of what both lists allow. An empty list allows everything."""
    if not (outer and inner):
        return tuple(outer or inner)
    return tuple(BothPatterns(first, second) for first in outer for second in inner)


def compile_pattern(text: str, *, literal: bool = False, ignore_case: bool = False) -> Pattern:
    """InvalidArgument says what is wrong with the pattern, where, and what to write instead."""
    engine, options = _engine(ignore_case=ignore_case)
    encoded = _encoded(text)
    if literal:
        if "\n" in text:
            _refuse(text, "a newline", text.index("\n"), BY_LINE)
        source = engine.QuoteMeta(encoded)
    else:
        # As the caller wrote it: an error quotes that.
        _check(text, engine(encoded, options))
        source = _by_line(text).encode()
    one, run = engine(b"(?m)" + source, options), engine(LINES_WITH % source, options)
    _check(text, one)
    return Pattern(
        partial(one.Match, engine.Anchor.UNANCHORED),
        partial(run.Match, engine.Anchor.ANCHOR_START) if run.ok() else None,
        encoded if literal and not ignore_case else b"",
        one,
    )


def compile_whole(text: str) -> WholePattern:
    """Matched against a whole text, upper and lower case alike: `^` and `$` are its ends only."""
    engine, options = _engine(ignore_case=True)
    options.never_nl = False
    whole = engine(_utf8(text), options)
    _check(text, whole)
    return WholePattern(
        text, partial(whole.Match, engine.Anchor.UNANCHORED), partial(whole.Match, engine.Anchor.ANCHOR_START)
    )


def compile_any(texts: Sequence[str]) -> Pattern | None:
    """Where one of these valid patterns matches first, in one pass.

    None if they cannot be joined: too large, or one of them has a quotation that is not ended.
    """
    engine, options = _engine()
    source = "|".join(f"(?:{_by_line(text)})" for text in texts).encode()
    one = engine(b"(?m)" + source, options)
    return Pattern(partial(one.Match, engine.Anchor.UNANCHORED), None, b"") if one.ok() else None


def first_of(patterns: Sequence[Pattern]) -> Pattern:
    """Where one of these patterns matches first, in a pass for each."""

    def find(data: Buffer, start: int, end: int) -> list[Span]:
        spans = (pattern.find(data, start, end) for pattern in patterns)
        return [min(filter(None, spans), default=(-1, -1))]

    return Pattern(find, None, b"")


def _engine(*, ignore_case: bool = False) -> tuple[Any, Any]:
    """Return RE2 and its options, or our own engine for the same syntax if google-re2 is not installed."""
    try:
        import re2  # type: ignore[import-untyped]  # here: most starts do not need it

        # Not re2.compile: it keeps the last 128 patterns, and makes three objects per match.
        engine, options = re2._re2.RE2, re2.Options()
    except ImportError:
        from bgjob.core import linear_re

        engine, options = linear_re.RE2, linear_re.Options()
    options.max_mem = RE2_MAX_BYTES
    options.log_errors = False
    options.never_capture = True
    options.never_nl = True
    options.case_sensitive = not ignore_case
    return engine, options


def _check(text: str, compiled: Any) -> None:
    if not compiled.ok():
        _refuse_for(text, compiled.error().decode("utf-8", "replace"))


def _encoded(text: str) -> bytes:
    if not text:
        raise InvalidArgument("pattern is empty. Give the text or regular expression to search for.")
    encoded = _utf8(text)
    if len(encoded) > PATTERN_MAX_BYTES:
        _refuse(text, f"{len(encoded)} bytes long, and {PATTERN_MAX_BYTES} is the most")
    return encoded


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        _refuse(text, "not valid Unicode", error.start)


def _by_line(text: str) -> str:
    """This valid pattern, rewritten so that it can be matched against many lines at once."""
    rewritten = ""
    for token in TOKEN.finditer(text):
        part = token.group()
        if part in ("\n", r"\n"):
            _refuse(text, "a newline", token.start(), BY_LINE)
        if part == r"\C":
            _refuse(text, r"\C", token.start(), "a pattern is made of characters; write . for any of them")
        if part.startswith("(?") and "m" in part.partition("-")[2]:
            _refuse(text, part, token.start(), r"^ and $ are always the ends of a line")
        rewritten += REWRITTEN.get(part, part)
    return rewritten


# -- what is wrong, and where ---------------------------------------------------------------------------


def _refuse_for(text: str, complaint: str) -> NoReturn:
    """RE2 quotes the faulty part of a pattern, but not its position."""
    problem, _, fragment = complaint.partition(": ")
    if problem in UNBALANCED:
        _refuse(text, problem, _unbalanced(text), AS_IT_STANDS)
    if problem.startswith("trailing"):
        _refuse(text, problem, len(text) - 1, AS_IT_STANDS)
    if problem == "missing ]":
        _refuse(text, problem, len(text) - len(fragment), AS_IT_STANDS)
    if "too large" in problem:
        _refuse(text, problem, hint="make its repetitions smaller, or use fewer Unicode classes")
    hint = next((hint for sign, hint in HINTS.items() if re.match(sign, fragment)), "")
    _refuse(text, f"{problem} {_shown(fragment)}", _position(text, fragment), hint)


def _position(text: str, fragment: str) -> int | None:
    """Where this part of the pattern first stands outside of an escape or class; failing that, inside."""
    inside = text.find(fragment) if fragment else -1
    places = (token.start() for token in TOKEN.finditer(text))
    return next((at for at in places if text.startswith(fragment, at)), inside if inside >= 0 else None)


def _unbalanced(text: str) -> int:
    """The parenthesis without a partner: the last that is open, or the first that closes nothing."""
    opened: list[int] = []
    for token in TOKEN.finditer(text):
        if token.group().startswith("("):
            opened.append(token.start())
        elif token.group() == ")":
            if not opened:
                return token.start()
            opened.pop()
    return opened[-1] if opened else len(text) - 1


def _refuse(text: str, problem: str, position: int | None = None, hint: str = "") -> NoReturn:
    where = "" if position is None else f" at position {position}"
    advice = f" {hint[0].upper()}{hint[1:]}." if hint else ""
    raise InvalidArgument(f"pattern {_shown(text)} is not valid: {problem}{where}.{advice}")


def _shown(text: str) -> str:
    """As it was written, so that positions can be counted; never kilobytes."""
    short = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
    return f"'{short}'" if short.isprintable() else repr(short)
