"""The door: the verbs that every face uses."""

import os
from collections.abc import Mapping

from bgjob.api.answers import Chunk, Interaction, Kill, KillWord, Look, Output, Page
from bgjob.api.look import Looking
from bgjob.api.start import Starting
from bgjob.api.steer import Steering
from bgjob.config import settings_from
from bgjob.errors import BadSetting
from bgjob.spawn import Spawner
from bgjob.store import Store

__all__ = [
    "Chunk",
    "Interaction",
    "Jobs",
    "Kill",
    "KillWord",
    "Look",
    "Output",
    "Page",
    "home_from",
    "open_jobs",
]


class Jobs(Starting, Looking, Steering):
    """All verbs, on one store."""


def open_jobs(environ: Mapping[str, str], *, many: bool = True) -> Jobs:
    """The door to the store that this environment names. `many`: worth having a zygote for."""
    settings = settings_from(environ)
    if not os.path.isdir(settings.working_dir):
        raise BadSetting("MCP_BG_WORKING_DIR", settings.working_dir, "a directory that exists")
    return Jobs(Store(home_from(environ)), settings, environ, Spawner(zygote=many))


def home_from(environ: Mapping[str, str]) -> str:
    if home := environ.get("BGJOB_HOME"):
        return home
    state = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "bgjob")
