"""May this shell command run? A seat belt, not a sandbox.

Two questions. Does the text plainly destroy the machine: `rm -rf /`, a fork bomb, `mkfs` on a disk? That is
refused whatever the settings; it can still be hidden in a script, a variable or base64. And if there is an
allow-list: does every command of the text match one of its patterns? Text that the shell reader does not
follow to the last character is then refused.

The shell reader knows the quoting of sh, bash and zsh. An allow-list does not protect if the shell is fish or
csh, or if the caller may choose the job's PATH, BASH_ENV or LD_PRELOAD.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence

from bgjob.core.late_pattern import late_pattern
from bgjob.core.patterns import WholePattern
from bgjob.core.shell_reader import Command, Reading

# With an allow-list, jobs run with these variables: a pager or editor on a terminal runs what is typed into
# it.
NO_SHELL_ESCAPES: Mapping[str, str] = {
    **dict.fromkeys(("LESSSECURE", "MORESECURE", "PAGERSECURE", "SYSTEMD_PAGERSECURE"), "1"),
    **dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"), "cat"),
    **dict.fromkeys(("AWS_PAGER", "BAT_PAGER", "DELTA_PAGER", "GH_PAGER", "PSQL_PAGER"), "cat"),
    **dict.fromkeys(("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR"), "false"),
}


def broken_rule(command: str, allowed: Sequence[WholePattern]) -> str | None:
    """Why this command may not run, in words that follow "Invalid command: "; None: it may."""
    if problem := _not_a_command(command):
        return problem
    reading = Reading(command)
    return _destruction(reading) or (_unlisted_part(reading, allowed) if allowed else None)


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
    "sudo doas env nohup nice ionice setsid timeout stdbuf time xargs busybox command builtin exec jobs"
)
_SHELLS = _names("sh bash dash ash zsh ksh su")
_VALUED_OPTIONS = _names("-u -g -h -p -C -D -r -t -T -U --user --group --chdir")
_OPTION_OR_NUMBER = late_pattern(r"-|[0-9.]+[smhd]?$")
_ASSIGNMENT = late_pattern(r"[A-Za-z_][A-Za-z_0-9]*\+?=")
_SYSTEM_DIRECTORY = late_pattern(r"/(?:usr/)?(?:local/)?s?bin/")
_DISK = late_pattern(r"/+dev/+(?:[shv]d[a-z]|xvd[a-z]|(?:nvme|mmcblk|md|dm-|r?disk)[0-9]|disk/|mapper/)")
# `sh -c "sh -c …"`: each level is read again.
_DEEPEST_SCRIPT = 3


def _destruction(reading: Reading, depth: int = 0) -> str | None:
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


def _forks_for_ever(commands: list[Command]) -> bool:
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
    """Program and arguments without prefixes: `then sudo -u me A=1 /bin/rm x` is `rm x`."""
    runner, rest = "", iter(enumerate(words))
    for at, word in rest:
        program = word[found.end() :] if (found := _SYSTEM_DIRECTORY.match(word)) else word
        if program in _RUNNERS:
            runner = program
        elif runner == "command" and word in ("-v", "-V"):
            break  # `command -v` only asks where the program is
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
        return _destruction(Reading(_script(program, arguments)), depth + 1)
    return None


def _script(program: str, arguments: list[str]) -> str:
    """The shell text in the arguments of `eval` and `sh -c`."""
    if program == "eval":
        return " ".join(arguments)
    after_c = itertools.dropwhile(lambda word: not re.fullmatch("-[a-z]*c", word), arguments)
    return next(itertools.islice(after_c, 1, None), "")


# Refused if there is an allow-list.

_LANGUAGE = _names(
    "if then elif else fi for foreach end while until repeat do done case esac in select function coproc "
    "noglob nocorrect eval exec . source command builtin alias unalias trap hash enable set unset shopt "
    "setopt export readonly declare typeset local integer float nameref let read mapfile readarray getopts "
    "print bind complete compgen fc hist emulate autoload functions zmodload sched "
    "disable private vared zle zregexparse compctl compcall r"
)
_EVALUATING = _names("test [ printf wait exit return break continue shift ulimit")
_NAME = late_pattern(r"\[|[\w./+:@,][\w./+:@,-]*")
_UNSEEN = "and the allow-list (MCP_BG_ALLOWED_COMMANDS) cannot see what would run"


def _unlisted_part(reading: Reading, allowed: Sequence[WholePattern]) -> str | None:
    if reading.doubt:
        return f"it contains {reading.doubt}, {_UNSEEN}. Write plain commands, joined by ; && || | or &"
    problems = (_unlisted(reading.source(command), command.words, allowed) for command in reading.commands)
    return next(filter(None, problems), None)


def _unlisted(text: str, words: list[str], allowed: Sequence[WholePattern]) -> str | None:
    name = words[0]
    if not (_NAME.fullmatch(name) and text.startswith(name)):
        return f"{_shown(text)} does not begin with the plain name of a program, {_UNSEEN}"
    if name in _LANGUAGE:
        return f"{name} is a statement of the shell, {_UNSEEN}"
    if name in _EVALUATING and (
        set("[$*?{") & set(text[1:]) or any(re.match("-[vp]", word) for word in words)
    ):
        return f"some shells run what is in [ ] or after -v of {name}. Use plain text, or the full path of {name}"
    # `sudo` and `sh` run other commands: the pattern has to match them at the beginning.
    runs_others = name.rpartition("/")[2] in _RUNNERS | _SHELLS
    if any(pattern.begins(text) if runs_others else pattern.is_in(text) for pattern in allowed):
        return None
    patterns = " , ".join(pattern.text for pattern in allowed)
    return f"{_shown(text)} matches no pattern of MCP_BG_ALLOWED_COMMANDS: {_shown(patterns)}"


def _shown(text: str) -> str:
    return f"`{text}`" if len(text) <= 200 else f"`{text[:200]}…`"
