"""The page about the config file: its example is one."""

import re
import tomllib

from bgjob.core.config import SETTINGS, settings_from
from bgjob.core.config_file import config_file
from tests.contracts.golden import ROOT

PAGE = (ROOT / "docs" / "config.md").read_text()


def test_its_example_has_every_setting_and_is_accepted() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    file = config_file("config.toml", tomllib.loads(example))
    assert file.problems == ()
    assert file.values.keys() == {row.key for row in SETTINGS}
    settings = settings_from({}, file)
    assert settings.allowed_commands[-1].is_in("make all")
    assert (settings.limits, settings.groups) == (
        {"memory": "4GB", "processes": "500"},
        {"gpu": 1, "build": 2},
    )
