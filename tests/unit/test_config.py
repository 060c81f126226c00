import dataclasses
import re

import pytest

from bgjob.core.config import (
    DEFAULT_ENVIRONMENT,
    SETTINGS,
    Settings,
    environment_for_jobs,
    own_variables,
    settings_as_markdown,
    settings_from,
    unknown_settings,
)
from bgjob.core.errors import BadSetting

VALUES = [
    ("MCP_BG_MAX_JOBS", "1", 1),
    ("MCP_BG_MAX_JOBS", "1000", 1000),
    ("MCP_BG_MAX_JOBS", " 7 ", 7),
    ("MCP_BG_MAX_OUTPUT_SIZE", "1024", 1024),
    ("MCP_BG_MAX_OUTPUT_SIZE", "2048B", 2048),
    ("MCP_BG_MAX_OUTPUT_SIZE", "1k", 1024),
    ("MCP_BG_MAX_OUTPUT_SIZE", "1KB", 1024),
    ("MCP_BG_MAX_OUTPUT_SIZE", "1KiB", 1024),
    ("MCP_BG_MAX_OUTPUT_SIZE", "5mb", 5 * 1024**2),
    ("MCP_BG_MAX_OUTPUT_SIZE", "5 MB", 5 * 1024**2),
    ("MCP_BG_MAX_OUTPUT_SIZE", "5M", 5 * 1024**2),
    ("MCP_BG_MAX_OUTPUT_SIZE", "2GiB", 2 * 1024**3),
    ("MCP_BG_MAX_OUTPUT_SIZE", "1024g", 1024**4),
    ("MCP_BG_JOB_TIMEOUT", "3600", 3600.0),
    ("MCP_BG_JOB_TIMEOUT", "0.5", 0.5),
    ("MCP_BG_JOB_TIMEOUT", "None", None),
    ("MCP_BG_JOB_TIMEOUT", "315360000", 315360000.0),
    ("MCP_BG_CLEANUP_INTERVAL", "0.001", 0.001),
    ("MCP_BG_CLEANUP_INTERVAL", "86400", 86400.0),
    ("MCP_BG_WORKING_DIR", "/srv/my project ", "/srv/my project "),
    ("MCP_BG_MAX_RESPONSE", "100MB", 100 * 1024**2),
    ("MCP_BG_KEEP_DAYS", "0", 0.0),
    ("MCP_BG_KEEP_DAYS", "1.5", 1.5),
    ("MCP_BG_KEEP_JOBS", "0", 0),
    ("MCP_BG_MAX_STORE_SIZE", "none", None),
    ("MCP_BG_MAX_STORE_SIZE", "2GB", 2 * 1024**3),
    ("MCP_BG_NEWS", "off", False),
    ("MCP_BG_NEWS", " ON ", True),
    ("MCP_BG_ON_EVENT", "curl -d @- localhost", "curl -d @- localhost"),
    ("MCP_BG_HIDDEN_VARIABLES", " A*, B ,", ("A*", "B")),
    ("MCP_BG_HIDDEN_VARIABLES", "none", ()),
]

NOT_NUMBERS = [
    "x",
    " ",
    "-1",
    "+5",
    "nan",
    "inf",
    "1e3",
    "1_0",
    "٣",
    "५",
    "0x10",
    "1 0",
    "9" * 400,
    "1\0",
    "\xa05",
]
NUMERIC = [
    row.variable
    for row in SETTINGS
    if row.field not in ("working_dir", "allowed_commands", "on_event", "hidden_variables")
]

