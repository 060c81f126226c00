"""What older interpreters lack: the same answers as those of the library that has it."""

import bisect
import importlib
import itertools
import pkgutil
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bgjob
from bgjob.core.late_pattern import _LatePattern
from bgjob.remote.stand_ins import bisect as own_bisect
from bgjob.remote.stand_ins import itertools as own_itertools
from bgjob.remote.stand_ins import re as own

FOLDERS = ("core", "output", "terminal", "system", "api", "home", "store")
PIECES = [
    *"\x1b[]0129;:?mhlHJKPX^_k\\\r\n\x08\x07\x9b !/@~ab\"'$`#(){}|&<>",
    "\x1b[",
    "\x1b]0;",
    "\x1b[?1049h",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def patterns() -> dict[str, re.Pattern[Any]]:
    """Of the package: those with a possessive repetition."""
    found: dict[str, Any] = {}
    for folder in FOLDERS:
        package = importlib.import_module(f"bgjob.{folder}")
        for each in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"bgjob.{folder}.{each.name}")
            found |= {f"{each.name}.{name}": value for name, value in vars(module).items()}
    ours = {name: value for name, value in found.items() if isinstance(value, (re.Pattern, _LatePattern))}
    compiled = {name: re.compile(value.pattern, value.flags) for name, value in ours.items()}
    return {name: each for name, each in compiled.items() if re.search("POSSESSIVE|ATOMIC", parsed(each))}


def parsed(pattern: re.Pattern[Any]) -> str:
    """As the library reads it."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    return str(importlib.import_module("re._parser").parse(text, pattern.flags & re.VERBOSE))


PATTERNS = patterns()
EXTRA: dict[str, re.Pattern[Any]] = {
    "nested": re.compile(r"(?>(?:a[0-9]*+;)*)x"),
    "atomic": re.compile(r"(?>(a)|b;?){1,3}b(?>x|[0-9]++)?"),
    "groups": re.compile(r"(a*+)(b)?([0-9]++)?"),
    "named": re.compile(r"(?P<word>\w++)|(?P<blank>\s++)(?P<mark>;)?+"),
    "bytes": re.compile(rb"(\x1b)\[[0-?]*+([@-~])"),
    "bounded": re.compile(r"(?>(?:(a)|b){1,3})b"),
    "class": re.compile(r"[]*+]++[^]+]?+\+"),
    "lazy": re.compile(r"(a*?)(b+?)b++"),
    "verbose": re.compile("( a  # an a, ( and *+\n )*+ \\# [ #]++", re.VERBOSE),
}


def test_there_are_some() -> None:
    assert len(PATTERNS) > 25
    assert bgjob.__version__


@pytest.mark.parametrize("name", PATTERNS)
def test_no_group_is_repeated_possessively(name: str) -> None:
    """Python 3.11.2, Debian 12's, matches (?:ab)*+ wrongly, and (?>(?:ab)*) rightly."""
    text = PATTERNS[name].pattern
    assert not re.search(
        r"\)(?:[*+?]|\{[0-9,]+\})\+", text if isinstance(text, str) else text.decode("latin-1")
    )


@pytest.mark.parametrize("name", [*PATTERNS, *EXTRA])
@settings(max_examples=60)
@given(text=TEXTS | st.text("ab0123;x *+]#", max_size=20))
def test_a_possessive_pattern_finds_the_same(name: str, text: str) -> None:
    native: re.Pattern[Any] = {**PATTERNS, **EXTRA}[name]
    lowered = own.compile(native.pattern, native.flags & ~re.UNICODE)
    assert isinstance(lowered, own.Pattern)
    data: Any = text if isinstance(native.pattern, str) else text.encode("latin-1", "replace")
    assert [facts(each) for each in lowered.finditer(data)] == [facts(each) for each in native.finditer(data)]
    assert lowered.findall(data) == native.findall(data)
    assert lowered.split(data) == native.split(data)
    assert facts(lowered.match(data)) == facts(native.match(data))
    assert facts(lowered.fullmatch(data)) == facts(native.fullmatch(data))
    assert facts(lowered.search(data, 2)) == facts(native.search(data, 2))
    dash: Any = data[:0] + ("-" if isinstance(data, str) else b"-")
    assert lowered.subn(dash, data) == native.subn(dash, data)
    assert lowered.sub(lambda found: found[0] * 2, data) == native.sub(lambda found: found[0] * 2, data)


def facts(match: Any) -> object:
    """All that a caller may ask."""
    if match is None:
        return None
    spans = [match.span(number) for number in range(match.re.groups + 1)]
    texts = [match[number] for number in range(match.re.groups + 1)]
    words = match.groupdict(), match.groups(), dict(match.re.groupindex)
    return spans, texts, words, match.lastgroup, match.lastindex, match.start(), match.end(), match.group()


def test_a_template_names_the_groups_as_they_were_written() -> None:
    native, lowered = re.compile(r"([a-z]++)=([0-9]++)"), own.compile(r"([a-z]++)=([0-9]++)")
    for template in (r"\2 \1", r"\g<2>0", "plain"):
        assert lowered.sub(template, "x=1 y=22") == native.sub(template, "x=1 y=22")
    assert own.compile(rb"(a++)").sub(rb"<\1>", b"aab") == b"<aa>b"


def test_a_pattern_without_one_is_the_library_s() -> None:
    for text in (r"a+b", r"a\+\+", r"[*+]+", r"a{}+", r"\{+"):
        assert isinstance(own.compile(text), re.Pattern)
    assert own.search("b+", "abb") is not None
    assert own.escape("+") == re.escape("+")


def test_numbers_of_groups_that_would_be_others_are_refused() -> None:
    with pytest.raises(ValueError, match="by name"):
        own.compile(r"(a)[0-9]*+\1")


@given(values=st.lists(st.integers(-9, 9)).map(sorted), value=st.integers(-9, 9), at=st.integers(0, 3))
def test_a_key_is_bisected_by(values: list[int], value: int, at: int) -> None:
    at = min(at, len(values))
    for theirs, ours in (
        (bisect.bisect_left, own_bisect.bisect_left),
        (bisect.bisect_right, own_bisect.bisect_right),
    ):
        assert ours(values, value, at) == theirs(values, value, at)
        pairs = [(number, "") for number in values]
        assert ours(pairs, value, at, key=lambda it: it[0]) == theirs(values, value, at)


@given(values=st.lists(st.integers()))
def test_pairs_are_made(values: list[int]) -> None:
    assert list(own_itertools.pairwise(values)) == list(itertools.pairwise(values))
    assert own_itertools.chain is itertools.chain
