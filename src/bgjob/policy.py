"""May this shell command run? A seat belt, not a sandbox.

Two questions. Does the text plainly destroy the machine: `rm -rf /`, a fork bomb, `mkfs` on a disk? That is
refused whatever the settings; whoever wants to can still hide it in a script, a variable or base64.
And where there is an allow-list: does every command of the text match one of its patterns? There, whatever
this reader does not follow to the last character is refused, not guessed.

The reader knows the quoting of sh, bash and zsh. An allow-list means nothing to fish or csh, nor where the
caller may choose the job's PATH, BASH_ENV or LD_PRELOAD.
"""

import itertools
import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple


def broken_rule(command: str, allowed: Sequence[re.Pattern[str]]) -> str | None:
    """Why this command may not run, in words that follow "Invalid command: "; None: it may."""
    if problem := _not_a_command(command):
        return problem
    reading = _Reading(command)
    return _destruction(reading) or (_stowaway(reading, allowed) if allowed else None)


def _not_a_command(text: str) -> str | None:
    if not text.strip():
        return "it is empty. Pass a shell command, such as npm test"
    if "\0" in text:
        return "it contains a NUL character, which no shell accepts. Remove it"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "it contains half a character (a lone surrogate), which UTF-8 cannot hold. Remove it"
    return None


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Refused whatever the settings.

_OPENERS = _names("{ ! if then elif else while until do")
_RUNNERS = _names(
    "sudo doas env nohup nice ionice setsid timeout stdbuf time xargs busybox command builtin exec"
)
_SHELLS = _names("sh bash dash ash zsh ksh su")
_VALUED_OPTIONS = _names("-u -g -h -p -C -D -r -t -T -U --user --group --chdir")
_OPTION_OR_NUMBER = re.compile(r"-|[0-9.]+[smhd]?$")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\+?=")
_SYSTEM_DIRECTORY = re.compile(r"/(?:usr/)?(?:local/)?s?bin/")
_DISK = re.compile(r"/+dev/+(?:[shv]d[a-z]|xvd[a-z]|(?:nvme|mmcblk|md|dm-|r?disk)[0-9]|disk/|mapper/)")
_DEEPEST_SCRIPT = 3  # `sh -c "sh -c …"`: each level is read again


def _destruction(reading: "_Reading", depth: int = 0) -> str | None:
    if _forks_for_ever(reading.commands):
        return "it is a fork bomb"
    if any(map(_DISK.match, reading.written_files)):
        return "it writes over a disk. Write to a file"
    own_functions = {command.defines for command in reading.commands}
    for command in reading.commands:
        program, *arguments = _bare(command.words)
        if program not in own_functions and (harm := _harm(program, arguments, depth)):
            return harm
    return None


def _forks_for_ever(commands: "list[_Command]") -> bool:
    """`f() { f | f & }`: a function that calls itself twice, side by side, whatever its name."""
    name = None
    for command, following in itertools.pairwise(commands):
        if command.defines or command.words[:1] == ["}"]:
            name = command.defines
        beside = name and command.ended_by in ("|", "&", "|&")
        if beside and _bare(command.words)[0] == _bare(following.words)[0] == name:
            return True
    return False


def _bare(words: list[str]) -> list[str]:
    """Program and arguments, without what may stand in front: `then sudo -u me A=1 /bin/rm x` is `rm x`."""
    runner, rest = "", iter(enumerate(words))
    for at, word in rest:
        program = word[found.end() :] if (found := _SYSTEM_DIRECTORY.match(word)) else word
        if program in _RUNNERS:
            runner = program
        elif runner == "command" and word in ("-v", "-V"):
            break  # it only asks where the program is
        elif runner and word in _VALUED_OPTIONS:
            next(rest, None)
        elif not (word in _OPENERS or _ASSIGNMENT.match(word) or (runner and _OPTION_OR_NUMBER.match(word))):
            return [program, *words[at + 1 :]]
    return [""]


def _removal(arguments: list[str]) -> str | None:
    if "--no-preserve-root" in arguments or (
        _is_recursive(arguments, "rR") and _names_all_of(("", "~", "$HOME"), arguments)
    ):
        return "it removes the root or home directory. Name what to remove, such as rm -rf ./build"
    return None


def _change_of_all(arguments: list[str]) -> str | None:
    if _is_recursive(arguments, "R") and _names_all_of(("",), arguments):
        return "it changes every file of the machine. Name the directory to work on"
    return None


def _overwriting(arguments: list[str]) -> str | None:
    if any(_DISK.match(word.removeprefix("of=")) for word in arguments if not word.startswith("if=")):
        return "it writes over a disk. Use a file, such as disk.img"
    return None


def _power_off(arguments: list[str]) -> str | None:
    return "it stops the machine that the jobs run on"


