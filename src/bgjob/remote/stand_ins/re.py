"""`re` with possessive repetition and atomic groups, of 3.11: what X*+ or (?>X) has matched is not given back.

`X*+` becomes `(?=(?P<own1>X*))(?P=own1)`: the engine never backtracks into a lookahead. The groups that this adds are
hidden from users of the pattern: numbers, names and `lastgroup` are those of the pattern as it was written.
"""

from __future__ import annotations

import re as library
from collections.abc import Callable, Iterator
from typing import Any

OWN = "own_"
QUANTIFIER = library.compile(r"(?:[*+?]|\{[0-9]*,?[0-9]*\})")
CLASS = library.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", library.DOTALL)
OPENING = library.compile(r"\((?:\?(?:P<\w+>|P=\w+|[:=!>]|<[=!]|[a-zA-Z-]+[:)]|#[^)]*\)))?")
IGNORED = library.compile(r"\s+|#[^\n]*")
ESCAPE = library.compile(
    r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|N\{[^}]*\}|[0-9]{1,3}|.)", library.DOTALL
)
NUMBER = library.compile(r"\\(?:g<([1-9][0-9]?)>|([1-9][0-9]?))")


def compile(pattern: Any, flags: int = 0) -> Any:
    if isinstance(pattern, (library.Pattern, Pattern)):
        return pattern
    text = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
    rewriting = _Rewriting(text, bool(flags & library.VERBOSE))
    written = rewriting.result()
    if written == text:
        return library.compile(pattern, flags)
    if rewriting.has_numbers:
        raise ValueError(f"refer to groups by name beside possessive repetition: {text}")
    made = written if isinstance(pattern, str) else written.encode("latin-1")
    return Pattern(pattern, library.compile(made, flags))


class _Rewriting:
    """A pattern, read atom by atom."""

    def __init__(self, text: str, is_verbose: bool) -> None:
        self._text, self._is_verbose = text, is_verbose
        self._out: list[str] = []
        # Where in `_out` each open group begins; and the last atom, which a quantifier is for.
        self._open: list[int] = []
        self._atom = 0
        self._count = 0
        self.has_numbers = False
        """Whether it refers to groups by their numbers, which would be others."""

    def result(self) -> str:
        at = 0
        while at < len(self._text):
            at = self._take(at)
        return "".join(self._out)

    def _take(self, at: int) -> int:
        """Returns where the next one begins."""
        text = self._text
        if self._is_verbose and (ignored := IGNORED.match(text, at)):
            return self._put(ignored[0], at)
        if self._out and (quantifier := QUANTIFIER.match(text, at)) and self._is_quantifier(at):
            return self._repeat(quantifier[0], at)
        if text[at] == "(" and (opening := OPENING.match(text, at)):
            if not opening[0].endswith(")"):
                self._open.append(len(self._out))
            return self._put(opening[0], at)
        self._atom = self._open.pop() if text[at] == ")" else len(self._out)
        at = self._put(self._one(at), at)
        if self._out[self._atom] == "(?>":
            self._out[self._atom] = "(?:"
            self._keep("")
        return at

    def _one(self, at: int) -> str:
        text = self._text
        if text[at] == "[" and (found := CLASS.match(text, at)):
            return found[0]
        escape = ESCAPE.match(text, at)
        self.has_numbers |= escape is not None and NUMBER.fullmatch(escape[0]) is not None
        return escape[0] if escape else text[at]

    def _is_quantifier(self, at: int) -> bool:
        """A brace that is none, such as {}, stands for itself."""
        return self._text[at] != "{" or self._text[at + 1] != "}"

    def _repeat(self, quantifier: str, at: int) -> int:
        end = at + len(quantifier)
        mark = self._text[end : end + 1]
        if mark == "+":
            self._keep(quantifier)
            return end + 1
        return self._put(quantifier + (mark if mark == "?" else ""), at)

    def _keep(self, quantifier: str) -> None:
        """Make the last atom atomic: what it has matched is not given back."""
        atom = "".join(self._out[self._atom :])
        del self._out[self._atom :]
        self._count += 1
        name = f"{OWN}{self._count}"
        self._out.append(f"(?:(?=(?P<{name}>{atom}{quantifier}))(?P={name}))")

    def _put(self, part: str, at: int) -> int:
        self._out.append(part)
        return at + len(part)


