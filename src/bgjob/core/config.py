"""The settings: one table feeds the code, the docs and the tests.

A setting is given by an environment variable, else by the config file (core.config_file), else it has its
default. A value that is not accepted is an error that names where it was given. An unknown MCP_BG_ name is
reported and ignored: a newer version may know it, and an older server must still start. A name that is almost
that of the allow-list is an error, because without an allow-list everything may run. An empty text counts as
unset, as in the reference.
"""

import re
from collections.abc import Callable, Mapping
from fnmatch import translate
from typing import Literal

from bgjob.core import setting_values
from bgjob.core.errors import BadSetting
from bgjob.core.frozen import NOTHING, Frozen
from bgjob.core.patterns import WholePattern
from bgjob.core.values import (
    DAY_S,
    KIB,
    MIB,
    TEN_YEARS_S,
    TIB,
    number,
    or_none,
    positive,
    size,
    switch,
    whole,
)

PREFIX = "MCP_BG_"
ALLOW_LIST = "MCP_BG_ALLOWED_COMMANDS"
# without it Python keeps what it prints to a pipe until 8 kB are there: nobody would see a job's progress
DEFAULT_ENVIRONMENT = {"PYTHONUNBUFFERED": "1"}


class Settings(Frozen):
    max_jobs: int
    max_output_bytes: int
    job_timeout_s: float | None
    cleanup_interval_s: float
    working_dir: str
    allowed_commands: tuple[WholePattern, ...]
    max_response_bytes: int
    keep_days: float
    keep_jobs: int
    max_wait_s: float
    task_after_s: float
    limits: Mapping[str, str]
    groups: Mapping[str, int]
    max_store_bytes: int | None
    news: bool
    on_event: str | None
    hidden_variables: tuple[str, ...]


class Setting(Frozen):
    variable: str
    field: str
    default: str
    parse: Callable[[object], object]
    """The value of a text, or of what the config file has; or ValueError, whose message says more than `accepted`."""
    accepted: str
    meaning: str
    in_file: str = ""
    """What the config file may have in place of the text."""

    @property
    def key(self) -> str:
        """Its name in the config file."""
        return self.variable.removeprefix(PREFIX).lower()


class ConfigFile(Frozen):
    """What the config file says."""

    path: str = ""
    values: Mapping[str, object] = NOTHING
    """By key, as TOML has them; the keys are known."""
    problems: tuple[str, ...] = ()
    """A sentence about each key that has no effect."""


NO_FILE = ConfigFile()
Source = Literal["environment", "file", "default"]


class Given(Frozen):
    """A setting, and what was given for it."""

    setting: Setting
    value: object
    source: Source
    name: str
    """Of what gave it, for messages: the variable, or the file and its key."""


def settings_from(environ: Mapping[str, str], file: ConfigFile = NO_FILE) -> Settings:
    for variable in _unknown(environ):
        _check_no_allow_list(variable, environ[variable])
    values = {row.field: parsed(given(row, environ, file)) for row in SETTINGS}
    return Settings(**values)  # type: ignore[arg-type]  # a test compares the table and the fields


def given(row: Setting, environ: Mapping[str, str], file: ConfigFile = NO_FILE) -> Given:
    """The environment wins over the file."""
    if text := environ.get(row.variable):
        return Given(row, text, "environment", row.variable)
    if (value := file.values.get(row.key, "")) != "":
        return Given(row, value, "file", f"{file.path}: {row.key}")
    return Given(row, row.default, "default", row.variable)


def parsed(found: Given) -> object:
    """BadSetting: the value is not accepted."""
    row, in_file = found.setting, found.setting.in_file if found.source == "file" else ""
    try:
        return row.parse(found.value)
    except ValueError as problem:
        accepted = filter(None, (row.accepted, in_file, str(problem)))
        raise BadSetting(found.name, found.value, "; ".join(accepted)) from None


def setting_of(field: str) -> Setting:
    return next(row for row in SETTINGS if row.field == field)


