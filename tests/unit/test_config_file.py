"""The keys and values of the config file, before any file: natural TOML in, settings out, and every error told."""

import tomllib

import pytest

from bgjob.core.config import SETTINGS, Settings, given, setting_of, settings_from
from bgjob.core.config_file import config_file, example
from bgjob.core.errors import BadConfigFile, BadSetting
from bgjob.core.values import MIB

PATH = "/home/user/.config/bgjob/config.toml"


def settings_in(toml: str, **environ: str) -> Settings:
    return settings_from(environ, config_file(PATH, tomllib.loads(toml)))


@pytest.mark.parametrize(
    ("toml", "field", "value"),
    [
        ("max_jobs = 4", "max_jobs", 4),
        ('max_jobs = "4"', "max_jobs", 4),
        ('max_output_size = "20MB"', "max_output_bytes", 20 * MIB),
        ("max_output_size = 2048", "max_output_bytes", 2048),
        ("job_timeout = 600", "job_timeout_s", 600.0),
        ("job_timeout = 0.5", "job_timeout_s", 0.5),
        ('job_timeout = "none"', "job_timeout_s", None),
        ('working_dir = "/srv"', "working_dir", "/srv"),
        ("news = false", "news", False),
        ('news = "off"', "news", False),
        ('limits = {memory = "4GB", processes = 500}', "limits", {"memory": "4GB", "processes": "500"}),
        ('limits = "memory=4GB"', "limits", {"memory": "4GB"}),
        ('[limits]\nmemory = "4GB"', "limits", {"memory": "4GB"}),
        ("groups = {gpu = 1, build = 2}", "groups", {"gpu": 1, "build": 2}),
        ('on_event = "logger -t bgjob"', "on_event", "logger -t bgjob"),
        ('hidden_variables = ["SECRET_*", "ONE"]', "hidden_variables", ("SECRET_*", "ONE")),
        ('hidden_variables = "none"', "hidden_variables", ()),
        ("", "max_jobs", 10),
        ('max_jobs = ""', "max_jobs", 10),
    ],
)
def test_a_value_is_written_as_toml_has_it_or_as_the_text_of_the_variable(
    toml: str, field: str, value: object
) -> None:
    assert getattr(settings_in(toml), field) == value


class TestTheAllowList:
    @pytest.mark.parametrize(
        "toml", ['allowed_commands = ["^git ", "^ls$"]', 'allowed_commands = "^git ,^ls$"']
    )
    def test_is_a_list_or_a_text(self, toml: str) -> None:
        git, ls = settings_in(toml).allowed_commands
        assert [git.is_in(text) for text in ("git log", "github")] == [True, False]
        assert [ls.is_in(text) for text in ("ls", "lsof")] == [True, False]

    def test_is_not_torn_at_a_comma_of_an_item(self) -> None:
        settings = settings_from({}, config_file(PATH, {"allowed_commands": ["^a{1,2}$", "^echo [,;]$"]}))
        first, second = settings.allowed_commands
        assert [first.is_in(text) for text in ("a", "aa", "aaa")] == [True, True, False]
        assert [second.is_in(text) for text in ("echo ,", "echo")] == [True, False]

    @pytest.mark.parametrize("value", [[], [""], [5], 5, {"a": "b"}, True])
    def test_that_holds_no_pattern_is_an_error_for_it_would_allow_everything(self, value: object) -> None:
        with pytest.raises(BadSetting, match=r"config\.toml: allowed_commands="):
            settings_from({}, config_file(PATH, {"allowed_commands": value}))

    @pytest.mark.parametrize(
        "toml",
        [
            'allowed_command = ["^git "]',
            'ALLOWED_COMMANDS = ["^git "]',
            'MCP_BG_ALLOWED_COMMANDS = "^git "',
            'allowed-commands = ["^git "]',
            '[settings]\nallowed_commands = ["^git "]',
            '[[settings]]\nallowed_commands = ["^git "]',
            '[tool.bgjob]\nallowed_commands = ["^git "]',
        ],
    )
    def test_under_another_name_is_an_error(self, toml: str) -> None:
        with pytest.raises(BadConfigFile, match="Did you mean allowed_commands"):
            settings_in(toml)

    def test_that_a_table_has_swallowed_is_an_error(self) -> None:
        with pytest.raises(BadSetting, match=r"config\.toml: groups="):
            settings_in('[groups]\ngpu = 1\nallowed_commands = ["^git "]')