BAD_VALUES = [
    *((variable, text) for variable in NUMERIC for text in NOT_NUMBERS),
    ("MCP_BG_MAX_STORE_SIZE", "1023KB"),
    ("MCP_BG_NEWS", "yes"),
    ("MCP_BG_ON_EVENT", "  "),
    ("MCP_BG_ON_EVENT", "a\0b"),
    ("MCP_BG_HIDDEN_VARIABLES", " , "),
    ("MCP_BG_HIDDEN_VARIABLES", "A=1"),
    ("MCP_BG_HIDDEN_VARIABLES", "A B"),
    ("MCP_BG_MAX_JOBS", "0"),
    ("MCP_BG_MAX_JOBS", "1001"),
    ("MCP_BG_MAX_JOBS", "2.5"),
    ("MCP_BG_MAX_OUTPUT_SIZE", "1023"),
    ("MCP_BG_MAX_OUTPUT_SIZE", "1025GB"),
    ("MCP_BG_MAX_OUTPUT_SIZE", "MB"),
    ("MCP_BG_MAX_OUTPUT_SIZE", "1.5MB"),
    ("MCP_BG_MAX_OUTPUT_SIZE", "10XB"),
    ("MCP_BG_MAX_OUTPUT_SIZE", "10\N{KELVIN SIGN}B"),
    ("MCP_BG_MAX_OUTPUT_SIZE", "999999999999999GB"),
    ("MCP_BG_JOB_TIMEOUT", "0"),
    ("MCP_BG_JOB_TIMEOUT", "0.0"),
    ("MCP_BG_JOB_TIMEOUT", "315360001"),
    ("MCP_BG_CLEANUP_INTERVAL", "0"),
    ("MCP_BG_CLEANUP_INTERVAL", "86401"),
    ("MCP_BG_CLEANUP_INTERVAL", "none"),
    ("MCP_BG_WORKING_DIR", "  "),
    ("MCP_BG_WORKING_DIR", "/a\0b"),
    ("MCP_BG_MAX_RESPONSE", "1023"),
    ("MCP_BG_MAX_RESPONSE", "101MB"),
    ("MCP_BG_KEEP_DAYS", "100001"),
    ("MCP_BG_KEEP_JOBS", "1.5"),
    ("MCP_BG_ALLOWED_COMMANDS", "  "),
    ("MCP_BG_ALLOWED_COMMANDS", " , ,"),
    ("MCP_BG_ALLOWED_COMMANDS", "^git(,x"),
    ("MCP_BG_ALLOWED_COMMANDS", "^git,["),
    ("MCP_BG_ALLOWED_COMMANDS", "*"),
    ("MCP_BG_ALLOWED_COMMANDS", "a{1001}"),
    ("MCP_BG_ALLOWED_COMMANDS", "(?:" * 5000 + "a" + ")" * 4999),
]

# value, commands it matches, commands it does not match
PATTERNS = [
    ("^git", ["git", "GIT log", "github"], ["x git"]),
    ("git", ["x git"], ["gi"]),
    ("^git ,^ls", ["git", "git log", "lsblk"], ["github", "gi"]),
    ("^git , ^ls$ ", ["git", "ls"], ["github", "ls x"]),
    (r"^git\ ,^x", ["git log"], ["git"]),
    (r"^ls [\x2c{]a{2}$", ["ls ,aa", "ls {aa"], ["ls ,a"]),
    (r"^echo \{$,", ["echo {"], ["echo"]),
    ("^cat$", ["cat"], ["x\ncat", "cat\nx", "cat\n"]),
    ("^echo [^;]+$", ["echo 'a\nb'"], ["echo ;"]),
    ("^echo .+$", ["echo é"], ["echo 'a\nb'"]),
]


def row_of(variable: str) -> str:
    return next(row.field for row in SETTINGS if row.variable == variable)


def test_the_defaults_are_those_of_the_contract() -> None:
    assert settings_from({"HOME": "/root"}) == Settings(
        max_jobs=10,
        max_output_bytes=10 * 1024 * 1024,
        job_timeout_s=None,
        cleanup_interval_s=300.0,
        working_dir=".",
        allowed_commands=(),
        max_response_bytes=32 * 1024,
        keep_days=7.0,
        keep_jobs=1000,
        max_wait_s=45.0,
        task_after_s=20.0,
        limits={},
        groups={},
        max_store_bytes=None,
        news=True,
        on_event=None,
        hidden_variables=(
            "CLAUDE_CODE_SESSION_ID",
            "CLAUDE_CODE_MESSAGING_*",
            "CLAUDE_CODE_SESSION_ACCESS_TOKEN",
        ),
    )


def test_the_table_and_the_fields_are_the_same_list() -> None:
    assert [row.field for row in SETTINGS] == [field.name for field in dataclasses.fields(Settings)]


@pytest.mark.parametrize("variable", [row.variable for row in SETTINGS])
def test_an_empty_value_counts_as_unset(variable: str) -> None:
    assert settings_from({variable: ""}) == settings_from({})


@pytest.mark.parametrize(("variable", "text", "value"), VALUES)
def test_a_good_value_is_taken(variable: str, text: str, value: object) -> None:
    taken = getattr(settings_from({variable: text}), row_of(variable))
    assert (taken, type(taken)) == (value, type(value))


@pytest.mark.parametrize(("variable", "text"), BAD_VALUES)
def test_a_bad_value_is_an_error_that_names_variable_and_value(variable: str, text: str) -> None:
    with pytest.raises(BadSetting) as refusal:
        settings_from({variable: text})
    assert str(refusal.value).startswith(f"{variable}={text[:100]!r}"[:60])
    assert "Accepted: " in str(refusal.value)