def unknown_settings(environ: Mapping[str, str]) -> list[str]:
    """A sentence about each setting that this version does not know."""
    return [
        f"{_printable(name)} is not a setting of this version of bgjob: it has no effect ({_advice(name)})"
        for name in _unknown(environ)
    ]


def own_variables(environ: Mapping[str, str]) -> frozenset[str]:
    """The server's own settings in this environment, which a job must not inherit."""
    return frozenset(name for name in environ if name.startswith(PREFIX))


def environment_for_jobs(environ: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """What of this environment a job inherits, and what it gets if it inherits no other value."""
    own = own_variables(environ)
    is_hidden = re.compile("|".join(map(translate, settings.hidden_variables)) or r"(?!)").match
    inherited = {name: value for name, value in environ.items() if name not in own and not is_hidden(name)}
    return DEFAULT_ENVIRONMENT | inherited


def settings_as_markdown() -> str:
    """The table of settings as docs/reference.md shows it."""
    rows = [(f"`{row.variable}`", _as_code(row.default), row.accepted, row.meaning) for row in SETTINGS]
    head = [("environment variable", "default", "accepted", "meaning"), ("---",) * 4]
    return "".join(f"| {' | '.join(_as_cell(text) for text in row)} |\n" for row in [*head, *rows])


def _as_code(default: str) -> str:
    return f"`{default}`" if default else "(empty)"


def _as_cell(text: str) -> str:
    return text.replace("|", "\\|")


def _unknown(environ: Mapping[str, str]) -> list[str]:
    known = {row.variable for row in SETTINGS}
    return sorted(name for name in own_variables(environ) - known if environ[name])


def _check_no_allow_list(variable: str, value: str) -> None:
    if is_almost_allow_list(variable):
        raise BadSetting(_printable(variable), value, f"a known name ({_advice(variable)})")


def is_almost_allow_list(name: str) -> bool:
    return closest(name.upper(), [ALLOW_LIST], alike=0.85) is not None


def _advice(variable: str) -> str:
    known = [row.variable for row in SETTINGS]
    close = closest(variable.upper(), known)
    return f"did you mean {close}?" if close else f"known are {', '.join(known)}"


def closest(variable: str, known: list[str], alike: float = 0.6) -> str | None:
    from difflib import get_close_matches  # here: only a typo needs it

    names = [name.removeprefix(PREFIX) for name in known]
    close = get_close_matches(variable.removeprefix(PREFIX), names, n=1, cutoff=alike)
    return f"{PREFIX}{close[0]}" if close else None


def _printable(name: str) -> str:
    return name if name.isprintable() else repr(name)


_SIZE_UNITS = "plain or with a unit (B, K, KB, KiB, M, MB, MiB, G, GB, GiB; 1 KB = 1024 bytes)"

SETTINGS = (
    Setting(
        "MCP_BG_MAX_JOBS",
        "max_jobs",
        "10",
        whole(1, 1000),
        "a whole number from 1 to 1000",
        "how many jobs may run at once",
    ),
    Setting(
        "MCP_BG_MAX_OUTPUT_SIZE",
        "max_output_bytes",
        "10MB",
        size(KIB, TIB),
        f"a whole number of bytes, {_SIZE_UNITS}, from 1KB to 1024GB",
        "how much output is kept per job",
    ),
    Setting(
        "MCP_BG_JOB_TIMEOUT",
        "job_timeout_s",
        "none",
        or_none(positive(TEN_YEARS_S)),
        "seconds, more than 0 and at most 315360000 (10 years), or none",
        "after how long a job is stopped",
    ),
    Setting(
        "MCP_BG_CLEANUP_INTERVAL",
        "cleanup_interval_s",
        "300",
        positive(DAY_S),
        "seconds, more than 0 and at most 86400 (a day)",
        "how often ended jobs are cleaned up, by a process that starts a job",
    ),
    Setting(
        "MCP_BG_WORKING_DIR",
        "working_dir",
        ".",
        setting_values.path,
        "the path of a directory",
        "where jobs run",
    ),
    Setting(
        ALLOW_LIST,
        "allowed_commands",
        "",
        setting_values.patterns,
        "regular expressions (RE2) with commas between them, upper and lower case alike; a space at the end of one "
        "ends the word: `^git ` matches git and git log, not github",
        "which commands may run: every command of the text must match one; empty allows all",
        "or a list of them, in which a comma separates nothing",
    ),
    Setting(
        "MCP_BG_MAX_RESPONSE",
        "max_response_bytes",
        "32KB",
        size(KIB, 100 * MIB),
        f"a whole number of bytes, {_SIZE_UNITS}, from 1KB to 100MB",
        "how much one answer may hold; with `max_tokens`, how much of each stream",
    ),
    Setting(
        "MCP_BG_KEEP_DAYS",
        "keep_days",
        "7",
        number(0, 100_000),
        "days, from 0 to 100000",
        "how long a job of this server is kept once it has ended, whichever process cleans up",
    ),
    Setting(
        "MCP_BG_KEEP_JOBS",
        "keep_jobs",
        "1000",
        whole(0, 1_000_000_000),
        "a whole number from 0 to 1000000000",
        "among how many ended jobs it is kept, the newest first",
    ),
    Setting(
        "MCP_BG_MAX_WAIT",
        "max_wait_s",
        "45",
        positive(DAY_S),
        "seconds, more than 0 and at most 86400 (a day)",
        "how long one call may wait for a job; many clients give up after 60 s",
    ),
    Setting(
        "MCP_BG_TASK_AFTER",
        "task_after_s",
        "20",
        number(0, DAY_S),
        "seconds, from 0 to 86400 (a day)",
        "after how long a call that waits becomes a task, for clients that know tasks; at most `MCP_BG_MAX_WAIT`",
    ),
    Setting(
        "MCP_BG_LIMITS",
        "limits",
        "",
        setting_values.pairs,
        "name=value with commas between, e.g. `memory=4GB,processes=500`; the names are those of the limits of "
        "execute_command",
        "default limits of jobs that set none",
        'or a table, e.g. {memory = "4GB", processes = 500}',
    ),
    Setting(
        "MCP_BG_GROUPS",
        "groups",
        "",
        setting_values.groups,
        "name=slots with commas between, e.g. `gpu=1,build=2`; slots from 1 to 1000",
        "groups of jobs, and how many of each may run at once",
        "or a table, e.g. {gpu = 1, build = 2}",
    ),
    Setting(
        "MCP_BG_MAX_STORE_SIZE",
        "max_store_bytes",
        "none",
        or_none(size(MIB, 1024 * TIB)),
        f"a whole number of bytes, {_SIZE_UNITS}, from 1MB, or none",
        "how much room all jobs together may take on disk when this server starts one: the oldest ended jobs are "
        "removed first, at most 100 at each start, however long they were to be kept; if running jobs alone exceed "
        "it, new jobs are refused",
    ),
    Setting(
        "MCP_BG_NEWS",
        "news",
        "on",
        switch,
        "`on` or `off`",
        "whether answers have a line about other jobs that ended since the client last looked",
        "or true or false",
    ),
    Setting(
        "MCP_BG_ON_EVENT",
        "on_event",
        "",
        setting_values.command,
        'a shell command, e.g. `notify-send "$BGJOB_JOB_NAME $BGJOB_EVENT"`',
        "run for each event of the jobs that this server starts, the event as JSON on its stdin",
    ),
    Setting(
        "MCP_BG_HIDDEN_VARIABLES",
        "hidden_variables",
        "CLAUDE_CODE_SESSION_ID,CLAUDE_CODE_MESSAGING_*,CLAUDE_CODE_SESSION_ACCESS_TOKEN",
        setting_values.globs,
        "names of environment variables with commas between them, `*` and `?` in them stand for others; or none",
        "what the client gives its servers and jobs do not inherit: its session and its keys; `env` can still set them",
        "or a list of them",
    ),
)