class TestTheEnvironment:
    def test_wins_over_the_file(self) -> None:
        assert settings_in("max_jobs = 4", MCP_BG_MAX_JOBS="7").max_jobs == 7

    def test_that_is_empty_leaves_it_to_the_file(self) -> None:
        assert settings_in("max_jobs = 4", MCP_BG_MAX_JOBS="").max_jobs == 4

    def test_hides_a_bad_value_of_the_file(self) -> None:
        assert settings_in('max_jobs = "x"', MCP_BG_MAX_JOBS="7").max_jobs == 7


@pytest.mark.parametrize(
    ("environ", "values", "source", "name"),
    [
        ({}, {}, "default", "MCP_BG_MAX_JOBS"),
        ({}, {"max_jobs": 4}, "file", f"{PATH}: max_jobs"),
        ({"MCP_BG_MAX_JOBS": "5"}, {"max_jobs": 4}, "environment", "MCP_BG_MAX_JOBS"),
    ],
)
def test_each_setting_knows_where_its_value_is_from(
    environ: dict[str, str], values: dict[str, object], source: str, name: str
) -> None:
    found = given(setting_of("max_jobs"), environ, config_file(PATH, values))
    assert (found.source, found.name) == (source, name)


@pytest.mark.parametrize(
    ("toml", "shown"),
    [
        ('max_jobs = "lots"', "max_jobs='lots'"),
        ("max_jobs = 1.5", "max_jobs=1.5"),
        ("max_jobs = true", "max_jobs=True"),
        ("max_jobs = [4]", "max_jobs=[4]"),
        ("max_jobs = 1979-05-27", "max_jobs=datetime.date"),
        ("job_timeout = nan", "job_timeout=nan"),
        ("keep_days = inf", "keep_days=inf"),
        ("working_dir = 5", "working_dir=5"),
        ("on_event = [1]", "on_event=[1]"),
        ("news = 2", "news=2"),
        ("limits = {memory = [1]}", "limits={'memory': [1]}"),
        ("groups = {gpu = 0}", "groups={'gpu': 0}"),
        ("hidden_variables = ['a,b']", "hidden_variables=['a,b']"),
    ],
)
def test_a_bad_value_is_told_with_file_key_value_and_what_is_accepted(toml: str, shown: str) -> None:
    with pytest.raises(BadSetting) as refusal:
        settings_in(toml)
    row = next(row for row in SETTINGS if row.key == shown.partition("=")[0])
    assert str(refusal.value).startswith(f"{PATH}: {shown}")
    assert row.accepted in str(refusal.value)
    assert row.in_file in str(refusal.value)


@pytest.mark.parametrize(
    ("key", "meant"), [("max_job", "Did you mean max_jobs?"), ("of_next_year", "Known are")]
)
def test_an_unknown_key_is_told_and_ignored(key: str, meant: str) -> None:
    file = config_file(PATH, {key: 5, "keep_jobs": 3})
    (problem,) = file.problems
    assert problem.startswith(f"{PATH}: {key} is not a setting")
    assert meant in problem
    assert settings_from({}, file).keep_jobs == 3


@pytest.mark.parametrize("key", ["home", "bgjob_home", "BGJOB_HOME"])
def test_the_home_is_refused_with_the_variable_that_sets_it(key: str) -> None:
    with pytest.raises(BadConfigFile, match="Set BGJOB_HOME in the environment"):
        config_file(PATH, {key: "/srv/jobs"})


def test_the_example_has_every_key_and_its_default() -> None:
    uncommented = "".join(
        line[1:] + "\n" for line in example().splitlines() if line[:1] == "#" and line[1] != " "
    )
    table = tomllib.loads(uncommented)
    assert list(table) == [row.key for row in SETTINGS]
    assert settings_from({}, config_file(PATH, table)) == settings_from({})
    assert tomllib.loads(example()) == {}