@pytest.mark.parametrize(("text", "matching", "other"), PATTERNS)
def test_commas_separate_patterns(text: str, matching: list[str], other: list[str]) -> None:
    patterns = settings_from({"MCP_BG_ALLOWED_COMMANDS": text}).allowed_commands
    assert all(any(pattern.is_in(command) for pattern in patterns) for command in matching)
    assert not any(pattern.is_in(command) for pattern in patterns for command in other)


@pytest.mark.parametrize("text", ["^a{1,2}$", "^x[,]", "^(a,b)", r"\d{1,}", "^a{,3}"])
def test_a_comma_inside_a_pattern_is_an_error_that_tells_how_to_write_it(text: str) -> None:
    with pytest.raises(BadSetting, match=re.escape(r"for a comma inside one write \x2c")):
        settings_from({"MCP_BG_ALLOWED_COMMANDS": text})


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("^git (?!push)", "no look-ahead"),
        ("(?<=x)git", "no look-behind"),
        (r"^(.)\1", "no back-references"),
        ("^git++", "no possessive repetition"),
        (r"^ls\Z", "end of a line is $"),
        ("^\udce9", "not valid Unicode"),
    ],
)
def test_what_re2_has_not_is_an_error_that_says_so(text: str, advice: str) -> None:
    with pytest.raises(BadSetting, match=re.escape(advice)):
        settings_from({"MCP_BG_ALLOWED_COMMANDS": text})


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("MCP_BG_MAX_JOB", "did you mean MCP_BG_MAX_JOBS?"),
        ("MCP_BG_MAX_OUTPUT", "did you mean MCP_BG_MAX_OUTPUT_SIZE?"),
        ("MCP_BG_", "known are MCP_BG_MAX_JOBS, "),
    ],
)
def test_an_unknown_name_is_told_with_the_closest_and_changes_nothing(name: str, advice: str) -> None:
    (warning,) = unknown_settings({name: "5"})
    assert warning.startswith(f"{name} is not a setting of this version of bgjob")
    assert advice in warning
    assert settings_from({name: "5"}) == settings_from({})


def test_an_unknown_name_without_a_value_is_passed_over() -> None:
    assert unknown_settings({"MCP_BG_MAX_JOB": "", "PATH": "/bin"}) == []


@pytest.mark.parametrize(
    "name",
    ["MCP_BG_ALLOWED_COMMAND", "MCP_BG_ALLOW_COMMANDS", "MCP_BG_ALOWED_COMMANDS", "MCP_BG_allowed_commands"],
)
def test_what_reads_almost_as_the_allow_list_is_an_error(name: str) -> None:
    with pytest.raises(BadSetting, match="did you mean MCP_BG_ALLOWED_COMMANDS"):
        settings_from({name: "^git "})


@pytest.mark.parametrize("name", ["MCP_BG_DENIED_COMMANDS", "MCP_BG_ALLOWED_DIRECTORIES", "MCP_BG_COMMANDS"])
def test_what_only_resembles_it_is_none(name: str) -> None:
    settings_from({name: "^git "})


def test_a_job_gets_neither_our_settings_nor_what_is_hidden() -> None:
    environ = {
        "PATH": "/bin",
        "MCP_BG_HIDDEN_VARIABLES": "A*, B?",
        "A": "",
        "AB": "",
        "B": "",
        "BC": "",
        "a": "",
    }
    of_ours = DEFAULT_ENVIRONMENT.keys()
    assert environment_for_jobs(environ, settings_from(environ)).keys() == {"PATH", "B", "a", *of_ours}
    assert environment_for_jobs(environ, settings_from({"MCP_BG_HIDDEN_VARIABLES": "none"})).keys() == {
        *environ.keys() - {"MCP_BG_HIDDEN_VARIABLES"},
        *of_ours,
    }


def test_what_a_job_inherits_counts_before_our_defaults() -> None:
    environ = {"PYTHONUNBUFFERED": ""}
    assert environment_for_jobs(environ, settings_from(environ)) == environ
    assert environment_for_jobs({}, settings_from({})) == {"PYTHONUNBUFFERED": "1"}


def test_the_servers_own_variables_are_told_from_the_users() -> None:
    environ = {"PATH": "/bin", "MCP_BG_MAX_JOBS": "3", "MCP_BG_OTHER": "", "XMCP_BG_A": "1", "BGJOB_ID": "2"}
    assert own_variables(environ) == {"MCP_BG_MAX_JOBS", "MCP_BG_OTHER"}


def test_the_markdown_table_has_a_row_per_setting_and_four_columns() -> None:
    lines = settings_as_markdown().splitlines()
    assert len(lines) == 2 + len(SETTINGS)
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 5 for line in lines)
    assert [line.split("`")[1] for line in lines[2:]] == [row.variable for row in SETTINGS]
