"""What of this machine bgjob can use, what is missing, and what to do about it. Looks only, and changes nothing."""

import sys
from collections.abc import Iterator, Mapping

from bgjob.api import doctor_home, doctor_machine
from bgjob.api.context import checked_settings
from bgjob.api.results import Check
from bgjob.core.config import NO_FILE, unknown_settings
from bgjob.core.errors import BadConfigFile, BadSetting, BadTargetsFile
from bgjob.store.config_file import config_path, read_config_file
from bgjob.store.targets_file import read_targets
from bgjob.system.own_package import full_version


def checks(environ: Mapping[str, str]) -> Iterator[Check]:
    """Of the machine, the settings and the home; the clients are known to the command line alone."""
    yield Check("bgjob", "ok", f"{full_version()}, with Python {sys.version.split()[0]} of {sys.executable}")
    yield from doctor_machine.checks(environ)
    yield _settings(environ)
    yield from _targets(environ)
    yield from doctor_home.checks(environ)


def _settings(environ: Mapping[str, str]) -> Check:
    try:
        file = read_config_file(environ)
        checked_settings(environ, file)
    except (BadConfigFile, BadSetting) as problem:
        return Check(
            "settings", "broken", str(problem), "Mend it: until then no command and no server starts."
        )
    problems = (*file.problems, *unknown_settings(environ))
    if problems:
        return Check("settings", "degraded", "; ".join(problems))
    where = f"no config file (it would be {config_path(environ)})" if file is NO_FILE else file.path
    return Check("settings", "ok", where)


def _targets(environ: Mapping[str, str]) -> Iterator[Check]:
    """Nothing where there are none. It connects to none: bgjob targets --check does."""
    try:
        targets = read_targets(environ)
    except BadTargetsFile as problem:
        yield Check("targets", "broken", str(problem), "Mend it: until then no command and no server starts.")
        return
    if targets:
        yield Check(
            "targets", "ok", f"{', '.join(targets)}, of {targets.path}; bgjob targets --check tries them"
        )
    from bgjob.api.target_advice import lack_here

    for target in targets.values():
        if lack := lack_here(target, environ):
            yield Check(f"target {target.name}", "degraded", lack.why, lack.advice)