def _power_off_if_told(arguments: list[str]) -> str | None:
    return _power_off(arguments) if {"0", "6", "reboot", "poweroff", "halt"} & set(arguments) else None


def _is_recursive(arguments: list[str], letters: str) -> bool:
    options = (word for word in arguments if re.fullmatch("-[A-Za-z]+", word))
    return "--recursive" in arguments or not set(letters).isdisjoint("".join(options))


def _names_all_of(tops: tuple[str, ...], arguments: list[str]) -> bool:
    """Whether one of these paths is a top, or everything in it: `/`, `//.`, `/x/..`, `/*`."""
    return any(word and _is_top(*word.split("/"), tops=tops) for word in arguments)


def _is_top(top: str, *parts: str, tops: tuple[str, ...]) -> bool:
    below: list[str] = []
    for part in parts:
        if part == "..":
            del below[-1:]
        elif part not in ("", "."):
            below.append(part)
    return top in tops and (not below or (len(below) == 1 and set(below[0]) <= set("*?.")))


_RULES: dict[str, Callable[[list[str]], str | None]] = {
    "rm": _removal,
    **dict.fromkeys(("chmod", "chown", "chgrp"), _change_of_all),
    **dict.fromkeys(("dd", "mkfs", "mke2fs", "mkswap", "blkdiscard", "shred"), _overwriting),
    **dict.fromkeys(("shutdown", "reboot", "halt", "poweroff"), _power_off),
    **dict.fromkeys(("init", "telinit", "systemctl"), _power_off_if_told),
}


def _harm(program: str, arguments: list[str], depth: int) -> str | None:
    if rule := _RULES.get("mkfs" if program.startswith("mkfs.") else program):
        return rule(arguments)
    if (program == "eval" or program in _SHELLS) and depth < _DEEPEST_SCRIPT:
        return _destruction(_Reading(_script(program, arguments)), depth + 1)
    return None


def _script(program: str, arguments: list[str]) -> str:
    """The shell text in the arguments of `eval` and `sh -c`."""
    if program == "eval":
        return " ".join(arguments)
    after_c = itertools.dropwhile(lambda word: not re.fullmatch("-[a-z]*c", word), arguments)
    return next(itertools.islice(after_c, 1, None), "")


# Refused where there is an allow-list.

_LANGUAGE = _names(
    "if then elif else fi for foreach end while until repeat do done case esac in select function coproc "
    "noglob nocorrect eval exec . source command builtin alias unalias trap hash enable set unset shopt "
    "setopt export readonly declare typeset local integer float nameref let read mapfile readarray getopts "
    "print bind complete compgen fc hist emulate autoload functions zmodload sched"
)
_EVALUATING = _names("test [ printf wait exit return break continue shift ulimit")
_NAME = re.compile(r"\[|[\w./+:@,][\w./+:@,-]*")
_BLIND = "and the allow-list (MCP_BG_ALLOWED_COMMANDS) cannot see what would run"


def _stowaway(reading: "_Reading", allowed: Sequence[re.Pattern[str]]) -> str | None:
    if reading.doubt:
        return f"it contains {reading.doubt}, {_BLIND}. Write plain commands, joined by ; && || | or &"
    problems = (_unlisted(reading.source(command), command.words, allowed) for command in reading.commands)
    return next(filter(None, problems), None)


def _unlisted(text: str, words: list[str], allowed: Sequence[re.Pattern[str]]) -> str | None:
    name = words[0]
    if not (_NAME.fullmatch(name) and text.startswith(name)):
        return f"{_shown(text)} does not begin with the plain name of a program, {_BLIND}"
    if name in _LANGUAGE:
        return f"{name} is a statement of the shell, {_BLIND}"
    if name in _EVALUATING and (
        set("[$*?{") & set(text[1:]) or any(re.match("-[vp]", word) for word in words)
    ):
        return f"some shells run what is in [ ] or after -v of {name}. Use plain text, or the full path of {name}"
    # `sudo` and `sh` are too much to let in by a pattern that happens to match further on
    runs_others = name.rpartition("/")[2] in _RUNNERS | _SHELLS
    if any(pattern.match(text) if runs_others else pattern.search(text) for pattern in allowed):
        return None
    patterns = " , ".join(pattern.pattern for pattern in allowed)
    return f"{_shown(text)} matches no pattern of MCP_BG_ALLOWED_COMMANDS: {_shown(patterns)}"


def _shown(text: str) -> str:
    return f"`{text}`" if len(text) <= 200 else f"`{text[:200]}…`"


# Reading: the simple commands of a text. Quoting is exact; the rest is a best guess that raises a doubt.
# The kinds of token: one whose name has an article is a doubt, an allow-list cannot see through it.

