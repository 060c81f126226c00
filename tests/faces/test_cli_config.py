"""bgjob config: each setting, its value, and where it comes from."""

import json
import re
from pathlib import Path

import pytest

from bgjob.core.config import SETTINGS
from bgjob.core.config_file import example
from tests.faces.command_line import Cli, assert_one_line_of_error

FILE = """\
max_jobs = 4
keep_jobs = 50
news = false
allowed_commands = ["^git ", "^a{1,2}$"]
on_event = "printf '\\u001b[31m'"
[limits]
memory = "4GB"
"""


@pytest.fixture
def cli(home: Path) -> Cli:
    return Cli(home)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With a config file, and one setting of the environment."""
    directory = tmp_path / "config" / "bgjob"
    directory.mkdir(parents=True)
    (directory / "config.toml").write_text(FILE)
    return {"XDG_CONFIG_HOME": str(directory.parent), "MCP_BG_MAX_JOBS": "9"}


def rows(text: str) -> dict[str, list[str]]:
    return {cells[0]: cells[1:] for line in text.splitlines() if (cells := re.split(r"  +", line))}


def test_every_setting_has_a_row_with_its_source(cli: Cli, environment: dict[str, str]) -> None:
    shown = rows(cli("config", env=environment).stdout)
    assert [row.key for row in SETTINGS] == [key for key in shown if key in {row.key for row in SETTINGS}]
    assert shown["max_jobs"] == ["environment", "9"]
    assert shown["keep_jobs"] == ["file", "50"]
    assert shown["news"] == ["file", "off"]
    assert shown["limits"] == ["file", "memory=4GB"]
    assert shown["allowed_commands"] == ["file", "^git , ^a{1,2}$"]
    assert shown["max_wait"] == ["default", "45"]
    assert shown["groups"] == ["default", "-"]


def test_it_says_where_the_file_and_the_home_are_and_whether_they_are_there(
    cli: Cli, environment: dict[str, str], home: Path, tmp_path: Path
) -> None:
    shown = cli("config", env=environment).stdout
    assert f"{tmp_path}/config/bgjob/config.toml\n" in shown
    assert f"{home} (not there)\n" in shown
    assert not home.exists()  # to look makes none
    (tmp_path / "config" / "bgjob" / "config.toml").unlink()
    assert f"{tmp_path}/config/bgjob/config.toml (not there)\n" in cli("config", env=environment).stdout


@pytest.mark.parametrize("name", ["keep_jobs", "KEEP_JOBS", "keep-jobs", "MCP_BG_KEEP_JOBS"])
def test_one_value_is_printed_alone(cli: Cli, environment: dict[str, str], name: str) -> None:
    assert cli("config", name, env=environment).stdout == "50\n"


def test_a_name_that_there_is_not_is_told_with_those_that_there_are(cli: Cli) -> None:
    assert_one_line_of_error(cli("config", "keep_job"), "'keep_job'", "Did you mean keep_jobs?")
    assert_one_line_of_error(cli("config", "colour"), "'colour'", "max_jobs, ")


def test_json_has_values_as_they_were_given(cli: Cli, environment: dict[str, str], home: Path) -> None:
    told = json.loads(cli("config", "--json", env=environment).stdout)
    assert told["settings"]["limits"] == {
        "value": {"memory": "4GB"},
        "source": "file",
        "variable": "MCP_BG_LIMITS",
    }
    assert told["settings"]["max_jobs"]["value"] == "9"
    assert (told["home"], told["home_exists"], told["config_file_exists"]) == (str(home), False, True)


def test_a_value_cannot_steer_the_terminal(cli: Cli, environment: dict[str, str]) -> None:
    assert (
        "\x1b"
        not in cli("config", env=environment).stdout + cli("config", "on_event", env=environment).stdout
    )


def test_the_path_and_an_example_make_a_file_to_begin_with(cli: Cli, tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "MCP_BG_MAX_JOBS": ""}
    path = Path(cli("config", "--path", env=environment).stdout.rstrip("\n"))
    path.parent.mkdir()
    path.write_text(cli("config", "--example", env=environment).stdout)
    assert path.read_text().strip() == example().strip()
    shown = cli("config", env=environment)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert {
        cells[0] for key, cells in rows(shown.stdout).items() if key in {row.key for row in SETTINGS}
    } == {"default"}


def test_a_bad_file_is_told(cli: Cli, environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "config" / "bgjob" / "config.toml").write_text("keep_jobs = -1")
    assert_one_line_of_error(cli("config", env=environment), "config.toml: keep_jobs=-1")
