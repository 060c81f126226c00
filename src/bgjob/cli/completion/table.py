"""What each command accepts, as completion.json has it: made from the parsers, so that completion builds none.

    {command: {"options": {"--name": {"help", "value"?}}, "positions": [{"value", "repeats"}],
               "actions"?: {word: the same again, with "help"}, "runs"?: true}}

"value": a list of words, "job", "target", "files", "directories", or null for what cannot be known. "runs": another
program's command follows. A test compares the file with the parsers: BGJOB_UPDATE=1 .venv/bin/pytest
tests/contracts renews it.
"""

import argparse
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from bgjob.cli.parser import all_parsers
from bgjob.core.config import SETTINGS

# by metavar or, where there is none, by dest
VALUES: dict[str, Any] = {
    "ID": "job",
    "TARGET": "target",
    "JOB": "job",
    "FILE": "files",
    "PATH": "files",
    "DIR": "directories",
    "CWD": "directories",
    "SETTING": [row.key for row in SETTINGS],
}


def completion_table() -> dict[str, Any]:
    return {verb: _command(parser, module) for verb, module, parser in all_parsers()}


def _command(parser: argparse.ArgumentParser, module: ModuleType | None = None) -> dict[str, Any]:
    actions = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    table: dict[str, Any] = {
        "options": {
            name: _option(action) for action in actions for name in _long_first(action.option_strings)
        },
        "positions": [_position(action) for action in actions if _is_position(action)],
    }
    for action in actions:
        if isinstance(action, argparse._SubParsersAction):
            table["actions"] = _sub_commands(action)
    if hasattr(module, "split"):
        table["runs"] = True
    return table


def _sub_commands(action: "argparse._SubParsersAction[Any]") -> dict[str, Any]:
    about = {each.dest: each.help or "" for each in action._choices_actions}
    return {word: {**_command(sub), "help": about.get(word, "")} for word, sub in action.choices.items()}


def _long_first(names: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: not name.startswith("--"))


def _option(action: argparse.Action) -> dict[str, Any]:
    about = {"help": help_of(action)}
    return about if action.nargs == 0 else {**about, "value": _value(action)}


def _is_position(action: argparse.Action) -> bool:
    return not action.option_strings and not isinstance(action, argparse._SubParsersAction)


def _position(action: argparse.Action) -> dict[str, Any]:
    return {"value": _value(action), "repeats": action.nargs in ("*", "+")}


def _value(action: argparse.Action) -> Any:
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    return VALUES.get(str(action.metavar or action.dest.upper()))


def help_of(action: argparse.Action) -> str:
    """With what argparse would put in."""
    return (action.help or "") % {**vars(action), "prog": "bgjob"} if action.help else ""
