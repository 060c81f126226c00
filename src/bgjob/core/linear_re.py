r"""Regular expressions on machines without google-re2: the same syntax, in linear time, but slower.

Stands in for the two names of `re2` that bgjob.core.patterns uses: `Options` and `RE2`. A pattern becomes a
program, a text is read once, and all threads of the program advance together (Thompson, Pike), so that nothing
backtracks. Sets of threads are kept: a character usually costs one look-up.

Left out: classes by script such as \p{Greek}, and captures.
"""

import enum
import functools
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

MAX_STATES = 10_000
MAX_DEPTH = 100
MAX_REPETITION = 1000
MAX_WORK = 10_000_000  # steps of threads in one call of Match: seconds
MAX_KEPT = 100_000  # threads in kept sets, and characters that lead from one set to another
NOWHERE: Final = [(-1, -1)]

ESCAPE = r"\\(?:[pP](?:\{[^}]*\}|.)|x(?:\{[0-9A-Fa-f]+\}|[0-9A-Fa-f]{2})|[1-7][0-7]{1,2}|0[0-7]{0,2}|.)"
TOKEN = re.compile(
    rf"""\\Q(?P<quoted>.*?)(?:\\E|\Z)
       | (?P<escape>{ESCAPE})
       | (?P<klass>\[)
       | \(\?(?P<on>[imsU]*)(?:-(?P<off>[imsU]+))?(?P<scope>[:)])
       | (?P<open>\((?:\?P?<\w+>|(?!\?)))
       | (?P<close>\))
       | (?P<bar>\|)
       | (?P<repeat>(?:[*+?]|\{{(?P<low>\d+)(?P<comma>,(?P<high>\d*))?\}})(?P<lazy>\??))
       | (?P<char>.)""",
    re.DOTALL | re.VERBOSE,
)
CLASS_TOKEN = re.compile(rf"\[:\^?\w*:\]|{ESCAPE}|.", re.DOTALL)

Test = Callable[[str], bool]
Node = tuple[Any, ...]
Fold = Callable[[Test], Test]


class Options:
    """The attributes of re2's options that are used here; others may be set."""

    def __init__(self) -> None:
        self.case_sensitive = True
        self.never_nl = False


class Invalid(Exception):
    """The pattern is invalid. The message is RE2's: `missing ]: [b`."""


# -- characters ---------------------------------------------------------------------------------------------


def _among(characters: str) -> Test:
    return frozenset(characters).__contains__


def _between(low: str, high: str) -> Test:
    return lambda character: low <= character <= high


def _not(test: Test) -> Test:
    return lambda character: not test(character)


def _any_of(tests: list[Test]) -> Test:
    return lambda character: any(test(character) for test in tests)


def _folded(test: Test) -> Test:
    """Make the test ignore case. To be done before a test is negated."""
    return lambda character: any(test(each) for each in _cases(character))


@functools.lru_cache(1024)
def _cases(character: str) -> frozenset[str]:
    """Return what differs from this character only in case: characters, never two for one (\u00df is not SS)."""
    if character in MORE_CASES:
        return frozenset(MORE_CASES[character])
    found = {character}
    for _ in range(2):
        found |= {
            case for each in found for case in (each.lower(), each.upper(), each.title()) if len(case) == 1
        }
    return frozenset(found)


