"""The simple commands of a shell text, as sh, bash and zsh would read them.

Quoting is exact; the rest is a best guess, which `doubt` names.
"""

import re
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from bgjob.core.late_pattern import late_pattern

_DOLLAR = r"""
    (?P<parameter> \$ (?: [A-Za-z_][A-Za-z_0-9]*+ | \{[A-Za-z_][A-Za-z_0-9]*+\} | [0-9?$!\#@*-] ) (?!\[) )
  | (?P<arithmetic_expansion> \$\(\( [^()]*+ \)\) )
  | (?P<substitution> \$\( | ` )
"""
_CODE = late_pattern(
    rf"""
    (?P<plain> [^\s\\'"`$<>|&;()\#\x00-\x1f\x7f] [^\s\\'"`$<>|&;()\x00-\x1f\x7f]*+ )
  | (?P<blank> [ \t]++ )
  | {_DOLLAR}
  | (?P<single> '[^']*+' )
  | (?P<quote> " )
  | (?P<line_continuation> \\ (?: \n | \Z ) )
  | (?P<escape> \\. )
  | (?P<harmless> (?: >&[12] | >>?[ \t]*+/dev/null ) (?= [ \t\n;&|] | \Z ) )
  | (?P<process_substitution> [<>]\( )
  | (?P<redirection> <<<|<<-?|<[>&]?|&?>[>|&]? )
  | (?P<separator> [;&|]++ | \n )
  | (?P<function> \([ \t]*+\) )
  | (?P<parenthesis> [()] )
  | (?P<hash> \# )
  | (?P<ansi_string> \$'(?> (?: [^'\\] | \\. )* )' )
  | (?P<expansion> \$ )
  | (?P<unclosed_quote> '.*+ )
  | (?P<control_character> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED = late_pattern(
    rf"""
    (?P<plain> [^"\\$`]++ | \$(?=["\s]) | \\(?![$`"\\\n]) )
  | {_DOLLAR}
  | (?P<quote> " )
  | (?P<line_continuation> \\\n )
  | (?P<escape> \\. )
  | (?P<expansion> \$ )
    """,
    re.VERBOSE | re.DOTALL,
)
# The tokens through which an allow-list cannot see what would run, and what each is called in an answer.
_DOUBTS = {
    "arithmetic_expansion": "an arithmetic expansion",
    "substitution": "a substitution",
    "line_continuation": "a line continuation",
    "process_substitution": "a process substitution",
    "redirection": "a redirection",
    "function": "a function",
    "parenthesis": "a parenthesis",
    "ansi_string": "an ansi string",
    "expansion": "an expansion",
    "unclosed_quote": "an unclosed quote",
    "control_character": "a control character",
}
# Stands in a word for what only the shell will know.
_UNKNOWN = "\0"
_PIECES: dict[str, Callable[[str], str]] = {
    "plain": lambda token: token,
    "single": lambda token: token[1:-1],
    "escape": lambda token: token[1:],
    "parameter": lambda token: "$" + token.strip("${}"),
    "ansi_string": lambda token: token[2:-1],
    "control_character": lambda token: token,
    "arithmetic_expansion": lambda _: _UNKNOWN,
    "expansion": lambda _: _UNKNOWN,
}


class Command(NamedTuple):
    words: list[str]
    start: int
    end: int
    ended_by: str
    defines: str | None
    """The function whose body comes next."""


class Reading:
    def __init__(self, text: str) -> None:
        self.text, self._at = text, 0
        self.commands: list[Command] = []
        self.written_files: list[str] = []
        self.doubt: str | None = None
        self._start = 0
        self._words: list[str] = []
        self._word: list[str] | None = None
        self._redirection, self._redirects = "", False
        self._heredocs: deque[tuple[str, str]] = deque()
        self._in_quotes = False
        # What closes each level of nesting, and a quote where the text around that level is quoted.
        self._outside: list[str] = []
        while self._at < len(text):
            self._read_token()
        self._end_command("")
        if self._in_quotes or self._outside:
            self._doubt("an unclosed quote or parenthesis")

    def source(self, command: Command) -> str:
        return self.text[command.start : command.end].strip(" \t")

    def _doubt(self, construct: str) -> None:
        self.doubt = self.doubt or construct

    def _read_token(self) -> None:
        found = (_QUOTED if self._in_quotes else _CODE).match(self.text, self._at)
        assert found, "the last alternative takes whatever the others leave"
        kind, token, self._at = found.lastgroup or "", found[0], found.end()
        if kind in _DOUBTS:
            self._doubt(f"{_DOUBTS[kind]} ({token[:9]!r})")
        if piece := _PIECES.get(kind):
            self._add(piece(token))
        else:
            self._obey(kind, token)

    def _obey(self, kind: str, token: str) -> None:
        match kind:
            case "blank":
                self._end_word()
            case "separator":
                self._end_command(token)
                self._skip_heredocs(token)
            case "quote":
                self._add("")
                self._in_quotes = not self._in_quotes
            case "substitution" | "process_substitution" | "parenthesis":
                self._nest(token)
            case "harmless" | "redirection":
                self._redirect(kind, token)
            case "function":
                self._end_word()
                self._define()
            case "hash":
                self._comment_or_word(token)
            case _:
                pass  # a line continuation and an unclosed quote leave nothing

    def _add(self, piece: str) -> None:
        if self._word is None:
            self._word = []
        self._word.append(piece)

    def _end_word(self) -> None:
        if self._word is None:
            return
        word, redirection = "".join(self._word), self._redirection
        self._word, self._redirection = None, ""
        if not redirection:
            self._words.append(word)
        elif redirection in ("<<", "<<-"):
            self._heredocs.append((word, redirection))
        elif ">" in redirection:
            self.written_files.append(word)
        if len(self._words) == 2 and self._words[0] == "function":
            self._define()

    def _end_command(self, by: str, defines: str | None = None) -> None:
        self._end_word()
        if self._words:
            self.commands.append(Command(self._words, self._start, self._at - len(by), by, defines))
        elif self._redirects:
            self._doubt("a redirection without a command")  # zsh runs cat or more
        self._forget_command()

    def _forget_command(self) -> None:
        self._start, self._words, self._word = self._at, [], None
        self._redirection, self._redirects = "", False

    def _define(self) -> None:
        if self._words:
            self._end_command("", defines=self._words[-1])

    def _nest(self, token: str) -> None:
        if self._outside and self._outside[-1].startswith(token) and not self._in_quotes:
            self._end_command(token)
            self._in_quotes = self._outside.pop().endswith('"')
            self._add(_UNKNOWN)
        elif token == ")":
            self._forget_command()  # a pattern of `case`
        else:
            if token != "(":
                self._add(_UNKNOWN)
            self._end_command(token)
            self._outside.append(("`" if token == "`" else ")") + '"' * self._in_quotes)
            self._in_quotes = False

    def _redirect(self, kind: str, token: str) -> None:
        if "".join(self._word or ()).isdigit():
            self._word = None  # the descriptor
        elif self._word and kind == "harmless":
            self._doubt("a redirection without a space in front")  # `{PATH}>&1` sets PATH
        self._end_word()
        self._redirects = True
        self._redirection = token if kind == "redirection" else ""

    def _comment_or_word(self, token: str) -> None:
        if self._word is not None:
            return self._add(token)
        self._doubt("a comment")
        self._at = self._line_end()

    def _skip_heredocs(self, separator: str) -> None:
        while separator == "\n" and self._heredocs and self._at < len(self.text):
            delimiter, operator = self._heredocs[0]
            line = self.text[self._at : self._line_end()].lstrip("\t" if operator == "<<-" else "\0")
            self._at = self._line_end() + 1
            if line == delimiter:
                self._heredocs.popleft()

    def _line_end(self) -> int:
        found = self.text.find("\n", self._at)
        return found if found >= 0 else len(self.text)
