"""The door: the verbs that every face uses."""

import os
from collections.abc import Mapping

from bgjob.api.conditions import Conditions
from bgjob.api.events import Telling
from bgjob.api.execute import Executing, IfRunning
from bgjob.api.interact import Typed
from bgjob.api.news import News
from bgjob.api.output import Shown, View
from bgjob.api.results import (
    Chunk,
    Found,
    Happened,
    Happenings,
    Interaction,
    Kill,
    KillWord,
    Look,
    Match,
    Output,
    Page,
    Picture,
    Ran,
    Waited,
)
from bgjob.api.search import Searching
from bgjob.api.start import absolute
from bgjob.api.wait import Cancellation, Mode
from bgjob.core import options
from bgjob.core.config import settings_from, unknown_settings
from bgjob.core.errors import BadSetting, InvalidArgument
from bgjob.link.spawn import Spawner
from bgjob.store.store import Store

__all__ = [
    "Cancellation",
    "Chunk",
    "Conditions",
    "Found",
    "Happened",
    "Happenings",
    "IfRunning",
    "Interaction",
    "Jobs",
    "Kill",
    "KillWord",
    "Look",
    "Match",
    "Mode",
    "News",
    "Output",
    "Page",
    "Picture",
    "Ran",
    "Shown",
    "Typed",
    "View",
    "Waited",
    "absolute",
    "home_from",
    "open_jobs",
]


class Jobs(Executing, Searching, Telling):
    """All verbs, on one store."""


def open_jobs(environ: Mapping[str, str], *, many: bool = True) -> Jobs:
    """The door to the store that this environment names. `many`: worth having a zygote for."""
    settings = settings_from(environ)
    _warn_of(unknown_settings(environ))
    if not os.path.isdir(settings.working_dir):
        raise BadSetting("MCP_BG_WORKING_DIR", settings.working_dir, "a directory that exists")
    _check_limits(settings.limits)
    return Jobs(Store(home_from(environ)), settings, environ, Spawner(zygote=many))


def _warn_of(problems: list[str]) -> None:
    """On stderr, in the way of the face that has set up logging, or plainly."""
    if problems:
        import logging  # most starts have nothing to say

        for problem in problems:
            logging.getLogger(__name__).warning("%s", problem)


def _check_limits(limits: Mapping[str, str]) -> None:
    try:
        options.checked(limits, options.LIMIT_OPTIONS)
    except InvalidArgument as problem:
        text = ",".join(f"{name}={value}" for name, value in limits.items())
        raise BadSetting("MCP_BG_LIMITS", text, str(problem)) from None


def home_from(environ: Mapping[str, str]) -> str:
    if home := environ.get("BGJOB_HOME"):
        return home
    state = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "bgjob")