_DOLLAR = r"""
    (?P<parameter> \$ (?: [A-Za-z_][A-Za-z_0-9]*+ | \{[A-Za-z_][A-Za-z_0-9]*+\} | [0-9?$!\#@*-] ) (?!\[) )
  | (?P<an_arithmetic_expansion> \$\(\( [^()]*+ \)\) )
  | (?P<a_substitution> \$\( | ` )
"""
_CODE = re.compile(
    rf"""
    (?P<plain> [^\s\\'"`$<>|&;()\#\x00-\x1f\x7f] [^\s\\'"`$<>|&;()\x00-\x1f\x7f]*+ )
  | (?P<blank> [ \t]++ )
  | {_DOLLAR}
  | (?P<single> '[^']*+' )
  | (?P<quote> " )
  | (?P<a_line_continuation> \\ (?: \n | \Z ) )
  | (?P<escape> \\. )
  | (?P<harmless> (?: >&[12] | >>?[ \t]*+/dev/null ) (?= [ \t\n;&|] | \Z ) )
  | (?P<a_process_substitution> [<>]\( )
  | (?P<a_redirection> <<<|<<-?|<[>&]?|&?>[>|&]? )
  | (?P<separator> [;&|]++ | \n )
  | (?P<a_function> \([ \t]*+\) )
  | (?P<a_parenthesis> [()] )
  | (?P<hash> \# )
  | (?P<an_ansi_string> \$'(?: [^'\\] | \\. )*+' )
  | (?P<an_expansion> \$ )
  | (?P<an_unclosed_quote> '.*+ )
  | (?P<a_control_character> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(
    rf"""
    (?P<plain> [^"\\$`]++ | \$(?=["\s]) | \\(?![$`"\\\n]) )
  | {_DOLLAR}
  | (?P<quote> " )
  | (?P<a_line_continuation> \\\n )
  | (?P<escape> \\. )
  | (?P<an_expansion> \$ )
    """,
    re.VERBOSE | re.DOTALL,
)
_UNKNOWN = "\0"  # in a word: what only the shell will know
_PIECES: dict[str, Callable[[str], str]] = {
    "plain": lambda token: token,
    "single": lambda token: token[1:-1],
    "escape": lambda token: token[1:],
    "parameter": lambda token: "$" + token.strip("${}"),
    "an_ansi_string": lambda token: token[2:-1],
    "a_control_character": lambda token: token,
    "an_arithmetic_expansion": lambda _: _UNKNOWN,
    "an_expansion": lambda _: _UNKNOWN,
}


class _Command(NamedTuple):
    words: list[str]
    start: int
    end: int
    ended_by: str
    defines: str | None
    """The function whose body comes next."""


class _Reading:
    def __init__(self, text: str) -> None:
        self.text, self._at = text, 0
        self.commands: list[_Command] = []
        self.written_files: list[str] = []
        self.doubt: str | None = None
        self._start = 0
        self._words: list[str] = []
        self._word: list[str] | None = None
        self._redirection = ""
        self._heredocs: deque[tuple[str, str]] = deque()
        self._in_quotes = False
        self._outside: list[str] = []  # what closes each level, with a quote where quotes go on behind it
        while self._at < len(text):
            self._read_token()
        self._end_command("")
        if self._in_quotes or self._outside:
            self._doubt("an unclosed quote or parenthesis")

    def source(self, command: _Command) -> str:
        return self.text[command.start : command.end].strip(" \t")

    def _doubt(self, construct: str) -> None:
        self.doubt = self.doubt or construct

    def _read_token(self) -> None:
        found = (_QUOTED if self._in_quotes else _CODE).match(self.text, self._at)
        assert found, "the last alternative takes whatever the others leave"
        kind, token, self._at = found.lastgroup or "", found[0], found.end()
        if self.doubt is None and kind.startswith(("a_", "an_")):
            self.doubt = f"{kind.replace('_', ' ')} ({token[:9]!r})"
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
            case "a_substitution" | "a_process_substitution" | "a_parenthesis":
                self._nest(token)
            case "harmless" | "a_redirection":
                self._redirect(kind, token)
            case "a_function":
                self._end_word()
                self._define()
            case "hash":
                self._comment_or_word(token)
            case _:
                pass  # nothing is left of a line continuation and of an unclosed quote

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
            self.commands.append(_Command(self._words, self._start, self._at - len(by), by, defines))
        self._forget_command()

    def _forget_command(self) -> None:
        self._start, self._words, self._word, self._redirection = self._at, [], None, ""

    def _define(self) -> None:
        if self._words:
            self._end_command("", defines=self._words[-1])

    def _nest(self, token: str) -> None:
        if self._outside and self._outside[-1].startswith(token) and not self._in_quotes:
            self._end_command(token)
            self._in_quotes = self._outside.pop().endswith('"')
            self._add(_UNKNOWN)
        elif token == ")":
            self._forget_command()  # it is a pattern of `case`
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
        self._redirection = token if kind == "a_redirection" else ""

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
