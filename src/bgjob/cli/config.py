"""bgjob config: each setting, its value, and where it comes from."""

import argparse
import os
from collections.abc import Iterator, Mapping

from bgjob.api.context import checked_settings
from bgjob.cli import streams
from bgjob.core.config import PREFIX, SETTINGS, Given, given, unknown_settings
from bgjob.core.config_file import example, key_advice
from bgjob.core.errors import InvalidArgument
from bgjob.home.home_dir import home_from
from bgjob.output.tty_text import cut, one_line, width
from bgjob.store.config_file import config_path, read_config_file

EPILOG = """\
A setting is given by its environment variable, else by the config file, else it has its default.

  bgjob config                    all of them, and where each comes from
  bgjob config max_jobs           the value of one, by its key or its variable
  bgjob config --path             where the config file is, or would be
  bgjob config --example          a config file with every setting and its default, as comments
"""
NOT_THERE = " (not there)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="SETTING", help="print the value of this setting only")
    one_of = parser.add_mutually_exclusive_group()
    one_of.add_argument("--json", action="store_true", help="as one JSON object")
    one_of.add_argument("--path", action="store_true", help="print where the config file is")
    one_of.add_argument("--example", action="store_true", help="print a config file to begin with")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    if options.path or options.example:
        streams.say(config_path(environ) if options.path else example().rstrip())
        return 0
    file = read_config_file(environ)
    checked_settings(environ, file)
    for problem in (*file.problems, *unknown_settings(environ)):
        streams.complain(f"WARNING: {problem}")
    rows = [given(row, environ, file) for row in SETTINGS]
    if options.name:
        rows = [_named(rows, options.name)]
    for line in _json(rows, environ) if options.json else _lines(rows, options.name, environ):
        streams.say(line)
    return 0


def _named(rows: list[Given], name: str) -> Given:
    key = name.upper().removeprefix(PREFIX).lower().replace("-", "_")
    for each in rows:
        if each.setting.key == key:
            return each
    raise InvalidArgument(f"There is no setting {name!r}.", key_advice(key))


def _lines(rows: list[Given], name: str | None, environ: Mapping[str, str]) -> Iterator[str]:
    if name:
        yield one_line(as_text(rows[0].value))
        return
    yield from _table(rows)
    yield ""
    for what, path in _places(environ).items():
        yield f"{what:11}  {one_line(path)}{'' if os.path.exists(path) else NOT_THERE}"


def _table(rows: list[Given]) -> Iterator[str]:
    """The value last: it may be long, and is cut where a terminal says how much fits."""
    wide, columns = max(len(each.setting.key) for each in rows), streams.columns()
    cells = [(each.setting.key, each.source, one_line(as_text(each.value)) or "-") for each in rows]
    for key, source, value in [("SETTING", "FROM", "VALUE"), *cells]:
        line = f"{key:{wide}}  {source:11}  {value}"
        yield cut(line, columns) if columns and width(line) > columns else line


def _json(rows: list[Given], environ: Mapping[str, str]) -> Iterator[str]:
    import json

    settings = {
        each.setting.key: {
            "value": _plain(each.value),
            "source": each.source,
            "variable": each.setting.variable,
        }
        for each in rows
    }
    places = {what.replace(" ", "_"): path for what, path in _places(environ).items()}
    there = {f"{what}_exists": os.path.exists(path) for what, path in places.items()}
    yield json.dumps({"settings": settings, **places, **there})


def _plain(value: object) -> object:
    """A date of TOML is no JSON; no setting takes one."""
    return value if isinstance(value, str | int | float | list | dict) else str(value)


def _places(environ: Mapping[str, str]) -> dict[str, str]:
    return {"config file": config_path(environ), "home": os.path.abspath(home_from(environ))}


def as_text(value: object) -> str:
    """As the variable would have it."""
    match value:
        case bool():
            return "on" if value else "off"
        case list():
            return ", ".join(map(as_text, value))
        case dict():
            return ",".join(f"{name}={as_text(each)}" for name, each in value.items())
        case _:
            return str(value)