class Pattern:
    def __init__(self, pattern: Any, made: library.Pattern[Any]) -> None:
        self.pattern, self.flags, self._made = pattern, made.flags, made
        own = {number for name, number in made.groupindex.items() if name.startswith(OWN)}
        self.numbers = [number for number in range(made.groups + 1) if number not in own]
        """The number that each group has in the pattern as it was made."""
        self.groups = len(self.numbers) - 1
        self.groupindex = {
            name: self.numbers.index(number) for name, number in made.groupindex.items() if number not in own
        }

    def search(self, *where: Any) -> Match | None:
        return self._match(self._made.search(*where))

    def match(self, *where: Any) -> Match | None:
        return self._match(self._made.match(*where))

    def fullmatch(self, *where: Any) -> Match | None:
        return self._match(self._made.fullmatch(*where))

    def finditer(self, *where: Any) -> Iterator[Match]:
        return (Match(self, found) for found in self._made.finditer(*where))

    def findall(self, *where: Any) -> list[Any]:
        return [_found(match) for match in self.finditer(*where)]

    def sub(self, replacement: Any, text: Any, count: int = 0) -> Any:
        return self.subn(replacement, text, count)[0]

    def subn(self, replacement: Any, text: Any, count: int = 0) -> tuple[Any, int]:
        return self._made.subn(self._replacing(replacement), text, count)

    def split(self, text: Any, maxsplit: int = 0) -> list[Any]:
        parts, at = [], 0
        for number, match in enumerate(self.finditer(text)):
            if maxsplit and number >= maxsplit:
                break
            parts += [text[at : match.start()], *match.groups()]
            at = match.end()
        return [*parts, text[at:]]

    def _match(self, found: library.Match[Any] | None) -> Match | None:
        return Match(self, found) if found else None

    def _replacing(self, replacement: Any) -> Callable[[library.Match[Any]], Any]:
        if callable(replacement):
            return lambda found: replacement(Match(self, found))
        return lambda found: Match(self, found).expand(replacement)


class Match:
    def __init__(self, pattern: Pattern, found: library.Match[Any]) -> None:
        self.re, self._found = pattern, found
        self.string, self.pos, self.endpos = found.string, found.pos, found.endpos

    def __getitem__(self, group: Any) -> Any:
        return self._found[self._number(group)]

    def group(self, *groups: Any) -> Any:
        return self._found.group(*map(self._number, groups or (0,)))

    def groups(self, default: Any = None) -> tuple[Any, ...]:
        found = [self[number] for number in range(1, self.re.groups + 1)]
        return tuple(default if text is None else text for text in found)

    def groupdict(self, default: Any = None) -> dict[str, Any]:
        return {name: default if self[name] is None else self[name] for name in self.re.groupindex}

    def start(self, group: Any = 0) -> int:
        return self._found.start(self._number(group))

    def end(self, group: Any = 0) -> int:
        return self._found.end(self._number(group))

    def span(self, group: Any = 0) -> tuple[int, int]:
        return self._found.span(self._number(group))

    def expand(self, template: Any) -> Any:
        is_text = isinstance(template, str)
        text = template if is_text else template.decode("latin-1")
        renumbered = NUMBER.sub(lambda it: rf"\g<{self.re.numbers[int(it[1] or it[2])]}>", text)
        return self._found.expand(renumbered if is_text else renumbered.encode("latin-1"))

    @property
    def lastindex(self) -> int | None:
        """If a group of ours was closed last, that of the others whose match ends last."""
        numbers, last = self.re.numbers, self._found.lastindex
        if last is None or last in numbers:
            return None if last is None else numbers.index(last)
        ends = [(self.end(number), number) for number in range(1, len(numbers)) if self.start(number) >= 0]
        return max(ends)[1] if ends else None

    @property
    def lastgroup(self) -> str | None:
        last = self.lastindex
        return next((name for name, number in self.re.groupindex.items() if number == last), None)

    def _number(self, group: Any) -> Any:
        return self.re.numbers[group] if isinstance(group, int) else group


def _found(match: Match) -> Any:
    empty = match.string[:0]
    return match.groups(empty) if match.re.groups > 1 else match.group(match.re.groups) or empty


# -- the functions of the library -----------------------------------------------------------------------


def search(pattern: Any, text: Any, flags: int = 0) -> Any:
    return compile(pattern, flags).search(text)


def match(pattern: Any, text: Any, flags: int = 0) -> Any:
    return compile(pattern, flags).match(text)


def fullmatch(pattern: Any, text: Any, flags: int = 0) -> Any:
    return compile(pattern, flags).fullmatch(text)


def findall(pattern: Any, text: Any, flags: int = 0) -> Any:
    return compile(pattern, flags).findall(text)


def sub(pattern: Any, replacement: Any, text: Any, count: int = 0, flags: int = 0) -> Any:
    return compile(pattern, flags).sub(replacement, text, count)


def split(pattern: Any, text: Any, maxsplit: int = 0, flags: int = 0) -> Any:
    return compile(pattern, flags).split(text, maxsplit)


def __getattr__(name: str) -> Any:
    return getattr(library, name)
