"""Reads the file of targets, if there is one: `targets.toml` beside the config file.

It says where jobs may run and how these machines are reached. So it is refused, as a config file is, if another
user could have written it.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bgjob.core.errors import BadTargetsFile
from bgjob.store.config_file import config_path, read_toml

if TYPE_CHECKING:
    from bgjob.core.targets import Target

FILE = "targets.toml"


class Targets(dict[str, "Target"]):
    """By name; and the file that names them."""

    def __init__(self, path: str, targets: Mapping[str, "Target"]) -> None:
        super().__init__(targets)
        self.path = path


NO_TARGETS = Targets("", {})


def targets_path(environ: Mapping[str, str]) -> str:
    return os.path.join(os.path.dirname(config_path(environ)), FILE)


def read_targets(environ: Mapping[str, str]) -> Targets:
    """None of them if there is no file. BadTargetsFile: it cannot be read, or has what is not accepted."""
    path = targets_path(environ)
    table = read_toml(path, lambda problem: BadTargetsFile(f"The file of targets {path} {problem}"))
    if table is None:
        return Targets(path, {})
    from bgjob.core.targets import targets_from  # here: most have no targets

    return Targets(path, targets_from(path, table))
