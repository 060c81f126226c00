"""The keys of the config file: the settings without MCP_BG_, in lower case.

An unknown key is reported and ignored, as an unknown variable is; one that is almost that of the allow-list is an
error, also within a table, where a person may take `[settings]` for a heading. The home is no setting of the file:
hooks and shims find the home by the environment alone.
"""

from collections.abc import Iterator, Mapping

from bgjob.core.config import PREFIX, SETTINGS, ConfigFile, Setting, closest, is_almost_allow_list
from bgjob.core.errors import BadConfigFile

HOME_KEYS = ("home", "bgjob_home")
KEYS = [row.key for row in SETTINGS]


def config_file(path: str, table: Mapping[str, object]) -> ConfigFile:
    """BadConfigFile: a key that could be meant for the allow-list, or for the home."""
    unknown = [key for key in table if key not in KEYS]
    for key in unknown:
        _check_unknown(path, key, table[key])
    values = {key: value for key, value in table.items() if key in KEYS}
    return ConfigFile(path, values, tuple(_without_effect(path, key) for key in unknown))


def example() -> str:
    """A config file with every setting and its default, as comments."""
    return "".join(_lines_about(row) for row in SETTINGS)


def _lines_about(row: Setting) -> str:
    accepted = f"{row.accepted}; {row.in_file}" if row.in_file else row.accepted
    default = row.default if row.default.isdecimal() else f'"{row.default}"'
    return f"# {row.meaning}\n# ({accepted})\n#{row.key} = {default}\n\n"


def _check_unknown(path: str, key: str, value: object) -> None:
    if key.lower() in HOME_KEYS:
        raise BadConfigFile(
            f"{path}: {key!r} cannot be set here, since hooks and running jobs find the home by the environment.",
            "Set BGJOB_HOME in the environment.",
        )
    for name in _names(key, value):
        if is_almost_allow_list(name):
            raise BadConfigFile(
                f"{path}: {name!r} is not the key of the allow-list, and without one every command may run.",
                "Did you mean allowed_commands, above the first table?",
            )


def _names(key: str, value: object) -> Iterator[str]:
    """The key, and those of the tables in it."""
    yield key
    for table in value if isinstance(value, list) else [value]:
        for inner, each in table.items() if isinstance(table, Mapping) else ():
            yield from _names(inner, each)


def _without_effect(path: str, key: str) -> str:
    why = f"it has no effect. {key_advice(key)}"
    return f"{path}: {_shown(key)} is not a setting of this version of bgjob: {why}"


def key_advice(key: str) -> str:
    close = closest(key.upper(), [row.variable for row in SETTINGS])
    return f"Did you mean {close.removeprefix(PREFIX).lower()}?" if close else f"Known are {', '.join(KEYS)}."


def _shown(key: str) -> str:
    return key if key.isprintable() and key else repr(key)
