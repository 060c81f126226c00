"""The man page, in roff, made from the parsers of all commands. docs/bgjob.1 is this text; a test compares them."""

import argparse
from collections.abc import Iterable, Iterator
from itertools import groupby

from bgjob.cli.completion.table import help_of
from bgjob.cli.parser import EPILOG, all_parsers
from bgjob.cli.verbs import GROUPS
from bgjob.core.config import SETTINGS

HEADER = '.TH BGJOB 1 "" bgjob "User Commands"'
NAME = "bgjob \\- shell commands as durable background jobs"
FILES = {
    "$XDG_CONFIG_HOME/bgjob/config.toml": "settings that the environment does not give, else in ~/.config/bgjob; "
    "bgjob config --example prints one",
    "$XDG_CONFIG_HOME/bgjob/targets.toml": "other machines that jobs run on, else in ~/.config/bgjob; bgjob targets "
    "--example prints one",
    "$BGJOB_HOME": "the jobs, else $XDG_STATE_HOME/bgjob, else ~/.local/state/bgjob",
}


def man_page() -> str:
    return "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    yield HEADER
    yield from (".SH NAME", NAME)
    yield from (".SH SYNOPSIS", ".B bgjob", "[\\fICOMMAND\\fR ...]")
    yield from (".SH DESCRIPTION", *_prose(EPILOG))
    parsers = {verb: parser for verb, _, parser in all_parsers()}
    for heading, verbs in GROUPS.items():
        yield f".SH COMMANDS: {heading.upper()}"
        for verb in filter(parsers.get, verbs):
            yield from _command(parsers[verb], parsers[verb].description)
    yield from (".SH ENVIRONMENT", *_settings())
    yield from (".SH FILES", *_terms(FILES.items()))


def _command(parser: argparse.ArgumentParser, about: str | None) -> Iterator[str]:
    yield f".SS {_bold(parser.prog)}"
    yield from (".PP", f"{_bold(parser.prog)} {_text(_arguments(parser))}".rstrip())
    yield from _prose(about or "")
    yield from _terms((_heading(action), help_of(action)) for action in _shown(parser))
    for sub, what in _sub_commands(parser):
        yield from _command(sub, what)
    yield from _prose(parser.epilog or "")


def _arguments(parser: argparse.ArgumentParser) -> str:
    if parser.usage:
        return parser.usage.removeprefix(parser.prog).lstrip()
    options = ["[OPTION ...]"] if any(action.option_strings for action in _shown(parser)) else []
    return " ".join([*options, *(_place(action) for action in _positions(parser))])


def _positions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not action.option_strings]


def _place(action: argparse.Action) -> str:
    """As usage has it: NAME, [NAME], [NAME ...] or NAME ..."""
    name = _metavar(action)
    forms = {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} ..."}
    return forms.get(str(action.nargs), name)


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    return "|".join(map(str, action.choices)) if action.choices else action.dest.upper()


def _shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Without --help, which all have, those that are hidden, and actions, which have sections of their own."""
    return [
        action
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        and not isinstance(action, argparse._SubParsersAction | argparse._HelpAction)
    ]


def _sub_commands(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            about = {each.dest: each.help or "" for each in action._choices_actions}
            yield from ((sub, about.get(word, "")) for word, sub in action.choices.items())


def _heading(action: argparse.Action) -> str:
    if not action.option_strings:
        return _metavar(action)
    value = "" if action.nargs == 0 else f" {_metavar(action)}"
    return ", ".join(action.option_strings) + value


def _settings() -> Iterator[str]:
    yield from _terms((row.variable, f"{row.meaning}. Accepted: {row.accepted}.") for row in SETTINGS)


def _terms(terms: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, meaning in terms:
        yield from (".TP", _bold(term), _text(meaning) or "\\&")


def _prose(text: str) -> Iterator[str]:
    """Lines that begin with a blank keep their line breaks; others are filled."""
    for paragraph in filter(None, text.strip("\n").split("\n\n")):
        yield ".PP"
        for is_kept, group in groupby(paragraph.split("\n"), lambda line: line.startswith(" ")):
            lines = map(_text, group)
            yield from (".nf", *lines, ".fi") if is_kept else lines


def _bold(text: str) -> str:
    return f"\\fB{_text(text)}\\fR"


def _text(text: str) -> str:
    """No character of it means anything to roff. A minus stays one that can be copied."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
