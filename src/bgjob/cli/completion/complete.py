"""The words that may follow what was typed: called by the shells' completion at each tab, so it starts in 30 ms.

    bgjob completion --complete bash LINE WORDBREAKS     the line up to the cursor, and COMP_WORDBREAKS
    bgjob completion --complete zsh WORD ...             the words up to the cursor, the last may be empty
    bgjob completion --complete fish WORD ...

The first line of the answer says of what kind the word is: `words`, which follow, each with a tab and what it is;
`files`, `directories`, or `command N`: from word N on it is another program's. No parser is built: what commands
accept is in completion.json, which is made from the parsers.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bgjob.cli.completion.bash_words import Cursor, cursor_at
from bgjob.cli.verbs import VERBS

TABLE = os.path.join(os.path.dirname(__file__), "completion.json")
KINDS = ("files", "directories")
FOR_ALIVE = ("attach", "send", "kill", "signal", "pause", "resume", "priority")
"""Commands for jobs that have not ended."""
TOP = {"--help": "what bgjob can do", "--version": "its version", "help": "more of a command"}

Words = Mapping[str, str]
"""Each with what it is."""


def answer(arguments: Sequence[str], environ: Mapping[str, str]) -> str:
    """Empty: nothing is known to follow."""
    shell, *typed = arguments or [""]
    if shell == "bash" and len(typed) == 2:
        cursor = cursor_at(typed[0], typed[1])
        kind, words = _found([*cursor.before, cursor.word], environ)
        return "\n".join([kind, *_for_bash(cursor, words)])
    if shell in ("zsh", "fish") and typed:
        kind, words = _found(typed, environ)
        return "\n".join([kind, *(f"{word}\t{what}" for word, what in words.items())])
    return ""


def _for_bash(cursor: Cursor, words: Words) -> Iterator[str]:
    """Bash matches and quotes nothing itself."""
    for word in words:
        if word.startswith(cursor.word) and (quoted := cursor.completed(word)) is not None:
            yield quoted


def _found(typed: Sequence[str], environ: Mapping[str, str]) -> tuple[str, Words]:
    """The kind of the last word, and what it may be. The first word is bgjob itself."""
    _, *before, current = typed if len(typed) > 1 else [*typed, ""]
    if not before or before == ["help"]:
        return "words", {**(TOP if not before else {}), **{verb: what for verb, (_, what) in VERBS.items()}}
    with open(TABLE, encoding="utf-8") as file:
        commands = json.load(file)
    if before[0] not in commands:
        return "words", {}
    return _Place(commands[before[0]], len(typed) - len(before)).after(
        before[1:], current, before[0], environ
    )


class _Place:
    """Where in a command the cursor is."""

    def __init__(self, command: Mapping[str, Any], at: int) -> None:
        self._command, self._at = command, at
        self._positions = 0
        self._value_of: str | None = None
        self._only_positions = False

    def after(
        self, words: Sequence[str], current: str, verb: str, environ: Mapping[str, str]
    ) -> tuple[str, Words]:
        for number, word in enumerate(words):
            if self._begins_command(word):
                return f"command {number + self._at + (word == '--')}", {}
            self._pass(word)
        if self._begins_command(current) and not current.startswith("-"):
            return f"command {len(words) + self._at}", {}
        kind, prefix = self._expected(current)
        return _words(kind, prefix, current.removeprefix(prefix), verb, environ)

    def _begins_command(self, word: str) -> bool:
        """Of another program: bgjob run -- make."""
        is_option = word.startswith("-") and word != "--"
        return bool(self._command.get("runs")) and not self._value_of and not is_option

    def _pass(self, word: str) -> None:
        if self._value_of is not None:
            self._value_of = None
        elif word == "--":
            self._only_positions = True
        elif word.startswith("-") and not self._only_positions:
            option = self._command["options"].get(word)
            self._value_of = word if option and "value" in option else None
        elif word in self._command.get("actions", ()):
            self._command, self._positions = self._command["actions"][word], 0
        else:
            self._positions += 1

    def _expected(self, current: str) -> tuple[Any, str]:
        """What the word may be, and how much of it is not its value: `--status=` of --status=running."""
        options = self._command["options"]
        if self._value_of is not None:
            return options[self._value_of]["value"], ""
        if current.startswith("-") and not self._only_positions:
            name, equals, _ = current.partition("=")
            if equals:
                return options.get(name, {}).get("value"), f"{name}="
            return {option: about["help"] for option, about in options.items()}, ""
        if "actions" in self._command:
            return {word: about["help"] for word, about in self._command["actions"].items()}, ""
        return self._position(), ""

    def _position(self) -> Any:
        positions = self._command["positions"]
        if self._positions < len(positions):
            return positions[self._positions]["value"]
        return positions[-1]["value"] if positions and positions[-1]["repeats"] else None


def _words(
    kind: Any, prefix: str, begun: str, verb: str, environ: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    """`kind`: words with what each is, a list of words, or a word for what is to be found."""
    if kind in KINDS:
        return str(kind), {}
    if kind == "job":
        found = _jobs(begun, environ, alive=verb in FOR_ALIVE)
    elif kind == "target":
        found = _targets(environ)
    else:
        found = kind if isinstance(kind, dict) else dict.fromkeys(kind or (), "")
    return "words", {prefix + word: what for word, what in found.items()}


def _jobs(begun: str, environ: Mapping[str, str], *, alive: bool) -> dict[str, str]:
    from bgjob.api.job_words import newest_job_words

    return dict(newest_job_words(environ, alive=alive, with_ids=bool(begun)))


def _targets(environ: Mapping[str, str]) -> dict[str, str]:
    from bgjob.core.errors import BgjobError
    from bgjob.store.targets_file import read_targets

    try:
        return {name: target.description or target.kind for name, target in read_targets(environ).items()}
    except BgjobError:
        return {}  # a command tells what is wrong with the file