DIGITS, LOWER, UPPER = "0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
WORD = frozenset(DIGITS + LOWER + UPPER + "_")
PERL = {"d": _among(DIGITS), "s": _among("\t\n\f\r "), "w": WORD.__contains__}
POSIX = {
    "alnum": _among(DIGITS + LOWER + UPPER),
    "alpha": _among(LOWER + UPPER),
    "ascii": _between("\0", "\x7f"),
    "blank": _among("\t "),
    "cntrl": _any_of([_between("\0", "\x1f"), _among("\x7f")]),
    "digit": _among(DIGITS),
    "graph": _between("!", "~"),
    "lower": _among(LOWER),
    "print": _between(" ", "~"),
    "punct": _among("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    "space": _among("\t\n\v\f\r "),
    "upper": _among(UPPER),
    "word": WORD.__contains__,
    "xdigit": _among(DIGITS + "abcdefABCDEF"),
}
MORE_CASES = {
    each: group
    for group in (
        "Kk\u212a",
        "Ss\u017f",
        "\u00c5\u00e5\u212b",
        "\u00b5\u039c\u03bc",
        "\u03a3\u03c2\u03c3",
        "\u01c4\u01c5\u01c6",
        "\u00df\u1e9e",
        "\u0131",
        "\u0130",
    )
    for each in group
}
CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
CATEGORIES = {"Cc", "Cf", "Co", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No"}
CATEGORIES |= {"Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"}
CATEGORIES |= {category[0] for category in CATEGORIES}


def _as_it_is(test: Test) -> Test:
    return test


def _everything(character: str) -> bool:
    return True


def _category(escape: str, fold: Fold) -> Test:
    r"""\pL, \p{Lu}, \P{L}, \p{^L}"""
    name = escape[2:].strip("{}")
    wanted = name.removeprefix("^")
    if wanted != "Any" and wanted not in CATEGORIES:
        raise Invalid(f"invalid character class range: {escape}")
    test = _everything if wanted == "Any" else lambda each: unicodedata.category(each).startswith(wanted)
    test = fold(test)
    return _not(test) if (escape[1] == "P") != name.startswith("^") else test


def _escaped(escape: str, fold: Fold) -> str | Test:
    """Return the character, or the test of a class."""
    sign = escape[1]
    if sign in "pP":
        return _category(escape, fold)
    if sign.lower() in PERL:
        test = fold(PERL[sign.lower()])
        return test if sign in PERL else _not(test)
    if sign == "x" and len(escape) > 2 and (code := int(escape[2:].strip("{}"), 16)) <= 0x10FFFF:
        return chr(code)
    if sign == "0" or (sign in "1234567" and len(escape) > 2):
        return chr(int(escape[1:], 8))
    if sign in CONTROLS:
        return CONTROLS[sign]
    if sign.isascii() and sign not in WORD:
        return sign
    raise Invalid(f"invalid escape sequence: {escape}")


def _class(text: str, at: int, fold: Fold) -> tuple[Test, int]:
    """Return the class that begins with the [ at this position, and where it ends."""
    begins, tests = at, list[Test]()
    negated = text.startswith("^", at + 1)
    at += 1 + negated
    first = True
    while first or not text.startswith("]", at):
        low, at = _class_item(text, at, begins, fold)
        first = False
        if isinstance(low, str) and text.startswith("-", at) and text[at + 1 : at + 2] not in ("", "]"):
            high, end = _class_item(text, at + 1, begins, fold)
            if not isinstance(high, str) or high < low:
                raise Invalid(f"invalid character class range: {low}{text[at:end]}")
            low, at = fold(_between(low, high)), end
        tests.append(fold(_among(low)) if isinstance(low, str) else low)
    return (_not(_any_of(tests)) if negated else _any_of(tests)), at + 1


def _class_item(text: str, at: int, begins: int, fold: Fold) -> tuple[str | Test, int]:
    if (token := CLASS_TOKEN.match(text, at)) is None:
        raise Invalid(f"missing ]: {text[begins:]}")
    part = token.group()
    if part.startswith("[:"):
        name = part[2:-2]
        if (test := POSIX.get(name.removeprefix("^"))) is None:
            raise Invalid(f"invalid character class range: {part}")
        test = fold(test)
        return (_not(test) if name.startswith("^") else test), token.end()
    if part == "\\":
        raise Invalid("trailing \\ at end of regexp")
    return (_escaped(part, fold) if part.startswith("\\") else part), token.end()


# -- from a text to a tree ----------------------------------------------------------------------------------


class Kind(enum.Enum):
    """What is before or after a position."""

    EDGE = enum.auto()
    NEWLINE = enum.auto()
    WORD = enum.auto()
    OTHER = enum.auto()


Holds = Callable[[Kind, Kind], bool]
ENDS = (Kind.EDGE, Kind.NEWLINE)
ASSERTIONS: dict[str, Holds] = {
    r"\A": lambda before, after: before is Kind.EDGE,
    r"\z": lambda before, after: after is Kind.EDGE,
    "^": lambda before, after: before in ENDS,
    "$": lambda before, after: after in ENDS,
    r"\b": lambda before, after: (before is Kind.WORD) != (after is Kind.WORD),
    r"\B": lambda before, after: (before is Kind.WORD) == (after is Kind.WORD),
}


class Group:
    """A group that is open: what it has up to now."""

    def __init__(self, flags: frozenset[str]) -> None:
        self.outside = self.flags = flags
        self.branches: list[list[Node]] = [[]]

    def node(self) -> Node:
        branches = [("all", tuple(branch)) for branch in self.branches]
        return branches[0] if len(branches) == 1 else ("any", tuple(branches))


class Parser:
    def __init__(self, text: str, flags: frozenset[str]) -> None:
        self._text, self._open = text, [Group(flags)]
        self._repeated_at: int | None = None  # where a repetition began that ends just here

    def tree(self) -> Node:
        at = 0
        while at < len(self._text):
            repeated_at, self._repeated_at = self._repeated_at, None
            at = self._token(at, repeated_at)
        if len(self._open) > 1:
            raise Invalid(f"missing ): {self._text}")
        return self._open[0].node()

    def _token(self, at: int, repeated_at: int | None) -> int:
        token = TOKEN.match(self._text, at)
        assert token is not None
        part = token.group()
        if token["klass"]:
            test, end = _class(self._text, at, self._fold())
            self._add(("one", test))
            return end
        if token["repeat"]:
            self._repeat(token, repeated_at)
        elif token["quoted"] is not None:
            for character in token["quoted"]:
                self._add(self._character(_among(character)))
        elif token["escape"]:
            self._add(self._escape(part))
        elif token["scope"]:
            self._flags(token)
        elif token["open"]:
            self._open.append(Group(self._open[-1].flags))
        elif token["close"]:
            self._close()
        elif token["bar"]:
            self._open[-1].branches.append([])
        else:
            self._add(self._plain(part, at))
        return token.end()

    def _add(self, node: Node) -> None:
        self._open[-1].branches[-1].append(node)

    def _character(self, test: Test) -> Node:
        return ("one", self._fold()(test))

    def _fold(self) -> Fold:
        return _folded if "i" in self._open[-1].flags else _as_it_is

    def _plain(self, part: str, at: int) -> Node:
        flags = self._open[-1].flags
        if part == "(":
            raise Invalid(f"invalid perl operator: {_operator(self._text, at)}")
        if part == "\\":
            raise Invalid("trailing \\ at end of regexp")
        if part == ".":
            return ("one", _everything if "s" in flags else _not(_among("\n")))
        if part in "^$":
            return ("if", ASSERTIONS[part if "m" in flags else {"^": r"\A", "$": r"\z"}[part]])
        return self._character(_among(part))

    def _escape(self, part: str) -> Node:
        if part in ASSERTIONS:
            return ("if", ASSERTIONS[part])
        if part == r"\C":
            return ("one", _everything)
        found = _escaped(part, self._fold())
        return self._character(_among(found)) if isinstance(found, str) else ("one", found)

    def _flags(self, token: re.Match[str]) -> None:
        flags = (self._open[-1].flags | set(token["on"])) - set(token["off"] or "")
        if token["scope"] == ")":
            self._open[-1].flags = flags
        else:
            self._open.append(Group(self._open[-1].flags))
            self._open[-1].flags = flags

    def _close(self) -> None:
        if len(self._open) == 1:
            raise Invalid(f"unexpected ): {self._text}")
        if len(self._open) > MAX_DEPTH:
            raise Invalid("pattern too large - nests too deeply")
        node = self._open.pop().node()
        self._add(node)

    def _repeat(self, token: re.Match[str], repeated_at: int | None) -> None:
        if repeated_at is not None:
            raise Invalid(f"bad repetition operator: {self._text[repeated_at : token.end()]}")
        branch = self._open[-1].branches[-1]
        if not branch:
            raise Invalid(f"no argument for repetition operator: {token['repeat']}")
        low, high = _bounds(token)
        if high is not None and high < low:
            raise Invalid(f"invalid repetition size: {token['repeat']}")
        greedy = bool(token["lazy"]) == ("U" in self._open[-1].flags)
        repeat = ("repeat", branch.pop(), low, high, greedy)
        if _repetitions(repeat) > MAX_REPETITION:
            raise Invalid(f"invalid repetition size: {token['repeat']}")
        branch.append(repeat)
        self._repeated_at = token.start()


def _operator(text: str, at: int) -> str:
    found = re.compile(r"\(\?(?:<?[=!]|[a-zA-Z]+|.)?", re.DOTALL).match(text, at)
    return found.group() if found else text[at:]


def _bounds(token: re.Match[str]) -> tuple[int, int | None]:
    if token["low"] is None:
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[token.group()[0]]
    low = int(token["low"])
    if not token["comma"]:
        return low, low
    return low, int(token["high"]) if token["high"] else None


def _repetitions(node: Node) -> int:
    """Return how often a part of the tree can be repeated, as the product of nested counts."""
    match node:
        case "repeat", part, low, high, _:
            return int(max(1, low if high is None else high)) * _repetitions(part)
        case (("all" | "any"), parts):
            return max(map(_repetitions, parts), default=1)
        case _:
            return 1


# -- from a tree to a program -------------------------------------------------------------------------------


class One(NamedTuple):
    """Reads a character."""

    test: Test
    then: int


class If(NamedTuple):
    holds: Holds
    then: int


class Split(NamedTuple):
    """Two ways to go on: the first is preferred."""

    first: int
    second: int


class Done(NamedTuple):
    pass


Step = One | If | Split | Done


Threads = list[tuple[int, int]]
"""Each is a step, and where in the text the thread began."""


class Program:
    def __init__(self, tree: Node) -> None:
        self.steps: list[Step] = [Done()]
        self.start = self._emit(tree, 0)

    def _add(self, step: Step) -> int:
        if len(self.steps) >= MAX_STATES:
            raise Invalid("pattern too large - compile failed")
        self.steps.append(step)
        return len(self.steps) - 1

    def _emit(self, node: Node, then: int) -> int:
        """Emit this part of the tree, with `then` as the step after it. Return its first step."""
        match node:
            case "one", test:
                return self._add(One(test, then))
            case "if", holds:
                return self._add(If(holds, then))
            case "all", parts:
                for part in reversed(parts):
                    then = self._emit(part, then)
                return then
            case "any", branches:
                way = self._emit(branches[-1], then)
                for branch in reversed(branches[:-1]):
                    way = self._add(Split(self._emit(branch, then), way))
                return way
            case _:
                return self._repeat(node, then)

    def _repeat(self, node: Node, then: int) -> int:
        part, low, high, greedy = node[1:]
        if high is None:
            loop = self._add(Split(0, 0))
            body = self._emit(part, loop)
            self.steps[loop] = _split(body, then, greedy)
            begins, low = (body, low - 1) if low else (loop, 0)
        else:
            begins = then
            for _ in range(high - low):
                begins = self._add(_split(self._emit(part, begins), then, greedy))
        for _ in range(low):
            begins = self._emit(part, begins)
        return begins

    def closure(self, threads: Threads, before: Kind, after: Kind) -> Threads:
        """Return where these threads get without reading a character, preferred threads first."""
        seen, reached = set[int](), list[tuple[int, int]]()
        for entry, origin in threads:
            stack = [entry]
            while stack:
                at = stack.pop()
                if at in seen:
                    continue
                seen.add(at)
                match self.steps[at]:
                    case Split(first=first, second=second):
                        stack += (second, first)
                    case If(holds=holds, then=then):
                        if holds(before, after):
                            stack.append(then)
                    case _:
                        reached.append((at, origin))
        return reached


def _split(body: int, then: int, greedy: bool) -> Split:
    return Split(body, then) if greedy else Split(then, body)


# -- matching -----------------------------------------------------------------------------------------------


def _kind(character: str) -> Kind:
    if character in WORD:
        return Kind.WORD
    return Kind.NEWLINE if character == "\n" else Kind.OTHER


def _reads(test: Test, character: str) -> bool:
    """Return whether the test accepts this character. A byte that is not UTF-8 never passes."""
    return test(character) and not "\ud800" <= character <= "\udfff"


class ThreadSet:
    """Threads that wait for the same character. `after`: the set that each character met before leads to."""

    __slots__ = ("after", "before", "entries")

    def __init__(self, entries: tuple[int, ...], before: Kind) -> None:
        self.entries, self.before = entries, before
        self.after: dict[str, ThreadSet | None] = {}


class TooCostly(Exception):
    """A pattern with many threads meets a long text."""


class Searcher:
    """Finds whether a text has a match, and where: anywhere, or only at its beginning if `anchored`."""

    def __init__(self, program: Program, *, anchored: bool) -> None:
        self._program, self._anchored = program, anchored
        self.work = 0
        """How many steps of threads were made; the caller sets it back. TooCostly is raised at MAX_WORK."""
        self._forget()

    def _forget(self) -> None:
        """Drop all kept sets, including the first, which refers to the others."""
        self._kept: dict[tuple[tuple[int, ...], Kind], ThreadSet] = {}
        self._weight = 0
        self._first = self._set((self._program.start,), Kind.EDGE)

    def is_in(self, text: str) -> bool:
        threads = self._first
        for character in text:
            try:
                following = threads.after[character]
            except KeyError:
                following = threads.after[character] = self._read(threads, character)
            if following is None:
                return True
            threads = following
        return self._is_done(threads, Kind.EDGE)

    def _read(self, threads: ThreadSet, character: str) -> ThreadSet | None:
        """Return the threads after this character; None: there is a match before it."""
        self._worked(len(threads.entries))
        self._weight += 1 + len(threads.entries)
        if self._weight > MAX_KEPT:
            self._forget()
        kind = _kind(character)
        if self._is_done(threads, kind):
            return None
        entries = [
            step.then
            for at, _ in self._reached(threads, kind)
            if isinstance(step := self._program.steps[at], One) and _reads(step.test, character)
        ]
        if not self._anchored:
            entries.append(self._program.start)
        return self._set(tuple(dict.fromkeys(entries)), kind)

    def _worked(self, steps: int) -> None:
        self.work += 1 + steps
        if self.work > MAX_WORK:
            raise TooCostly

    def _is_done(self, threads: ThreadSet, kind: Kind) -> bool:
        return any(at == 0 for at, _ in self._reached(threads, kind))

    def _reached(self, threads: ThreadSet, kind: Kind) -> Threads:
        return self._program.closure([(entry, 0) for entry in threads.entries], threads.before, kind)

    def _set(self, entries: tuple[int, ...], before: Kind) -> ThreadSet:
        return self._kept.setdefault((entries, before), ThreadSet(entries, before))

    def span(self, text: str) -> tuple[int, int] | None:
        """Return the first match; if several begin there, the one that backtracking would find."""
        threads: Threads = []
        found = None
        before = Kind.EDGE
        for at, character in enumerate([*text, ""]):
            kind = _kind(character) if character else Kind.EDGE
            if not found and (at == 0 or not self._anchored):
                threads = [*threads, (self._program.start, at)]
            self._worked(len(threads))
            following: Threads = []
            for step_at, origin in self._program.closure(threads, before, kind):
                step = self._program.steps[step_at]
                if isinstance(step, Done):
                    found = origin, at
                    break
                if isinstance(step, One) and character and _reads(step.test, character):
                    following.append((step.then, origin))
            if not following and (found or self._anchored):
                break
            threads, before = following, kind
        return found


class RE2:
    """The methods of re2's class of this name that are called, by the same names."""

    class Anchor(enum.Enum):
        UNANCHORED = enum.auto()
        ANCHOR_START = enum.auto()

    def __init__(self, pattern: bytes, options: Options) -> None:
        self._by_line, self._error = options.never_nl, ""
        self.gave_up = False
        """A call of Match took too long, and did not look at all of its text."""
        try:
            flags = frozenset() if options.case_sensitive else frozenset("i")
            program = Program(Parser(pattern.decode(), flags).tree())
        except Invalid as problem:
            self._error = str(problem)
            return
        self._searchers = {
            anchor: Searcher(program, anchored=anchor is RE2.Anchor.ANCHOR_START) for anchor in RE2.Anchor
        }

    def ok(self) -> bool:
        return not self._error

    def error(self) -> bytes:
        return self._error.encode()

    @staticmethod
    def QuoteMeta(text: bytes) -> bytes:  # noqa: N802
        return re.sub(rb"[^\w\x80-\xff]", rb"\\\g<0>", text)

    def Match(self, anchor: Anchor, data: Any, start: int, end: int) -> list[tuple[int, int]]:  # noqa: N802
        """Return the first match. Runs of lines never match: they only make counting faster."""
        if self._by_line and anchor is not RE2.Anchor.UNANCHORED:
            return NOWHERE
        searcher = self._searchers[anchor]
        searcher.work = 0
        texts = _lines(data, start, end) if self._by_line else iter([(start, bytes(data[start:end]))])
        try:
            spans = (self._match(searcher, text, at) for at, text in texts)
            return next((span for span in spans if span != NOWHERE), NOWHERE)
        except TooCostly:
            self.gave_up = True
            return NOWHERE

    @staticmethod
    def _match(searcher: Searcher, data: bytes, start: int) -> list[tuple[int, int]]:
        text = data.decode("utf-8", "surrogateescape")
        if not searcher.is_in(text) or (span := searcher.span(text)) is None:
            return NOWHERE
        left, right = (start + len(text[:at].encode("utf-8", "surrogateescape")) for at in span)
        return [(left, right)]


def _lines(data: Any, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield each line with its position."""
    if isinstance(data, memoryview):
        data, start, end, offset = bytes(data[start:end]), 0, end - start, start
    else:
        offset = 0
    while start <= end:
        stop = data.find(b"\n", start, end)
        stop = end if stop < 0 else stop
        yield offset + start, bytes(data[start:stop])
        start = stop + 1
